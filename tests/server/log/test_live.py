"""The common part of the logs for live streams; a subclass may replace any part of it."""

from collections.abc import Sequence
from uuid import UUID, uuid4

from coreason_client.server.log import MemoryStreamLog, NewStream, Notes
from coreason_client.server.log.base import Page

from ..aio import aio


async def opened(log: MemoryStreamLog) -> UUID:
    return (await log.open(NewStream(uuid4(), "p", uuid4(), "f"), "me")).meta.stream_id


class OwnAppend(MemoryStreamLog):
    """Notes the appends."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[list[bytes]] = []

    async def append(
        self,
        stream_id: UUID,
        epoch: int,
        first_seq: int,
        entries: Sequence[bytes],
        notes: Notes | None = None,
    ) -> bool:
        self.seen.append(list(entries))
        return await super().append(stream_id, epoch, first_seq, entries, notes)


class OwnRead(MemoryStreamLog):
    """Shows entries in capitals."""

    async def read(
        self, stream_id: UUID, after_seq: int, limit: int, wait: float, after_epoch: int = 1
    ) -> Page:
        page = await super().read(stream_id, after_seq, limit, wait, after_epoch)
        return Page([entry.upper() for entry in page.entries], page.ended, page.epoch)


@aio
async def test_an_append_that_a_subclass_replaces_is_used_for_live_packets_too() -> None:
    log = OwnAppend()
    stream_id = await opened(log)
    begun = log.begin_append(stream_id, 1, 1, [b"a"])
    assert not isinstance(begun, bool)
    assert await begun is False
    await log.append(stream_id, 1, 2, [b"b"])
    assert log.seen == [[b"a"], [b"b"]]
    assert list((await log.read(stream_id, 0, 9, 0)).entries) == [b"a", b"b"]


@aio
async def test_a_read_that_a_subclass_replaces_is_used_by_followers_too() -> None:
    log = OwnRead()
    stream_id = await opened(log)
    assert log.begin_append(stream_id, 1, 1, [b"a", b"b"]) is False
    follower = log.follow(stream_id, 1)
    assert list((await follower.next(9, 0)).entries) == [b"B"]
    assert follower.position == 2
    follower.close()


@aio
async def test_a_follower_that_is_closed_is_woken_no_more() -> None:
    log = MemoryStreamLog()
    stream_id = await opened(log)
    follower = log.follow(stream_id, 0)
    assert stream_id in log._waiters
    follower.close()
    assert stream_id not in log._waiters
