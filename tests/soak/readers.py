"""Readers: each requests one stream with the client and reads it to its end despite faults."""

import asyncio
import sys
import time
from collections.abc import Sequence

from coreason_client import AsyncCAPClient, CAPConnectionError, CAPError, Position
from coreason_manifest.definitions.service import ServiceRequest

from .tally import HUNG, Reading

ASK_AGAIN_AFTER = 0.5
READ_TIMEOUT = 6.0  # notices a frozen replica; a healthy one sends comments more often
RETRIES = 3  # few, so a silence comes from the server and not from a long delay of the client
ANY_KEY = "no-key"
TRANSIENT = (429, 502, 503, 504)


def client_for(url: str, key: str = ANY_KEY) -> AsyncCAPClient:
    return AsyncCAPClient(url, key, timeout=READ_TIMEOUT, max_retries=RETRIES)


async def read_stream(client: AsyncCAPClient, reading: Reading) -> Reading:
    """Read one stream to its end, or until it counts as hung."""
    reading.begin(time.monotonic())
    task = asyncio.ensure_future(_read(client, reading, reading.request))
    while not task.done():
        left = reading.seen_at + reading.hung_after - time.monotonic()
        if left <= 0:
            reading.progress(time.monotonic())
            reading.end = HUNG
            print(f"  hung: {reading.summary}", file=sys.stderr)
            task.cancel()
        await asyncio.wait({task}, timeout=max(left, 0.1))
    if not task.cancelled():
        task.result()
    return reading


async def _read(client: AsyncCAPClient, reading: Reading, request: ServiceRequest) -> None:
    packets = client.assist(request)
    while True:
        try:
            async with packets:
                async for packet in packets:
                    reading.take(packet, time.monotonic())
            reading.complete()
        except CAPError as error:
            _record_error(error, packets.position, reading)
        finally:
            reading.reconnects += packets.reconnects
        if reading.end is not None:
            return
        reading.asked_again += 1
        await asyncio.sleep(ASK_AGAIN_AFTER)
        position = packets.position
        packets = client.assist(request) if position is None else client.resume(request, position)


def _record_error(error: CAPError, position: Position | None, reading: Reading) -> None:
    """Record the end of the reading, unless the caller may retry from its position."""
    if error.stream_error is not None and position is not None:
        code, now = error.stream_error.code, time.monotonic()
        reading.ended_with(code, position.stream_id, position.seq, now)
        reading.error = error.stream_error
    elif not (isinstance(error, CAPConnectionError) or error.status_code in TRANSIENT):
        reading.end = f"{type(error).__name__} {error.status_code or ''}".strip()


async def read_spread(
    client: AsyncCAPClient, readings: Sequence[Reading], seconds: float
) -> list[Reading]:
    """Read all streams; their starts are spread over a time."""
    tasks = []
    for reading in readings:
        tasks.append(asyncio.ensure_future(read_stream(client, reading)))
        await asyncio.sleep(seconds / len(readings))
    return list(await asyncio.gather(*tasks))
