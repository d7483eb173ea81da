"""Connections that can be cut on purpose, to show that streams are resumed.

The rules do no I/O: a connection comes with the function that closes it. `serve_cuttable` makes the
connections of any application cuttable. A connection belongs to a stream by its `X-Stream-ID`, or
by the first packet if the agent does not send that header.
"""

import asyncio
import random
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from uuid import UUID

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from .._internals import SEND, response_cycle

# The numbers of packets after which the connections of a stream are cut, from a seed. Pure.

_MOST_PACKETS: Final = 20
# Each connection lasts longer than the one before, so a long answer is not cut without end.
_GROWTH: Final = 1.2


class CutPlan:
    """The plan of one stream; the same for the same seed."""

    __slots__ = ("_factor", "_random")

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._factor = 1.0

    def next(self) -> int:
        """Return the number of packets for the next connection, at least 1."""
        packets = int(self._random.randint(1, _MOST_PACKETS) * self._factor)
        self._factor *= _GROWTH
        return packets


READ_TIME: Final = 0.1
"""Seconds between the last packet of a plan and the cut.

A browser drops what it has received and not yet read when a connection breaks. Without this time
the connections of a plan would bring it nothing.
"""

_MAX_PLANS: Final = 1000  # anybody may send seeds for new streams, so the oldest are dropped


class CuttableConnection:
    """One connection that reads a stream; `left` packets may still be sent, None for any number."""

    __slots__ = ("abort", "left")

    def __init__(self, abort: Callable[[], None], left: int | None) -> None:
        self.abort = abort
        self.left = left

    def sent(self, packets: int) -> None:
        """Count packets that were sent."""
        if self.left is not None:
            self.left -= packets


class Cuts:
    """The connections of all streams, and the plans of those that have one."""

    def __init__(self) -> None:
        self._connections: dict[UUID, set[CuttableConnection]] = {}
        self._plans: dict[UUID, CutPlan] = {}

    @contextmanager
    def reading(self, stream_id: UUID, abort: Callable[[], None]) -> Iterator[CuttableConnection]:
        """Keep a connection while the block runs; a plan of the stream limits its packets."""
        plan = self._plans.get(stream_id)
        connection = CuttableConnection(abort, None if plan is None else plan.next())
        self._connections.setdefault(stream_id, set()).add(connection)
        try:
            yield connection
        finally:
            self._connections[stream_id].discard(connection)
            if not self._connections[stream_id]:
                del self._connections[stream_id]

    def cut(self, stream_id: UUID, seed: int | None = None) -> None:
        """Cut all connections of a stream now, and those that follow by the plan of a seed.

        Without a seed those that follow are not cut.
        """
        self._plans.pop(stream_id, None)
        if seed is not None:
            if len(self._plans) >= _MAX_PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[stream_id] = CutPlan(seed)
        for connection in tuple(self._connections.get(stream_id, ())):
            connection.abort()


_SEARCHED: Final = 64 * 1024
_STREAM_ID: Final = re.compile(rb'"stream_id"\s*:\s*"([0-9a-fA-F-]{36})"')


async def serve_cuttable(
    app: ASGIApp, cuts: Cuts, scope: Scope, receive: Receive, send: Send
) -> None:
    """Serve a request; if the response is a stream, `cuts` may end its connection."""
    with ExitStack() as stack:
        await app(scope, receive, _Response(cuts, scope, send, stack).send)


class _Response:
    """One response; everything that the application sends passes here."""

    def __init__(self, cuts: Cuts, scope: Scope, send: Send, stack: ExitStack) -> None:
        self._cuts = cuts
        self._scope = scope
        self._send = send
        self._stack = stack
        self._is_stream = False
        self._is_cut = False
        self._head = b""  # searched for the id of the stream
        self._connection: CuttableConnection | None = None
        self._events = EventCount()

    async def send(self, message: Any) -> None:
        """Pass a message of the application on."""
        if self._is_cut:
            return
        if message["type"] == "http.response.start":
            self._begin(Headers(raw=list(message["headers"])))
            await self._send(message)
        elif self._is_stream:
            await self._send_events(message)
        else:
            await self._send(message)

    def _begin(self, headers: Headers) -> None:
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        self._is_stream = media_type == "text/event-stream"
        if self._is_stream:
            self._join(headers.get("x-stream-id", ""))

    def _join(self, stream_id: str) -> None:
        try:
            found = UUID(stream_id)
        except ValueError:
            return
        reading = self._cuts.reading(found, self._cut_soon)
        self._connection = self._stack.enter_context(reading)

    def _cut_soon(self) -> None:
        self._is_cut = True
        abort_soon(self._scope)

    async def _send_events(self, message: Any) -> None:
        body: bytes = message.get("body", b"")
        if self._connection is None and len(self._head) < _SEARCHED:
            self._head += body[:_SEARCHED]
            if found := _STREAM_ID.search(self._head):
                self._join(found[1].decode())
        left = None if self._connection is None else self._connection.left
        before = self._events.count
        end = self._events.feed(body, left)
        if left is None or self._connection is None:
            await self._send(message)
            return
        self._connection.sent(self._events.count - before)
        if self._connection.left:
            await self._send(message)
            return
        await self._send({**message, "body": body[:end], "more_body": True})
        self._is_cut = True
        await asyncio.sleep(READ_TIME)
        await abort(self._scope)


_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_DATA: Final = b"data:"


class EventCount:
    """Counts events that have data; comments and fields without data are not packets."""

    __slots__ = ("_after_cr", "_has_data", "_line", "count")

    def __init__(self) -> None:
        self.count = 0
        self._line = b""  # the first bytes of a line that has not ended
        self._has_data = False
        self._after_cr = False  # a line feed at the start belongs to the line before

    def feed(self, chunk: bytes, most: int | None = None) -> int:
        """Count the events that end in a chunk, and return its length.

        If that would be more than `most` events, the length up to the end of the last of them is
        returned, and the rest of the chunk is ignored.
        """
        last = None if most is None else self.count + most
        start = 1 if self._after_cr and chunk[:1] == b"\n" else 0
        if chunk:
            self._after_cr = chunk[-1:] == b"\r"
        for match in _LINE_END.finditer(chunk, start):
            line = self._line + chunk[start : match.start()]
            self._line, start = b"", match.end()
            if line:
                self._has_data = self._has_data or line.startswith(_DATA)
            elif self._has_data:
                self._has_data = False
                self.count += 1
                if self.count == last:
                    return start
        self._line = (self._line + chunk[start : start + len(_DATA)])[: len(_DATA)]
        return len(chunk)


_TURNS: Final = 10


def abort_soon(scope: Scope) -> None:
    """Close the connection of a request; the server learns it in the next turn of the loop.

    A server other than uvicorn closes it when the application returns too early.
    """
    cycle = response_cycle(scope.get(SEND))
    if cycle is not None:
        cycle.transport.abort()


async def abort(scope: Scope) -> None:
    """Close the connection of the request that this task serves.

    The server knows about it on return, so it does not report a response without an end.
    """
    abort_soon(scope)
    cycle = response_cycle(scope.get(SEND))
    for _ in range(_TURNS):
        if cycle is None or cycle.disconnected:
            return
        await asyncio.sleep(0)
