"""The gate of a call: which deployment gets an attempt, what is reserved, and what is settled."""

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from coreason_client._drive import Action, Wait
from coreason_client._http._types import FailureKind, TransportFailure
from coreason_client.llm import (
    AsyncLLMClient,
    Budget,
    Deployment,
    LLMAuthenticationError,
    LLMBudgetError,
    LLMConnectionError,
    LLMContextLengthError,
    LLMFilteredError,
    LLMQuotaError,
    LLMRateLimitError,
    LLMRequestError,
    LLMServerError,
    LLMStateError,
    LLMTimeoutError,
    TextDelta,
    ValkeyState,
)
from coreason_client.llm._classify import FailedAttempt
from coreason_client.llm._plan import FetchKey
from coreason_client.llm._reply import generate_flow
from coreason_client.llm.router._rules import Acquire, Acquired
from coreason_client.llm.router._state import Command, MemoryState, RouterState
from coreason_client.testing import fake_model
from tests.llm.play import (
    BROKEN,
    END,
    HI,
    KEY,
    REFUSED,
    TIMED_OUT,
    event,
    refusal,
    reply,
)
from tests.llm.router.routed import MODEL, Site, answer, close, host
from tests.server.log.valkey_server import fresh_prefix, shared_server

PRICE = (100 * 2.5 + 50 * 10) / 1e6  # of `answer()`


# Deployments.


@pytest.mark.proves("LLM2-router-next")
@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(outcome, id=name)
        for name, outcome in {
            "429": refusal(429),
            "500": refusal(500),
            "529": refusal(529),
            "timeout": TIMED_OUT,
            "broken": BROKEN,
            "refused": REFUSED,
            "empty": reply(200, b""),
            "wrong key": refusal(401),
            "forbidden": refusal(403),
            "no quota": refusal(429, "insufficient_quota"),
            "no such model": refusal(404),
            "500, not to be retried": refusal(500, x_should_retry="false"),
        }.items()
    ],
)
def test_the_call_goes_on_with_the_next_deployment_at_once(failure: Any) -> None:
    site = Site({"fast": ["a", "b"]}, outcomes={"a": failure})
    assert site.generate()["data"]["content"] == "Hi"
    assert site.hosts == ["a", "b"]
    assert site.waits == []
    site.generate()
    assert site.hosts == ["a", "b", "b"]  # the first one cools down


@pytest.mark.parametrize(
    "failure", [refusal(400), refusal(400, "context_length_exceeded"), reply(200, {"choices": []})]
)
def test_a_wrong_request_is_not_the_fault_of_the_deployment(failure: Any) -> None:
    site = Site({"fast": ["a", "b"]}, outcomes={"a": [failure, answer()]})
    site.fails()
    assert site.hosts == ["a"]
    site.generate()
    assert site.hosts == ["a", "a"]


def test_the_model_and_the_key_are_those_of_the_deployment() -> None:
    own = Deployment("other", base_url=host("b"), api_key="sk-of-b")
    site = Site({"fast": ["a", own]}, outcomes={"a": refusal(500)})
    response = site.generate()
    assert [body["model"] for body in site.bodies] == [MODEL, "other"]
    assert [request.headers["Authorization"] for request in site.requests] == [
        f"Bearer {KEY}",
        "Bearer sk-of-b",
    ]
    assert response["model"] == "other"


def test_a_deployment_that_was_tried_comes_after_the_others() -> None:
    site = Site({"fast": ["a", "b"]}, outcomes={"a": refusal(500)}, cooldown=0.0)
    site.generate()
    assert site.hosts == ["a", "b"]


def test_without_another_deployment_the_call_waits_for_the_cooldown() -> None:
    site = Site({"fast": ["a"]}, outcomes={"a": [refusal(500), refusal(500), answer()]})
    site.generate()
    assert site.waits == [1.0, 2.0]


def test_retries_are_counted_once_every_deployment_was_tried() -> None:
    site = Site(
        {"fast": ["a", "b", "c"]},
        outcomes={name: refusal(500) for name in "abc"},
        max_retries=2,
    )
    error = site.fails()
    assert isinstance(error, LLMServerError)
    assert error.attempts == len(site.hosts) == 3 + 2
    assert set(site.hosts[:3]) == {"a", "b", "c"}


