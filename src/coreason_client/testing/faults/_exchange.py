"""One request to the fault server, and the methods with which a fault answers it."""

from collections.abc import Iterable, Mapping
from typing import Any

from . import _wire as wire
from ._connection import Connection
from ._run import FaultRun, RecordedRequest
from ._wire import EVENT_STREAM, Packet, sse

__all__ = ["BadCursorError", "Exchange"]


class BadCursorError(ValueError):
    """The Last-Event-ID is none that this stream has sent."""


class Exchange:
    """One request, and the methods to answer it, correctly or not."""

    def __init__(self, connection: Connection, run: FaultRun, request: RecordedRequest) -> None:
        self.run = run
        self.request = request
        self.options: Mapping[str, Any] = run.options
        self.attempt = run.record.add_request(request)
        self.answered = False
        self.complete = False
        self._connection = connection
        self._chunked = True

    # The position of this attempt.

    @property
    def path_attempt(self) -> int:
        """The number of this request among those for the same path, counted from 1."""
        earlier = self.run.requests[: self.attempt]
        return sum(request.path == self.request.path for request in earlier)

    @property
    def fault_at(self) -> int:
        """The number of packets of the log that precede the fault on this attempt."""
        return self.run.fault_after + (self.attempt - 1) * int(self.options.get("every", 0))

    @property
    def has_fault(self) -> bool:
        """Whether a fault that affects some attempts affects this one."""
        first = self.attempt == 1
        again = self.attempt <= int(self.options.get("times", 1))
        return first or (again and self.fault_at < len(self.run.packets))

    def packets_after(self, last_event_id: str | None) -> list[Packet]:
        """Return what a correct server sends to a client with this Last-Event-ID."""
        if last_event_id is None or last_event_id == self.run.stream_id:
            return list(self.run.packets)
        stream_id, _, seq = last_event_id.rpartition(":")
        if stream_id != self.run.stream_id or not (seq.isascii() and seq.isdigit()):
            raise BadCursorError(last_event_id)
        return [packet for packet in self.run.packets if packet.seq > int(seq)]

    def remaining(self) -> list[Packet]:
        """Return what a correct server sends in answer to this request."""
        return self.packets_after(self.request.last_event_id)

    def split(self) -> tuple[list[Packet], list[Packet]]:
        """Return the remaining packets before the fault and those after it."""
        remaining = self.remaining()
        already = len(self.run.packets) - len(remaining)
        at = max(self.fault_at - already, 0)
        return remaining[:at], remaining[at:]

    # Bytes.

    async def send(self, data: bytes) -> None:
        """Send raw bytes."""
        self.answered = True
        await self._connection.send(data)

    async def head(
        self,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        content_type: str | None = EVENT_STREAM,
        *,
        chunked: bool = True,
    ) -> None:
        """Start a streamed response, chunked or ended by the end of the connection."""
        self._chunked = chunked
        fields = wire.stream_headers(content_type, headers, chunked=chunked)
        await self.send(wire.response_head(status, fields))

    async def chunk(self, data: bytes) -> None:
        """Send data as one HTTP chunk, or as it is when the body has no framing."""
        await self.send(wire.chunk(data) if self._chunked else data)

    async def part(self, data: bytes, keep: int) -> None:
        """Announce all of the data as a chunk, but send only its first bytes."""
        announced = wire.chunk_header(len(data)) if self._chunked and data else b""
        await self.send(announced + data[:keep])

    async def respond(
        self,
        status: int,
        body: bytes = b"",
        *,
        content_type: str = "text/plain",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a whole response with a length."""
        fields = dict(headers or {})
        if wire.has_body(status):
            fields |= {"Content-Type": content_type, "Content-Length": str(len(body))}
        else:
            body = b""
        await self.send(wire.response_head(status, fields) + body)
        self.complete = True

    # Ends.

    async def end(self) -> None:
        """End the body cleanly; the connection stays usable if the framing allows it."""
        if self._chunked:
            await self.send(wire.LAST_CHUNK)
            self.complete = True
        else:
            await self.fin()

    async def fin(self) -> None:
        """End the connection with FIN."""
        self._connection.fin()

    async def stop(self, how: str) -> None:
        """End the response: `end` completes the body, `fin` and `rst` end the connection."""
        if how == "rst":
            self._connection.rst()
        else:
            await (self.end() if how == "end" else self.fin())

    async def hang(self) -> None:
        """Send nothing until the client goes away or the server stops."""
        self.run.record.add_hanging(1)
        try:
            await self._connection.until_gone()
        finally:
            self.run.record.add_hanging(-1)

    # Complete answers.

    async def events(
        self, packets: Iterable[Packet], *, with_id: bool = True, eol: bytes = b"\n"
    ) -> None:
        """Send packets, one event and one chunk each."""
        for packet in packets:
            await self.chunk(sse(packet, with_id=with_id, eol=eol))

    async def until_fault(
        self, *, chunked: bool = True, with_id: bool = True, eol: bytes = b"\n"
    ) -> list[Packet]:
        """Send a head and what precedes the fault, and return the packets that are left."""
        before, rest = self.split()
        await self.head(chunked=chunked)
        await self.events(before, with_id=with_id, eol=eol)
        return rest

    async def serve(
        self,
        packets: Iterable[Packet],
        *,
        with_id: bool = True,
        eol: bytes = b"\n",
        content_type: str = EVENT_STREAM,
        headers: Mapping[str, str] | None = None,
        end: bool = True,
    ) -> None:
        """Send a head, these packets and a clean end, or no end at all."""
        await self.head(headers=headers, content_type=content_type)
        await self.events(packets, with_id=with_id, eol=eol)
        await (self.end() if end else self.hang())

    async def serve_rest(self) -> None:
        """Answer this request correctly."""
        await self.serve(self.remaining())
