"""The proxy does to connections what its plan says, in front of any protocol."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from urllib.parse import urlsplit

import pytest

from coreason_client import A2AClient, AsyncCAPClient, CAPClient
from coreason_client.errors import ArgumentError
from coreason_client.testing import (
    ChaosProxy,
    ConnectionPlan,
    FakeAgent,
    FaultServer,
    VirtualClock,
    fake_agent,
)
from tests.each import each

WORDS = [f"word{number} " for number in range(100)]
LIMIT = 30.0


@contextmanager
def sending(data: bytes, connections: int = 1) -> Iterator[str]:
    """Serve bytes to each connection and keep it until the other side closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(LIMIT)

        def serve() -> None:
            for _ in range(connections):
                with listener.accept()[0] as sock:
                    sock.settimeout(LIMIT)
                    sock.sendall(data)
                    try:
                        while sock.recv(1024):
                            pass
                    except OSError:
                        pass

        thread = Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(LIMIT)
        assert not thread.is_alive()


def received(proxy: ChaosProxy, limit: int | None = None) -> tuple[bytes, str]:
    """Return what a client gets, and how the connection ends."""
    data = b""
    try:  # a reset may arrive before `connect` returns
        with socket.create_connection(("127.0.0.1", urlsplit(proxy.url).port or 0), LIMIT) as sock:
            while limit is None or len(data) < limit:
                if not (piece := sock.recv(4096)):
                    return data, "fin"
                data += piece
    except ConnectionResetError:
        return data, "rst"
    return data, "open"


@pytest.mark.proves("KIT-chaos-places")
def test_each_fault_happens_where_the_plan_says() -> None:
    data = b"x" * 1000
    plan = [
        ConnectionPlan("cut", 500),
        ConnectionPlan("stall", 5, pieces=2),
        ConnectionPlan("reset", 500),
        ConnectionPlan(pieces=3, delay=0.001),
    ]
    with sending(data, 4) as url, ChaosProxy(url, plan=plan, stall=0.01) as proxy:
        assert received(proxy) == (data[:500], "fin")
        assert received(proxy) == (data[:5], "fin")
        got, ending = received(proxy)
        assert ending == "rst"
        assert data.startswith(got)  # a reset discards what was not read
        assert received(proxy, 1000) == (data, "open")
        assert proxy.faults == 3
    assert proxy.report().splitlines() == [
        "ChaosProxy(plan=[…]) had 4 connections:",
        "  connection 1: cut after 500 bytes (planned: cut after 500 bytes)",
        "  connection 2: stall after 5 bytes (planned: stall after 5 bytes, in pieces of 2 bytes)",
        "  connection 3: reset after 500 bytes (planned: reset after 500 bytes)",
        f"  connection 4: 1000 bytes, no fault (planned: {plan[3]})",
    ]


@pytest.fixture(scope="module")
def talkative() -> Iterator[FakeAgent]:
    with fake_agent(WORDS) as agent:
        yield agent


@each("seed", range(6))
def test_a_stream_arrives_exactly_once(
    seed: int, coreason_clock: VirtualClock, talkative: FakeAgent
) -> None:
    with ChaosProxy(talkative.url, seed=seed, stall=0.01) as proxy:
        with CAPClient(proxy.url, "key") as client:
            assert client.ask("Hi") == "".join(WORDS)
        assert proxy.connections == 3
        assert proxy.plan(2).splitlines()[0].startswith("connection 1: ")


def test_it_works_in_front_of_a2a_and_of_a_path(coreason_clock: VirtualClock) -> None:
    plan = [ConnectionPlan("cut", 40), ConnectionPlan("reset", 700)]
    with (
        fake_agent("Hello", a2a=True) as agent,
        ChaosProxy(agent.url, plan=plan[:1]) as proxy,
        A2AClient.connect(proxy.url) as client,
    ):
        assert client.card is not None
        assert client.card.name == "fake"
        assert proxy.faults == 1
    with FaultServer() as server:
        run = server.run("correct")
        with ChaosProxy(run.base_url, plan=plan) as proxy, CAPClient(proxy.url, "key") as cap:
            assert cap.ask("Hi") == run.text
            assert proxy.url.endswith(f"/{run.id}")


def test_async_programs_and_several_upstreams() -> None:
    async def main() -> None:
        async with fake_agent("one") as one, fake_agent("two") as two:
            with refusing() as gone:
                async with ChaosProxy([gone, one.url, two.url], seed=1, faults=()) as proxy:
                    answers = []
                    for _ in range(3):
                        async with AsyncCAPClient(proxy.url, "key") as client:
                            answers.append(str(await client.ask("Hi")))
        assert answers == ["one", "one", "two"]

    asyncio.run(asyncio.wait_for(main(), 30))


@contextmanager
def refusing() -> Iterator[str]:
    """Hold a port that refuses connections: a free one could be taken by another program."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"


def test_a_server_can_be_replaced_by_another(talkative: FakeAgent) -> None:
    with refusing() as url, ChaosProxy(url, seed=1, faults=()) as proxy:
        assert received(proxy) == (b"", "rst")
        proxy.route_to(talkative.url)
        with CAPClient(proxy.url, "key") as client:
            assert client.ask("Hi") == "".join(WORDS)


def test_an_open_connection_can_be_cut_by_hand() -> None:
    with sending(b"x" * 100) as url, ChaosProxy(url, seed=1, faults=()) as proxy:
        assert not proxy.cut_one()
        with socket.create_connection(("127.0.0.1", urlsplit(proxy.url).port or 0), LIMIT) as sock:
            assert len(sock.recv(4096)) > 0
            assert proxy.cut_one()
            while proxy.faults == 0 and proxy.cut_one():  # the next bytes may never come
                pass
        assert proxy.faults == 1


@pytest.mark.proves("KIT-chaos-note")
def test_a_failed_block_gets_the_seed_as_a_note() -> None:
    with sending(b"x" * 50) as url, pytest.raises(AssertionError) as raised:  # noqa: SIM117
        with ChaosProxy(url, seed=12, faults=("delay",)) as proxy:
            assert received(proxy, 50)[0] == b"y"
    [note] = raised.value.__notes__
    assert note.splitlines() == [
        "ChaosProxy(seed=12) had 1 connection:",
        "  connection 1: 50 bytes, no fault (planned: whole)",
    ]


def test_without_a_seed_there_is_a_new_one() -> None:
    seeds = {ChaosProxy("http://127.0.0.1:9").seed for _ in range(5)}
    assert len(seeds) > 1


def test_without_an_upstream_connections_are_reset() -> None:
    with refusing() as url, ChaosProxy(url, seed=1) as proxy:
        assert received(proxy) == (b"", "rst")
        assert "no upstream accepts connections" in proxy.report()


def test_wrong_arguments_are_refused() -> None:
    for upstream in ("127.0.0.1:80", "ftp://a", ""):
        with pytest.raises(ArgumentError, match="upstream must be a URL such as"):
            ChaosProxy(upstream)
    with pytest.raises(ArgumentError, match="at least one URL"):
        ChaosProxy([])
    with pytest.raises(ArgumentError, match="must not be combined with `plan`"):
        ChaosProxy("http://a", seed=1, plan=[])
    with pytest.raises(RuntimeError, match="not running"):
        _ = ChaosProxy("http://a").url
