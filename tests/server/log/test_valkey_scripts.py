"""The scripts that run inside the store follow the rules that the other logs have in Python."""

from uuid import UUID, uuid4

import pytest

from coreason_client.server.errors import Fenced, OutOfSequence
from coreason_client.server.log import MemoryStreamLog, ValkeyStreamLog
from coreason_client.server.log.base import PAGE_BYTES

from ..aio import aio
from .append_rule import APPENDS, EPOCH, LAST_SEQ, NEW, REPEATED, Append, all_appends
from .test_rules import judge
from .valkey_logs import everything, logs, new

HELD = [b"entry %d" % seq for seq in range(1, LAST_SEQ + 1)]


async def stream_of_the_table(log: ValkeyStreamLog, append: Append) -> UUID:
    """Make a stream in the store, in the state that the table is about."""
    stream_id, store = uuid4(), log._session().store
    fields: list[str | int] = ["epoch", EPOCH, "last", LAST_SEQ, "lease", "9e9", "index", "f" * 40]
    if append.claimed_seq:
        fields += ["base", append.claimed_seq]
    if append.ended:
        fields += ["ended", "1.0", "outcome", "complete"]
    await store.command("HSET", log._keys.meta(stream_id), *fields)
    for seq, entry in enumerate(HELD, 1):
        await store.command("XADD", log._keys.entries(stream_id), f"{seq}-0", "d", entry)
    return stream_id


async def outcome_in_the_store(log: ValkeyStreamLog, append: Append) -> str | type[Exception]:
    """Do an append, check what the store holds after it, and return what it was taken for."""
    stream_id = await stream_of_the_table(log, append)
    entries = [b"new %d" % number for number in range(append.count)]
    outcome: str | type[Exception]
    try:
        await log.append(stream_id, append.epoch, append.first_seq, entries)
    except (Fenced, OutOfSequence) as error:
        outcome, held = type(error), HELD
    else:
        stored = await everything(log, stream_id)
        repeated = bool(entries) and stored == HELD
        outcome, held = (REPEATED, HELD) if repeated else (NEW, [*HELD, *entries])
    assert await everything(log, stream_id) == held
    return outcome


@aio
async def test_the_table_of_appends() -> None:
    async with logs() as [log]:
        for append, expected in APPENDS:
            assert await outcome_in_the_store(log, append) == expected, append


@aio
async def test_every_append_is_judged_as_the_other_logs_judge_it() -> None:
    async with logs() as [log]:
        for append in all_appends():
            expected: str | type[Exception]
            try:
                expected = judge(append)
            except (Fenced, OutOfSequence) as error:
                expected = type(error)
            assert await outcome_in_the_store(log, append) == expected, append


SIZES = [
    *(1, PAGE_BYTES - 1, 1, 1, 0, 0),
    *(PAGE_BYTES, 1, PAGE_BYTES + 1, 1),
    *([PAGE_BYTES // 9] * 12),
    *([100] * 150),
]


@pytest.mark.parametrize("state", ["running", "ended", "gone"])
@aio
async def test_a_page_ends_where_a_page_of_the_other_logs_ends(state: str) -> None:
    entries, memory = [bytes(size) for size in SIZES], MemoryStreamLog()
    async with logs() as [valkey]:
        stream = new()
        for log in (memory, valkey):
            await log.open(stream, "me")
            await log.append(stream.stream_id, 1, 1, entries[:-1])
            if state == "running":
                await log.append(stream.stream_id, 1, len(entries), entries[-1:])
            else:
                await log.close(stream.stream_id, 1, len(entries), entries[-1:], "complete")
        valkey._session().disown(stream.stream_id)  # so that its pages come from the store
        if state == "gone":
            for log in (memory, valkey):
                await log.expire(-1e9, 1e9)
        for after_seq in [*range(24), 100, len(SIZES) - 1, len(SIZES), len(SIZES) + 1]:
            for limit in (1, 3, 10, 512):
                results: list[object] = []
                for log in (memory, valkey):
                    try:
                        page = await log.read(stream.stream_id, after_seq, limit, 0)
                        results.append((list(map(len, page.entries)), page.ended))
                    except Exception as error:  # noqa: BLE001 - both must raise the same
                        results.append((str(error), type(error)))
                assert results[0] == results[1], (after_seq, limit)
