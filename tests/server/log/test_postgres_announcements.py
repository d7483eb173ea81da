"""Announcements: how readers in other processes learn of appends."""

import asyncio
import os
import re
import signal
import time
from typing import Any
from uuid import UUID, uuid4

import asyncpg  # type: ignore[import-untyped]
import pytest

from coreason_client.server.log import PostgresStreamLog
from coreason_client.server.log.postgres import _announcements
from coreason_client.server.log.postgres._announcements import Announcements

from ..aio import aio
from .postgres_logs import NEVER, logs
from .postgres_server import PostgresServer, shared_server
from .valkey_logs import new, until

SOON = 20.0


def announcements_of(log: PostgresStreamLog) -> Announcements:
    found = log._session().announcements
    assert found is not None
    return found


@aio
async def test_an_append_just_before_a_reader_is_announced_to_is_not_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with logs(2, poll=NEVER) as [writer, other]:
        stream = new()
        await writer.open(stream, "me")
        load, loads = other._load_page, 0

        async def load_and_append(*position: Any) -> Any:
            nonlocal loads
            loads += 1
            page = await load(*position)
            if loads == 1:  # nobody listens to the announcement of this append
                await writer.append(stream.stream_id, 1, 1, [b"1"])
                await asyncio.sleep(0.2)
            return page

        monkeypatch.setattr(other, "_load_page", load_and_append)
        page = await asyncio.wait_for(other.read(stream.stream_id, 0, 10, 60.0), SOON)
        assert page.entries == [b"1"]


@aio
async def test_announcements_are_short_and_have_no_ids() -> None:
    async with logs(2, poll=NEVER) as [writer, other]:
        heard: list[str] = []
        connection = await asyncpg.connect(shared_server().url)
        await connection.add_listener(writer._schema, lambda *message: heard.append(message[-1]))
        ids = [uuid4() for _ in range(1_000)]
        woken: set[UUID] = set()
        listening = announcements_of(other)
        for id_ in ids:
            listening.subscribe(id_)
        listening._waiters = WokenIds(woken)  # type: ignore[assignment]
        for id_ in ids:
            announcements_of(writer).announce(id_)
        await asyncio.wait_for(until(lambda: len(woken) == len(ids)), SOON)
        await connection.close()
    assert len(heard) < 10
    assert max(map(len, heard)) < 8_000
    assert all(re.fullmatch(r"(?:[0-9a-f]{16})+", payload) for payload in heard)
    assert not [id_ for id_ in ids for payload in heard if id_.hex in payload]


class WokenIds:
    """Waiters that only collect which streams are woken."""

    def __init__(self, ids: set[UUID]) -> None:
        self.wake = ids.add

    def positions(self) -> list[tuple[UUID, int]]:
        return []


@aio
async def test_appends_within_ten_milliseconds_share_an_announcement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with logs() as [log]:
        stream, store, calls = new(), log._session().store, 0
        notify = store.notify

        def count(payload: str) -> Any:
            nonlocal calls
            calls += 1
            return notify(payload)

        monkeypatch.setattr(store, "notify", count)
        await log.open(stream, "me")
        began = time.monotonic()
        for seq in range(1, 200):
            await log.append(stream.stream_id, 1, seq, [b"x"])
        took = time.monotonic() - began
        assert 1 <= calls <= took / 0.01 + 1


@aio
async def test_a_repeated_append_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that has stored it may have died before it could announce it."""
    async with logs(2, poll=NEVER) as [writer, other]:
        stream = new()
        await writer.open(stream, "me")
        reading = asyncio.ensure_future(other.read(stream.stream_id, 0, 10, 60.0))
        await until(lambda: announcements_of(other)._heard)
        await asyncio.sleep(0.2)  # it has looked once more, and waits
        with monkeypatch.context() as silent:
            silent.setattr(writer._session(), "announce", lambda _: None)
            await writer.append(stream.stream_id, 1, 1, [b"1"])
        await writer.append(stream.stream_id, 1, 1, [b"1"])
        assert (await asyncio.wait_for(reading, SOON)).entries == [b"1"]


@aio
async def test_a_listener_leaves_a_server_that_is_no_longer_the_primary() -> None:
    listening = "SELECT pid FROM pg_stat_activity WHERE application_name = $1 AND query LIKE $2"
    async with logs(url=f"{shared_server().url}&application_name=listener") as [log]:

        async def listeners() -> list[tuple[int]]:
            execute = shared_server().execute
            return await asyncio.to_thread(execute, listening, "listener", "LISTEN%")

        [before] = await listeners()
        log._session().store.server.demoted()
        async with asyncio.timeout(SOON):
            while (found := await listeners()) in ([], [before]):
                pass
        assert len(found) == 1


@aio
async def test_nobody_waits_for_an_announcement_that_has_no_standby() -> None:
    with PostgresServer() as server:
        async with logs(2, server=server, poll=NEVER, patience=60.0) as [writer, other]:
            standby = server.add_standby("other")
            stream = uuid4()
            announcements_of(other).subscribe(stream)
            woken: set[UUID] = set()
            announcements_of(other)._waiters = WokenIds(woken)  # type: ignore[assignment]
            standby.pause()
            announcements_of(writer).announce(stream)
            await asyncio.wait_for(until(lambda: woken == {stream}), SOON)
            standby.go_on()


@aio
async def test_a_listener_whose_connection_is_silent_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_announcements, "_PING_INTERVAL", 0.2)
    with PostgresServer() as server:
        async with logs(2, server=server, poll=NEVER) as [writer, other]:
            stream = new()
            await writer.open(stream, "me")
            reading = asyncio.ensure_future(other.read(stream.stream_id, 0, 10, 60.0))
            await until(lambda: announcements_of(other)._heard)
            pids = await asyncio.to_thread(
                server.execute,
                "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%' OR query = 'SELECT 1'",
            )
            for (pid,) in pids:
                os.kill(pid, signal.SIGSTOP)
            await writer.append(stream.stream_id, 1, 1, [b"1"])
            assert (await asyncio.wait_for(reading, SOON)).entries == [b"1"]
