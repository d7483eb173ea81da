"""Decoding of an iterable or async iterable of bytes."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, aclosing
from typing import overload

from ._decode import DEFAULT_MAX_EVENT_BYTES, ServerSentEvent, SSEDecoder

__all__ = ["parse_sse_stream"]


@overload
def parse_sse_stream(
    chunks: Iterable[bytes], *, max_event_bytes: int = ...
) -> Iterator[ServerSentEvent]: ...
@overload
def parse_sse_stream(
    chunks: AsyncIterable[bytes], *, max_event_bytes: int = ...
) -> AsyncIterator[ServerSentEvent]: ...
def parse_sse_stream(
    chunks: Iterable[bytes] | AsyncIterable[bytes],
    *,
    max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES,
) -> Iterator[ServerSentEvent] | AsyncIterator[ServerSentEvent]:
    """Iterate over the events in chunks of bytes; async if the chunks are.

    Args:
        chunks: the bytes of the stream, in any pieces.
        max_event_bytes: the limit of the data of an event, and of every single line.

    Raises:
        SSEEventTooLarge: an event exceeded the limit; the events before it were yielded.
    """
    decoder = SSEDecoder(max_event_bytes)
    if isinstance(chunks, AsyncIterable):
        return _parse_async(chunks, decoder)
    return _parse(chunks, decoder)


def _parse(chunks: Iterable[bytes], decoder: SSEDecoder) -> Iterator[ServerSentEvent]:
    for chunk in chunks:
        yield from decoder.events(chunk)


async def _parse_async(
    chunks: AsyncIterable[bytes], decoder: SSEDecoder
) -> AsyncIterator[ServerSentEvent]:
    async with AsyncExitStack() as stack:
        if isinstance(chunks, AsyncGenerator):
            await stack.enter_async_context(aclosing(chunks))
        async for chunk in chunks:
            for event in decoder.events(chunk):
                yield event
