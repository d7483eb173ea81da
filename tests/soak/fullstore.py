"""Fills the store until old streams expire, and records the responses in the meantime."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import httpx2

from coreason_client.server import ValkeyStreamLog
from coreason_client.server.log.base import NewStream

from ..server.log.valkey_server import ValkeyServer
from .content import Order

_ENTRY_BYTES, _ENTRIES = 1024 * 1024, 32
_PROBE_EVERY, _ANSWER_WITHIN = 0.5, 10.0


@dataclass(slots=True)
class Probe:
    """The responses to small requests after the store became full."""

    answers: Counter[str] = field(default_factory=Counter)
    without_retry_after: int = 0
    recovered_after: float | None = None

    @property
    def refused(self) -> int:
        """The number of requests that were refused with 503, as documented."""
        return self.answers["503"]

    @property
    def surprises(self) -> int:
        """The number of requests that were neither refused with 503 nor accepted."""
        return self.answers.total() - self.refused - self.answers["200"]


@asynccontextmanager
async def full(store: ValkeyServer, prefix: str, principal: str) -> AsyncIterator[None]:
    """Add a large ended stream, and lower the memory limit to what remains without half of it.

    The store then refuses writes until the replicas have dropped the entries of that stream. The
    limit is lifted at the end in any case.
    """
    await _add_large_stream(store.url, prefix, principal)
    used: int = store.command("INFO", "memory")["used_memory"]
    store.command("CONFIG", "SET", "maxmemory", used - _ENTRY_BYTES * _ENTRIES // 2)
    try:
        yield
    finally:
        store.command("CONFIG", "SET", "maxmemory", 0)


async def probe(url: str, key: str, dice: random.Random, seconds: float) -> Probe:
    """Send small requests, one after the other, until one is accepted or the time is over."""
    found, began = Probe(), time.monotonic()
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=_ANSWER_WITHIN) as http:
        while found.recovered_after is None and time.monotonic() - began < seconds:
            order = Order(f"probe-{dice.random()}", 1, 0.0)
            answer = await _ask(http, order, found)
            if answer == "200":
                found.recovered_after = time.monotonic() - began
            else:
                await asyncio.sleep(_PROBE_EVERY)
    return found


async def _ask(http: httpx2.AsyncClient, order: Order, found: Probe) -> str:
    body = order.request().model_dump_json()
    try:
        async with http.stream(
            "POST", "/assist", content=body, headers={"Content-Type": "application/json"}
        ) as response:
            answer = str(response.status_code)
            found.without_retry_after += answer == "503" and "retry-after" not in response.headers
    except httpx2.TransportError as error:
        answer = type(error).__name__
    found.answers[answer] += 1
    return answer


async def _add_large_stream(url: str, prefix: str, principal: str) -> UUID:
    log, stream_id = ValkeyStreamLog(url, prefix=prefix), uuid4()
    await log.start("driver")
    try:
        await log.open(NewStream(stream_id, principal, uuid4(), "large"), "driver")
        entry = b"x" * _ENTRY_BYTES
        for seq in range(1, _ENTRIES):
            await log.append(stream_id, 1, seq, [entry])
        await log.close(stream_id, 1, _ENTRIES, [entry], "complete")
    finally:
        await log.stop("driver")
    return stream_id
