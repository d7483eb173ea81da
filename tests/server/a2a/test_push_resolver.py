"""Lookups of hosts, each in its own thread."""

import asyncio
import socket
import threading
from typing import Any

import pytest

from coreason_client.server.a2a._push._sender import ThreadResolver

from ..aio import LIMIT, aio


@pytest.mark.parametrize("host", ["2130706433", "0177.0.0.1", "0x7f.1", "127.1", "127.0.0.1"])
@aio
async def test_older_forms_are_resolved_as_the_system_does(host: str) -> None:
    assert set(await ThreadResolver()(host, 80)) == {"127.0.0.1"}


@aio
async def test_addresses_need_no_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", None)
    assert await ThreadResolver()("2606:2800::1", 80) == ["2606:2800::1"]


@pytest.mark.parametrize("error", [socket.gaierror(-2, "unknown"), UnicodeError("idna")])
@aio
async def test_errors_are_raised(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(type(error)):
        await ThreadResolver()("example.org", 80)


@aio
async def test_lookups_that_hang_are_limited_and_delay_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released, real = threading.Event(), socket.getaddrinfo
    waiting = threading.Semaphore(0)

    def slow(host: Any, *args: Any, **more: Any) -> Any:
        if host == "slow.example":
            waiting.release()
            assert released.wait(LIMIT)
            host = "127.1"
        return real(host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    resolver = ThreadResolver(3)
    hanging = [asyncio.create_task(resolver("slow.example", 80)) for _ in range(2)]
    for _ in hanging:
        assert await asyncio.to_thread(waiting.acquire, timeout=LIMIT)
    assert set(await resolver("127.1", 80)) == {"127.0.0.1"}
    hanging.append(asyncio.create_task(resolver("slow.example", 80)))
    assert await asyncio.to_thread(waiting.acquire, timeout=LIMIT)
    with pytest.raises(OSError, match="too many lookups"):
        await resolver("127.1", 80)
    hanging[0].cancel()  # its lookup goes on, and its answer is dropped
    released.set()
    for task in hanging[1:]:
        assert set(await task) == {"127.0.0.1"}
    assert set(await resolver("127.1", 80)) == {"127.0.0.1"}


def test_an_answer_that_comes_after_the_end_of_the_loop_is_dropped() -> None:
    loop = asyncio.new_event_loop()
    found = loop.create_future()
    loop.close()
    resolver = ThreadResolver(1)
    assert resolver._left.acquire(blocking=False)
    resolver._look_up("127.0.0.1", 80, found)
    assert not found.done()
