"""A Valkey that is full recovers by itself once old streams have expired."""

import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from coreason_client.server import AgentStream, ValkeyStreamLog
from coreason_client.server.engine import _upkeep
from coreason_manifest.definitions.service import ServiceRequest

from .conftest import Serve
from .log.valkey_server import ValkeyServer
from .peer import LIMIT, Gate, Peer, envelope

LARGE = 100_000


def used(server: ValkeyServer) -> int:
    return int(server.command("INFO", "memory")["used_memory"])


@pytest.fixture
def store() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


def until_served(peer: Peer) -> Any:
    """Ask until there is room for a new stream, and at least once in vain."""
    deadline = time.monotonic() + LIMIT
    answer = peer.ask(envelope("small"))
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    while answer.status == 503:
        assert time.monotonic() < deadline
        assert health(peer) == "ok"  # the upkeep works on a full store
        time.sleep(0.05)
        answer = peer.ask(envelope("small"))
    return answer


def health(peer: Peer) -> Any:
    return peer.http.get("/health").json()["status"]


def test_a_full_store_recovers_when_old_streams_expire(
    store: ValkeyServer, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_upkeep, "_EXPIRE_EVERY", 0.2)
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        if stream.question == "large":
            for _ in range(30):
                await stream.thought("x" * LARGE)  # not text, which the conversation keeps
        elif stream.question == "wait":
            await stream.write("before ")
            await gate.wait()
            await stream.write("and after")
        else:
            await stream.write("small")

    log = ValkeyStreamLog(store.url, lease=1.5, patience=2.0)
    peer = serve(agent, log=log, retention=1.0)
    body = envelope("wait")
    with peer.open(body) as waiting:
        waiting.until(1)
        before = used(store)
        assert peer.ask(envelope("large")).status == 200
        store.command("CONFIG", "SET", "maxmemory", before + 10 * LARGE)
        assert until_served(peer).text == "small"
        gate.open()
        waiting.rest()
    assert waiting.text == "before and after"
    assert health(peer) == "ok"


def test_readers_of_a_full_store_are_told_within_a_bounded_time(
    store: ValkeyServer, serve: Serve
) -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("before")
        await gate.wait()
        await stream.write("after")

    log = ValkeyStreamLog(store.url, lease=1.5, patience=2.0)
    peer, body = serve(agent, log=log), envelope()
    with pytest.raises(httpx2.RemoteProtocolError), peer.open(body) as answer:
        answer.until(1)
        store.command("CONFIG", "SET", "maxmemory", 1)
        gate.open()
        answer.rest()  # long before a heartbeat
    deadline = time.monotonic() + LIMIT
    while (ended := peer.ask(body, f"{answer.stream_id}:1")).status == 503:
        assert time.monotonic() < deadline
        time.sleep(0.05)
        store.command("CONFIG", "SET", "maxmemory", 0)
    assert (ended.status, ended.last.p.code) == (200, "producer_lost")
