"""The functions in the database judge and cut as the rules in Python do."""

import asyncio
from collections.abc import Sequence
from functools import partial
from uuid import UUID, uuid4

import pytest

from coreason_client.server.errors import (
    Fenced,
    LogUnavailable,
    OutOfSequence,
    PositionGone,
    UnknownStream,
)
from coreason_client.server.log import MemoryStreamLog, PostgresStreamLog
from coreason_client.server.log._staging import pack_run

from ..aio import aio
from .append_rule import APPENDS, EPOCH, LAST_SEQ, NEW, REPEATED, Append, all_appends
from .postgres_logs import everything, logs
from .postgres_server import shared_server
from .test_rules import judge
from .test_valkey_scripts import SIZES
from .valkey_logs import new

HELD = [b"entry %d" % seq for seq in range(1, LAST_SEQ + 1)]


async def streams_of_the_table(log: PostgresStreamLog, appends: Sequence[Append]) -> list[UUID]:
    """Make streams in the database, each in the state that its append is about."""
    streams = [new() for _ in appends]
    await asyncio.gather(*(log.open(stream, "me") for stream in streams))
    ids = [stream.stream_id for stream in streams]
    await asyncio.to_thread(
        shared_server().execute,
        f"UPDATE {log._schema}.streams s SET epoch = $1, claimed_seq = a.claimed_seq,"
        " ended_at = CASE WHEN a.ended THEN 1 END, last_seq = CASE WHEN a.ended THEN $2::int END"
        " FROM unnest($3::uuid[], $4::bigint[], $5::boolean[]) AS a (id, claimed_seq, ended)"
        " WHERE stream_id = a.id",
        *(EPOCH, LAST_SEQ, ids, [one.claimed_seq for one in appends]),
        [one.ended for one in appends],
    )
    await asyncio.to_thread(
        shared_server().execute,
        f"INSERT INTO {log._schema}.runs SELECT n, $1, 1, $2 FROM {log._schema}.streams"
        " WHERE stream_id = ANY ($3)",
        *(LAST_SEQ, pack_run(HELD), ids),
    )
    return ids


async def outcomes_in_the_database(
    log: PostgresStreamLog, appends: Sequence[Append], *, shared: bool
) -> list[str | type[Exception]]:
    """Do each append to a stream of its own, and return what they were taken for.

    Those that are `shared` share calls. What the database holds is checked after all of them.
    """
    ids = await streams_of_the_table(log, appends)
    entries = [[b"new %d" % number for number in range(append.count)] for append in appends]
    calls = [
        log.append(stream_id, append.epoch, append.first_seq, new_entries)
        for stream_id, append, new_entries in zip(ids, appends, entries, strict=True)
    ]
    if shared:
        results = await asyncio.gather(*calls, return_exceptions=True)
    else:
        results = [(await asyncio.gather(call, return_exceptions=True))[0] for call in calls]
    return await asyncio.gather(*map(partial(outcome_of, log), ids, results, entries))


async def outcome_of(
    log: PostgresStreamLog, stream_id: UUID, result: object, entries: list[bytes]
) -> str | type[Exception]:
    stored = await everything(log, stream_id)
    if isinstance(result, Exception):
        assert stored == HELD
        return type(result)
    assert result is False
    repeated = bool(entries) and stored == HELD
    assert stored == (HELD if repeated else [*HELD, *entries])
    return REPEATED if repeated else NEW


ROUTES = pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])


@ROUTES
@aio
async def test_the_table_of_appends(shared: bool) -> None:
    appends = [append for append, _ in APPENDS]
    async with logs() as [log]:
        outcomes = await outcomes_in_the_database(log, appends, shared=shared)
    assert list(zip(appends, outcomes, strict=True)) == APPENDS


