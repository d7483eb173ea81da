"""Agents that write single tokens at a steady pace: ours on a log, and sse-starlette without one.

sse-starlette is given the fields of each event, ready made, and writes the event; or the finished
bytes of it, which it only sends.

The message of a request is the number of tokens to write after the first one. The first token
comes at once. After a pause the others come, with `PERIOD` seconds of sleep between two of them;
the streams are spread evenly over a period, so that every token is alone. After another pause the
stream ends.

Arguments: the subject (one of `_KINDS`), the stack (one of `STACKS`), and for the Valkey log
and the Postgres log the address.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeAlias
from uuid import UUID

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
from ._wire import close, events, tokens

__all__ = [
    "BYTES",
    "CHUNKS",
    "EVENTS",
    "FAST",
    "FIELDS",
    "MEMORY",
    "MODEL",
    "PERIOD",
    "PLAIN",
    "POSTGRES",
    "SQLITE",
    "STACKS",
    "STREAMS",
    "VALKEY",
]

PLAIN: Final = "asyncio, h11"
FAST: Final = "uvloop, httptools"
STACKS: Final = {
    PLAIN: {"loop": "asyncio", "http": "h11"},
    FAST: {"loop": "uvloop", "http": "httptools"},
}
"""Options of uvicorn. The fast stack also has hiredis, which redis-py uses when it is installed."""

STREAMS = 100
"""Open at the same time."""

PERIOD = 0.05
"""Seconds of sleep after every token: 20 tokens per second."""

MODEL: Final = "agent"
"""The name of the agent as a model."""

_PAUSE = 0.3  # seconds between the first token and the others, and before the end
_MOST = 1_000  # packets of a stream
_STREAM = UUID("0197a3c2-5be1-7d40-9f0e-6c1d2a8b4e57")
_TOKEN = " token"

_Make: TypeAlias = Callable[[Path, str], Any]


class _Phases:
    """Pauses that spread the streams evenly over a period, whenever they were opened."""

    def __init__(self) -> None:
        self._numbers = count()

    async def pause(self) -> None:
        phase = PERIOD * (next(self._numbers) % STREAMS) / STREAMS
        await asyncio.sleep(_PAUSE + phase - asyncio.get_running_loop().time() % PERIOD)


def _ours(log: StreamLog) -> AgentApp:
    phases = _Phases()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        assert request.payload.messages is not None
        wanted = int(request.payload.messages[-1].text)
        await stream.write(_TOKEN)
        await phases.pause()
        for _ in range(wanted):
            await stream.write(_TOKEN)
            await asyncio.sleep(PERIOD)
        await asyncio.sleep(_PAUSE)

    return AgentApp(agent, log=log, agent_id=MODEL, openai=True, ai_sdk=True, ag_ui=True)


def _on_valkey(address: str) -> AgentApp:
    from coreason_client.server import ValkeyStreamLog  # loads redis-py, which looks for hiredis

    return _ours(ValkeyStreamLog(address))


def _on_postgres(address: str) -> AgentApp:
    from coreason_client.server.log.postgres import PostgresStreamLog  # loads asyncpg

    return _ours(PostgresStreamLog(address))


def _fields() -> list[Any]:
    """Return the fields of the events, as sse-starlette documents them."""
    ready = [*tokens(_MOST - 1, _TOKEN, _STREAM), close(_MOST - 1, _STREAM)]
    return [{"id": f"{_STREAM}:{seq}", "data": data.decode()} for seq, data in enumerate(ready)]


def _bytes() -> list[Any]:
    ready = [*tokens(_MOST - 1, _TOKEN, _STREAM), close(_MOST - 1, _STREAM)]
    return list(events(ready, with_ids=True, stream=_STREAM))


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _chat_chunks() -> list[Any]:
    """Return chunks of a chat completion, ready made."""
    about = {"id": f"chatcmpl-{_STREAM.hex}", "created": 1_780_000_000, "model": MODEL}
    chunk = {**about, "object": "chat.completion.chunk"}
    choice = {"index": 0, "delta": {"content": _TOKEN}, "logprobs": None, "finish_reason": None}
    data = _compact({**chunk, "choices": [choice]})
    return [*({"data": data} for _ in range(_MOST)), {"data": "[DONE]"}]


def _response_events() -> list[Any]:
    """Return events of the Responses API, ready made."""
    kind = "response.output_text.delta"
    where = {"item_id": f"msg_{_STREAM.hex}_0", "output_index": 0, "content_index": 0}
    event = {"type": kind, **where, "delta": _TOKEN, "logprobs": []}
    numbered = [_compact({**event, "sequence_number": number}) for number in range(_MOST)]
    last = {"event": "response.completed", "data": "{}"}
    return [*({"event": kind, "data": data} for data in numbered), last]


def _sse_starlette(ready: list[Any]) -> Starlette:
    phases = _Phases()

    async def write(wanted: int) -> AsyncIterator[Any]:
        yield ready[0]
        await phases.pause()
        for event in ready[1 : wanted + 1]:
            yield event
            await asyncio.sleep(PERIOD)
        await asyncio.sleep(_PAUSE)
        yield ready[-1]

    async def assist(request: Request) -> Response:
        message = json.loads(await request.body())["payload"]["messages"][-1]
        return EventSourceResponse(write(int(message["parts"][0]["content"])))

    return Starlette(routes=[Route("/assist", assist, methods=["POST"])])


MEMORY, SQLITE, VALKEY = "memory log", "SQLite log", "Valkey log"
POSTGRES = "Postgres log"
FIELDS, BYTES = "sse-starlette", "sse-starlette given bytes"
CHUNKS, EVENTS = "sse-starlette with prepared chunks", "sse-starlette with prepared events"
_KINDS: dict[str, _Make] = {
    MEMORY: lambda _, __: _ours(MemoryStreamLog()),
    SQLITE: lambda folder, _: _ours(SQLiteStreamLog(folder / "log")),
    VALKEY: lambda _, address: _on_valkey(address),
    POSTGRES: lambda _, address: _on_postgres(address),
    FIELDS: lambda _, __: _sse_starlette(_fields()),
    BYTES: lambda _, __: _sse_starlette(_bytes()),
    CHUNKS: lambda _, __: _sse_starlette(_chat_chunks()),
    EVENTS: lambda _, __: _sse_starlette(_response_events()),
}


def _main(kind: str, stack: str, address: str = "") -> None:
    if stack == PLAIN:
        sys.modules["hiredis"] = None  # type: ignore[assignment] # as if it were not installed
    with tempfile.TemporaryDirectory() as folder:
        app = _KINDS[kind](Path(folder), address)
        with running(app, access_log=False, **STACKS[stack]) as server:
            answer(server.port)


if __name__ == "__main__":
    _main(*sys.argv[1:])
