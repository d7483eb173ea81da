"""A reader that disconnects at the moment in which its response ends."""

import asyncio
from typing import Any

from coreason_client.server.cap._response import EventStream

from .aio import aio, turns


@aio
async def test_a_disconnect_in_the_last_moment_is_not_an_error() -> None:
    loop = asyncio.get_running_loop()
    errors: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: errors.append(context))
    delivered = loop.create_future()

    class Ending(EventStream):
        async def _deliver(self, scope: Any, send: Any) -> None:
            await delivered

    async def receive() -> dict[str, str]:
        delivered.set_result(None)  # the response ends before the disconnect is noticed
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        raise AssertionError("nothing is sent")

    response = Ending.__new__(Ending)
    await response._serve({}, receive, send)
    await turns()
    assert errors == []
