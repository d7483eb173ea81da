"""An ASGI application around an agent: it records requests, and ends connections as planned."""

import json
import re
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from uuid import UUID

from ..server._internals import response_cycle
from ._secret_names import HiddenHeaders

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

ABORT: Final = "coreason.testing.abort"
"""The key in the scope for a function that ends the connection, if the server is not uvicorn."""


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request as it arrived.

    `path` is without the query. `headers` has lower-case names; the representation has no
    credentials.
    """

    method: str
    path: str
    headers: HiddenHeaders
    body: bytes

    @property
    def last_event_id(self) -> str | None:
        """The position after which the client wants to continue."""
        return self.headers.get("last-event-id")

    def json(self) -> Any:
        """Return the parsed body."""
        return json.loads(self.body)


class RecordingApp:
    """Passes requests to an application and records them."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._requests: list[ReceivedRequest] = []
        self._cuts: dict[UUID, list[int]] = {}  # planned, by stream
        self._readers: set[_CountedResponse] = set()
        self._disconnects = 0

    @property
    def requests(self) -> list[ReceivedRequest]:
        with self._lock:
            return list(self._requests)

    @property
    def disconnects(self) -> int:
        """The number of connections that were ended."""
        return self._disconnects

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve as ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = await _read_body(receive)
        with self._lock:
            self._requests.append(_request(scope, body))
        reader = _CountedResponse(self, scope, send)
        self._readers.add(reader)
        try:
            await self._app(scope, _replaying(body, receive), reader.send)
            while reader.ended and (await receive())["type"] != "http.disconnect":
                pass  # a server reports a response without an end, unless the client is gone
        finally:
            self._readers.discard(reader)

    def cut_after(self, stream_id: UUID, seq: int) -> None:
        """End one connection of a stream after this packet."""
        self._cuts.setdefault(stream_id, []).append(seq)
        for reader in tuple(self._readers):
            reader.check()

    def planned(self, stream_id: UUID | None) -> int | None:
        """Return the packet after which a connection of the stream has to be ended next."""
        cuts = None if stream_id is None else self._cuts.get(stream_id)
        return cuts[0] if cuts else None

    def has_cut(self, stream_id: UUID) -> None:
        """Record that a connection was ended as planned."""
        del self._cuts[stream_id][0]
        self._disconnects += 1


class _CountedResponse:
    """One response; it counts the packets that are sent and ends the connection as planned."""

    def __init__(self, app: RecordingApp, scope: Message, send: Send) -> None:
        self._app = app
        self._send = send
        self._scope = scope
        self._stream_id: UUID | None = None
        self._sent = -1  # no head yet
        self.ended = False

    async def send(self, message: Message) -> None:
        if self.ended:
            return
        if message["type"] == "http.response.start":
            await self._send(message)
            headers = dict(message.get("headers", ()))
            if (found := headers.get(b"x-stream-id")) is not None:
                self._stream_id = UUID(found.decode())
                self._sent = _start(self._scope)
            self.check()
            return
        planned = self._app.planned(self._stream_id)
        if planned is None:
            await self._pass(message, message.get("body", b""))
        else:
            await self._send_until(planned, message)

    async def _pass(self, message: Message, body: bytes) -> None:
        await self._send({**message, "body": body})
        if (number := last_packet(body)) is not None:
            self._sent = number
        self.check()

    async def _send_until(self, planned: int, message: Message) -> None:
        """Send the events up to a packet, and the rest only if there is none after it."""
        allowed = b""
        for event in split_events(message.get("body", b"")):
            number = packet_of(event)
            if number is not None and number > planned:
                await self._pass({**message, "more_body": True}, allowed)
                self.end()
                return
            allowed += event
        await self._pass(message, allowed)

    def check(self) -> None:
        """End the connection if the packet of the plan was sent."""
        planned = self._app.planned(self._stream_id)
        if planned is not None and self._sent >= planned:
            self.end()

    def end(self) -> None:
        """End the connection without the end of the response."""
        if self.ended or self._stream_id is None:
            return
        self.ended = True
        self._app.has_cut(self._stream_id)
        abort = self._scope.get(ABORT)
        cycle = response_cycle(self._send)
        if abort is None and cycle is not None:
            abort = cycle.transport.close  # what was written is still sent
        if abort is None:
            raise RuntimeError("disconnect() needs `with fake_agent(…)` or `in_process()`")
        abort()


async def _read_body(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that returns a body which was read already, and then what follows."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return replay


def _request(scope: Message, body: bytes) -> ReceivedRequest:
    pairs = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
    return ReceivedRequest(scope["method"], scope["path"], HiddenHeaders(pairs), body)


def _start(scope: Message) -> int:
    """Return the number of the packet after which a response starts."""
    cursor = dict(scope["headers"]).get(b"last-event-id", b"")
    return packet_of(b"id: " + cursor) or 0


# Events in the bytes of our server.

# `<stream_id>:<seq>`, and in a durable stream `<stream_id>:<seq>:<epoch>`.
_ID: Final = re.compile(rb"^id: ?[^:\n]*:(\d+)(?::\d+)?\r?$", re.MULTILINE)
_AFTER_EVENT: Final = re.compile(rb"(?<=\n\n)")


def split_events(data: bytes) -> list[bytes]:
    """Return the events of some bytes; the last item is the rest, empty if there is none."""
    return _AFTER_EVENT.split(data)


def packet_of(event: bytes) -> int | None:
    """Return the number in the id of an event, None if it has no number."""
    match = _ID.search(event)
    return None if match is None else int(match[1])


def last_packet(data: bytes) -> int | None:
    """Return the number in the id of the last event that has one."""
    numbers = _ID.findall(data)
    return int(numbers[-1]) if numbers else None
