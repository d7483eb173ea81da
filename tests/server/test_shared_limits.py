"""The limits of a principal on replicas that share a store: they count together."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from coreason_client.server import AgentApp, AgentStream
from coreason_manifest.definitions.service import ServiceRequest

from .aio import aio
from .log import postgres_server
from .log.valkey_server import fresh_prefix, shared_server
from .peer import envelope
from .test_replicas import log_at
from .virtual import Call

on_each = pytest.mark.parametrize("kind", ["valkey", "postgres"])


class Agent:
    """Runs until the test lets it end."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.running = 0
        self.most = 0

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await stream.write("begun")
            await self.go.wait()
        finally:
            self.running -= 1


@asynccontextmanager
async def replicas(
    kind: str, count: int, agent: Agent, **options: Any
) -> AsyncIterator[list[AgentApp]]:
    prefix = fresh_prefix()
    server = shared_server() if kind == "valkey" else postgres_server.shared_server()
    apps = [
        AgentApp(
            agent,
            log=log_at(server.url, prefix),
            api_keys=["a", "b"],
            agent_id="shared",
            **options,
        )
        for _ in range(count)
    ]
    async with AsyncExitStack() as stack:
        for app in apps:
            await stack.enter_async_context(app.lifespan())
        try:
            yield apps
        finally:
            agent.go.set()


async def begun(call: Call) -> int:
    """Wait for the first packet or the refusal; return the status."""
    while not call.packets and not call.task.done():  # noqa: ASYNC110
        await asyncio.sleep(0.002)
    return call.status


async def accepted(app: AgentApp, key: str, body: object = None) -> Call:
    """Ask until the unit of an earlier stream is free, as a client does after a 429.

    On a busy machine that takes longer than a server looks for it before it refuses.
    """
    while await begun(call := Call(app, body, key=key)) == 429:
        await call.end()
    return call


@on_each
@aio
async def test_streams_of_all_replicas_count_together_however_fast_they_come(kind: str) -> None:
    agent = Agent()
    async with replicas(kind, 3, agent, max_streams_per_key=5) as apps:
        calls = [Call(apps[number % 3], key="a") for number in range(24)]
        statuses = [await begun(call) for call in calls]
        assert sorted(statuses) == [200] * 5 + [429] * 19
        assert (agent.running, agent.most) == (5, 5)
        assert await begun(Call(apps[0], key="b")) == 200  # another key has its own limit
        agent.go.set()
        for call in calls:
            await call.end()
        # Who has read the end of an answer may ask the next question, at any replica.
        for number in range(6):
            call = await (await accepted(apps[number % 3], "a")).end()
            assert (call.status, call.text) == (200, "begun")


@on_each
@aio
async def test_readers_of_all_replicas_count_together(kind: str) -> None:
    agent, body = Agent(), envelope()
    async with replicas(kind, 2, agent, max_readers_per_key=3) as apps:
        calls = [Call(apps[0], body, key="a")]
        assert await begun(calls[0]) == 200
        calls += [Call(apps[number % 2], body, key="a") for number in range(7)]
        statuses = [await begun(call) for call in calls]
        assert sorted(statuses) == [200] * 3 + [429] * 5
        left = next(call for call in calls[1:] if call.status == 200)
        await left.leave()
        assert (await accepted(apps[1], "a", body)).status == 200


@on_each
@aio
async def test_requests_at_all_replicas_count_together(kind: str) -> None:
    agent = Agent()
    agent.go.set()
    async with replicas(kind, 2, agent, max_requests_per_minute=4) as apps:
        ended = [await Call(apps[number % 2], key="a").end() for number in range(6)]
        assert [call.status for call in ended] == [200] * 4 + [429] * 2
        # A request that joins its stream gives its token back.
        body = envelope()
        other = [await Call(apps[number % 2], body, key="b").end() for number in range(9)]
        assert {call.status for call in other} == {200}


@on_each
@aio
async def test_a_replica_that_stops_gives_its_part_back(kind: str) -> None:
    agent = Agent()
    async with replicas(kind, 2, agent, max_streams_per_key=1, drain_timeout=0.0) as apps:
        stopped = Call(apps[0], key="a")
        assert await begun(stopped) == 200
        assert await begun(Call(apps[1], key="a")) == 429
        apps[0].begin_shutdown()
        await stopped.end()
        assert (await accepted(apps[1], "a")).status == 200
