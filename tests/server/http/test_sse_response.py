"""A reader that disconnects at the moment in which its response ends."""

import asyncio
from typing import Any

import pytest

from coreason_client.server.http._stream_response import while_connected

from ..aio import aio, turns


@aio
async def test_a_disconnect_in_the_last_moment_is_not_an_error() -> None:
    loop = asyncio.get_running_loop()
    errors: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: errors.append(context))
    delivered = loop.create_future()

    async def receive() -> dict[str, str]:
        delivered.set_result(None)  # the response ends before the disconnect is noticed
        return {"type": "http.disconnect"}

    await while_connected({}, receive, delivered)
    await turns()
    assert errors == []


@aio
async def test_work_is_cancelled_when_its_client_disconnects() -> None:
    left: list[bool] = []

    async def work() -> str:
        try:
            await asyncio.sleep(20)
        finally:
            left.append(True)
        return "nobody gets it"

    async def receive() -> dict[str, str]:
        return {"type": "http.disconnect"}

    assert await while_connected({}, receive, work()) is None
    assert left == [True]


@aio
async def test_a_timeout_of_the_work_itself_is_its_error() -> None:
    async def work() -> None:
        raise TimeoutError("of the work")

    async def receive() -> dict[str, str]:
        await asyncio.sleep(20)
        raise AssertionError("unreachable")

    with pytest.raises(TimeoutError, match="of the work"):
        await while_connected({}, receive, work())
