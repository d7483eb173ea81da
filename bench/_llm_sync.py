"""The sync AI client against httpx2 alone, which it sends with, and against a fake model."""

import json
import time
from collections.abc import Callable
from contextlib import ExitStack

import httpx2

from coreason_client.llm import LLMClient
from coreason_client.testing import fake_model

from ._child import child
from ._fake_llm import COMPLETION_TOKENS, MODEL, TEXT
from ._llm_answers import BODY, KEY, MESSAGES, Answer, checked_turn
from ._measure import Effort, Row, Turn, amount, at_most, compare, measure, seconds

__all__ = ["fake_model_rows", "sync_rows"]

_CALLS = 200
_RAW, _OURS = "httpx2", "LLMClient"
_GOAL = at_most(1.4)
_FAKE_GOAL = at_most(0.003, seconds)


def sync_rows(effort: Effort) -> list[Row]:
    """Compare calls, one after the other."""
    with ExitStack() as stack:
        server = stack.enter_context(child("_fake_llm"))
        url = f"{server.url}/v1"
        raw = stack.enter_context(httpx2.Client())
        ours = stack.enter_context(LLMClient(KEY, url))
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}

        def raw_call() -> Answer:
            content = json.dumps(BODY).encode()
            reply = raw.post(f"{url}/chat/completions", content=content, headers=headers)
            answered = json.loads(reply.content)
            text = answered["choices"][0]["message"]["content"]
            return text, answered["usage"]["completion_tokens"]

        def our_call() -> Answer:
            response = ours.generate(MESSAGES, MODEL)
            return response["data"]["content"] or "", response["usage"]["completion_tokens"]

        costs = measure({_RAW: _turn(raw_call), _OURS: _turn(our_call)}, effort)
    return [compare(costs, _OURS, _RAW, _GOAL, where="CPU per sync call: ")]


def fake_model_rows(effort: Effort) -> list[Row]:
    """Measure calls of the testing kit's fake model, in the same process."""
    with (
        fake_model(TEXT, exhausted="repeat") as model,
        LLMClient(**model.options()) as client,
    ):

        def turn() -> float:
            start = time.perf_counter()
            for _ in range(_CALLS):
                client.generate(MESSAGES)
            return (time.perf_counter() - start) / _CALLS

        costs = measure({_OURS: turn}, effort)
    return [amount("time per sync call of a fake model", costs[_OURS], seconds, _FAKE_GOAL)]


def _turn(call: Callable[[], Answer]) -> Turn:
    expected = [(TEXT, COMPLETION_TOKENS)] * _CALLS
    return checked_turn(lambda: [call() for _ in range(_CALLS)], expected, _CALLS)
