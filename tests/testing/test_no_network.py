"""Nothing leaves this machine inside the guard, and everything works as before after it."""

import asyncio
import os
import pickle
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coreason_client import AsyncCAPClient, CAPClient, generate, generate_sync
from coreason_client.testing import NetworkBlocked, fake_agent, no_network
from coreason_client.testing._no_network import _is_local
from tests.each import each

FAR = "192.0.2.7"  # reserved for documents: no packet would arrive
MESSAGES = [{"role": "user", "content": "Hi"}]


def blocked(call: Callable[[], Any]) -> str:
    with pytest.raises(NetworkBlocked) as raised:
        call()
    return raised.value.address


async def _ask(url: str) -> None:
    async with AsyncCAPClient(url, "key") as client:
        await client.ask("Hi")


@pytest.mark.proves("KIT-network")
@pytest.mark.usefixtures("coreason_no_network")
def test_sockets_and_names_are_blocked() -> None:
    connect = socket.create_connection
    assert blocked(lambda: connect((FAR, 80), 1)) == f"{FAR}:80"
    assert blocked(lambda: connect(("2001:db8::1", 80), 1)) == "[2001:db8::1]:80"
    assert blocked(lambda: connect(("agent.invalid", 443), 1)) == "agent.invalid:443"
    assert blocked(lambda: socket.gethostbyname("agent.invalid")) == "agent.invalid"
    assert blocked(lambda: socket.gethostbyname_ex("agent.invalid")) == "agent.invalid"
    assert blocked(lambda: socket.gethostbyaddr(FAR)) == FAR
    with socket.socket() as sock:
        assert blocked(lambda: sock.connect_ex((FAR, 80))) == f"{FAR}:80"
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        assert blocked(lambda: sock.sendto(b"x", (FAR, 53))) == f"{FAR}:53"
        assert blocked(lambda: sock.sendmsg([b"x"], [], 0, (FAR, 53))) == f"{FAR}:53"


@pytest.mark.usefixtures("coreason_no_network")
def test_event_loops_are_blocked() -> None:
    for host, address in ((FAR, f"{FAR}:80"), ("agent.invalid", "agent.invalid:80")):
        assert blocked(lambda: asyncio.run(asyncio.open_connection(host, 80))) == address  # noqa: B023


@pytest.mark.usefixtures("coreason_no_network")
def test_clients_raise_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LLM_API_KEY", "key")
    for host in (FAR, "agent.invalid"):
        monkeypatch.setenv("LLM_API_BASE_URL", f"http://{host}/v1")
        calls: list[Callable[[], Any]] = [
            lambda: CAPClient(f"http://{host}", "key").ask("Hi"),  # noqa: B023
            lambda: asyncio.run(_ask(f"http://{host}")),  # noqa: B023
            lambda: generate_sync(MESSAGES, model="gpt-4o"),
            lambda: asyncio.run(generate(MESSAGES, model="gpt-4o")),
        ]
        for call in calls:
            assert blocked(call) == f"{host}:80"


@pytest.mark.usefixtures("coreason_no_network")
def test_loopback_and_unix_sockets_are_allowed(tmp_path: Path) -> None:
    with fake_agent("Hello") as agent, CAPClient(agent.url, "key") as client:
        assert client.ask("Hi") == "Hello"
        with CAPClient(agent.url.replace("127.0.0.1", "localhost"), "key") as named:
            assert named.ask("Hi") == "Hello"
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as peer:
        server.bind(str(tmp_path / "s"))
        server.listen()
        peer.connect(str(tmp_path / "s"))
    assert socket.getaddrinfo(None, 80)
    assert socket.getaddrinfo("0.0.0.0", 80), "a server may listen everywhere"


@each(
    ("host", "local"),
    [
        *((host, True) for host in ("127.0.0.1", "127.8.8.8", "::1", "::1%lo", "localhost.", "")),
        *((host, True) for host in ("LOCALHOST", "a.localhost", "::ffff:127.0.0.1", "0.0.0.0")),
        *((host, False) for host in (FAR, "::ffff:192.0.2.7", "fe80::1%eth0", "10.0.0.1")),
        *((host, False) for host in ("localhost.example", "example.com", "127.0.0.1.example")),
    ],
)
def test_which_hosts_are_this_machine(host: str, local: bool) -> None:
    assert _is_local(host) is local


def test_it_can_be_nested_works_in_threads_and_ends() -> None:
    found: list[str] = []

    def connect() -> None:
        try:
            socket.create_connection((FAR, 80), timeout=0.001)
        except NetworkBlocked as error:
            found.append(error.address)
        except OSError:
            found.append("tried")

    with no_network():
        with no_network():
            pass
        thread = threading.Thread(target=connect)
        thread.start()
        thread.join(10)
    connect()
    assert found == [f"{FAR}:80", "tried"]


def test_the_error_says_what_is_allowed() -> None:
    error = pickle.loads(pickle.dumps(NetworkBlocked("a.example:1")))
    assert str(error) == (
        "no_network() has blocked the network access to a.example:1; only loopback addresses and "
        "Unix sockets are allowed here"
    )
    assert not isinstance(error, OSError | RuntimeError)
