"""Every wait of a client is skipped and recorded, and its limits notice the time."""

import asyncio
import time

import pytest
import trio

from coreason_client import AsyncCAPClient, CAPClient, CAPConnectionError, CAPTimeoutError
from coreason_client.errors import ArgumentError
from coreason_client.testing import FaultServer, virtual_clock
from coreason_client.testing.faults._table import FOREVER

LIMIT = 45.0  # of real seconds on a busy machine, where the waits take 50 s and more


@pytest.mark.proves("KIT-clock")
def test_a_server_may_ask_for_any_delay(coreason_faults: FaultServer) -> None:
    run = coreason_faults.run("status_on_reconnect", retry_after=50, times=2)
    start = time.monotonic()
    with virtual_clock() as clock, CAPClient(run.base_url, "key") as client:
        assert client.ask("Hi") == run.text
        assert [wait >= 50 for wait in clock.waits] == [False, True, True]
        assert clock.waited == sum(clock.waits) >= 100
        assert repr(clock).startswith("<VirtualClock: 3 waits, 1")
    assert time.monotonic() - start < LIMIT


@pytest.mark.parametrize("library", ["asyncio", "trio"])
def test_async_clients_do_not_wait_either(library: str, coreason_faults: FaultServer) -> None:
    run = coreason_faults.run("retry_field", retry=50_000)

    async def main() -> None:
        async with AsyncCAPClient(run.base_url, "key") as client:
            assert await client.ask("Hi") == run.text

    start = time.monotonic()
    with virtual_clock() as clock:
        asyncio.run(main()) if library == "asyncio" else trio.run(main)
    assert len(clock.waits) == 1
    assert clock.waited >= 50
    assert time.monotonic() - start < LIMIT


def test_a_retry_budget_ends_as_if_the_time_had_passed(coreason_faults: FaultServer) -> None:
    run = coreason_faults.run("fin_mid_event_chunked", times=FOREVER)
    start = time.monotonic()
    with virtual_clock() as clock, CAPClient(run.base_url, "key", reconnect_for=60) as client:
        with pytest.raises(CAPConnectionError):
            client.ask("Hi")
        assert 59 < clock.waited < 70
        assert len(run.requests) == 1 + len(clock.waits) < 40
    assert time.monotonic() - start < LIMIT


@pytest.mark.proves("KIT-clock-deadline")
def test_a_deadline_passes_with_the_waits(coreason_faults: FaultServer) -> None:
    run = coreason_faults.run("fin_mid_event_chunked", times=FOREVER)
    with virtual_clock() as clock, CAPClient(run.base_url, "key", max_retries=99) as client:
        with pytest.raises(CAPTimeoutError):
            client.ask("Hi", deadline=20)
        assert clock.waited <= 20


def test_time_can_pass_without_a_wait(coreason_faults: FaultServer) -> None:
    run = coreason_faults.run("correct")
    with virtual_clock() as clock, CAPClient(run.base_url, "key") as client:
        stream = client.chat("Hi", deadline=20)
        next(iter(stream))
        clock.advance(30)
        assert clock.waits == []
        with pytest.raises(ArgumentError, match="seconds must not be negative"):
            clock.advance(-1)


def test_clocks_can_be_nested_and_end() -> None:
    from coreason_client import _clock

    with virtual_clock() as outer:
        with virtual_clock() as inner:
            assert _clock.real_seconds(1) == 0
        assert _clock.real_seconds(2) == 0
    assert (outer.waits, inner.waits) == ([2], [1])
    assert _clock.real_seconds(3) == 3
