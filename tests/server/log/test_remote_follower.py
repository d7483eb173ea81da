"""Readers of the Valkey log: when they read from memory, and when from the store."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest

from coreason_client.server.log import Page
from coreason_client.server.log.remote._owned import SharedFollower

from ..aio import aio, turns
from .scripted_session import ScriptedSession
from .valkey_logs import LONG, NEVER, counted_reads, everything, logs, new


@aio
async def test_a_live_reader_beside_its_producer_does_not_ask_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with logs(2, poll=NEVER) as (producer, other):
        stream = new()
        id_ = stream.stream_id
        await producer.open(stream, "me")
        await producer.append(id_, 1, 1, [b"one"])
        reads = counted_reads(producer, monkeypatch)
        assert list((await producer.read(id_, 0, 9, LONG)).entries) == [b"one"]
        reading = asyncio.ensure_future(producer.read(id_, 1, 9, LONG))
        await turns()
        await producer.append(id_, 1, 2, [b"two", b"three"])
        assert list((await reading).entries) == [b"two", b"three"]
        assert reads == []
        assert await everything(other, id_) == [b"one", b"two", b"three"]  # it is in the store too


# Memory or store.

ID = UUID(int=1)


class Followed:
    """A follower of a stream, and the positions at which it asked the store."""

    def __init__(self, *, owned: bool, stored: Sequence[bytes] = (), ended: bool = False) -> None:
        self.scripted = ScriptedSession()
        self.stored = list(stored)
        self.ended = ended
        self.loads: list[int] = []
        if owned:
            self.scripted.owned.own(ID, 1e9)
        self.follower = SharedFollower(self.scripted.session, ID, 0, 1, self.load)

    async def load(self, stream_id: UUID, after_seq: int, after_epoch: int, limit: int) -> Page:
        assert (stream_id, after_epoch) == (ID, 1)
        self.loads.append(after_seq)
        return Page(self.stored[after_seq : after_seq + limit], self.ended)

    def write_here(self, first_seq: int, *entries: bytes) -> None:
        """Append as this process does: the entries are in memory."""
        self.stored += entries
        self.scripted.owned.add(ID, 1, first_seq, entries)
        self.scripted.waiters.wake(ID)


@aio
async def test_entries_of_this_process_are_read_from_memory_and_others_from_the_store() -> None:
    for owned, loads in ((True, []), (False, [0, 2])):
        followed = Followed(owned=owned)
        followed.write_here(1, b"a", b"b", b"c")
        pages = [await followed.follower.next(2, 5.0) for _ in range(2)]
        assert [list(page.entries) for page in pages] == [[b"a", b"b"], [b"c"]]
        assert (followed.loads, followed.follower.position) == (loads, 3)
        followed.follower.close()


@aio
async def test_a_read_without_a_wait_asks_the_store() -> None:
    """The stream may have ended in another process."""
    followed = Followed(owned=True, stored=[b"a"], ended=True)
    page = await followed.follower.next(10, 0.0)
    assert (list(page.entries), page.ended, followed.loads) == ([b"a"], True, [0])
    followed.follower.close()


@pytest.mark.parametrize("owned", [False, True])
@aio
async def test_a_waiting_reader_subscribes_and_gets_what_wakes_it(owned: bool) -> None:
    followed = Followed(owned=owned)
    if owned:
        followed.write_here(1, b"a")
        await followed.follower.next(10, 5.0)
    reading = asyncio.ensure_future(followed.follower.next(10, 60.0))
    await turns()
    assert followed.scripted.calls == [("subscribe", ID)]
    before = list(followed.loads)
    followed.write_here(len(followed.stored) + 1, b"new")
    assert list((await reading).entries) == [b"new"]
    assert len(followed.loads) == len(before) + (0 if owned else 1)
    followed.follower.close()


@aio
async def test_a_wake_without_entries_in_memory_means_that_they_are_in_the_store() -> None:
    followed = Followed(owned=True)
    followed.write_here(1, b"a")
    await followed.follower.next(10, 5.0)
    reading = asyncio.ensure_future(followed.follower.next(10, 60.0))
    await turns()
    followed.stored.append(b"of another process")
    followed.ended = True
    followed.scripted.waiters.wake(ID)
    page = await reading
    assert (list(page.entries), page.ended) == ([b"of another process"], True)
    assert followed.loads == [1]
    followed.follower.close()


@aio
async def test_a_stopping_log_ends_the_wait_without_another_read() -> None:
    followed = Followed(owned=False)
    reading = asyncio.ensure_future(followed.follower.next(10, 60.0))
    await turns()
    followed.stored.append(b"new")
    followed.scripted.waiters.wake_all()
    page = await reading
    assert (list(page.entries), followed.loads, followed.follower.position) == ([], [0], 0)
    followed.follower.close()
    assert ID not in followed.scripted.waiters