@pytest.mark.proves("LLM2-router-retries")
def test_retries_are_counted_while_another_deployment_is_at_its_limit() -> None:
    few = Deployment(MODEL, base_url=host("a"), api_key=KEY, requests_per_minute=1)
    site = Site({"fast": [few, "b"]}, outcomes={"b": refusal(500)}, max_retries=2)
    site.generate()
    error = site.fails()
    assert isinstance(error, LLMServerError)
    assert site.hosts == ["a", *["b"] * 4]  # the first one was to be followed by the other


def test_a_deployment_that_recovers_is_used_after_the_others_failed_for_good() -> None:
    site = Site({"fast": ["a", "b"]}, outcomes={"a": [refusal(500), answer()], "b": refusal(401)})
    site.generate()
    assert site.hosts == ["a", "b", "a"]
    assert site.waits == [1.0]


def test_a_group_of_wrong_keys_fails_without_a_wait() -> None:
    site = Site({"fast": ["a", "b"]}, outcomes={"a": refusal(401), "b": refusal(401)})
    assert isinstance(site.fails(), LLMAuthenticationError)
    assert (site.hosts, site.waits) == (["a", "b"], [])


def test_a_delay_of_the_provider_is_the_cooldown() -> None:
    site = Site({"fast": ["a", "b"]}, outcomes={"a": [refusal(429, retry_after="9"), answer()]})
    site.generate()
    site.clock.now += 8.9
    site.generate()
    site.clock.now += 0.1
    site.generate()
    assert site.hosts == ["a", "b", "b", "a"]


@pytest.mark.parametrize("failure", [refusal(401), refusal(429, "insufficient_quota")])
def test_a_lasting_failure_cools_down_ten_times_as_long(failure: Any) -> None:
    site = Site({"fast": ["a", "b"]}, outcomes={"a": [failure, answer()]}, cooldown=5.0)
    for seconds in (0.0, 49.9, 0.1):
        site.clock.now += seconds
        site.generate()
    assert site.hosts == ["a", "b", "b", "a"]


def test_a_delay_beyond_the_deadline_ends_the_call() -> None:
    site = Site({"fast": ["a"]}, outcomes={"a": refusal(429, retry_after="60")}, deadline=30.0)
    error = site.fails()
    assert isinstance(error, LLMRateLimitError)
    assert (error.retry_after, error.attempts, site.waits) == (60.0, 1, [])


def test_a_deployment_at_its_limit_is_passed_over() -> None:
    few = Deployment(MODEL, base_url=host("a"), api_key=KEY, requests_per_minute=1)
    site = Site({"fast": [few, "b"]})
    for _ in range(3):
        site.generate()
    assert site.hosts == ["a", "b", "b"]


def test_tokens_per_minute_count_the_tokens_that_were_used() -> None:
    few = Deployment(MODEL, base_url=host("a"), api_key=KEY, tokens_per_minute=400)
    site = Site({"fast": [few, "b"]}, outcomes={"a": answer(100, 100)})
    for _ in range(3):  # each is estimated at more than 100 and uses 200
        site.generate()
    assert site.hosts == ["a", "a", "b"]


@pytest.mark.proves("LLM2-router-limits")
def test_limits_are_learned_from_the_headers_of_a_response() -> None:
    headers = {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "60s",
    }
    named: dict[str, Any] = {name.replace("-", "_"): value for name, value in headers.items()}
    learned = answer(**named)
    site = Site({"fast": ["a", "b"]}, outcomes={"a": learned})
    site.generate()
    site.generate()
    site.clock.now += 1.0  # one request returns each second
    site.generate()
    assert site.hosts == ["a", "b", "a"]


def test_a_dropped_parameter_stays_with_its_deployment() -> None:
    rejected = refusal(400, "unsupported_parameter", "temperature")
    site = Site({"fast": ["a", "b"]}, outcomes={"a": [rejected, answer()]})
    site.generate()
    assert site.hosts == ["a", "a"]
    assert ["temperature" in body for body in site.bodies] == [True, False]


