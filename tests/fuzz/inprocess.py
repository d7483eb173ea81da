"""The application without a socket: one ASGI call after the other, each within a time.

What an application raises is raised here; a server would turn it into a 500 and a line in a log.
"""

import asyncio
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from coreason_client.server import AgentApp

__all__ = ["Answered", "InProcess", "in_process"]

LIMIT = 10.0

Pairs = Iterable[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Answered:
    """A whole response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def problem(self) -> dict[str, Any]:
        """The problem document; that it is one is checked."""
        assert self.headers["content-type"] == "application/problem+json"
        document: dict[str, Any] = json.loads(self.body)
        assert document["status"] == self.status
        assert document["type"].startswith("urn:coreason:problem:")
        assert document["title"]
        assert document["detail"]
        return document


class InProcess:
    """Calls an application on its own event loop."""

    def __init__(self, app: AgentApp, runner: asyncio.Runner) -> None:
        self.app = app
        self._runner = runner

    def ask(
        self,
        body: bytes | Iterable[bytes] = b"",
        headers: Pairs = ((b"content-type", b"application/json"),),
        *,
        method: str = "POST",
        path: str = "/assist",
    ) -> Answered:
        """Send a request and read the answer to its end."""
        chunks = [body] if isinstance(body, bytes) else list(body)
        call = self._call(method, path, list(headers), chunks)
        return self._runner.run(asyncio.wait_for(call, LIMIT))

    async def _call(
        self, method: str, path: str, headers: list[tuple[bytes, bytes]], chunks: list[bytes]
    ) -> Answered:
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode("utf-8", "replace"),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in headers],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        waiting = list(chunks) or [b""]
        sent: list[Any] = []
        gone = asyncio.Event()

        async def receive() -> Any:
            if waiting:
                chunk = waiting.pop(0)
                return {"type": "http.request", "body": chunk, "more_body": bool(waiting)}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        start, *pieces = sent
        named = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in start["headers"]
        }
        return Answered(start["status"], named, b"".join(piece["body"] for piece in pieces))


@contextmanager
def in_process(app: AgentApp) -> Iterator[InProcess]:
    """Run an application while the block runs."""
    with asyncio.Runner() as runner:
        lifespan = app.lifespan()
        runner.run(lifespan.__aenter__())
        try:
            yield InProcess(app, runner)
        finally:
            runner.run(lifespan.__aexit__(None, None, None))
