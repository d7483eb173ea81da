"""Agents with steps under uvicorn: durable and not, on the logs that keep a journal.

Arguments: the log (one of `LOGS`), "durable" or "plain", the pace (one of `PACES`), and for the
Valkey log its address.
"""

import asyncio
import sys
import tempfile
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from coreason_client.server import AgentApp, AgentStream, SQLiteStreamLog, StreamLog, running
from coreason_manifest.definitions.service import ServiceRequest

from ._child import answer
from ._wire import text

__all__ = [
    "AT_ONCE",
    "DURABLE",
    "LOGS",
    "PACES",
    "PACKETS_PER_STEP",
    "PLAIN",
    "STREAMS",
    "VALKEY",
    "Pace",
]

SQLITE: Final = "SQLite log"
VALKEY: Final = "Valkey log"
LOGS: Final = (SQLITE, VALKEY)
DURABLE: Final = "durable"
PLAIN: Final = "plain"

PACKETS_PER_STEP = 100
STREAMS = 40
"""Open at the same time."""


class Pace(NamedTuple):
    """The packets of a stream, without its CLOSE, and how it takes its time, in seconds."""

    packets: int
    pause: float
    """Before each packet."""
    step: float
    """Duration of each step."""


AT_ONCE: Final = "without pauses, steps of 0 ms"
PACES: Final = {
    "a packet every 20 ms": Pace(100, 0.02, 0.03),
    "without pauses": Pace(500, 0.0, 0.03),
    AT_ONCE: Pace(500, 0.0, 0.0),
}


async def _search(query: str, seconds: float) -> list[str]:
    await asyncio.sleep(seconds)
    return [query, "a result"]


class _Ticks:
    """The times at which a stream writes. The streams are spread evenly over a pause.

    Otherwise streams that were opened together would write at the same moment and share the work,
    those of an agent without a journal more than the others.
    """

    def __init__(self, pause: float, number: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._pause = pause
        phase = number % STREAMS / STREAMS
        self._next = (self._loop.time() // pause + 1 + phase) * pause

    async def wait(self) -> None:
        self._next += self._pause
        await asyncio.sleep(self._next - self._loop.time())


def _app(log: StreamLog, pace: Pace, *, durable: bool) -> AgentApp:
    words = text()
    numbers = count()

    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        ticks = _Ticks(pace.pause, next(numbers)) if pace.pause else None
        for number in range(pace.packets):
            if number % PACKETS_PER_STEP == 0:
                await stream.step("search", _search, f"query {number}", pace.step)
            if ticks is not None:
                await ticks.wait()
            await stream.write(words)

    return AgentApp(agent, log=log, durable=durable)


def _log(kind: str, folder: str, address: str) -> StreamLog:
    if kind == SQLITE:
        return SQLiteStreamLog(Path(folder) / "log")
    from coreason_client.server import ValkeyStreamLog

    return ValkeyStreamLog(address)


def _main(kind: str, how: str, pace: str, address: str = "") -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = _log(kind, folder, address)
        app = _app(log, PACES[pace], durable=how == DURABLE)
        with running(app, access_log=False) as server:
            answer(server.port)


if __name__ == "__main__":
    _main(*sys.argv[1:])
