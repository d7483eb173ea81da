"""Responses whose connections can be cut on request, whatever application sends them.

A connection belongs to a stream by its `X-Stream-ID`, or by the first packet if the agent does not
send that header.
"""

import asyncio
import re
from contextlib import ExitStack
from typing import Any, Final
from uuid import UUID

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ..server.http._cuts import READ_TIME, Cuts, CuttableConnection
from ._connection import abort, abort_soon
from ._event_count import EventCount

__all__ = ["serve_cuttable"]

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
