"""Listening sockets."""

import errno
import os
import socket
import stat
from pathlib import Path
from typing import Any, ClassVar

import pytest

from coreason_client import ArgumentError
from coreason_client.server import listen, listen_all, listen_unix
from coreason_client.server.process._listen import remove_unix

from ..peer import LIMIT


def test_every_address_of_a_host_listens_at_the_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    def addresses(host: str, port: int, **_: object) -> list[Any]:
        # The second is of a network for documentation, which this machine does not have.
        kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        return [(*kind, (ip, port)) for ip in ("127.0.0.1", "192.0.2.1", "127.0.0.2", "127.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", addresses)
    sockets = listen_all("a host", 0)
    with sockets[0], sockets[1]:
        [(first, port), (second, same)] = [sock.getsockname() for sock in sockets]
        assert (first, second, same) == ("127.0.0.1", "127.0.0.2", port)
        with pytest.raises(OSError, match="in use"):  # and closes what it had opened
            listen_all("a host", port)


def test_small_packets_leave_a_listening_socket_at_once() -> None:
    with listen("127.0.0.1", 0) as sock:
        # asyncio looks at the first, and where it does not, accepted sockets inherit the second.
        assert sock.proto == socket.IPPROTO_TCP
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        with socket.create_connection(sock.getsockname(), timeout=LIMIT):
            accepted, _ = sock.accept()
            with accepted:
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        with pytest.raises(OSError, match="in use"):
            listen(*sock.getsockname())


def test_a_host_without_an_address_on_this_machine_is_an_error() -> None:
    with pytest.raises(OSError, match="assign") as caught:
        listen_all("192.0.2.1", 0)
    assert caught.value.errno == errno.EADDRNOTAVAIL


class Recorded:
    """A socket that only records its options; not every machine has IPv6."""

    made: ClassVar[list["Recorded"]] = []

    def __init__(self, family: socket.AddressFamily, *_: int) -> None:
        self.family = family
        self.options: dict[tuple[int, int], int] = {}
        self.address: tuple[object, ...] = ()
        self.made.append(self)

    def setsockopt(self, level: int, name: int, value: int) -> None:
        self.options[level, name] = value

    def bind(self, address: tuple[object, ...]) -> None:
        self.address = (address[0], address[1] or 4711, *address[2:])

    def listen(self, _: int) -> None:
        pass

    def getsockname(self) -> tuple[object, ...]:
        return self.address


def test_both_families_share_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """An IPv6 socket would otherwise serve IPv4 too, and the port would be in use."""

    def addresses(host: str, port: int, **_: object) -> list[Any]:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 7)),
        ]

    monkeypatch.setattr(socket, "getaddrinfo", addresses)
    monkeypatch.setattr(socket, "socket", Recorded)
    listen_all("a host", 0)
    assert [sock.address for sock in Recorded.made] == [("127.0.0.1", 4711), ("::1", 4711, 0, 7)]
    only_ipv6 = (socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
    assert [sock.options.get(only_ipv6) for sock in Recorded.made] == [None, 1]


def test_a_unix_socket_has_its_permissions_and_replaces_a_dead_one(tmp_path: Path) -> None:
    path, umask = tmp_path / "s", os.umask(0)
    try:
        for mode in (0o660, 0o600, 0o666):
            with listen_unix(path, mode):
                assert stat.S_IMODE(path.stat().st_mode) == mode
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(str(path))
                with pytest.raises(OSError, match="in use") as caught:
                    listen_unix(path)
                assert caught.value.errno == errno.EADDRINUSE
                remove_unix(path)  # somebody listens there
                assert path.exists()
            assert path.exists()  # as after SIGKILL
    finally:
        assert os.umask(umask) == 0
    remove_unix(path)
    remove_unix(path)
    assert not path.exists()
    with pytest.raises(ArgumentError, match="uds_mode must be permissions"):
        listen_unix(path, 0o1000)
    with pytest.raises(OSError, match="No such file"):
        listen_unix(tmp_path / "no" / "folder")


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_only_a_socket_is_ever_removed(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "s"
    if kind == "file":
        path.write_text("precious")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere")
    with pytest.raises(ArgumentError, match=f"uds {path}: there is something other than a socket"):
        listen_unix(path)
    remove_unix(path)
    assert path.is_symlink() or path.exists()