def test_tags_select_deployments() -> None:
    tagged = Deployment(MODEL, base_url=host("b"), api_key=KEY, tags=["eu", "fast"])
    site = Site({"fast": ["a", tagged], "big": ["c"]}, fallbacks={"fast": ["big", "plain"]})
    site.generate(tags=["eu"])
    assert site.hosts == ["b"]
    with pytest.raises(LLMRequestError, match="no deployment of 'fast' has all of these tags: us"):
        site.generate(tags=["us"])
    with pytest.raises(LLMRequestError, match="tags select deployments"):
        site.generate("plain", tags=["eu"])
    site.outcomes["b"] = [refusal(500)]
    assert isinstance(site.fails(tags=["eu"]), LLMServerError)
    assert set(site.hosts) == {"b"}  # no fallback has the tag


# Fallbacks.


def test_a_fallback_is_used_after_all_deployments_failed() -> None:
    site = Site(
        {"fast": ["a", "b"], "big": ["c"]},
        fallbacks={"fast": ["big"]},
        outcomes={"a": refusal(401), "b": refusal(401)},
    )
    assert site.generate()["data"]["content"] == "Hi"
    assert site.hosts == ["a", "b", "c"]


def test_a_fallback_is_used_at_once_while_no_deployment_is_available() -> None:
    site = Site(
        {"fast": ["a"], "big": ["b"]}, fallbacks={"fast": ["big"]}, outcomes={"a": refusal(500)}
    )
    site.generate()
    site.generate()
    assert site.hosts == ["a", "b", "b"]
    assert site.waits == []


def test_the_last_fallback_waits() -> None:
    site = Site(
        {"fast": ["a"], "big": ["b"]},
        fallbacks={"fast": ["big"]},
        outcomes={"a": refusal(500), "b": [refusal(500), answer()]},
    )
    site.generate()
    assert site.hosts == ["a", "b", "b"]
    assert site.waits == [1.0]


@pytest.mark.parametrize(
    ("outcome", "kind", "hosts"),
    [
        (refusal(400, "context_length_exceeded"), LLMContextLengthError, ["a", "long"]),
        (refusal(400, "content_filter"), LLMFilteredError, ["a", "free"]),
        (refusal(400), LLMRequestError, ["a", "other"]),
    ],
)
def test_fallbacks_by_kind_of_failure(
    outcome: Any, kind: type[Exception], hosts: list[str]
) -> None:
    names = ["a", "long", "free", "other"]
    site = Site(
        {name: [name] for name in names},
        fallbacks={"a": ["other"]},
        context_fallbacks={"a": ["long"]},
        filter_fallbacks={"a": ["free"]},
        outcomes={"a": outcome},
    )
    site.generate("a")
    assert site.hosts == hosts
    alone = Site({"a": ["a"]}, outcomes={"a": outcome})
    assert type(alone.fails("a")) is kind


