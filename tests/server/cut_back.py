"""A log whose store can show an earlier state of itself, as after a failover or a restored backup.

Readers, producers and clients stay as they are. Several processes use the store, each with a log
of its own, which may be cut off from it.
"""

import asyncio
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from coreason_client.server import (
    DurableLog,
    LogError,
    LogUnavailable,
    MemoryStreamLog,
    StreamLog,
)
from coreason_client.server.log import Notes, Page
from coreason_client.server.log._live import Waiters
from coreason_client.server.log._memory_store import MemoryStore

# All methods but `follow`, whose followers ask `_page`.
_CALLS = (StreamLog.__abstractmethods__ | DurableLog.__abstractmethods__ | {"begin_append"}) - {
    "start",
    "stop",
    "wake_readers",
}


@dataclass(frozen=True)
class Saved:
    """A state of the store, as bytes: copies of its objects would take most of the time."""

    content: bytes
    running: bool


class CutBackStore:
    """The store: what it shows now, and everything that it has ever stored."""

    def __init__(self, clock: Callable[[], float], lease: float) -> None:
        self.clock = clock
        self.lease = lease
        self.state = MemoryStore(2**40)
        self.lock = threading.Lock()
        self.waiters = Waiters()
        self.stored: dict[tuple[UUID, int, str, int], bytes] = {}
        """By stream, epoch, kind (entry or note) and number."""
        self.doubled: list[str] = []
        """Numbers of one epoch that got two contents: there must be none."""
        self.replies: Iterator[int] = iter(())
        """For each append, after how many turns of the event loop it is answered; below 0 the
        caller gets an error at once, and the append arrives later."""

    def save(self) -> Saved:
        """Return the present state."""
        return Saved(pickle.dumps(self.state), bool(self.state.running))

    def cut_back(self, saved: Saved) -> None:
        """Show an earlier state from now on."""
        self.state = pickle.loads(saved.content)

    def record(self, stream_id: UUID, epoch: int, kind: str, first: int, items: Any) -> None:
        """Record what was stored, and whether a number of one epoch gets two contents."""
        for number, item in enumerate(items, first):
            known = self.stored.setdefault((stream_id, epoch, kind, number), bytes(item))
            if known != item:
                self.doubled.append(f"{kind} {number} of epoch {epoch}: {known!r} and {item!r}")


class CutBackLog(MemoryStreamLog):
    """The log of one process on the store."""

    shared = True

    def __init__(self, store: CutBackStore) -> None:
        self._cut_back = store
        self.away = False
        """True while the process does not reach the store."""
        super().__init__(clock=store.clock, lease=store.lease)
        self._lock = store.lock
        self._waiters = store.waiters

    @property
    def _store(self) -> MemoryStore:
        return self._cut_back.state

    @_store.setter
    def _store(self, state: MemoryStore) -> None:
        """Ignore the one that the base class makes."""

    def __getattribute__(self, name: str) -> Any:
        if name in _CALLS and super().__getattribute__("away"):
            raise LogUnavailable("the process does not reach the store")
        return super().__getattribute__(name)

    def _page(self, stream_id: UUID, after_seq: int, after_epoch: int, limit: int) -> Page:
        if self.away:
            raise LogUnavailable("the process does not reach the store")
        return super()._page(stream_id, after_seq, after_epoch, limit)

    def _append_now(
        self,
        stream_id: UUID,
        epoch: int,
        first_seq: int,
        entries: Sequence[bytes],
        notes: Notes | None = None,
    ) -> bool:
        cancel = super()._begin_append(stream_id, epoch, first_seq, entries, notes)
        self._cut_back.record(stream_id, epoch, "entry", first_seq, entries)
        if notes is not None:
            self._cut_back.record(stream_id, epoch, "note", notes.first, notes.notes)
        return cancel

    def _begin_append(self, *arguments: Any) -> Any:
        turns = next(self._cut_back.replies, 0)
        if turns == 0:
            return self._append_now(*arguments)
        loop = asyncio.get_running_loop()
        if turns < 0:
            _after(-turns, lambda: _ignore_errors(self._append_now, *arguments))
            raise LogUnavailable("the store did not answer")
        reply = loop.create_future()
        try:
            result, error = self._append_now(*arguments), None
        except Exception as failure:  # noqa: BLE001 - passed on
            result, error = False, failure

        def answer() -> None:
            if reply.done():
                return
            if error is None:
                reply.set_result(result)
            else:
                reply.set_exception(error)

        _after(turns, answer)
        return reply

    begin_append = _begin_append  # type: ignore[assignment]

    async def close(
        self, stream_id: UUID, epoch: int, first_seq: int, entries: Sequence[bytes], outcome: str
    ) -> None:
        await super().close(stream_id, epoch, first_seq, entries, outcome)
        self._cut_back.record(stream_id, epoch, "entry", first_seq, entries)


def _after(turns: int, callback: Callable[[], None]) -> None:
    """Call something after some turns of the event loop."""
    loop = asyncio.get_running_loop()
    if turns == 0:
        callback()
    else:
        loop.call_soon(lambda: _after(turns - 1, callback))


def _ignore_errors(call: Callable[..., object], *arguments: Any) -> None:
    with suppress(LogError):  # nobody waits for the answer
        call(*arguments)
