"""In every course of a call, each request is counted once: also if the call is abandoned."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client._drive import Action, Reply, Wait
from coreason_client._http._types import FailureKind, TransportFailure
from coreason_client.llm import Budget, LLMError
from coreason_client.llm._answer_machine import AnswerMachine
from coreason_client.llm._reply import generate_flow
from tests.llm.play import BROKEN, HEAD, HI, OUTCOMES, REFUSED, event
from tests.llm.router.routed import MODEL, Outcome, Site, answer, close

BUDGET = Budget(0.004)  # about four requests
PRICE = 750_000
UNSENT = (FailureKind.CONNECT, FailureKind.CERTIFICATE)


def price(outcome: Outcome, reserved: int) -> int:
    """Return what a request must cost, in nanodollars."""
    if isinstance(outcome, TransportFailure):
        return 0 if outcome.kind in UNSENT else reserved
    if outcome.head.status != 200:
        return 0
    if b'"usage"' not in outcome.body:
        return reserved
    usage = json.loads(outcome.body)["usage"]
    return int(usage["prompt_tokens"] * 2500 + usage["completion_tokens"] * 10_000)


def test_the_prices_of_outcomes() -> None:
    outcomes = (answer(), BROKEN, REFUSED, Reply(HEAD, b""))
    assert [price(outcome, 9) for outcome in outcomes] == [PRICE, 9, 0, 9]


@given(st.lists(OUTCOMES | st.just(answer()), max_size=8), st.integers(0, 25), st.booleans())
def test_a_call_is_counted_exactly_wherever_it_ends(
    outcomes: list[Outcome], steps: int, routed: bool
) -> None:
    """It ends with an answer, with an error, or is abandoned after any number of steps."""
    if routed:
        site = Site({"fast": ["a", "b"], "big": ["c"]}, budgets=BUDGET, fallbacks={"fast": ["big"]})
    else:
        site = Site(budgets=BUDGET)
    attempts = site.attempts("fast" if routed else MODEL)
    flow, queue = generate_flow(attempts), [*outcomes, answer()]
    result: Outcome | None = None
    pending, expected = 0, 0  # the request whose outcome was not read yet, and those before it
    try:
        for _ in range(steps):
            step = flow.send(result)
            result, pending, expected = None, 0, expected + pending
            if isinstance(step, Wait):
                site.wait(step)
            elif isinstance(step, Action):
                step.perform()
            else:
                site.sent(step)
                reserved = round(site.totals(BUDGET)[1] * 1e9)
                assert reserved > 0  # before the request is sent
                result = queue.pop(0) if len(queue) > 1 else queue[0]
                pending = price(result, reserved)
        if result is not None:
            pending = round(site.totals(BUDGET)[1] * 1e9)  # abandoned before it was read
    except (StopIteration, LLMError):
        pass
    close(attempts)
    spent, left = site.totals(BUDGET)
    assert (round(spent * 1e9), left) == (expected + pending, 0)
    assert spent <= BUDGET.limit


USAGE = b'data: {"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 50}}\n\n'
CHUNKS = [HI, HI, event(delta={}, finish_reason="stop"), USAGE, b"data: [DONE]\n\n"]


@pytest.mark.parametrize("count", range(len(CHUNKS) + 1))
def test_a_stream_is_counted_wherever_it_is_closed(count: int) -> None:
    """With the reservation, with what was received, or with its usage once it is complete."""
    site = Site({"fast": ["a", "b"]}, budgets=BUDGET)
    attempts = site.attempts(stream=True)
    machine: Any = AnswerMachine(attempts)
    while isinstance(step := machine.next_step(), Action):
        step.perform()
    reserved = site.totals(BUDGET)[1]
    assert machine.accepts(HEAD)
    for chunk in CHUNKS[:count]:
        assert list(machine.receive(chunk)) is not None
    received = machine.spent()
    close(machine)
    close(machine)  # twice
    expected = reserved if received is None else received["cost_estimate"]
    assert site.totals(BUDGET) == pytest.approx((expected, 0))
    assert machine.spent() == received
    assert (received is None) == (count == 0)
    if machine.response is not None:
        assert expected == pytest.approx(PRICE / 1e9)
    assert (machine.response is not None) == (count == len(CHUNKS))
