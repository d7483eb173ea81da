"""Readers over HTTP that are behind when the server drains."""

import asyncio
from typing import Any

from pydantic_core import to_json

from coreason_client.server import AgentApp

from ..aio import LIMIT, aio
from .grpc_peer import Doors, make_agent

MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "much"}]}
BODY = to_json({"message": MESSAGE})
SCOPE: dict[str, Any] = {
    "type": "http",
    "method": "POST",
    "path": "/a2a/message:stream",
    "query_string": b"",
    "root_path": "",
    "scheme": "http",
    "http_version": "1.1",
    "headers": [
        (b"host", b"localhost"),
        (b"content-type", b"application/json"),
        (b"content-length", str(len(BODY)).encode()),
        (b"a2a-version", b"1.0"),
    ],
}


@aio
async def test_a_reader_that_is_behind_gets_everything_after_the_drain() -> None:
    app = AgentApp(make_agent(Doors()), a2a=True, drain_timeout=LIMIT)
    reads, sent, arrived = asyncio.Event(), bytearray(), asyncio.Event()
    messages: asyncio.Queue[Any] = asyncio.Queue()
    messages.put_nowait({"type": "http.request", "body": BODY})

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            arrived.set()
            await reads.wait()
            sent.extend(message["body"])

    async with app.lifespan():
        response = asyncio.ensure_future(app(dict(SCOPE), messages.get, send))
        await asyncio.wait_for(arrived.wait(), LIMIT)
        await app.drain()
        reads.set()
        await asyncio.wait_for(response, LIMIT)
    assert sent.count(b"x") >= 200 * 50_000
    assert b"TASK_STATE_COMPLETED" in sent
