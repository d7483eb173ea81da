"""The limits of principals on a real store, that of the cluster included."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coreason_client.server.http._rate_limit import RequestRate
from coreason_client.server.log import PostgresStreamLog, ValkeyStreamLog
from coreason_client.server.log.quotas import QuotaStore, Reservation, quotas_of

from ..aio import aio
from .backends import Clock, postgres, valkey, valkey_cluster
from .postgres_server import shared_server
from .test_valkey_full import assert_full, full_store
from .valkey_logs import keys_of, logs
from .valkey_server import fresh_prefix

Log: TypeAlias = ValkeyStreamLog | PostgresStreamLog
Make: TypeAlias = Callable[..., object]
Opened = tuple[QuotaStore, Clock, Log]
on_each = pytest.mark.parametrize("make", [valkey, valkey_cluster, postgres])
NONE = Reservation(0, 0, 10)


@asynccontextmanager
async def opened(make: Make) -> AsyncIterator[Opened]:
    clock = Clock()
    log = make(clock, Path())
    assert isinstance(log, Log)
    quotas = quotas_of(log)
    assert quotas is not None
    await log.start("me")
    try:
        yield quotas, clock, log
    finally:
        await log.stop("me")


def keys(log: ValkeyStreamLog, *kinds: str) -> list[str]:
    return [key for key in keys_of(log._keys.prefix) if key.endswith(kinds)]


def stored_reservations(log: Log) -> int:
    if isinstance(log, ValkeyStreamLog):
        return len(keys(log, "reservations"))
    ((count,),) = shared_server().execute(f"SELECT count(*) FROM {log._schema}.reservations")
    return int(count)


@on_each
@aio
async def test_owners_share_what_there_is(make: Make) -> None:
    async with opened(make) as (store, _, _):
        assert await store.reserve("ann", "1", Reservation(0, 3, 5), NONE) == (3, 0)
        assert await store.reserve("ann", "2", Reservation(0, 9, 5), NONE) == (2, 0)
        assert await store.reserve("ann", "3", Reservation(0, 1, 5), NONE) == (0, 0)
        assert await store.reserve("bob", "3", Reservation(0, 1, 5), NONE) == (1, 0)
        # It has the whole state of its owner, so a repeated one changes nothing.
        for _ in range(2):
            assert await store.reserve("ann", "1", Reservation(1, 0, 5), NONE) == (0, 0)
        assert await store.reserve("ann", "3", Reservation(0, 9, 5), NONE) == (2, 0)


@on_each
@aio
async def test_streams_and_readers_are_counted_apart(make: Make) -> None:
    async with opened(make) as (store, _, log):
        granted = await store.reserve("ann", "1", Reservation(0, 2, 2), Reservation(0, 9, 7))
        assert granted == (2, 7)
        granted = await store.reserve("ann", "2", Reservation(0, 2, 2), Reservation(0, 9, 9))
        assert granted == (0, 2)
        assert await store.reserve("ann", "1", NONE, NONE) == (0, 0)
        assert await store.reserve("ann", "2", NONE, NONE) == (0, 0)
        assert stored_reservations(log) == 0


@on_each
@aio
async def test_a_restarted_agent_may_exceed_the_limit(make: Make) -> None:
    async with opened(make) as (store, _, _):
        assert await store.reserve("ann", "1", Reservation(7, 1, 5), NONE) == (0, 0)
        assert await store.reserve("ann", "2", Reservation(0, 1, 5), NONE) == (0, 0)


@on_each
@aio
async def test_what_a_dead_process_has_reserved_is_free_after_its_lease(make: Make) -> None:
    async with opened(make) as (store, clock, _):
        assert await store.reserve("ann", "dead", Reservation(0, 5, 5), NONE) == (5, 0)
        clock.forward(store.lease - 0.1)
        assert await store.reserve("ann", "2", Reservation(0, 1, 5), NONE) == (0, 0)
        clock.forward(0.2)
        assert await store.reserve("ann", "2", Reservation(0, 6, 5), NONE) == (5, 0)


@on_each
@aio
async def test_nobody_is_refused_for_hours_after_the_clock_of_the_store_was_set_back(
    make: Make,
) -> None:
    async with opened(make) as (store, clock, _):
        clock.forward(3600)
        assert await store.reserve("ann", "dead", Reservation(0, 5, 5), NONE) == (5, 0)
        assert [await store.take_token("ann", 2) for _ in range(2)] == [0, 0]
        clock.forward(-3600)
        assert await store.reserve("ann", "2", Reservation(0, 1, 5), NONE) == (1, 0)
        assert await store.take_token("ann", 2) == 30 * 10**9
        clock.forward(30)
        assert await store.take_token("ann", 2) == 0


@aio
async def test_the_keys_have_a_time_to_live() -> None:
    async with logs() as [log]:
        await log.quotas.reserve("ann", "1", Reservation(0, 5, 5), NONE)
        assert await log.quotas.take_token("ann", 60) == 0
        store = log._session().store
        found = {key.rpartition(":")[2]: key for key in keys(log, "reservations", "bucket")}
        left = {name: await store.command("PTTL", key) for name, key in found.items()}
        assert 0 < left["reservations"] <= log.quotas.lease * 1000 == 30_000
        assert 0 < left["bucket"] <= 1000


@aio
async def test_replicas_whose_estimates_of_the_time_differ_let_a_whole_burst_pass() -> None:
    async with logs(2) as [log, behind]:
        assert [await log.quotas.take_token("ann", 4) for _ in range(3)] == [0, 0, 0]
        clock = behind._session()._store_clock
        assert clock._offset is not None
        clock._offset -= 0.5
        assert await behind.quotas.take_token("ann", 4) == 0
        assert 14 * 10**9 < await behind.quotas.take_token("ann", 4) <= 15 * 10**9


@aio
async def test_limits_are_counted_on_a_full_store() -> None:
    clock, prefix = Clock(), fresh_prefix()
    async with full_store(clock, prefix) as (server, _), logs(1, server, prefix=prefix) as [log]:
        await assert_full(log)
        assert await log.quotas.reserve("ann", "1", Reservation(0, 5, 5), NONE) == (5, 0)
        assert [await log.quotas.take_token("ann", 1) > 0 for _ in range(2)] == [False, True]


@pytest.mark.parametrize("make", [valkey, postgres])
@settings(max_examples=15)
@given(
    st.sampled_from([1, 7, 60, 1000, 10_000_000]),
    st.lists(st.tuples(st.sampled_from("tttg"), st.integers(0, 10**9)), max_size=25),
)
def test_tokens_follow_the_rule_of_one_process(
    make: Make, per_minute: int, steps: list[tuple[str, int]]
) -> None:
    """Two event loops would take from one bucket alike, so the steps of one are compared."""

    @aio
    async def compare() -> None:
        async with opened(make) as (store, clock, _):
            # In microseconds, as the store counts.
            rule = RequestRate(per_minute)
            rule._interval = max(1, 60_000_000 // per_minute)
            rule._window = rule._interval * per_minute
            for step, micros in steps:
                clock.now = (round(clock.now * 1e6) + micros // per_minute) / 1e6
                now = int(clock.now * 1e6)
                if step == "g":
                    rule.give_back("ann", now)
                    await store.give_token_back("ann", per_minute)
                else:
                    taken = await store.take_token("ann", per_minute)
                    assert taken == rule.take("ann", now) * 1000

    compare()