def test_a_withheld_answer_uses_the_fallback_for_filters() -> None:
    withheld = {"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]}
    site = Site(
        {"a": ["a"], "b": ["b"]},
        filter_fallbacks={"a": ["b"]},
        outcomes={"a": reply(200, withheld)},
    )
    site.generate("a")
    assert site.hosts == ["a", "b"]


def test_without_a_list_for_the_kind_the_general_fallbacks_apply() -> None:
    site = Site(
        {"a": ["a"], "b": ["b"]},
        fallbacks={"a": ["b"]},
        outcomes={"a": refusal(400, "context_length_exceeded")},
    )
    site.generate("a")
    assert site.hosts == ["a", "b"]


def test_the_fallbacks_of_a_call_replace_those_of_the_router() -> None:
    site = Site(
        {"a": ["a"], "b": ["b"], "c": ["c"]}, fallbacks={"a": ["b"]}, outcomes={"a": refusal(400)}
    )
    site.generate("a", fallbacks=["c"])
    assert site.hosts == ["a", "c"]


def test_fallbacks_of_fallbacks_are_each_tried_once() -> None:
    site = Site(
        {name: [name] for name in "abc"},
        fallbacks={"a": ["b"], "b": ["a", "c"], "c": ["a"]},
        outcomes={name: refusal(400) for name in "abc"},
    )
    assert site.fails("a").attempts == 3
    assert site.hosts == ["a", "b", "c"]


def test_a_plain_model_may_be_a_fallback_and_keeps_the_usual_retries() -> None:
    site = Site(
        {"a": ["a"]},
        fallbacks={"a": ["gpt-4o"]},
        outcomes={"a": refusal(400), "direct": [refusal(500), answer()]},
    )
    site.generate("a")
    assert (site.hosts, site.waits) == (["a", "direct", "direct"], [1.0])


# Streams.


def test_a_stream_goes_on_with_the_next_deployment_before_the_first_delta() -> None:
    site = Site({"fast": ["a", "b"]})
    deltas = site.stream({"a": [TIMED_OUT], "b": [HI, END]})
    assert deltas[0] == TextDelta("Hi")
    assert site.hosts == ["a", "b"]


@pytest.mark.proves("LLM2-router-fallbacks")
@pytest.mark.parametrize(
    ("refused", "used"),
    [
        (refusal(500), "other"),
        (refusal(400, "context_length_exceeded"), "long"),
        (refusal(400, "content_filter"), "free"),
    ],
)
def test_fallbacks_of_a_stream(refused: Any, used: str) -> None:
    site = Site(
        {name: [name] for name in ("a", "long", "free", "other")},
        fallbacks={"a": ["other"]},
        context_fallbacks={"a": ["long"]},
        filter_fallbacks={"a": ["free"]},
    )
    site.stream({"a": refused, used: [HI, END]}, "a")
    assert site.hosts == ["a", used]


BROKEN_STREAM = [HI, BROKEN]


def test_a_stream_that_is_restarted_uses_the_next_deployment_and_the_fallbacks() -> None:
    site = Site({"fast": ["a", "b"], "big": ["c"]}, fallbacks={"fast": ["big"]}, max_retries=0)
    chunks = {"a": BROKEN_STREAM, "b": BROKEN_STREAM, "c": [HI, END]}
    deltas = site.stream(chunks, on_break="restart")
    assert site.hosts == ["a", "b", "c"]
    assert [type(delta).__name__ for delta in deltas if not isinstance(delta, TextDelta)] == [
        "Restarted",
        "Restarted",
        "UsageDelta",
        "Finish",
    ]


def test_a_stream_that_is_continued_stays_with_its_deployment() -> None:
    """Another model, or another deployment, would not continue the same answer."""
    names = [
        Deployment(
            "mistral-large-latest", base_url=host(name), api_key=KEY, provider="mistral", name=name
        )
        for name in "ab"
    ]
    site = Site(
        {"fast": names, "big": ["c"]},
        fallbacks={"fast": ["big"]},
        budgets=(budget := Budget(1.0)),
    )
    finish = event(delta={"content": "lo"}) + END
    site.stream({"a": Once(BROKEN_STREAM, [finish])}, on_break="continue")
    assert site.hosts == ["a", "a"]
    assert site.bodies[1]["messages"][-1]["content"] == "Hi"
    spent, reserved = site.totals(budget)
    assert (spent > 0, reserved) == (True, 0)


class Once(list[Any]):
    """The chunks of the first stream; those of the next one follow it."""

    def __init__(self, first: list[Any], second: list[Any]) -> None:
        super().__init__(first)
        self.second = second

    def __iter__(self) -> Any:
        chunks = list(super().__iter__())
        self[:] = self.second
        return iter(chunks)


class City(BaseModel):
    name: str


def test_an_answer_is_corrected_by_the_same_deployment_and_both_are_counted() -> None:
    def said(text: str) -> Any:
        body = {
            "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 50},
        }
        return reply(200, body)

    site = Site(
        {"fast": ["a", "b"]},
        budgets=(budget := Budget(1.0)),
        outcomes={"a": [said("Rome"), said('{"name": "Rome"}')]},
    )
    response = site.generate(response_format=City)
    assert response["data"]["parsed"] == City(name="Rome")
    assert site.hosts == ["a", "a"]
    assert site.totals(budget) == pytest.approx((2 * PRICE, 0))
    assert response["spent"]["cost_estimate"] == pytest.approx(2 * PRICE)


# Budgets.

BUDGET = Budget(0.01)


def budget_site(budget: Budget = BUDGET, **options: Any) -> Site:
    return Site(budgets=budget, **options)


def test_an_answer_is_settled_with_its_price() -> None:
    site = budget_site()
    site.generate(MODEL)
    assert site.totals(BUDGET) == pytest.approx((PRICE, 0))


@pytest.mark.proves("LLM2-budget-reserved")
def test_the_highest_price_is_reserved_while_the_request_is_under_way() -> None:
    site = budget_site()
    seen: list[tuple[float, float]] = []
    site.on_request = lambda request: seen.append(site.totals(BUDGET))
    site.generate(MODEL, max_tokens=500)
    [(spent, reserved)] = seen
    assert spent == 0
    assert 500 * 10 / 1e6 < reserved < 500 * 10 / 1e6 + 100 * 2.5 / 1e6


@pytest.mark.proves("LLM2-budget-before")
def test_a_request_above_the_budget_is_not_sent() -> None:
    site = budget_site(Budget(0.01, period=86_400))
    site.generate(MODEL)
    error = site.fails(MODEL, max_tokens=1000)
    assert isinstance(error, LLMBudgetError)
    assert len(site.hosts) == 1
    assert (error.limit, error.reserved, error.key, error.attempts) == (0.01, 0.0, None, 0)
    assert error.used == pytest.approx(PRICE)
    assert error.requested is not None
    assert error.requested > 0.01
    assert error.resets_at == (site.clock.now // 86_400 + 1) * 86_400
    assert error.model == MODEL
    assert "budget of 0.01 dollars" in str(error)


WAITING = Budget(0.0015, wait=True)  # enough for one request at a time


@pytest.mark.parametrize("stored", ["memory", "valkey"])
def test_a_call_waits_until_the_reservation_of_another_one_is_settled(stored: str) -> None:
    state = ValkeyState(shared_server().url, prefix=fresh_prefix()) if stored == "valkey" else None
    site = budget_site(WAITING, state=state)
    first = site.attempts(MODEL)
    flow = generate_flow(first)
    step = next(flow)
    while isinstance(step, Action):
        step.perform()
        step = next(flow)
    waits: list[float] = []

    def wait(step: Wait) -> None:
        waits.append(step.seconds)
        if len(waits) == 7:
            with pytest.raises(StopIteration):
                flow.send(answer(prompt=10, completion=5))
            close(first)

    site.wait = wait  # type: ignore[method-assign]
    site.generate(MODEL)
    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert site.totals(WAITING)[1] == 0
    if isinstance(state, ValkeyState):
        state.close()


def test_a_call_waits_for_a_budget_no_longer_than_its_deadline_or_than_it_helps() -> None:
    site = budget_site(WAITING, deadline=5.0)
    flow = generate_flow(site.attempts(MODEL))
    step = next(flow)
    while isinstance(step, Action):
        step.perform()
        step = next(flow)
    begun = site.clock.now
    error = site.fails(MODEL)
    assert isinstance(error, LLMBudgetError)
    assert error.reserved is not None
    assert error.reserved > 0
    assert 4 <= site.clock.now - begun <= 5
    waits = len(site.waits)
    assert isinstance(site.fails(MODEL, max_tokens=1000), LLMBudgetError)
    assert len(site.waits) == waits  # it would not fit alone
    site.routing.budgets = (replace(WAITING, wait=False),)
    assert isinstance(site.fails(MODEL), LLMBudgetError)
    assert len(site.waits) == waits


def test_a_budget_begins_again_with_its_period() -> None:
    site = budget_site(Budget(0.0015, period=3600))
    site.generate(MODEL)
    assert isinstance(site.fails(MODEL), LLMBudgetError)
    site.clock.now += 3600
    site.generate(MODEL)
    assert len(site.hosts) == 2


def test_each_key_has_its_own_budget() -> None:
    budget = Budget(0.0015, per="key")
    site = budget_site(budget)
    site.generate(MODEL, budget_key="one")
    error = site.fails(MODEL, budget_key="one")
    assert isinstance(error, LLMBudgetError)
    assert error.key == "one"
    site.generate(MODEL, budget_key="two")
    assert site.totals(budget, "two") == pytest.approx((PRICE, 0))
    with pytest.raises(LLMRequestError, match="budget_key is required"):
        site.generate(MODEL)


@pytest.mark.parametrize(
    ("failure", "spent"),
    [
        pytest.param(failure, spent, id=name)
        for name, failure, spent in (
            ("an error status", refusal(400), 0.0),
            ("not reached", REFUSED, 0.0),
            ("a wrong key", refusal(401), 0.0),
            ("a timeout", TIMED_OUT, None),
            ("a broken connection", BROKEN, None),
            ("an answer without usage", reply(200, b"<html>"), None),
            ("a certificate", TransportFailure(FailureKind.CERTIFICATE, "bad"), 0.0),
        )
    ],
)
def test_a_failed_attempt_is_settled(failure: Any, spent: float | None) -> None:
    """With nothing, or with the reservation if it is not known what it cost."""
    site = budget_site(max_retries=0, outcomes={"direct": failure})
    reserved: list[float] = []
    site.on_request = lambda request: reserved.append(site.totals(BUDGET)[1])
    site.fails(MODEL)
    assert site.totals(BUDGET) == (reserved[0] if spent is None else spent, 0)


@pytest.mark.proves("LLM2-budget-once")
def test_each_attempt_is_reserved_and_settled() -> None:
    budget = Budget(1.0)
    site = budget_site(budget, outcomes={"direct": [TIMED_OUT, refusal(500), answer()]})
    amounts: list[float] = []
    site.on_request = lambda request: amounts.append(site.totals(budget)[1])
    site.generate(MODEL)
    assert amounts == [amounts[0]] * 3
    assert site.totals(budget) == pytest.approx((amounts[0] + PRICE, 0))


def test_an_unusable_answer_is_settled_with_its_usage() -> None:
    body = {
        "choices": [
            {
                "message": {
                    "content": "Hm",
                    "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{"}}],
                }
            }
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 50},
    }
    site = budget_site(outcomes={"direct": reply(200, body)})
    site.fails(MODEL)
    assert site.totals(BUDGET) == pytest.approx((PRICE, 0))


