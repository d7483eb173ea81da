"""Agents under uvicorn: ours on a log, and sse-starlette without one. The same text from each."""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeAlias

from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from coreason_client.server import (
    AgentApp,
    AgentStream,
    MemoryStreamLog,
    SQLiteStreamLog,
    StreamLog,
    running,
)
from coreason_manifest.definitions.service import ServiceRequest

from ._child import answer
from ._wire import close, events, packets, text

__all__ = ["KINDS", "PACKETS"]

PACKETS = 500
"""Of a stream, the CLOSE packet included."""

_Make: TypeAlias = Callable[[bool, Path], Any]


def _ours(log: StreamLog, pausing: bool) -> AgentApp:
    words = text()

    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        for _number in range(PACKETS - 1):
            await stream.write(words)
            if pausing:
                await asyncio.sleep(0)

    return AgentApp(agent, log=log)


def _echo(pausing: bool) -> Starlette:
    wire = events([*packets(PACKETS - 1), close(PACKETS - 1)], with_ids=True)

    async def echo() -> AsyncIterator[bytes]:
        for event in wire:
            yield event
            if pausing:
                await asyncio.sleep(0)

    async def assist(request: Request) -> Response:
        await request.body()
        return EventSourceResponse(echo())

    return Starlette(routes=[Route("/assist", assist, methods=["POST"])])


KINDS: dict[str, _Make] = {
    "memory log": lambda pausing, _: _ours(MemoryStreamLog(), pausing),
    "SQLite log": lambda pausing, folder: _ours(SQLiteStreamLog(folder / "log"), pausing),
    "sse-starlette": lambda pausing, _: _echo(pausing),
}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as _folder:
        _app = KINDS[sys.argv[1]](sys.argv[2] == "pausing", Path(_folder))
        with running(_app, access_log=False) as _server:
            answer(_server.port)
