"""An application without sockets, on an event loop whose clock moves only when a test says so."""

import asyncio
import functools
import json
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec
from uuid import UUID

from coreason_client.server import AgentApp
from coreason_client.sse import SSEDecoder
from coreason_manifest.definitions.presentation import StreamPacket, parse_packet

from .aio import turns
from .peer import LIMIT, envelope

P = ParamSpec("P")


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop for tests of timers: an hour passes at once, and no second by itself.

    After the test time passes by itself, and quickly: whatever a failed test has left behind
    comes to its end.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now = 1000.0
        self._released_at: float | None = None

    def time(self) -> float:
        if self._released_at is None:
            return self._now
        return self._now + 100 * (time.monotonic() - self._released_at)

    def release(self) -> None:
        """Let time pass by itself from now on."""
        self._released_at = time.monotonic()
        self.call_soon(lambda: None)

    async def forward(self, seconds: float) -> None:
        """Let time pass, and let everything run that is due then."""
        await turns()  # timers that are about to be set begin now
        self._now += seconds
        await turns()


def virtual(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test on a virtual loop, within a time on the real clock.

    Wait with `until`: no timeout fires by itself.
    """

    async def bounded(*args: P.args, **kwargs: P.kwargs) -> None:
        loop = virtual_loop()
        task = asyncio.ensure_future(test(*args, **kwargs))
        limit = threading.Timer(2 * LIMIT, loop.call_soon_threadsafe, [task.cancel])
        limit.start()
        task.add_done_callback(lambda _: loop.release())
        try:
            await task
        finally:
            limit.cancel()

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(bounded(*args, **kwargs))

    return run


def virtual_loop() -> VirtualLoop:
    """Return the loop of the running test."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that must happen without time passing on the loop."""
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0)


class Call:
    """A request for a stream, as a server would hand it to the application."""

    def __init__(
        self,
        app: AgentApp,
        body: object = None,
        cursor: str | None = None,
        *,
        key: str | None = None,
        stuck: bool = False,
        body_arrives: asyncio.Event | None = None,
    ) -> None:
        self._content = json.dumps(body or envelope()).encode()
        self._stuck = stuck
        self._body_arrives = body_arrives
        self.body_wanted = False
        self._left = asyncio.Event()
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.stream_id: UUID | None = None
        self.raw = b""
        self.complete = False
        headers = [(b"host", b"127.0.0.1:8000"), (b"content-type", b"application/json")]
        if key is not None:
            headers.append((b"authorization", b"Bearer " + key.encode()))
        if cursor is not None:
            headers.append((b"last-event-id", cursor.encode()))
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/assist",
            "raw_path": b"/assist",
            "root_path": "",
            "query_string": b"",
            "headers": headers,
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 8000),
        }
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    @property
    def packets(self) -> list[StreamPacket]:
        return [parse_packet(event.data_bytes) for event in SSEDecoder().feed(self.raw)]

    @property
    def text(self) -> str:
        return "".join(packet.p for packet in self.packets if packet.op == "DELTA")

    async def leave(self) -> None:
        """Close the connection, and return when the application has noticed."""
        self._left.set()
        await until(self.task.done)
        await self.task

    async def end(self) -> "Call":
        """Return when the response is complete."""
        await until(self.task.done)
        await self.task
        assert self.complete
        return self

    async def _receive(self) -> dict[str, Any]:
        if not self.body_wanted:
            self.body_wanted = True
            if self._body_arrives is not None:
                await self._body_arrives.wait()
            return {"type": "http.request", "body": self._content, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = dict(message["headers"])
            named = self.headers.get(b"x-stream-id")
            self.stream_id = None if named is None else UUID(named.decode())
            return
        self.raw += message.get("body", b"")
        self.complete = not message.get("more_body", False)
        if self._stuck and self.raw:
            await asyncio.Event().wait()  # a connection that takes no more