def test_a_call_that_is_abandoned_after_its_request_is_settled_with_the_reservation() -> None:
    site = budget_site()
    attempts = site.attempts(MODEL)
    while isinstance(step := attempts.next_step(), Action):
        step.perform()
    spent, reserved = site.totals(BUDGET)
    assert (spent, reserved > 0) == (0, True)
    close(attempts)
    assert site.totals(BUDGET) == (reserved, 0)
    close(attempts)  # twice
    assert site.totals(BUDGET) == (reserved, 0)


def test_a_broken_stream_is_settled_with_what_was_received() -> None:
    site = budget_site()
    with pytest.raises(LLMConnectionError) as caught:
        site.stream({"direct": [HI, BROKEN]}, MODEL)
    assert caught.value.partial is not None
    cost = caught.value.partial["usage"]["cost_estimate"]
    assert cost is not None
    assert site.totals(BUDGET) == pytest.approx((cost, 0))


def test_a_stream_is_settled_with_its_usage() -> None:
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 50}}\n\n'
    finish = event(delta={}, finish_reason="stop")
    site = budget_site()
    site.stream({"direct": [HI, finish, usage, b"data: [DONE]\n\n"]}, MODEL)
    assert site.totals(BUDGET) == pytest.approx((PRICE, 0))


def test_a_call_with_a_fallback_is_settled_for_both_models() -> None:
    budget = Budget(1.0)
    site = Site(
        {"fast": ["a"], "big": ["b"]},
        budgets=budget,
        fallbacks={"fast": ["big"]},
        outcomes={"a": TIMED_OUT},
    )
    reserved: list[float] = []
    site.on_request = lambda request: reserved.append(site.totals(budget)[1])
    site.generate()
    assert site.totals(budget) == pytest.approx((reserved[0] + PRICE, 0))


