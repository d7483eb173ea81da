"""A response whose connection is cut on purpose, without an end of the body."""

import asyncio
from collections.abc import Callable

from starlette.types import Scope, Send

from .._internals import SEND, response_cycle
from ..engine._runtime import Runtime
from ..http._cuts import READ_TIME, Cuts, CuttableConnection
from ..log.base import Follower, Page, StreamMeta
from ._cursor import Cursor
from ._response import EventStream

__all__ = ["CutEventStream"]


class CutEventStream(EventStream):
    """The packets of a stream until `cuts` ends the connection."""

    def __init__(self, runtime: Runtime, meta: StreamMeta, after: Cursor, cuts: Cuts) -> None:
        super().__init__(runtime, meta, after)
        self._cuts = cuts
        self._connection: CuttableConnection | None = None

    async def _deliver(self, scope: Scope, send: Send) -> None:
        cycle = response_cycle(scope.get(SEND))
        if cycle is None:  # another server than uvicorn, whose connections cannot be cut
            await super()._deliver(scope, send)
            return
        with self._cuts.reading(self._meta.stream_id, cycle.transport.abort) as connection:
            self._connection = connection
            await super()._deliver(scope, send)

    def _follow(self) -> Follower:
        follower = super()._follow()
        return follower if self._connection is None else _CutFollower(follower, self._connection)


class _CutFollower(Follower):
    """Reads no more packets than a connection may send, and then cuts it."""

    def __init__(self, inner: Follower, connection: CuttableConnection) -> None:
        self._inner = inner
        self._connection = connection

    @property
    def position(self) -> int:  # type: ignore[override]
        return self._inner.position

    @property
    def epoch(self) -> int:  # type: ignore[override]
        return self._inner.epoch

    async def next(
        self, limit: int, wait: float, write: Callable[[bytes], bool] | None = None
    ) -> Page:
        connection = self._connection
        if connection.left == 0:
            await asyncio.sleep(READ_TIME)
            connection.abort()
            # The server cancels the response when it finds the connection closed.
            await asyncio.get_running_loop().create_future()
        # Without `write`: every packet is counted here.
        page = await self._inner.next(connection.allowed(limit), wait)
        connection.sent(len(page.entries))
        return page

    def close(self) -> None:
        self._inner.close()
