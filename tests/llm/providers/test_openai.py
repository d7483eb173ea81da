"""OpenAI's adapter, beyond what its wire table shows."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm._adapter import AnswerReader
from coreason_client.llm._answer import (
    FaultReceived,
    Malformed,
    ModelAnswer,
    ProviderFault,
    RawToolCall,
)
from coreason_client.llm._call import ModelCall
from coreason_client.llm._profile import ProviderProfile
from coreason_client.llm.providers.openai import ADAPTER
from coreason_client.llm.types import ReasoningDelta, TextDelta, ToolCallDelta

COMPATIBLE = ProviderProfile(name="openai-compatible")
KEYS = st.sampled_from(
    [
        "choices", "message", "delta", "role", "content", "refusal", "reasoning", "thinking",
        "reasoning_content", "tool_calls", "function_call", "function", "name", "arguments", "id",
        "index", "type", "text", "finish_reason", "usage", "x_groq", "prompt_tokens",
        "completion_tokens", "prompt_tokens_details", "cached_tokens", "num_cached_tokens",
        "completion_tokens_details", "reasoning_tokens", "error", "code", "param", "object",
        "detail", "loc", "msg",
    ]
)  # fmt: skip
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["assistant", "stop", "length", "content_filter", "get_weather", "{}"])
)  # fmt: skip
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=6)
    ),
    max_leaves=10,
)
OBJECTS = st.dictionaries(KEYS, ANYTHING, max_size=6)
# So that not all of them are refused at the door.
MESSAGES = st.builds(
    lambda message, rest: {**rest, "choices": [{"message": message, "finish_reason": "stop"}]},
    OBJECTS,
    OBJECTS,
)
CHUNKS = st.builds(
    lambda delta, rest: {**rest, "choices": [{"delta": delta, "finish_reason": None}]},
    OBJECTS,
    OBJECTS,
)


def wire(value: Any) -> bytes:
    return json.dumps(value).encode()


def read(*chunks: Any) -> AnswerReader:
    reader = ADAPTER.reader()
    for chunk in chunks:
        reader.read(wire(chunk), b"")
    return reader


# Whatever comes, nothing but what the interface says comes out.


@given(reply=OBJECTS | MESSAGES)
def test_any_object_is_an_answer_or_malformed(reply: dict[str, Any]) -> None:
    with suppress(Malformed):
        answer = ADAPTER.answer(reply)
        assert answer.content is None or isinstance(answer.content, str)
        assert isinstance(answer.reasoning, str)
        assert all(isinstance(call, RawToolCall) for call in answer.calls)
        assert answer.end in ("stop", "length", "tool_calls", "filtered")


@given(reply=ANYTHING | OBJECTS)
def test_any_value_is_an_error_or_none(reply: Any) -> None:
    fault = ADAPTER.fault(reply)
    if fault is not None:
        assert fault.message
        assert all(code and isinstance(code, str) for code in fault.codes)
        assert fault.status is None or 400 <= fault.status < 600


@given(chunks=st.lists(CHUNKS | OBJECTS | ANYTHING, max_size=4), event=st.sampled_from([b"", b"x"]))
def test_any_chunk_is_read_or_refused(chunks: list[Any], event: bytes) -> None:
    reader = ADAPTER.reader()
    for chunk in chunks:
        with suppress(FaultReceived, Malformed):
            pieces = reader.read(wire(chunk), event)
            assert all(isinstance(p, TextDelta | ReasoningDelta | ToolCallDelta) for p in pieces)
    assert isinstance(reader.answer(), ModelAnswer)


@given(data=st.binary(max_size=20))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    reader = ADAPTER.reader()
    with suppress(Malformed):
        assert not reader.read(data, b"")
    assert not reader.started


# A stream and a whole answer of the same content are the same answer, whatever the accent.


@dataclass(frozen=True)
class Accent:
    """The form of the fragments of tool calls."""

    index: str  # "counted", "always 0" or "missing"
    repeats: bool  # the id and the name come with every fragment
    mixes: bool  # calls grow at the same time


ACCENTS = (
    Accent("counted", repeats=False, mixes=True),
    Accent("counted", repeats=True, mixes=True),
    Accent("always 0", repeats=False, mixes=False),
    Accent("always 0", repeats=True, mixes=True),
    Accent("missing", repeats=False, mixes=False),
    Accent("missing", repeats=True, mixes=True),
)
ARGUMENTS = st.dictionaries(
    st.text(max_size=4), st.none() | st.integers() | st.text(max_size=4), max_size=3
).map(json.dumps)
USAGES = st.none() | st.builds(
    lambda prompt, completion: {"prompt_tokens": prompt, "completion_tokens": completion},
    st.integers(0, 9999),
    st.integers(0, 9999),
)


def cut(draw: st.DrawFn, text: str) -> list[str]:
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[start:end] for start, end in pairwise([0, *places, len(text)])]


def fragments(draw: st.DrawFn, number: int, arguments: str, accent: Accent) -> list[dict[str, Any]]:
    """One tool call, in pieces."""
    written = []
    for place, piece in enumerate(cut(draw, arguments)):
        fragment: dict[str, Any] = {"function": {"arguments": piece}}
        if place == 0 or accent.repeats:
            fragment["id"] = f"call_{number}"
            fragment["function"]["name"] = f"tool_{number}"
        if accent.index != "missing":
            fragment["index"] = number if accent.index == "counted" else 0
        written.append(fragment)
    return written


def mixed(draw: st.DrawFn, queues: Sequence[list[Any]], *, freely: bool) -> list[Any]:
    """Join lists, each in its order; freely, or each after the one before it.

    The first of each come first and in order: the order of calls is that of their beginnings.
    """
    if not freely:
        return [item for queue in queues for item in queue]
    first = [queue[0] for queue in queues]
    rest = [queue[1:] for queue in queues]
    while any(rest):
        queue = draw(st.sampled_from([queue for queue in rest if queue]))
        first.append(queue.pop(0))
    return first


def chunk(delta: Any = None, finish: Any = None, **more: Any) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"object": "chat.completion.chunk", "choices": choices, **more}


@st.composite
def both_ways(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """An answer as a whole, and as the chunks of a stream."""
    accent = draw(st.sampled_from(ACCENTS))
    thought, content = draw(st.text(max_size=12)), draw(st.text(max_size=12))
    arguments = draw(st.lists(ARGUMENTS, max_size=3))
    finish = draw(st.sampled_from(["stop", "length", "tool_calls", "content_filter", "eos"]))
    counted, place = draw(USAGES), draw(st.sampled_from(["finish", "after", "groq"]))
    field = draw(st.sampled_from(["reasoning", "reasoning_content"]))
    calls = [
        {"id": f"call_{number}", "function": {"name": f"tool_{number}", "arguments": text}}
        for number, text in enumerate(arguments)
    ]
    message = {"role": "assistant", "content": content, field: thought, "tool_calls": calls}
    whole = {"choices": [{"message": message, "finish_reason": finish}], "usage": counted}

    more = {"usage": None} if draw(st.booleans()) else {}
    queues = [fragments(draw, *numbered, accent) for numbered in enumerate(arguments)]
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": ""},
        *({"content": None, field: piece} for piece in cut(draw, thought)),
        *({"content": piece} for piece in cut(draw, content)),
        *({"tool_calls": [one]} for one in mixed(draw, queues, freely=accent.mixes)),
    ]
    chunks = [chunk(delta, **more) for delta in deltas]
    usage = {"x_groq": {"usage": counted}} if place == "groq" else {"usage": counted}
    if place == "after":
        return whole, [*chunks, chunk({}, finish), chunk(**usage)]
    return whole, [*chunks, chunk({}, finish, **usage)]


@given(both=both_ways())
def test_a_stream_gives_the_same_answer(both: tuple[dict[str, Any], list[dict[str, Any]]]) -> None:
    whole, chunks = both
    reader = read(*chunks)
    assert reader.end is not None
    assert not reader.done
    assert reader.read(b"[DONE]", b"") == ()
    assert reader.done
    expected = ADAPTER.answer(whole)
    expected.content = expected.content or None
    assert reader.answer() == expected


# The rest.


@pytest.mark.parametrize("more", [{}, {"usage": None}, {"error": None}, {"obfuscation": "x"}])
@pytest.mark.parametrize("delta", [{"content": "Hi"}, {"role": "assistant", "content": "Hi"}])
def test_a_piece_of_text(delta: dict[str, Any], more: dict[str, Any]) -> None:
    reader = ADAPTER.reader()
    assert list(reader.read(wire(chunk(delta, **more)), b"")) == [TextDelta("Hi")]
    assert (reader.end, reader.done, reader.tokens) == (None, False, None)


def test_usage_that_comes_with_a_piece_of_text_counts() -> None:
    """Some providers send running totals with every chunk."""
    reader = ADAPTER.reader()
    for completion in (1, 2):
        usage = {"prompt_tokens": 7, "completion_tokens": completion}
        assert list(reader.read(wire(chunk({"content": "Hi"}, usage=usage)), b"")) == [
            TextDelta("Hi")
        ]
    assert reader.tokens is not None
    assert (reader.tokens.prompt, reader.tokens.completion) == (7, 2)


def test_an_event_named_error_is_an_error_whatever_it_holds() -> None:
    with pytest.raises(FaultReceived) as caught:
        ADAPTER.reader().read(b'{"message": "no"}', b"error")
    assert caught.value.fault == ProviderFault("no")


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"error": "no"}, ProviderFault("no")),
        ({"error": "no", "code": "bad"}, ProviderFault("no", ("bad",))),
        (
            {"error": {"message": "no", "type": "t", "param": "p", "code": "c"}},
            ProviderFault("no", ("c", "t"), param="p"),
        ),
        ({"detail": "no"}, ProviderFault("no")),
        (
            {"detail": [{"loc": ["body", "seed"], "msg": "extra"}, {"loc": [], "msg": "more"}]},
            ProviderFault("body.seed: extra; more"),
        ),
    ],
)
def test_errors(body: Any, fault: ProviderFault) -> None:
    assert ADAPTER.fault(body) == fault


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        "no",
        7,
        {},
        {"error": None},
        {"error": ""},
        {"choices": [], "code": 1, "message": ""},
    ],
)
def test_no_error(body: Any) -> None:
    assert ADAPTER.fault(body) is None


def test_an_error_names_the_status_that_it_would_have_had() -> None:
    fault = ADAPTER.fault({"error": {"message": "gone", "code": 502}})
    assert fault is not None
    assert fault.status == 502


def test_a_body_leaves_the_call_as_it_was() -> None:
    function = {"name": "f", "arguments": "{}"}
    message = {
        "role": "assistant",
        "content": None,
        "name": "Narrator",
        "reasoning": "Hm.",
        "tool_calls": [{"id": "1", "type": "function", "function": function, "signature": "s"}],
    }
    call = ModelCall(model="m", messages=[message])
    before = json.dumps(message)
    body = ADAPTER.body(call, ProviderProfile(name="p", message_names=False))
    assert json.dumps(message) == before
    assert body["messages"] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "type": "function", "function": function}],
        }
    ]


def test_it_reads_events_and_lives_below_the_base() -> None:
    assert ADAPTER.framing == "sse"
    call = ModelCall(model="m", messages=[])
    assert ADAPTER.url("https://x.example/v1", call) == "https://x.example/v1/chat/completions"
    assert ADAPTER.headers() == {}
    assert "stream" not in ADAPTER.body(call, COMPATIBLE)
