"""Ollama's adapter, beyond what its wire table shows."""

import json
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.llm._answer import (
    FaultReceived,
    Malformed,
    ModelAnswer,
    ProviderFault,
    RawToolCall,
    Tokens,
)
from coreason_client.llm._call import ModelCall
from coreason_client.llm._plan import fit_call
from coreason_client.llm._profile import ProviderProfile
from coreason_client.llm.errors import LLMRequestError
from coreason_client.llm.providers.ollama import ADAPTER
from coreason_client.llm.types import ReasoningDelta, TextDelta, ToolCallDelta

OLLAMA = ProviderProfile(name="ollama", wire="ollama", path="/api", needs_key=False)
KEYS = st.sampled_from(
    [
        "message", "role", "content", "thinking", "tool_calls", "function", "name", "arguments",
        "id", "index", "done", "done_reason", "prompt_eval_count", "eval_count", "error", "code",
        "type", "param",
    ]
)  # fmt: skip
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["assistant", "stop", "length", "get_weather", "{}"])
)  # fmt: skip
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=6)
    ),
    max_leaves=10,
)
OBJECTS = st.dictionaries(KEYS, ANYTHING, max_size=6)


def wire(value: Any) -> bytes:
    return json.dumps(value).encode()


def read(*lines: Any) -> ModelAnswer:
    reader = ADAPTER.reader()
    for line in lines:
        assert not reader.done
        reader.read(wire(line), b"")
    assert reader.done
    return reader.answer()


def parsed(answer: ModelAnswer) -> ModelAnswer:
    """The same answer, all arguments as objects, and without the ids, of which Ollama has none."""
    for call in answer.calls:
        call.id = None
        if isinstance(call.arguments, str):
            call.arguments = json.loads(call.arguments)
    return answer


# Whatever comes, nothing but what the interface says comes out.


@given(reply=OBJECTS)
def test_any_object_is_an_answer_or_malformed(reply: dict[str, Any]) -> None:
    try:
        answer = ADAPTER.answer(reply)
    except Malformed:
        assert not isinstance(reply.get("message"), dict)
        return
    assert answer.content is None or answer.content
    assert all(isinstance(call, RawToolCall) for call in answer.calls)
    assert answer.end in ("stop", "length")


@given(reply=ANYTHING)
def test_any_value_is_an_error_or_none(reply: Any) -> None:
    fault = ADAPTER.fault(reply)
    is_one = isinstance(reply, dict) and bool(reply.get("error"))
    assert (fault is not None) == is_one
    if fault is not None:
        assert fault.message
        assert all(code and isinstance(code, str) for code in fault.codes)


@given(lines=st.lists(OBJECTS | ANYTHING, max_size=4))
def test_any_line_is_read_or_refused(lines: list[Any]) -> None:
    reader = ADAPTER.reader()
    for line in lines:
        with suppress(FaultReceived, Malformed):
            reader.read(wire(line), b"")
    assert isinstance(reader.answer(), ModelAnswer)


@given(data=st.binary(max_size=20))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    reader = ADAPTER.reader()
    with suppress(Malformed):
        assert not reader.read(data, b"")
    assert not reader.started


# A stream and a whole answer of the same content are the same answer.

NAMES = st.text("abc_", min_size=1, max_size=5)
ARGUMENTS = st.dictionaries(
    st.text(max_size=4), st.none() | st.integers() | st.text(max_size=4), max_size=3
)
CALLS = st.lists(st.tuples(NAMES, ARGUMENTS), max_size=4)
COUNTS = st.fixed_dictionaries(
    {}, optional={"prompt_eval_count": st.integers(0, 9999), "eval_count": st.integers(0, 9999)}
)
ENDINGS = st.fixed_dictionaries(
    {}, optional={"done_reason": st.sampled_from(["stop", "length", "load"])}
)


