"""Readers of streams whose store fails over: the two clients, and one that speaks raw HTTP.

Each reads one answer and resumes it by itself. Some disconnect at the failover and resume later.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from typing import Any, TypeAlias

import httpx2

from coreason_client import (
    AsyncCAPClient,
    AsyncChatStream,
    Bookmark,
    CAPClient,
    CAPError,
    ChatStream,
    Rewound,
)
from coreason_client.sse import ServerSentEvent, SSEDecoder
from coreason_manifest.definitions.presentation import parse_packet

from .failover_tally import ChatText, RawText, Reading, end_of
from .readers import ASK_AGAIN_AFTER, READ_TIMEOUT, TRANSIENT
from .tally import COMPLETE, HUNG

Stream: TypeAlias = AsyncChatStream[Any] | ChatStream[Any]

_THREADS = ThreadPoolExecutor(128)  # one for each reader with the sync client


async def read_within(seconds: float, reading: Reading, read: "asyncio.Future[None]") -> None:
    """Wait for the end of a reading; one without an end after some seconds has hung."""
    done, _ = await asyncio.wait({read}, timeout=seconds)
    if not done:
        reading.end = HUNG
        read.cancel()
        await asyncio.wait({read})
    elif (error := read.exception()) is not None:
        reading.end = f"{type(error).__name__}: {error}"


async def read_chat(
    client: AsyncCAPClient | CAPClient, reading: Reading, failed: Callable[[], bool]
) -> None:
    """Read an answer with a client; retry with the bookmark after errors that allow it."""
    order = reading.order
    stream = client.chat(order.message, order.name, rewinds=order.rewinds)
    away = reading.away
    while True:
        text = ChatText(reading, before=reading.text)
        try:
            async with aclosing(_pieces(stream)) as pieces:
                async for piece in pieces:
                    text.take(piece)
                    if away and failed():
                        break
                else:
                    reading.end = COMPLETE
        except CAPError as error:
            reading.end = end_of(error)
        bookmark = Bookmark.model_validate_json(stream.bookmark().to_json())
        await _close(stream)
        if reading.end is not None:
            return
        pause, away = (away, 0.0) if away and failed() else (ASK_AGAIN_AFTER, away)
        await asyncio.sleep(pause)
        stream = client.resume_chat(bookmark)


async def _pieces(stream: Stream) -> AsyncGenerator[str | Rewound]:
    """Yield the pieces of a stream; those of the sync client come from a thread."""
    if isinstance(stream, AsyncChatStream):
        async for piece in stream:
            yield piece
        return
    loop = asyncio.get_running_loop()
    while (piece := await loop.run_in_executor(_THREADS, next, stream, None)) is not None:
        yield piece


async def _close(stream: Stream) -> None:
    if isinstance(stream, AsyncChatStream):
        await stream.aclose()
    else:
        await asyncio.get_running_loop().run_in_executor(_THREADS, stream.close)


async def read_raw(url: str, text: RawText, failed: Callable[[], bool]) -> None:
    """Read an answer as a client without our library would: by events, ids and statuses."""
    reading = text.reading
    body = reading.order.request().model_dump_json()
    away = reading.away
    async with httpx2.AsyncClient(base_url=url, timeout=READ_TIMEOUT) as http:
        while True:
            headers = {"Content-Type": "application/json"}
            if text.cursor is not None:
                headers["Last-Event-ID"] = text.cursor
            opening = http.stream("POST", "/assist", content=body, headers=headers)
            with suppress(httpx2.TransportError):
                async with opening as response, aclosing(_events(response)) as events:
                    async for event in events:
                        text.take(parse_packet(event.data_bytes), event.id)
                        if reading.end is not None or (away and failed()):
                            break
                    _end_by_status(response, reading)
            if reading.end is not None:
                return
            pause, away = (away, 0.0) if away and failed() else (ASK_AGAIN_AFTER, away)
            await asyncio.sleep(pause)


async def _events(response: httpx2.Response) -> AsyncGenerator[ServerSentEvent]:
    decoder = SSEDecoder()
    if response.status_code == 200:
        async for chunk in response.aiter_raw():
            for event in decoder.feed(chunk):
                yield event


def _end_by_status(response: httpx2.Response, reading: Reading) -> None:
    """Set the end if the response was a refusal, or says that nothing follows."""
    status = response.status_code
    if status == 204:
        reading.end = response.headers.get("x-stream-outcome", COMPLETE)
    elif status != 200 and status not in TRANSIENT:
        reading.end = str(status)
