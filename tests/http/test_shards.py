"""Several small pools: how clients are handed out, and that streams really are spread."""

import threading

import anyio
import pytest

from coreason_client._http import _build
from coreason_client._http._async import AsyncResponse, AsyncSender
from coreason_client._http._build import Shards, client_options
from coreason_client._http._types import Request, timeouts_from
from tests.faults import FaultServer


@pytest.mark.proves("R04l")
def test_a_client_is_handed_out_up_to_its_share_and_then_another() -> None:
    shards = Shards(object)
    taken = [shards.acquire() for _ in range(100)]
    clients = {id(shard.client) for shard in taken}
    assert len(clients) == 4
    assert max(shard.active for shard in taken) == _build._REQUESTS_PER_CLIENT == 32


def test_what_was_given_back_is_used_again() -> None:
    shards = Shards(object)
    first = [shards.acquire() for _ in range(40)]
    for shard in first:
        shards.release(shard)
    again = [shards.acquire() for _ in range(40)]
    assert {id(shard) for shard in again} == {id(shard) for shard in first}


def test_one_request_after_the_other_keeps_to_one_client() -> None:
    shards = Shards(object)
    clients = set()
    for _ in range(100):
        shard = shards.acquire()
        clients.add(shard.client)
        shards.release(shard)
    assert len(clients) == 1


def test_draining_gives_every_client_once() -> None:
    shards = Shards(object)
    taken = [shards.acquire() for _ in range(70)]
    drained = shards.drain()
    assert {id(client) for client in drained} == {id(shard.client) for shard in taken}
    assert shards.drain() == []
    for shard in taken:
        shards.release(shard)


def test_many_threads_never_share_more_than_allowed() -> None:
    shards = Shards(object)
    most: list[int] = []

    def work() -> None:
        for _ in range(200):
            shard = shards.acquire()
            most.append(shard.active)
            shards.release(shard)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert max(most) <= 32
    assert all(shard.active == 0 for shard in shards._shards)


def test_the_ssl_context_is_made_once_for_each_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert client_options()["verify"] is client_options()["verify"]
    usual = client_options()["verify"]
    monkeypatch.setenv("SSL_CERT_DIR", "/nowhere/at/all")
    assert client_options()["verify"] is not usual


@pytest.mark.proves("R04l", "R04m")
def test_streams_are_spread_and_read_without_a_cancel_scope(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forbidden(*args: object, **kwargs: object) -> object:
        raise AssertionError("a read opened a cancel scope")

    async def main(url: str) -> None:
        sender = AsyncSender()
        request = Request("POST", url, {}, b"{}", timeouts_from(5.0))
        responses: list[AsyncResponse] = []

        async def open_one() -> None:
            responses.append(await sender.open(request))

        async with anyio.create_task_group() as group:
            for _ in range(40):
                group.start_soon(open_one)
        monkeypatch.setattr(anyio, "fail_after", forbidden)
        for response in responses:
            pieces = response.chunks()
            assert await anext(pieces)
            await pieces.aclose()
            await response.aclose()
        [(_, clients)] = sender._clients.items()
        assert len(clients._shards) == 2
        await sender.aclose()

    with FaultServer() as server:
        anyio.run(main, server.run("correct").url)
