"""Recent entries and the readers that wait for more."""

import asyncio
from uuid import UUID

from coreason_client.server.log._live import Waiter
from coreason_client.server.log._recent_entries import LiveEntries
from coreason_client.server.log.base import Page

from ..aio import aio

ID, OTHER = UUID(int=1), UUID(int=2)


class Reader:
    """A reader at the beginning of a stream."""

    def __init__(self) -> None:
        self.waiter = Waiter()
        self.position = 0


def page(live: LiveEntries, stream_id: UUID) -> Page | None:
    with live.lock:
        return live.recent.page(stream_id, 0, 1, 9)


@aio
async def test_added_entries_are_in_memory_when_their_readers_wake() -> None:
    live, reader = LiveEntries(1000), Reader()
    live.waiters.add(ID, reader)
    wait = asyncio.ensure_future(reader.waiter.wait(10))
    await asyncio.sleep(0)
    live.add(OTHER, 1, 1, [b"x"], ended=False)
    await asyncio.sleep(0)
    assert not wait.done()
    live.add(ID, 1, 1, [b"y"], ended=True)
    await asyncio.wait_for(wait, 5)
    assert page(live, ID) == Page([b"y"], ended=True)
    reader.waiter.close()


@aio
async def test_wake_all_ends_every_wait() -> None:
    live, readers = LiveEntries(1000), [Reader(), Reader()]
    for stream_id, reader in zip((ID, OTHER), readers, strict=True):
        live.waiters.add(stream_id, reader)
    waits = [asyncio.ensure_future(reader.waiter.wait(10)) for reader in readers]
    await asyncio.sleep(0)
    await asyncio.to_thread(live.wake_all)
    await asyncio.wait_for(asyncio.gather(*waits), 5)
    for reader in readers:
        reader.waiter.close()


def test_dropped_entries_are_left_to_the_store() -> None:
    live = LiveEntries(1000)
    for stream_id in (ID, OTHER):
        live.add(stream_id, 1, 1, [b"x"], ended=False)
    live.drop([ID])
    assert (page(live, ID), page(live, OTHER)) == (None, Page([b"x"], ended=False))
    live.clear()
    assert page(live, OTHER) is None