def test_no_fallback_is_tried_when_the_budget_is_exhausted() -> None:
    site = Site({"fast": ["a"], "big": ["b"]}, budgets=Budget(0.0), fallbacks={"fast": ["big"]})
    assert isinstance(site.fails(), LLMBudgetError)
    assert site.hosts == []


@pytest.mark.parametrize(
    ("model", "max_tokens", "message"),
    [
        ("a-model-without-a-price", 100, "the price of model a-model-without-a-price is not known"),
        (MODEL, None, "max_tokens is None"),
    ],
)
def test_a_request_without_a_highest_price_is_refused(
    model: str, max_tokens: int | None, message: str
) -> None:
    site = budget_site()
    with pytest.raises(LLMBudgetError, match=message) as caught:
        site.generate(model, max_tokens=max_tokens)
    assert caught.value.requested is None
    assert site.hosts == []


def test_an_unpriced_model_may_be_allowed() -> None:
    budget = Budget(0.01, unpriced="allow")
    site = budget_site(budget)
    site.generate("a-model-without-a-price", max_tokens=None)
    assert site.totals(budget) == (0, 0)
    site.generate(MODEL, max_tokens=None)
    assert site.totals(budget) == pytest.approx((PRICE, 0))


def test_an_unpriced_model_may_have_a_price_for_each_token() -> None:
    budget = Budget(0.01, unpriced=1e-6)
    site = budget_site(budget)
    site.generate("a-model-without-a-price")
    assert site.totals(budget) == pytest.approx((150e-6, 0))


