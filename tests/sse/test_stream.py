"""The decoder around iterables of bytes, sync and async."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator

import pytest

from coreason_client.sse import ServerSentEvent, SSEDecoder, SSEEventTooLarge, parse_sse_stream
from coreason_client.sse._decode import DEFAULT_MAX_EVENT_BYTES

CHUNKS = [b"id: 1\nda", b"ta: a\n\ndata: b\r", b"", b"\n\r\ndata: c\n\nevent: e\n", b"data: d\n\nd"]
EVENTS = [
    ServerSentEvent(b"a", b"", b"1"),
    ServerSentEvent(b"b", b"", b"1"),
    ServerSentEvent(b"c", b"", b"1"),
    ServerSentEvent(b"d", b"e", b"1"),
]
# Two events, then one that is too large for a limit of 10 bytes.
TOO_LARGE = [b"data: a\n\n", b"data: b\n\ndata: " + b"x" * 11 + b"\n\n", b"data: c\n\n"]


async def arriving(
    chunks: Iterable[bytes], note: Callable[[bytes], object] = lambda chunk: None
) -> AsyncIterator[bytes]:
    for chunk in chunks:
        note(chunk)
        yield chunk


@pytest.mark.parametrize("kind", [list, tuple, iter])
@pytest.mark.proves("A2A-sse-feed")
def test_chunks_become_events(kind: Callable[[list[bytes]], Iterable[bytes]]) -> None:
    assert list(parse_sse_stream(kind(CHUNKS))) == EVENTS


@pytest.mark.anyio
@pytest.mark.proves("A2A-sse-feed")
async def test_async_chunks_become_events() -> None:
    assert [event async for event in parse_sse_stream(arriving(CHUNKS))] == EVENTS


def test_no_chunks_are_no_events() -> None:
    assert list(parse_sse_stream([])) == []


@pytest.mark.anyio
async def test_no_async_chunks_are_no_events() -> None:
    assert [event async for event in parse_sse_stream(arriving([]))] == []


def test_an_event_is_handed_out_before_the_next_chunk_is_asked_for() -> None:
    taken: list[bytes] = []

    def chunks() -> Iterator[bytes]:
        for chunk in CHUNKS:
            taken.append(chunk)
            yield chunk

    events = parse_sse_stream(chunks())
    assert taken == []
    assert [(next(events).data, len(taken)) for _ in EVENTS] == [
        ("a", 2),
        ("b", 4),
        ("c", 4),
        ("d", 5),
    ]


@pytest.mark.anyio
async def test_an_async_event_is_handed_out_before_the_next_chunk_is_asked_for() -> None:
    taken: list[bytes] = []
    events = parse_sse_stream(arriving(CHUNKS, taken.append))
    assert taken == []
    assert [(event.data, len(taken)) async for event in events] == [
        ("a", 2),
        ("b", 4),
        ("c", 4),
        ("d", 5),
    ]


@pytest.mark.proves("RES1-too-large")
def test_events_before_a_too_large_one_are_handed_out_first() -> None:
    events = parse_sse_stream(TOO_LARGE, max_event_bytes=10)
    assert [next(events).data, next(events).data] == ["a", "b"]
    with pytest.raises(SSEEventTooLarge) as caught:
        next(events)
    assert caught.value.limit == 10
    assert list(events) == []


@pytest.mark.anyio
@pytest.mark.proves("RES1-too-large")
async def test_async_events_before_a_too_large_one_are_handed_out_first() -> None:
    events = parse_sse_stream(arriving(TOO_LARGE), max_event_bytes=10)
    assert [(await anext(events)).data, (await anext(events)).data] == ["a", "b"]
    with pytest.raises(SSEEventTooLarge) as caught:
        await anext(events)
    assert caught.value.limit == 10
    assert [event async for event in events] == []


@pytest.mark.proves("A2A-sse-limit")
def test_the_limit_is_that_of_the_decoder_by_default() -> None:
    default = inspect.signature(parse_sse_stream).parameters["max_event_bytes"].default
    assert default == DEFAULT_MAX_EVENT_BYTES


def test_a_limit_below_one_byte_is_refused_at_the_call() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        parse_sse_stream([], max_event_bytes=0)


def test_an_error_of_the_chunks_passes_through_after_what_arrived() -> None:
    def chunks() -> Iterator[bytes]:
        yield b"data: a\n\ndata: b"
        raise ConnectionResetError

    events = parse_sse_stream(chunks())
    assert next(events).data == "a"
    with pytest.raises(ConnectionResetError):
        next(events)


def test_the_events_of_one_chunk() -> None:
    decoder = SSEDecoder(10)
    assert [event.data for event in decoder.events(b"data: a\n\ndata: b\n\ndata")] == ["a", "b"]
    assert [event.data for event in decoder.events(b": c\n\n")] == ["c"]
