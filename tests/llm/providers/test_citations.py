"""Answers with citations and the provider's own tools, in which one value is wrong."""

import json
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm._adapter import Adapter
from coreason_client.llm._answer import EventsLost, FaultReceived, Malformed, ModelAnswer
from coreason_client.llm.providers import ADAPTERS
from coreason_client.sse import SSEDecoder
from tests.llm.wire import anthropic, bedrock, citations
from tests.llm.wire.case import Stream, Unary

WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    5,
    1.5,
    10**400,
    "",
    "x",
    "\ud800",
    [],
    [[]],
    [None],
    {},
    {"type": []},
)
_NAMES = {"anthropic": "anthropic", "gemini": "gemini", "bedrock": "bedrock"}
_TABLES = [*anthropic.CASES, *bedrock.CASES, *citations.CASES]


def adapter_of(case: Unary) -> Adapter:
    wire = case.client.get("wire") or _NAMES.get(case.model.partition("/")[0], "openai")
    return ADAPTERS[wire]


def has_sources(case: Unary) -> bool:
    return not {"citations", "tool_results"}.isdisjoint(case.data or ())


UNARY = [case for case in _TABLES if type(case) is Unary and has_sources(case)]
STREAMS = [
    case
    for case in _TABLES
    if isinstance(case, Stream) and has_sources(case) and not case.model.startswith("bedrock/")
]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container in a value with a key of it."""
    found = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in found:
        yield value, key
        if isinstance(inner, dict | list):
            yield from places(inner)


def broken(data: st.DataObject, value: Any) -> Any:
    """Return a copy of a value in which one part is another one."""
    copied = deepcopy(value)
    container, key = data.draw(st.sampled_from([*places(copied)]))
    container[key] = data.draw(st.sampled_from(WRONG))
    return copied


def check(answer: ModelAnswer) -> None:
    for citation in answer.citations:
        assert {type(value) for value in citation.values()} <= {str, int}
    assert all(isinstance(text, str) for one in answer.tool_results for text in one["input"])
    json.dumps([answer.citations, answer.tool_results, answer.items])


@given(st.data())
def test_a_wrong_value_in_an_answer(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(UNARY))
    with suppress(Malformed):
        check(adapter_of(case).answer(broken(data, case.reply)))


@given(st.data())
def test_a_wrong_value_in_a_stream(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(STREAMS))
    events = [*SSEDecoder().feed(b"".join(case.events))]
    at = data.draw(st.integers(0, len(events) - 1))
    reader = adapter_of(case).reader()
    with suppress(Malformed, FaultReceived, EventsLost):
        for index, event in enumerate(events):
            sent = event.data_bytes
            if index == at and sent != b"[DONE]":
                sent = json.dumps(broken(data, json.loads(sent))).encode()
            reader.read(sent, event.event_bytes)
    check(reader.answer())