def test_a_deployment_without_a_price_is_passed_over() -> None:
    unpriced = Deployment("a-model-without-a-price", base_url=host("a"), api_key=KEY)
    site = Site({"fast": [unpriced, "b"]}, budgets=BUDGET)
    site.generate()
    assert site.hosts == ["b"]


def test_a_stream_that_is_resumed_is_reserved_once() -> None:
    """The provider bills one answer, however often its stream is read."""
    site = budget_site()
    attempts = site.attempts(MODEL, stream=True)
    while isinstance(step := attempts.next_step(), Action):
        step.perform()
    before = site.totals(BUDGET)
    for number in range(2):
        failure = FailedAttempt(LLMConnectionError("broken"), retryable=True)
        assert attempts.retry_with(attempts.plan.resumed("resp_1", number), failure)
        assert isinstance(attempts.next_step(), Wait)
        request: Any = attempts.next_step()
        assert request.method == "GET"
        assert site.totals(BUDGET) == before
    close(attempts)
    assert site.totals(BUDGET) == (before[1], 0)


# Keys that are fetched.


def test_a_key_is_fetched_once_the_attempt_is_reserved() -> None:
    keys = iter(["sk-old", "sk-new"])
    called = Deployment(MODEL, base_url=host("a"), api_key=lambda: next(keys))
    site = Site({"fast": [called, "b"]}, budgets=BUDGET, outcomes={"a": [refusal(401), answer()]})
    site.generate()
    assert [request.headers["Authorization"] for request in site.requests] == [
        "Bearer sk-old",
        "Bearer sk-new",
    ]
    assert site.hosts == ["a", "a"]  # an old key is not a reason for a cooldown
    assert site.totals(BUDGET) == pytest.approx((PRICE, 0))


def test_a_deployment_whose_key_cannot_be_fetched_costs_nothing() -> None:
    def fail() -> str:
        raise RuntimeError("no key")

    called = Deployment(MODEL, base_url=host("a"), api_key=fail)
    site = Site({"fast": [called]}, budgets=BUDGET)
    site.fails()
    assert site.hosts == []
    assert site.totals(BUDGET) == (0, 0)


