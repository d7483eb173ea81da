"""The state in a real Valkey: sync and async, its arguments, and a server that does not answer."""

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest

from coreason_client.errors import ArgumentError
from coreason_client.llm import LLMStateError, ResponseCache, ValkeyState
from coreason_client.llm.router._rules import (
    Account,
    Acquire,
    Candidate,
    Delayed,
    Granted,
    Refused,
    Settle,
)
from tests.llm.router.routed import Site
from tests.server.log.valkey_server import ValkeyServer, fresh_prefix, shared_server

ACCOUNT = Account("client", 100)
CANDIDATE = Candidate("a", amounts=(60,))


def acquire(name: str) -> Acquire:
    return Acquire(name, [CANDIDATE], [ACCOUNT], 60_000)


@pytest.fixture
def state() -> Iterator[ValkeyState]:
    with ValkeyState(shared_server().url, prefix=fresh_prefix()) as state:
        yield state


@pytest.mark.parametrize(
    ("url", "options", "name"),
    [
        ("http://a", {}, "url"),
        ("valkey://me:a-secret@", {}, "url"),
        ("valkey://a", {"prefix": ""}, "prefix"),
        ("valkey://a", {"prefix": "{a}"}, "prefix"),
        ("valkey://a", {"timeout": 0}, "timeout"),
    ],
)
def test_a_wrong_argument(url: str, options: dict[str, Any], name: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        ValkeyState(url, **options)
    assert caught.value.argument == name
    assert "a-secret" not in str(caught.value)


def test_the_password_is_never_shown() -> None:
    state = ValkeyState("valkey://me:a-secret@127.0.0.1:1/0")
    assert repr(state) == "ValkeyState('valkey://127.0.0.1:1/0', prefix='coreason-llm')"
    with pytest.raises(LLMStateError) as caught:
        state.run(acquire("1"))
    assert "a-secret" not in str(caught.value)
    assert "the state in valkey://127.0.0.1:1/0 cannot be used" in str(caught.value)
    assert caught.value.__cause__ is None
    state.close()


def test_sync_commands(state: ValkeyState) -> None:
    shared_server().command("SCRIPT", "FLUSH")  # as after a restart
    assert state.run(acquire("1")) == Granted(0)
    assert state.run(acquire("1")) == Granted(0)
    assert state.run(acquire("2")) == Refused(0, 0, 60)
    assert state.run(Settle("1", CANDIDATE, [ACCOUNT], (5,), 0, "failure", 9000, 0)) is None
    assert state.totals("client") == (5, 0)
    delayed = state.run(acquire("3"))
    assert isinstance(delayed, Delayed)
    assert 7000 < delayed.ms <= 9000


def test_async_commands_in_two_event_loops(state: ValkeyState) -> None:
    async def use(name: str) -> object:
        results = await asyncio.gather(*(state.run_async(acquire(name)) for _ in range(5)))
        await state.run_async(Settle(name, CANDIDATE, [ACCOUNT], (1,), 0))
        return results

    assert asyncio.run(use("1")) == [Granted(0)] * 5
    assert asyncio.run(use("2")) == [Granted(0)] * 5
    assert state.totals("client") == (2, 0)
    assert len(state.connections._clients) == 0  # the end of a loop closes its connections


def test_closing_twice(state: ValkeyState) -> None:
    async def use() -> None:
        async with state:
            await state.run_async(acquire("1"))
        await state.aclose()

    asyncio.run(use())
    state.close()
    assert state.totals("client") == (0, 60)  # a later call connects again


def test_a_forked_child_opens_its_own_connection(state: ValkeyState) -> None:
    state.run(acquire("1"))
    child = os.fork()
    if child == 0:
        os._exit(0 if state.totals("client") == (0, 60) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert state.totals("client") == (0, 60)


def test_a_server_that_is_silent_or_gone_is_an_error_and_one_that_is_back_is_used() -> None:
    with ValkeyServer() as server, ValkeyState(server.url, timeout=0.2) as state:
        assert state.run(acquire("1")) == Granted(0)
        server.pause()
        with pytest.raises(LLMStateError):
            state.run(acquire("2"))
        with pytest.raises(LLMStateError):
            asyncio.run(state.run_async(acquire("2")))
        server.go_on()
        assert state.run(acquire("1")) == Granted(0)
        server.kill()
        with pytest.raises(LLMStateError):
            state.run(acquire("2"))
        server.start()
        assert state.run(acquire("3")) == Granted(0)  # of an empty store


def test_answers_are_cached_for_all_processes(state: ValkeyState) -> None:
    sites = [Site({"fast": ["a"]}, cache=ResponseCache(60), state=state) for _ in range(2)]
    responses = [site.generate() for site in sites]
    assert [response.get("cached") for response in responses] == [None, True]
    assert [site.hosts for site in sites] == [["a"], []]
    [key] = shared_server().command("KEYS", f"{{{state.prefix}}}:cache:*")
    assert 50_000 < shared_server().command("PTTL", key) <= 60_000


def test_without_the_server_nothing_is_cached(caplog: pytest.LogCaptureFixture) -> None:
    with ValkeyState("valkey://127.0.0.1:1") as state:
        site = Site({"fast": ["a"]}, cache=ResponseCache(60), state=state)
        assert "cached" not in site.generate()
        assert "cached" not in site.generate()
    assert "the cache is not used" in caplog.text
