"""The contract of a store of tasks."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.log import MemoryStreamLog, ValkeyStreamLog
from coreason_client.server.log.remote import _owned
from coreason_client.server.log.tasks import KEPT_REVISIONS, TaskChange, TaskQuery, TaskRecord

from ..aio import LIMIT, aio
from .task_stores import KINDS, Opener, on_log, opener, stored
from .valkey_server import fresh_prefix, shared_cluster, shared_server


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    return opener(request.param, tmp_path)


def record(number: int = 1, **fields: Any) -> TaskRecord:
    return TaskRecord(
        **{
            "task_id": UUID(int=number),
            "principal": "one",
            "context_id": "c",
            "state": "working",
            "changed": float(number),
            "data": b"data",
            **fields,
        }
    )


@aio
async def test_a_task_is_found_by_its_id(opened: Opener) -> None:
    async with opened() as tasks:
        await stored(tasks, record())
        assert await tasks.get(UUID(int=1)) == record()
        assert await tasks.get(uuid4()) is None


def change(old: TaskRecord, values: dict[str, bytes] | None = None, **fields: Any) -> TaskChange:
    return TaskChange(old, old.updated(**fields), values or {})


@aio
async def test_of_two_updates_one_wins(opened: Opener) -> None:
    async with opened() as tasks:
        await stored(tasks, record())
        first, second = change(record(), state="a"), change(record(), state="b", data=b"")
        assert await tasks.update(first)
        assert not await tasks.update(second)
        assert await tasks.get(UUID(int=1)) == first.new
        again = change(first.new, state="b", changed=9.0, data=b"new", open=False)
        assert await tasks.update(again)
        assert await tasks.get(UUID(int=1)) == again.new
        assert not await tasks.update(change(record(7), state="x"))  # there is no such task


@aio
async def test_a_repeated_update_succeeds_also_after_further_ones(opened: Opener) -> None:
    async with opened() as tasks:
        await stored(tasks, record())
        first = change(record(), {"snapshot": b"1"}, state="a")
        assert await tasks.update(first)
        current = first.new
        for number in range(KEPT_REVISIONS - 1):
            following = change(current, {"snapshot": b"2"}, state=f"later {number}")
            assert await tasks.update(following)
            current = following.new
            assert await tasks.update(first)  # without effect
            assert await tasks.get(UUID(int=1)) == current
            assert await tasks.value(UUID(int=1), "snapshot") == b"2"


@aio
async def test_a_version_that_the_store_has_lost_and_counted_again_is_not_the_same(
    opened: Opener,
) -> None:
    """A store that was cut back gives out the same number twice, but not the same revision."""
    async with opened() as tasks:
        await stored(tasks, record())
        lost = record().updated(state="lost")  # acknowledged, and then cut off with the store
        other = change(record(), state="other")
        assert await tasks.update(other)
        assert lost.version == other.new.version
        assert not await tasks.update(change(lost, {"snapshot": b"lost"}, state="of the lost one"))
        assert await tasks.get(UUID(int=1)) == other.new
        assert await tasks.value(UUID(int=1), "snapshot") is None


@aio
async def test_the_latest_change_comes_first_page_by_page(opened: Opener) -> None:
    async with opened() as tasks:
        for number in range(1, 8):
            await stored(tasks, record(number, changed=float(number // 2)))
        after, seen = None, []
        while True:
            page = await tasks.find(TaskQuery("one", 3, after=after))
            assert page.total == 7
            if not page.records:
                break
            seen += [one.task_id.int for one in page.records]
            after = page.records[-1].position
        assert seen == [7, 6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, [4, 3, 2, 1]),
        ({"context_id": "d"}, [3]),
        ({"state": "done"}, [4, 2]),
        ({"changed_since": 3.0}, [4, 3]),
        ({"state": "done", "context_id": "d"}, []),
        ({"principal": "two"}, [5]),
        ({"principal": "three"}, []),
    ],
)
@aio
async def test_a_query(opened: Opener, fields: dict[str, Any], found: list[int]) -> None:
    async with opened() as tasks:
        for number, more in enumerate(
            ({}, {"state": "done"}, {"context_id": "d"}, {"state": "done"}, {"principal": "two"}), 1
        ):
            await stored(tasks, record(number, **more))
        page = await tasks.find(TaskQuery(**{"principal": "one", "limit": 10, **fields}))
        assert [one.task_id.int for one in page.records] == found
        assert page.total == len(found)


@aio
async def test_a_change_moves_a_task_to_the_front(opened: Opener) -> None:
    async with opened() as tasks:
        for number in (1, 2):
            await stored(tasks, record(number))
        await tasks.update(change(record(1), state="done", changed=5.0))
        page = await tasks.find(TaskQuery("one", 10))
        assert [one.task_id.int for one in page.records] == [1, 2]
        assert (await tasks.find(TaskQuery("one", 10, state="working"))).total == 1


@aio
async def test_a_change_wakes_all_that_wait(opened: Opener) -> None:
    async with opened() as tasks:
        await stored(tasks, record())
        done = change(record(), state="done")
        await tasks.wait(done.new, LIMIT)  # it is another one already
        waiting = [asyncio.create_task(tasks.wait(record(), LIMIT)) for _ in range(3)]
        await asyncio.sleep(0)
        await tasks.update(done)
        await asyncio.wait_for(asyncio.gather(*waiting), LIMIT)
        await tasks.wait(done.new, 0.01)  # a wait ends


@aio
@pytest.mark.parametrize("cluster", [False, True])
async def test_a_change_on_another_replica_is_announced(
    cluster: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_owned, "_TASK_POLL", 10 * LIMIT)  # nothing is found by looking again
    url, prefix = (shared_cluster() if cluster else shared_server()).url, fresh_prefix()
    replica = on_log(lambda: ValkeyStreamLog(url, prefix=prefix, cluster=cluster))
    async with replica() as tasks, replica() as elsewhere:
        current = record()
        await stored(tasks, current)
        for _ in range(3):
            wait = elsewhere.wait(current, 10 * LIMIT)
            waiting = asyncio.create_task(wait)
            await asyncio.sleep(0.02)  # usually the wait has begun by then
            following = change(current, state="working")
            await tasks.update(following)
            current = following.new
            await asyncio.wait_for(waiting, LIMIT)


@aio
async def test_values_are_stored_with_the_record_or_not_at_all(opened: Opener) -> None:
    async with opened() as tasks:
        await stored(tasks, record(), message=b"hello")
        assert await tasks.value(UUID(int=1), "snapshot") is None
        first = change(record(), {"snapshot": b"a"}, state="a")
        assert await tasks.update(first)
        assert not await tasks.update(change(record(), {"snapshot": b"late"}, state="b"))
        assert await tasks.value(UUID(int=1), "snapshot") == b"a"
        assert await tasks.update(change(first.new, {"snapshot": b"b", "other": b"c"}))
        names = ("message", "snapshot", "other", "unknown")
        found = [await tasks.value(UUID(int=1), name) for name in names]
        assert found == [b"hello", b"b", b"c", None]


@aio
async def test_what_is_old_is_dropped_with_its_values(opened: Opener) -> None:
    async with opened() as tasks:
        for number, open_ in ((1, False), (2, True), (3, False), (4, True)):
            await stored(tasks, record(number, open=open_), snapshot=b"a")
        await tasks.drop(ended_before=3.0, changed_before=0.0)
        assert await tasks.get(UUID(int=1)) is None
        assert await tasks.value(UUID(int=1), "snapshot") is None
        assert (await tasks.find(TaskQuery("one", 10))).total == 3
        await tasks.drop(ended_before=3.0, changed_before=2.5)
        page = await tasks.find(TaskQuery("one", 10))
        assert [one.task_id.int for one in page.records] == [4, 3]
        assert await tasks.value(UUID(int=3), "snapshot") == b"a"


@given(st.lists(st.integers(0, 3), max_size=12), st.integers(1, 4))
def test_pages_have_every_task_once(times: list[int], limit: int) -> None:
    async def run() -> None:
        tasks = MemoryStreamLog().tasks
        for number, changed in enumerate(times, 1):
            await stored(tasks, record(number, changed=float(changed)))
        query = TaskQuery("one", limit)
        seen: list[TaskRecord] = []
        while (page := await tasks.find(query)).records:
            seen += page.records
            query = replace(query, after=page.records[-1].position)
        assert [one.position for one in seen] == sorted(
            (one.position for one in seen), reverse=True
        )
        assert len(seen) == len(times)

    asyncio.run(run())
