"""The same agent served over A2A 1.0 by our server and by that of a2a-sdk, under uvicorn."""

import asyncio
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette

from coreason_client.server import (
    AgentApp,
    AgentStream,
    MemoryStreamLog,
    ServiceRequest,
    SQLiteStreamLog,
    StreamLog,
    running,
)

from ._child import answer

__all__ = ["CHUNKS", "KINDS", "PATH", "SHORT", "WORDS"]

CHUNKS = 250
"""Of a stream."""
WORDS = "in every region, most of all so. "
SHORT = "short"
"""The question whose answer is a single chunk."""
PATH = "/a2a"


def _count(question: str) -> int:
    return 1 if question == SHORT else CHUNKS


def _ours(log: StreamLog) -> AgentApp:
    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        for _number in range(_count(stream.question)):
            await stream.write(WORDS)
            await asyncio.sleep(0)

    return AgentApp(agent, log=log, a2a=True)


class _Executor(AgentExecutor):
    """The agent, as a2a-sdk wants it."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        assert context.task_id is not None
        assert context.context_id is not None
        await event_queue.enqueue_event(new_task_from_user_message(context.message))
        task = TaskUpdater(event_queue, context.task_id, context.context_id)
        await task.start_work()
        count = _count(context.get_user_input())
        for number in range(count):
            await task.add_artifact(
                [new_text_part(WORDS)],
                artifact_id="answer",
                append=number > 0,
                last_chunk=number == count - 1,
            )
            await asyncio.sleep(0)
        await task.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


def _theirs() -> Starlette:
    interface = AgentInterface(
        url="http://localhost", protocol_binding="JSONRPC", protocol_version="1.0"
    )
    card = AgentCard(
        name="agent",
        description="Writes text.",
        version="1",
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="write", name="Write", description="Writes.", tags=["text"])],
        supported_interfaces=[interface],
        capabilities=AgentCapabilities(streaming=True),
    )
    handler = DefaultRequestHandler(
        agent_executor=_Executor(), task_store=InMemoryTaskStore(), agent_card=card
    )
    return Starlette(routes=[*create_jsonrpc_routes(handler, PATH)])


KINDS: dict[str, Callable[[Path], Any]] = {
    "memory log": lambda _: _ours(MemoryStreamLog()),
    "SQLite log": lambda folder: _ours(SQLiteStreamLog(folder / "log")),
    "a2a-sdk": lambda _: _theirs(),
}

if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory() as _folder,
        running(KINDS[sys.argv[1]](Path(_folder)), access_log=False) as _server,
    ):
        answer(_server.port)
