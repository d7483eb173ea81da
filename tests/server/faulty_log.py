"""A log of which any method can fail, and streams on it that run without a reader."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

from starlette.datastructures import Headers

from coreason_client.server import AgentApp, AgentStream, LogUnavailable, MemoryStreamLog
from coreason_client.server.engine._conversation import dump_question
from coreason_client.server.engine._runtime import Runtime
from coreason_client.server.log import NewStream, StreamMeta
from coreason_manifest.definitions.service import ServiceRequest

from .aio import turns
from .peer import envelope

WRITES = ("open", "append", "close", "renew", "claim_lost", "add_turn")


class Faulty(MemoryStreamLog):
    """A log of which any method can be made to fail."""

    def __init__(self, *failing: str, **options: Any) -> None:
        super().__init__(**options)
        self.faults: dict[str, Exception] = {}
        self.calls: list[str] = []
        self.fail(*failing)
        # A turn of a task is opened and ended together with its task.
        for name, part in (("open", "begin"), ("close", "end")):
            setattr(self.tasks, part, self._failing(name, getattr(self.tasks, part)))

    def _failing(self, name: str, method: Any) -> Any:
        async def call(*args: Any) -> Any:
            self.calls.append(name)
            if name in self.faults:
                raise self.faults[name]
            return await method(*args)

        return call

    def fail(self, *methods: str, error: Exception | None = None) -> None:
        self.faults |= dict.fromkeys(methods, error or LogUnavailable("the store is full"))

    def repair(self) -> None:
        self.faults.clear()

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name == "begin_append" and "append" in self.faults:
            raise self.faults["append"]
        if name not in (*WRITES, "expire", "read", "meta"):
            return value

        return self._failing(name, value)


class SharedFaulty(Faulty):
    shared = True


def runtime_of(app: AgentApp) -> Runtime:
    assert app._runtime is not None
    return app._runtime


async def silent(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("a")
    await asyncio.Event().wait()


async def open_orphan(log: MemoryStreamLog) -> UUID:
    """Open a stream that nobody writes to."""
    stream_id = uuid4()
    await log.open(NewStream(stream_id, "silent/anybody", uuid4(), "print"), "dead")
    return stream_id


async def start_stream(app: AgentApp, log: MemoryStreamLog) -> StreamMeta:
    """Set the agent to work without a reader."""
    request = ServiceRequest.model_validate(envelope())
    question = dump_question("silent/anybody", request)
    new = NewStream(uuid4(), "silent/anybody", request.request_id, "print", question)
    opened = await log.open(new, runtime_of(app).owner)
    runtime_of(app).producers.start(request, opened.meta, Headers({}), 0.0)
    await turns()
    return opened.meta
