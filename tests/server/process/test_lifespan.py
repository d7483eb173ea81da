"""The lifespan protocol of ASGI."""

from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from coreason_client.server.process._lifespan import serve_lifespan

from ..aio import aio

STARTED, STOPPED = {"type": "lifespan.startup.complete"}, {"type": "lifespan.shutdown.complete"}


class Server:
    """A server that records the messages and the steps of the application."""

    def __init__(self, start_error: Exception | None = None) -> None:
        self.events: list[object] = []
        self.start_error = start_error
        self.stop_error: Exception | None = None

    @asynccontextmanager
    async def context(self) -> AsyncIterator[None]:
        self.events.append("start")
        if self.start_error is not None:
            raise self.start_error
        yield
        self.events.append("stop")
        if self.stop_error is not None:
            raise self.stop_error

    async def receive(self) -> MutableMapping[str, Any]:
        self.events.append("receive")
        return {}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.events.append(dict(message))

    async def run(self) -> None:
        await serve_lifespan(self.context(), self.receive, self.send)


@aio
async def test_the_application_starts_and_stops_when_the_server_asks() -> None:
    server = Server()
    await server.run()
    assert server.events == ["receive", "start", STARTED, "receive", "stop", STOPPED]


@aio
async def test_a_start_that_fails_is_reported_with_its_sentence_and_nothing_follows() -> None:
    server = Server(ValueError("the log cannot be opened"))
    await server.run()
    failed = {"type": "lifespan.startup.failed", "message": "the log cannot be opened"}
    assert server.events == ["receive", "start", failed]


@aio
async def test_a_stop_that_fails_is_not_reported_as_complete() -> None:
    server = Server()
    server.stop_error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await server.run()
    assert server.events[-1] == "stop"