def test_a_call_that_ends_while_its_key_is_fetched_costs_nothing() -> None:
    called = Deployment(MODEL, base_url=host("a"), api_key=lambda: "sk-key")
    site = Site({"fast": [called]}, budgets=BUDGET)
    attempts = site.attempts()
    while not isinstance(step := attempts.next_step(), FetchKey):
        assert isinstance(step, Action)
        step.perform()
    assert site.totals(BUDGET)[1] > 0
    close(attempts)
    assert site.totals(BUDGET) == (0, 0)


# A state that cannot be reached.


class Unreachable(RouterState):
    """A state that loses every command, and executes it if `executes`."""

    def __init__(self, *, executes: bool = False) -> None:
        self.inner = MemoryState()
        self.executes = executes
        self.local = MemoryState()

    def run(self, command: Command) -> Acquired | None:
        if self.executes:
            self.inner.run(command)
            if not isinstance(command, Acquire):
                return None
        raise LLMStateError("the state cannot be used")

    async def run_async(self, command: Command) -> Acquired | None:
        return self.run(command)

    @property
    def fallback(self) -> MemoryState:
        return self.local


def test_without_its_state_a_budget_allows_nothing() -> None:
    site = Site({"fast": ["a"]}, budgets=BUDGET, state=Unreachable())
    assert isinstance(site.fails(), LLMStateError)
    assert site.hosts == []


def test_without_its_state_a_router_uses_that_of_the_process(
    caplog: pytest.LogCaptureFixture,
) -> None:
    site = Site({"fast": ["a", "b"]}, state=Unreachable(), outcomes={"a": refusal(401)})
    site.generate()
    site.generate()
    assert site.hosts == ["a", "b", "b"]
    assert "routing by the state of this process alone" in caplog.text


def test_a_reservation_whose_reply_was_lost_is_released() -> None:
    state = Unreachable(executes=True)
    site = Site({"fast": ["a"]}, budgets=BUDGET, state=state)
    attempts = site.attempts()
    step: Any = attempts.next_step()
    while not hasattr(step, "command"):
        step.perform()
        step = attempts.next_step()
    step.perform()  # reserved, but cancelled before the reply was read
    account = BUDGET.account(None, 0).name
    assert state.inner.totals(account)[1] > 0
    close(attempts)
    assert state.inner.totals(account) == (0, 0)


class Slow(MemoryState):
    """A state that settles when it is told to."""

    immediate = False

    def __init__(self) -> None:
        super().__init__()
        self.settles, self.go_on = asyncio.Event(), asyncio.Event()

    async def run_async(self, command: Command) -> Acquired | None:
        if not isinstance(command, Acquire):
            self.settles.set()
            await self.go_on.wait()
        return self.run(command)


def test_a_call_that_is_cancelled_while_it_is_settled_waits_for_that() -> None:
    async def main() -> None:
        state, budget = Slow(), Budget(1, name="b")
        with fake_model(["Hi"]) as model:
            async with AsyncLLMClient("key", model.url, budgets=[budget], state=state) as client:
                call = asyncio.ensure_future(client.generate("Hello", "gpt-4o", max_tokens=9))
                await state.settles.wait()
                call.cancel()
                await asyncio.sleep(0)
                assert not call.done()
                state.go_on.set()
                with pytest.raises(asyncio.CancelledError):
                    await call
        spent, reserved = state.totals(budget.account(None, time.time()).name)
        assert (spent > 0, reserved) == (True, 0)

    asyncio.run(asyncio.wait_for(main(), 30))


def test_the_deadline_is_that_of_the_call_when_all_deployments_time_out() -> None:
    site = Site({"fast": ["a", "b"]}, outcomes={"a": TIMED_OUT, "b": TIMED_OUT}, max_retries=0)
    assert isinstance(site.fails(), LLMTimeoutError)
    assert site.hosts == ["a", "b"]


def test_an_exhausted_quota_everywhere_is_reported_as_such() -> None:
    gone = refusal(429, "insufficient_quota")
    site = Site({"fast": ["a", "b"]}, outcomes={"a": gone, "b": gone})
    assert isinstance(site.fails(), LLMQuotaError)
