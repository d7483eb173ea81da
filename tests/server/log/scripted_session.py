"""A session of the Valkey log whose store gives prepared replies."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast
from uuid import UUID

from coreason_client.server.log._live import Waiters
from coreason_client.server.log.remote._owned import Ownership
from coreason_client.server.log.valkey import _scripts as scripts
from coreason_client.server.log.valkey._session import Session

from .backends import Clock

NAMES = {id(script): name for name, script in vars(scripts).items() if name.isupper()}


class _Indexes:
    """Records each change of an index, and returns the members that are due."""

    def __init__(self, calls: list[tuple[Any, ...]]) -> None:
        self._calls = calls
        self.members: list[list[bytes] | Exception] = []

    async def due(self, index: Sequence[str], until: float, limit: int) -> list[bytes]:
        self._calls.append(("due", index[0].split("{")[1].split("-")[0], until, limit))
        members = self.members.pop(0) if self.members else []
        if isinstance(members, Exception):
            raise members
        return members

    async def agents(self) -> list[str]:
        return []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def change(*arguments: Any) -> None:
            self._calls.append((name, *arguments))

        return change


class ScriptedSession:
    """Stands in for a `Session` and its store; `calls` lists what was done, in order.

    A reply that is an exception is raised.
    """

    name = "valkey://store"
    confirms = False

    def __init__(self, *replies: Any, now: float = 100.0) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.arguments: list[tuple[Any, ...]] = []
        self.clock = Clock(now)
        self.owned = Ownership(Clock(50.0))
        self.waiters = Waiters()
        self.indexes = _Indexes(self.calls)
        self.store = self
        self.loop = asyncio.get_running_loop()
        self._replies = list(replies)

    @property
    def session(self) -> Session:
        """This object as the type that the functions of the log expect."""
        return cast("Session", self)

    def now(self) -> float:
        return self.clock()

    def _reply(self, name: str, arguments: tuple[Any, ...]) -> Any:
        self.calls.append((name,))
        self.arguments.append(arguments)
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def command(self, *command: Any) -> Any:
        return self._reply(command[0], command[1:])

    async def script(self, script: Any, keys: Sequence[str], *arguments: Any) -> Any:
        return self._reply(NAMES[id(script)], (*keys, *arguments))

    query = confirmed_script = script

    def begin_script(
        self, script: Any, keys: Sequence[str], read: Callable[[Any], Any], *arguments: Any
    ) -> "asyncio.Future[Any]":
        future = self.loop.create_future()
        try:
            future.set_result(read(self._reply(NAMES[id(script)], (*keys, *arguments))))
        except Exception as error:  # noqa: BLE001 - the caller of the future gets it
            future.set_exception(error)
        return future

    def disown(self, stream_id: UUID) -> None:
        self.calls.append(("disown", stream_id))

    def add_entries(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes]
    ) -> None:
        self.calls.append(("add_entries", stream_id, epoch, first_seq, list(entries)))

    def drop_entries(self, stream_id: UUID) -> None:
        self.calls.append(("drop_entries", stream_id))

    async def show(self, stream_id: UUID) -> None:
        self.calls.append(("show", stream_id))

    def subscribe(self, stream_id: UUID) -> None:
        self.calls.append(("subscribe", stream_id))
