"""A connection to the store."""

import asyncio
from typing import Any

import pytest
from redis.exceptions import ConnectionError as StoreConnectionError
from redis.exceptions import ResponseError

from coreason_client.server.log.remote._clocks import RunClock
from coreason_client.server.log.remote._command_queue import Health, Job
from coreason_client.server.log.valkey._errors import is_transient
from coreason_client.server.log.valkey._link import ClusterLink, _RespProtocol

from ..aio import aio, turns


class SlowTransport(asyncio.Transport):
    """Takes bytes, and has some of them still to send."""

    def __init__(self) -> None:
        super().__init__()
        self.unsent = 0

    def write(self, data: Any) -> None:
        self.unsent += len(data)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def abort(self) -> None:
        pass


@aio
async def test_a_connection_that_still_sends_is_not_silent() -> None:
    clock = RunClock(1.0)
    health, transport = Health(clock, is_transient), SlowTransport()
    protocol = _RespProtocol(health, lambda: None, lambda: None)
    protocol.connection_made(transport)
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    protocol.send([Job(("SET", "a", b"x" * 1000), future, clock.mark())])
    for second in range(1, 21):
        clock.tick(float(second))
        transport.unsent -= 10
        assert not protocol.is_silent(5.0)
    assert health.last_activity == 20.0
    for second in range(21, 30):
        clock.tick(float(second))
        assert protocol.is_silent(5.0) == (second > 25)
    protocol.abort(ResponseError("too late"))
    assert str(future.exception()) == "too late"


@pytest.mark.parametrize("error", [AttributeError("no writer"), RuntimeError("closed")])
@aio
async def test_a_connection_that_breaks_in_the_client_library_is_a_lost_one(
    error: Exception,
) -> None:
    """So the command is sent again, and no caller sees an error of the library's code."""

    async def execute(*_: object) -> None:
        raise error

    idle: list[bool] = []
    health = Health(RunClock(1.0), is_transient)
    link = ClusterLink(execute, 1.0, health, lambda: idle.append(True))
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    link.send([Job(("GET", "a"), future, health.clock.mark())])
    await turns()
    assert idle == [True]
    assert isinstance(future.exception(), StoreConnectionError)
