"""A replica: our agent side on the Valkey log, or on one in memory, under uvicorn.

The message says what the agent does:

* `hold`: a packet at once, and after `go` as many as requested, each when it is due. Due times
  are in the text, so that whoever reads can tell how late a packet is. After `end` it returns.
* `go T`, `end`: to all that hold; T is the time at which the first packets are due.
* `burst`: as many packets as requested, at the maximum rate.
* anything else: one packet.
"""

import asyncio
import sys
import time
from itertools import count

from coreason_client.server import (
    AgentApp,
    AgentStream,
    MemoryStreamLog,
    StreamLog,
    ValkeyStreamLog,
    running,
)
from coreason_manifest.definitions.service import ServiceRequest

from ._child import answer
from ._many_streams import raise_file_limit
from ._wire import text

__all__ = ["DUE_CHARACTERS"]

DUE_CHARACTERS = 17
"""The number of characters of a text that are the time at which it was due."""

_NO_LIMIT = 1_000_000


class _Agent:
    def __init__(self, rate: float, packets: int, streams: int) -> None:
        self._rate = rate
        self._packets = packets
        self._streams = streams
        self._numbers = count()
        self._words = text()[DUE_CHARACTERS:]
        self._start = 0.0
        self._go, self._end = asyncio.Event(), asyncio.Event()

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        assert request.payload.messages is not None
        word, *rest = request.payload.messages[-1].text.split()
        if word == "hold":
            await self._hold(stream)
        elif word == "burst":
            for _ in range(self._packets - 1):
                await stream.write(self._text(0.0))
        else:
            await stream.write(self._text(time.time()))
        if word == "go":
            self._start = float(rest[0])
            self._go.set()
        elif word == "end":
            self._end.set()

    async def _hold(self, stream: AgentStream) -> None:
        # Evenly spread, so that there is always a little to do and never a lot at once.
        phase = next(self._numbers) / self._streams
        await stream.write(self._text(time.time()))
        await self._go.wait()
        for number in range(self._packets):
            due = self._start + (number + phase) / self._rate
            if (early := due - time.time()) > 0:
                await asyncio.sleep(early)
            await stream.write(self._text(due))
        await self._end.wait()

    def _text(self, due: float) -> str:
        return f"{due:017.6f}{self._words}"


def _log(address: str) -> StreamLog:
    return MemoryStreamLog() if address == "memory" else ValkeyStreamLog(address)


def _main(address: str, rate: str, packets: str, streams: str) -> None:
    raise_file_limit()
    app = AgentApp(
        _Agent(float(rate), int(packets), int(streams)),
        log=_log(address),
        max_streams_per_key=_NO_LIMIT,
        max_readers_per_key=_NO_LIMIT,
        drain_timeout=0.0,
    )
    with running(app, access_log=False) as server:
        answer(server.port)


if __name__ == "__main__":
    _main(*sys.argv[1:])
