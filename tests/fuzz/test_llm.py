"""Any answer of a provider is the response object or an LLMError, whole and as a stream.

The seeds are the wire tables of the adapters: every answer and every stream in them, with changes
at any place of the JSON, damaged bytes, and events left out, duplicated or in another order.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic_core import from_json

from coreason_client._drive import Reply, Wait
from coreason_client._http._types import FailureKind, Headers, ResponseHead, TransportFailure
from coreason_client.llm import LLMError
from coreason_client.llm._answer import FaultReceived, Malformed
from coreason_client.llm._answer_machine import AnswerMachine
from coreason_client.llm._attempts import Attempts, Policy
from coreason_client.llm._check_call import check_call
from coreason_client.llm._plan import CallPlan
from coreason_client.llm._reply import generate_flow
from coreason_client.llm._route import Target
from coreason_client.llm.providers import ADAPTERS
from tests.each import each
from tests.fuzz.corpus import JSON_TEXTS
from tests.fuzz.strategies import anything, damaged, examples, mutated, wire
from tests.llm.wire import anthropic, gemini, ollama, openai, responses
from tests.llm.wire.case import Stream, Unary

TABLES: dict[str, Any] = {
    "openai": openai,
    "anthropic": anthropic,
    "gemini": gemini,
    "ollama": ollama,
    "responses": responses,
}
MODELS = {name: f"{name}/m" for name in TABLES} | {"responses": "openai/o3-pro"}
FORMATS = sorted(TABLES)
KEY = "sk-fuzz-0123456789"
MESSAGES = [{"role": "user", "content": "Hello"}]
BROKEN = TransportFailure(FailureKind.BROKEN, "reset")
NAMES = (
    *("choices", "message", "content", "delta", "error", "usage", "candidates", "parts", "type"),
    *("output", "response", "item"),
)


def replies(name: str) -> list[Any]:
    """The JSON bodies of a table."""
    cases = [case for case in TABLES[name].CASES if type(case) is Unary]
    return [case.reply for case in cases if isinstance(case.reply, dict)]


def streams(name: str) -> list[list[bytes]]:
    """The streams of a table, an event or a line each."""
    cases = [case for case in TABLES[name].CASES if isinstance(case, Stream)]
    return [list(case.events) for case in cases if case.events]


REPLIES = {name: replies(name) for name in TABLES}
STREAMS = {name: streams(name) for name in TABLES}


def new_attempts(
    name: str, *, stream: bool, schema: bool = False, retries: int = 1
) -> Attempts[CallPlan]:
    clock = iter(range(10**9))
    route = Target("http://127.0.0.1:9", KEY).route(MODELS[name])
    form = {"type": "object"} if schema else None
    call = check_call(MESSAGES, route.model, None, 0.7, 100, stream=stream, response_format=form)
    policy = Policy(
        max_retries=retries, deadline=1e6, jitter=lambda: 0.0, clock=lambda: float(next(clock))
    )
    return Attempts([CallPlan(call, route, MODELS[name])], policy)


def assert_response(response: Any) -> None:
    assert response["status"] == "success"
    assert response["data"]["finish_reason"] in {"stop", "length", "tool_calls"}
    assert_content(response)


def assert_content(response: Any) -> None:
    data, usage = response["data"], response["usage"]
    assert isinstance(data["content"], str | None)
    for call in data["tool_calls"]:
        assert isinstance(call["id"], str)
        assert call["id"]
        assert isinstance(call["name"], str)
        assert isinstance(call["arguments"], dict)
    for count in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert type(usage[count]) is int
        assert usage[count] >= 0
    json.dumps(response, default=str)


def assert_error(error: LLMError) -> None:
    assert str(error)
    assert len(str(error)) < 5_000
    assert KEY not in f"{error!s}{error!r}{error.body}{error.code}{error.request_id}"
    if error.partial is not None:
        assert error.partial["status"] == "partial"
        assert_content(error.partial)


def off_the_wire(value: Any) -> Any:
    """The value that a client reads: None for half a surrogate pair, which is not JSON."""
    try:
        return from_json(wire(value))
    except ValueError:
        return None


# Whole answers


def generate(
    name: str,
    status: int,
    body: bytes,
    headers: Sequence[tuple[str, str]] = (),
    *,
    schema: bool = False,
) -> None:
    """Run a whole call whose every attempt gets this reply."""
    head = ResponseHead(status, Headers([("content-type", "application/json"), *headers]))
    flow = generate_flow(new_attempts(name, stream=False, schema=schema))
    sent: Reply | None = None
    try:
        for _ in range(20):
            step = flow.send(sent)
            sent = None if isinstance(step, Wait) else Reply(head, body)
    except StopIteration as done:
        assert_response(done.value)
        return
    except LLMError as error:
        assert_error(error)
        return
    raise AssertionError("the call does not end")


def bodies(name: str) -> st.SearchStrategy[bytes]:
    seeds = REPLIES[name]
    return st.one_of(
        mutated(seeds).map(wire),
        damaged([wire(seed) for seed in seeds]),
        anything(*NAMES).map(wire),
        mutated([{"error": {"message": f"bad {KEY}", "type": KEY, "code": KEY, "param": "m"}}]).map(
            wire
        ),
    )


STATUSES = st.sampled_from([200, 200, 200, 201, 400, 401, 404, 413, 429, 500, 503, 529])


@pytest.mark.parametrize("name", FORMATS)
@examples(30)
@given(data=st.data(), status=STATUSES, schema=st.booleans())
def test_an_answer_or_an_error_of_ours(
    name: str, data: st.DataObject, status: int, *, schema: bool
) -> None:
    generate(name, status, data.draw(bodies(name)), schema=schema)


@pytest.mark.parametrize("name", FORMATS)
@examples(30)
@given(data=st.data())
def test_an_adapter_by_itself(name: str, data: st.DataObject) -> None:
    """Any JSON at all may be asked for its fault, and any object for its answer."""
    adapter = ADAPTERS[name]
    value = off_the_wire(data.draw(mutated(REPLIES[name]) | anything(*NAMES)))
    fault = adapter.fault(value)
    assert fault is None or isinstance(fault.message, str)
    if isinstance(value, dict):
        with suppress(Malformed):
            adapter.answer(value)


@pytest.mark.parametrize("name", FORMATS)
@each("text", JSON_TEXTS)
def test_the_seeds(name: str, text: bytes) -> None:
    for status in (200, 400):
        generate(name, status, text)
        generate(name, status, b'{"error":' + text + b"}")
        for member in (b"choices", b"content", b"candidates", b"message", b"usage", b"output"):
            generate(name, status, b'{"' + member + b'":' + text + b"}")
    read(name, [text, text + b"\n\n", b"data: " + text + b"\n\n"], clean=True)


@pytest.mark.parametrize("name", FORMATS)
@examples(20)
@given(
    header=st.sampled_from(["retry-after", "retry-after-ms", "x-should-retry", "x-request-id"]),
    value=st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=30)
    | st.sampled_from(["nan", "inf", "-1", "1e400", "9" * 400, "Wed, 99 Foo 0000 99:99:99 GMT"]),
    status=STATUSES,
)
@example(header="retry-after", value="٣", status=429)
@example(header="retry-after-ms", value="nan", status=429)
def test_any_wish_for_delay(name: str, header: str, value: str, status: int) -> None:
    generate(name, status, b'{"error":{"message":"m"}}', [(header, value)])


# Streams


def read(name: str, chunks: Sequence[bytes], *, clean: bool) -> None:
    """Run a whole streamed call whose every attempt gets these bytes."""
    machine = AnswerMachine(new_attempts(name, stream=True))
    kind = "application/x-ndjson" if name == "ollama" else "text/event-stream"
    head = ResponseHead(200, Headers([("content-type", kind)]))
    try:
        for _ in range(20):
            step = machine.next_step()
            if step is None:
                assert_response(machine.response)
                return
            if not isinstance(step, Wait):
                assert machine.accepts(head)
                for _delta in _received(machine, chunks, clean=clean):
                    pass
    except LLMError as error:
        assert_error(error)
        return
    raise AssertionError("the stream does not end")


def _received(machine: AnswerMachine, chunks: Sequence[bytes], *, clean: bool) -> Iterator[Any]:
    for chunk in chunks:
        yield from machine.receive(chunk)
        if not machine.reading:
            return
    yield from machine.lost(None if clean else BROKEN)


@st.composite
def event_lists(draw: st.DrawFn, name: str) -> list[bytes]:
    """A stream of the table with some events spoiled, left out, duplicated or moved."""
    events = list(draw(st.sampled_from(STREAMS[name])))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(events) - 1)) if events else 0
        change = draw(st.sampled_from(["spoil", "damage", "drop", "double", "move", "add"]))
        event = events.pop(place) if events else b""
        if change == "spoil":
            events.insert(place, draw(_spoiled(event)))
        elif change == "damage":
            events.insert(place, draw(damaged([event])))
        elif change == "double":
            events[place:place] = [event, event]
        elif change == "move":
            events.insert(0, event)
        elif change == "add":
            events[place:place] = [event, draw(_spoiled(b"data: {}\n\n"))]
    return events


def _spoiled(event: bytes) -> st.SearchStrategy[bytes]:
    """The same event with other JSON in it."""
    before, brace, rest = event.partition(b"{")
    try:
        seed, end = json.JSONDecoder().raw_decode((brace + rest).decode())
    except ValueError:
        return st.just(event)
    tail = (brace + rest).decode()[end:].encode()
    return (mutated([seed]) | anything(*NAMES)).map(lambda value: before + wire(value) + tail)


@pytest.mark.parametrize("name", FORMATS)
@examples(30)
@given(data=st.data(), clean=st.booleans(), size=st.sampled_from([0, 1, 17]))
def test_a_stream_ends_with_an_answer_or_an_error_of_ours(
    name: str, data: st.DataObject, size: int, *, clean: bool
) -> None:
    events = data.draw(event_lists(name))
    body = b"".join(events)
    chunks = [body[i : i + size] for i in range(0, len(body), size)] if size else events
    read(name, chunks, clean=clean)


@pytest.mark.parametrize("name", FORMATS)
@examples(30)
@given(
    events=st.lists(
        st.tuples(
            anything(*NAMES).map(wire) | st.binary(max_size=30),
            st.sampled_from(
                [
                    *(b"", b"error", b"message_start", b"content_block_delta", b"\xff"),
                    *(b"response.completed", b"response.output_item.done"),
                ]
            ),
        ),
        max_size=4,
    )
)
def test_a_reader_by_itself(name: str, events: list[tuple[bytes, bytes]]) -> None:
    reader = ADAPTERS[name].reader()
    for data, event in events:
        try:
            reader.read(data, event)
        except (Malformed, FaultReceived):
            return
    reader.answer()
