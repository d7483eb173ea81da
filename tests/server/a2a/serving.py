"""An agent with many behaviours, served in this process without HTTP."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from starlette.datastructures import Headers

from coreason_client.server import (
    AgentApp,
    AgentStream,
    MemoryStreamLog,
    ServiceRequest,
    StreamLog,
)
from coreason_client.server.a2a import Operations
from coreason_client.server.a2a._operations import TaskService
from coreason_client.server.a2a._protocol import Caller
from coreason_client.server.a2a._reading import TaskStream
from coreason_client.server.engine._agent import Agent
from coreason_client.server.engine._packets import Frames
from coreason_client.server.engine._runtime import Runtime
from coreason_client.server.log.tasks import TaskLog, TaskStore

from ..aio import LIMIT
from ..faulty_log import runtime_of

ANN = Caller("agent/ann", "ann", Headers({}))
BOB = Caller("agent/bob", "bob", Headers({}))

LATE = asyncio.Event()  # a test replaces it by one of its own event loop


async def agent(request: ServiceRequest, stream: AgentStream) -> None:
    """Do what the question names, otherwise repeat it."""
    behave = BEHAVIOURS.get(stream.question)
    if behave is None:
        await stream.write(f"You said {stream.question}.")
    else:
        await behave(stream)


async def tell_and_ask(stream: AgentStream) -> None:
    await stream.write("Here.")
    await stream.ask("And where?")


async def late(stream: AgentStream) -> None:
    await LATE.wait()
    await stream.message("At last.")


async def wait(stream: AgentStream) -> None:
    await stream.write("Working.")
    await asyncio.Event().wait()


async def many(stream: AgentStream) -> None:
    for number in range(20):
        await stream.progress(f"step {number}")


async def silent(stream: AgentStream) -> None:
    for _ in range(600):  # more packets without an event than a page of the log has
        await stream.write_packet("EVENT", {"type": "QUESTION", "data": {"question": "?"}})
    await stream.write("Here.")


BEHAVIOURS: dict[str, Callable[[AgentStream], Awaitable[None]]] = {
    "tell and ask": tell_and_ask,
    "ask": lambda stream: stream.ask("Where?"),
    "sign in": lambda stream: stream.ask("Sign in.", auth=True),
    "reject": lambda stream: stream.reject("No."),
    "message": lambda stream: stream.message("Just this."),
    "late message": late,
    "wait": wait,
    "many": many,
    "silent": silent,
    "large": lambda stream: stream.write("x" * 1_100_000),
}


@dataclass(frozen=True, slots=True)
class Served:
    """A running application."""

    runtime: Runtime
    tasks: TaskStore
    operations: Operations
    service: TaskService

    @property
    def calls(self) -> dict[str, Any]:
        """The functions of the operations that do not stream."""
        return self.operations._services_of(self.runtime).calls


@asynccontextmanager
async def served(
    log: StreamLog | None = None, assist: Agent = agent, **options: Any
) -> AsyncIterator[Served]:
    log = MemoryStreamLog() if log is None else log
    options = {"a2a": True, "agent_id": "agent", **options}
    app = AgentApp(assist, log=log, **options)
    async with app.lifespan():
        runtime, operations = runtime_of(app), app._operations
        assert operations is not None
        assert isinstance(log, TaskLog)
        yield Served(runtime, log.tasks, operations, operations._services_of(runtime).tasks)


def message(text: str, message_id: str = "m", **ids: str) -> dict[str, Any]:
    parts = [{"text": text}]
    return {"message": {"messageId": message_id, "role": "ROLE_USER", "parts": parts, **ids}}


async def in_state(service: TaskService, task_id: str, state: str) -> dict[str, Any]:
    async with asyncio.timeout(LIMIT):
        while True:
            task = await service.get(ANN, {"id": task_id})
            if task["status"]["state"] == f"TASK_STATE_{state}":
                return task
            await asyncio.sleep(0.01)


async def written_anew(log: MemoryStreamLog, stream_id: UUID, kept: int, *texts: str) -> int:
    """Cut a stream back to so many packets, as a failover does, and write others in a new epoch.

    Return the epoch.
    """
    stream = log._store.streams[stream_id]
    del stream.entries[kept:]
    stream.last_seq = kept
    claim = await log.claim_held(stream_id, stream.epoch, "other")
    frames = Frames(stream_id, epoch=claim.epoch, first_seq=kept + 1)
    entries = [frames.delta(seq, text) for seq, text in enumerate(texts, kept + 1)]
    await log.append(stream_id, claim.epoch, kept + 1, entries)
    return claim.epoch


async def events_of(stream: TaskStream) -> list[dict[str, Any]]:
    """Read a stream to its end."""
    found: list[dict[str, Any]] = []
    while not stream.ended:
        found += [streamed.event for streamed in await stream.next(1.0)]
    stream.close()
    return found
