"""A plain HTTP peer for the server, and agents that do as a test tells them."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import httpx2

from coreason_client.sse import ServerSentEvent, SSEDecoder
from coreason_manifest.definitions.presentation import StreamPacket, parse_packet

LIMIT = 10.0


def envelope(text: str = "hi", session: str = "s", **more: Any) -> dict[str, Any]:
    """The body of a request, as plain data."""
    return {
        "request_id": str(uuid4()),
        "context": {"session_id": session, "user_id": "u"},
        "payload": {"messages": [{"role": "user", "parts": [{"type": "text", "content": text}]}]},
        **more,
    }


class Peer:
    """Asks one server."""

    def __init__(self, url: str, key: str | None = None) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.http = httpx2.Client(base_url=url, headers=headers, timeout=LIMIT)

    def ask(self, body: object = None, cursor: str | None = None, **headers: str) -> "Answer":
        """Ask, and read the answer to its end."""
        with self.open(body, cursor, **headers) as answer:
            answer.rest()
        return answer

    @contextmanager
    def open(
        self, body: object = None, cursor: str | None = None, path: str = "/assist", **headers: str
    ) -> Iterator["Answer"]:
        """Ask, and leave the answer open."""
        if cursor is not None:
            headers["Last-Event-ID"] = cursor
        content = body if isinstance(body, bytes) else json.dumps(body or envelope()).encode()
        headers = {"Content-Type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        with self.http.stream("POST", path, content=content, headers=headers) as response:
            yield Answer(response)

    def cancel(self, stream_id: object) -> int:
        return self.http.delete(f"/streams/{stream_id}").status_code

    def close(self) -> None:
        self.http.close()


class Answer:
    """The response so far."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self.status = response.status_code
        self.headers = response.headers
        self.raw = b""
        self.events: list[ServerSentEvent] = []
        self.decoder = SSEDecoder()
        self._chunks = response.iter_raw()

    @property
    def packets(self) -> list[StreamPacket]:
        return [parse_packet(event.data_bytes) for event in self.events]

    @property
    def payloads(self) -> list[Any]:
        return [packet.p for packet in self.packets]

    @property
    def text(self) -> str:
        return "".join(packet.p for packet in self.packets if packet.op == "DELTA")

    @property
    def seqs(self) -> list[int]:
        return [packet.seq for packet in self.packets]

    @property
    def stream_id(self) -> str:
        return str(self.headers["x-stream-id"])

    @property
    def last(self) -> StreamPacket:
        return self.packets[-1]

    @property
    def problem(self) -> dict[str, Any]:
        assert self.headers["content-type"] == "application/problem+json"
        document: dict[str, Any] = json.loads(self.raw)
        assert document["status"] == self.status
        return document

    def rest(self) -> "Answer":
        """Read to the end of the body."""
        for chunk in self._chunks:
            self._take(chunk)
        return self

    def until(self, count: int) -> "Answer":
        """Read until so many packets have come."""
        while len(self.events) < count:
            self._take(next(self._chunks))
        return self

    def until_raw(self, wanted: bytes) -> "Answer":
        """Read until these bytes have come."""
        while wanted not in self.raw:
            self._take(next(self._chunks))
        return self

    def _take(self, chunk: bytes) -> None:
        self.raw += chunk
        if self.status == 200:
            self.events += self.decoder.feed(chunk)


class Gate:
    """Something that an agent waits for in the server's thread until the test opens it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened = False
        self._waiting: list[asyncio.Future[None]] = []
        self.reached = threading.Event()

    async def wait(self) -> None:
        with self._lock:
            self.reached.set()
            if self._opened:
                return
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
        await future

    def open(self) -> None:
        with self._lock:
            self._opened = True
            for future in self._waiting:
                if not future.get_loop().is_closed():
                    future.get_loop().call_soon_threadsafe(_release, future)

    def seen(self) -> None:
        """Wait until an agent has come here."""
        assert self.reached.wait(LIMIT)


class Gates(dict[str, Gate]):
    """Gates by name; the test and the server's thread may both be the first to ask for one."""

    def __missing__(self, name: str) -> Gate:
        return self.setdefault(name, Gate())  # atomic, unlike a defaultdict


def _release(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def wait_for(event: threading.Event) -> None:
    """Wait for something that must happen."""
    assert event.wait(LIMIT)