@ROUTES
@aio
async def test_every_append_is_judged_as_the_other_logs_judge_it(shared: bool) -> None:
    appends = list(all_appends())
    async with logs() as [log]:
        outcomes = await outcomes_in_the_database(log, appends, shared=shared)
    for append, outcome in zip(appends, outcomes, strict=True):
        expected: str | type[Exception]
        try:
            expected = judge(append)
        except (Fenced, OutOfSequence) as error:
            expected = type(error)
        assert outcome == expected, append


@pytest.mark.parametrize("state", ["running", "ended", "gone"])
@aio
async def test_a_page_ends_where_a_page_of_the_other_logs_ends(state: str) -> None:
    entries, memory = [bytes(size) for size in SIZES], MemoryStreamLog()
    async with logs() as [postgres]:
        stream = new()
        for log in (memory, postgres):
            await log.open(stream, "me")
            await log.append(stream.stream_id, 1, 1, entries[:-1])
            if state == "running":
                await log.append(stream.stream_id, 1, len(entries), entries[-1:])
            else:
                await log.close(stream.stream_id, 1, len(entries), entries[-1:], "complete")
            if state == "gone":
                await log.expire(-1e9, 1e9)
        postgres._session().disown(stream.stream_id)  # so that its pages come from the database
        for after_seq in [*range(24), 100, len(SIZES) - 1, len(SIZES), len(SIZES) + 1]:
            for limit in (1, 3, 10, 512):
                results: list[object] = []
                for log in (memory, postgres):
                    try:
                        results.append(await log.read(stream.stream_id, after_seq, limit, 0))
                    except PositionGone as error:
                        results.append(str(error))
                assert results[0] == results[1], (after_seq, limit)


@aio
async def test_a_refused_append_does_not_fail_those_that_share_its_call() -> None:
    async with logs() as [log]:
        streams = [new() for _ in range(60)]
        await asyncio.gather(*(log.open(stream, "me") for stream in streams))
        refused = {1: 3, 17: 2, 59: 9}  # the place of a stream, and its wrong number
        results = await asyncio.gather(
            *(
                log.append(stream.stream_id, 1, refused.get(place, 1), [b"x"])
                for place, stream in enumerate(streams)
            ),
            log.append(uuid4(), 1, 1, [b"x"]),
            log.append(streams[0].stream_id, 2, 1, [b"x"]),
            return_exceptions=True,
        )
        *mine, unknown, fenced = results
        assert isinstance(unknown, UnknownStream)
        assert isinstance(fenced, Fenced)
        for place, result in enumerate(mine):
            assert isinstance(result, OutOfSequence) if place in refused else result is False
        for place, stream in enumerate(streams):
            assert await everything(log, stream.stream_id) == ([] if place in refused else [b"x"])


@aio
async def test_appends_of_one_stream_that_wait_together_keep_their_order() -> None:
    async with logs() as [log]:
        stream = new()
        await log.open(stream, "me")
        await asyncio.gather(
            *(log.append(stream.stream_id, 1, seq, [b"%d" % seq]) for seq in range(1, 40))
        )
        assert await everything(log, stream.stream_id) == [b"%d" % seq for seq in range(1, 40)]


@pytest.mark.parametrize("damage", ["DELETE FROM", "UPDATE"])
@aio
async def test_damaged_entries_are_reported_and_never_skipped(damage: str) -> None:
    async with logs() as [log]:
        stream = new()
        await log.open(stream, "me")
        for seq in range(1, 4):
            await log.append(stream.stream_id, 1, seq, [b"%d" % seq])
        change = "" if damage == "DELETE FROM" else "SET run = '\\x01'"
        await asyncio.to_thread(
            shared_server().execute, f"{damage} {log._schema}.runs {change} WHERE last_seq = 2"
        )
        for after in (0, 1):
            with pytest.raises(LogUnavailable, match="are damaged in the database"):
                log._session().owned.drop(stream.stream_id)
                await log.read(stream.stream_id, after, 10, 0)
        log._session().owned.drop(stream.stream_id)
        assert (await log.read(stream.stream_id, 2, 10, 0)).entries == [b"3"]