def cut(draw: st.DrawFn, text: str) -> list[str]:
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    edges = [0, *places, len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


@st.composite
def both_ways(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """An answer as a whole, and as the lines of a stream."""
    thinking, content = draw(st.text(max_size=12)), draw(st.text(max_size=12))
    calls = [
        {"function": {"name": name, "arguments": arguments}} for name, arguments in draw(CALLS)
    ]
    ending = {"done": True, **draw(ENDINGS), **draw(COUNTS)}
    whole = {"message": {"content": content, "thinking": thinking, "tool_calls": calls}, **ending}
    messages: list[dict[str, Any]] = [
        *({"content": "", "thinking": piece} for piece in cut(draw, thinking)),
        *({"content": piece} for piece in cut(draw, content)),
    ]
    # Calls come one in a line, or several, the last ones perhaps in the last line of all.
    places = sorted(draw(st.lists(st.integers(0, len(calls)), max_size=2)))
    edges = [0, *places, len(calls)]
    groups = [calls[start:end] for start, end in pairwise(edges)]
    messages += [{"content": "", "tool_calls": group} for group in groups]
    lines = [{"message": message, "done": False} for message in messages]
    last = {"message": messages[-1], **ending} if draw(st.booleans()) else None
    return whole, [*lines[:-1], last] if last else [*lines, {"message": {}, **ending}]


@given(both=both_ways())
def test_a_stream_gives_the_same_answer(both: tuple[dict[str, Any], list[dict[str, Any]]]) -> None:
    whole, lines = both
    assert parsed(read(*lines)) == parsed(ADAPTER.answer(whole))


# The rest.


def test_deltas_are_what_the_lines_bring() -> None:
    reader = ADAPTER.reader()
    call = {"function": {"name": "f", "arguments": {"é": 1}}}
    line = {"message": {"thinking": "t", "content": "c", "tool_calls": [call, call]}}
    pieces = reader.read(wire(line), b"")
    first, second = (call.id for call in reader.answer().calls)
    assert first != second
    assert pieces == [
        ReasoningDelta("t"),
        TextDelta("c"),
        ToolCallDelta(0, first, "f", '{"é":1}'),
        ToolCallDelta(1, second, "f", '{"é":1}'),
    ]
    assert reader.started
    assert (reader.end, reader.done, reader.tokens) == (None, False, None)
    assert reader.read(wire({"done": True, "done_reason": "length", "eval_count": 3}), b"") == []
    assert (reader.end, reader.done, reader.tokens) == ("length", True, Tokens(None, 3))


@pytest.mark.parametrize("data", [b"", b" ", b"\r"])
def test_an_empty_line_says_nothing(data: bytes) -> None:
    reader = ADAPTER.reader()
    assert reader.read(data, b"") == ()
    assert not reader.done


@pytest.mark.parametrize("function", [{"name": "f"}, {"name": "f", "arguments": None}])
def test_a_call_without_arguments_adds_none(function: dict[str, Any]) -> None:
    reader = ADAPTER.reader()
    call = {"id": "x", "function": function}
    assert reader.read(wire({"message": {"tool_calls": [call]}}), b"") == [
        ToolCallDelta(0, "x", "f", "")
    ]
    assert reader.answer().calls == [RawToolCall("x", "f", "")]


@pytest.mark.parametrize("done", [False, None, "yes", 1])
def test_only_a_line_that_is_done_ends_a_stream(done: Any) -> None:
    reader = ADAPTER.reader()
    reader.read(wire({"message": {"content": "Hi"}, "done": done, "done_reason": "stop"}), b"")
    assert not reader.done
    assert reader.end is None


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        ("no", ProviderFault("no")),
        ({"message": "no", "code": 429, "type": "busy"}, ProviderFault("no", ("429", "busy"))),
        ({"code": None, "type": ""}, ProviderFault('{"code": null, "type": ""}')),
        (["no"], ProviderFault('["no"]')),
        (True, ProviderFault("true")),
    ],
)
def test_errors(error: Any, fault: ProviderFault) -> None:
    assert ADAPTER.fault({"error": error}) == fault
    with pytest.raises(FaultReceived) as caught:
        ADAPTER.reader().read(wire({"error": error}), b"")
    assert caught.value.fault == fault


@pytest.mark.parametrize("error", [None, "", {}, [], 0, False])
def test_no_error(error: Any) -> None:
    assert ADAPTER.fault({"error": error}) is None
    assert ADAPTER.reader().read(wire({"error": error, "message": {}}), b"") == []


def test_an_image_by_its_address_is_refused_with_the_place_of_its_message() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://pictures.example/1.png"}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Hi"},
        {"role": "user", "content": [image]},
    ]
    with pytest.raises(
        LLMRequestError, match=r"^messages\[1\]\.content\[0\] .* data:image"
    ) as caught:
        fit_call(ModelCall(model="llava", messages=messages), ADAPTER, OLLAMA)
    assert (caught.value.provider, caught.value.model) == ("ollama", "llava")


def test_reasoning_goes_back_as_thinking_and_control_characters_survive() -> None:
    function = {"name": "f", "arguments": '{"a": "\x0f"}'}
    message = {
        "role": "assistant",
        "content": None,
        "reasoning": "Hm.",
        "tool_calls": [{"id": "1", "type": "function", "function": function}],
    }
    [sent] = ADAPTER.body(ModelCall(model="m", messages=[message]), OLLAMA)["messages"]
    assert sent == {
        "role": "assistant",
        "content": "",
        "thinking": "Hm.",
        "tool_calls": [{"function": {"name": "f", "arguments": {"a": "\x0f"}}}],
    }


def test_it_reads_lines_and_lives_below_the_base() -> None:
    assert ADAPTER.framing == "ndjson"
    call = ModelCall(model="m", messages=[])
    assert ADAPTER.url("http://localhost:11434/api", call) == "http://localhost:11434/api/chat"
    assert ADAPTER.headers() == {}
