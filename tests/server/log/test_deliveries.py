"""The contract of a store of deliveries."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from coreason_client.server.log import ValkeyStreamLog
from coreason_client.server.log.deliveries import Delivery
from coreason_client.server.log.tasks import TaskRecord, TaskStore

from ..aio import aio
from .task_stores import KINDS, Opener, opener, stored
from .valkey_server import fresh_prefix, shared_server

TASK = UUID(int=1)


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    return opener(request.param, tmp_path)


def delivery(name: str = "a", task: int = 1, **fields: Any) -> Delivery:
    return Delivery(
        **{
            "task_id": UUID(int=task),
            "name": name,
            "data": b"data\0",
            "progress": b"",
            "due": 5.0,
            **fields,
        }
    )


async def due_names(tasks: TaskStore, now: float, limit: int = 10) -> list[str]:
    return sorted(one.name for one in await tasks.deliveries.due(now, limit))


@aio
async def test_a_delivery_is_stored_and_replaced_by_name(opened: Opener) -> None:
    async with opened() as tasks:
        store = tasks.deliveries
        first = delivery(due=0.1 + 0.2)
        assert await store.put(first, 10)
        assert await store.all(TASK) == [first]
        second = delivery(data=b"other", due=None)
        assert await store.put(second, 10)
        assert await store.all(TASK) == [second]
        assert await store.all(UUID(int=2)) == []


@pytest.mark.parametrize("name", ["", "a b", "é\0:{x}", "\ud800", "x" * 256])
@aio
async def test_a_name_may_have_any_characters(opened: Opener, name: str) -> None:
    async with opened() as tasks:
        stored = delivery(name)
        assert await tasks.deliveries.put(stored, 10)
        assert await tasks.deliveries.put(delivery("other", due=None), 10)
        assert list(await tasks.deliveries.due(5.0, 10)) == [stored]
        changed = stored.changed(due=6.0, progress=b"p")
        assert await tasks.deliveries.replace(stored, changed)
        assert changed in await tasks.deliveries.all(TASK)
        await tasks.deliveries.delete(TASK, name)
        assert [one.name for one in await tasks.deliveries.all(TASK)] == ["other"]


@aio
async def test_a_task_has_a_limited_number(opened: Opener) -> None:
    async with opened() as tasks:
        store = tasks.deliveries
        stored = await asyncio.gather(*(store.put(delivery(f"{n}"), 3) for n in range(8)))
        assert sum(stored) == 3
        names = [one.name for one in await store.all(TASK)]
        assert len(names) == 3
        assert names == sorted(names)
        assert await store.put(delivery(names[0], data=b"new"), 3)  # in place of the old one
        assert await store.put(delivery("a", task=2), 3)  # of another task
        await store.delete(TASK, names[0])
        assert await store.put(delivery("more"), 3)


@aio
async def test_of_two_changes_one_wins(opened: Opener) -> None:
    async with opened() as tasks:
        store, first = tasks.deliveries, delivery()
        await store.put(first, 10)
        changes = [first.changed(due=float(n), progress=b"%d" % n) for n in range(10, 14)]
        won = await asyncio.gather(*(store.replace(first, change) for change in changes))
        assert sum(won) == 1
        [stored] = await store.all(TASK)
        assert stored == changes[won.index(True)]
        assert stored.data == first.data


@aio
async def test_a_delivery_that_was_deleted_or_stored_again_is_not_changed(opened: Opener) -> None:
    async with opened() as tasks:
        store, first = tasks.deliveries, delivery()
        await store.put(first, 10)
        again = delivery(data=b"again")
        await store.put(again, 10)
        assert not await store.replace(first, first.changed(due=9.0))
        await store.delete(TASK, "a")
        await store.delete(TASK, "a")
        assert not await store.replace(again, again.changed(due=9.0))
        assert await store.all(TASK) == []
        assert await due_names(tasks, 1e12) == []


@aio
async def test_what_is_due_is_found(opened: Opener) -> None:
    async with opened() as tasks:
        store = tasks.deliveries
        later, earlier, never = delivery("l"), delivery("e", task=2, due=2.0), delivery("n", 3)
        for one in (later, earlier, never):
            await store.put(one, 10)
        assert await store.replace(never, never.changed(due=None))
        assert await due_names(tasks, 1.9) == []
        assert await due_names(tasks, 2.0) == ["e"]
        assert await due_names(tasks, 5.0) == ["e", "l"]
        assert len(await store.due(5.0, 1)) == 1
        claimed = earlier.changed(due=8.0)
        assert await store.replace(earlier, claimed)
        assert await due_names(tasks, 5.0) == ["l"]
        assert await store.replace(claimed, claimed.changed(due=3.0))  # it is given up early
        assert await due_names(tasks, 5.0) == ["e", "l"]


@aio
async def test_deliveries_are_dropped_with_their_task(opened: Opener) -> None:
    async with opened() as tasks:
        for number in (1, 2):
            task_id = UUID(int=number)
            await stored(tasks, TaskRecord(task_id, "one", "c", "done", float(number), open=False))
            await tasks.deliveries.put(delivery("a", task=number), 10)
        await tasks.drop(ended_before=2.0, changed_before=0.0)
        assert await tasks.deliveries.all(TASK) == []
        assert [one.task_id.int for one in await tasks.deliveries.due(1e12, 10)] == [2]


@aio
async def test_the_index_is_corrected(tmp_path: Path) -> None:
    """A process can end between its change of a delivery and that of the index."""
    log = ValkeyStreamLog(shared_server().url, prefix=fresh_prefix())
    await log.start("me")
    try:
        store, stored = log.tasks.deliveries, delivery(due=50.0)
        await store.put(stored, 10)
        await store.put(delivery("gone"), 10)
        await store.delete(TASK, "gone")
        index = log.tasks._keys.delivery_index(TASK)
        member = TASK.hex.encode() + b" a"
        shared_server().command("ZADD", index, 1, member)
        assert list(await store.due(5.0, 10)) == []
        left = shared_server().command("ZRANGE", index, 0, -1, "WITHSCORES")
        assert left == [member, b"50"]
        assert list(await store.due(50.0, 10)) == [stored]
    finally:
        await log.stop("me")
