"""The lock on an address: one process holds it, and only as long as it has a socket there."""

import os
import socket
from pathlib import Path

from coreason_client.server.process._address_lock import (
    LocalAddress,
    _position,
    claim,
    has_socket_at,
    release,
)

from ..address_holder import hold, reply, run_with_lock

FORKED = """
import os
from _address_lock import claim, release
address = ("127.0.0.1", 1)
assert claim(address)
assert claim(address)  # for a second application
child = os.fork()
if child == 0:
    os._exit(claim(address))
assert os.waitpid(child, 0)[1] == 0  # it got nothing, and took nothing
release(address)
child = os.fork()
if child == 0:
    os._exit(claim(address))
assert os.waitpid(child, 0)[1] == 0
release(address)
child = os.fork()
if child == 0:
    os._exit(42 if claim(address) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
"""


def test_a_lock_is_held_until_its_process_is_gone() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as sock,
        socket.create_server(("127.0.0.1", 0)) as another,
    ):
        port = sock.getsockname()[1]
        with hold(port) as first, hold(another.getsockname()[1]) as other:
            assert (reply(first), reply(other)) == ("True", "True")
            assert not claim(("127.0.0.1", port))
            first.kill()
            other.kill()
        assert claim(("127.0.0.1", port))
        release(("127.0.0.1", port))
        release(("127.0.0.1", port))  # once more changes nothing


def test_a_fork_neither_inherits_nor_ends_a_lock(tmp_path: Path) -> None:
    run_with_lock(FORKED, tmp_path)


def test_where_no_file_can_be_written_every_claim_succeeds(tmp_path: Path) -> None:
    (tmp_path / f"coreason-{os.getuid()}.lock").mkdir()
    program = "from _address_lock import claim; print(claim(('x', 1)))"
    assert run_with_lock(program, tmp_path) == "True\n"


def test_a_link_in_the_place_of_the_lock_file_is_not_followed(tmp_path: Path) -> None:
    """Another user of the machine may have put it there."""
    (tmp_path / f"coreason-{os.getuid()}.lock").symlink_to(tmp_path / "target")
    program = "from _address_lock import claim; print(claim(('x', 1)))"
    assert run_with_lock(program, tmp_path) == "True\n"
    assert not (tmp_path / "target").exists()


def test_each_address_has_its_own_byte_of_the_file() -> None:
    addresses: list[LocalAddress] = [
        ("127.0.0.1", 80),
        ("127.0.0.1", 81),
        ("127.0.0.2", 80),
        ("::1", 80),
        ("/run/one", None),
        ("/run/two", None),
    ]
    positions = [_position(address) for address in addresses]
    assert positions == [_position(address) for address in addresses]
    assert len(set(positions)) == len(addresses)
    assert all(0 <= position < 2**62 for position in positions)  # the range of a file offset


def test_only_addresses_of_real_sockets_count(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with (
        socket.create_server(("127.0.0.1", 0)) as sock,
        socket.socket(socket.AF_UNIX) as unix,
    ):
        unix.bind(path)
        port = sock.getsockname()[1]
        assert has_socket_at(("127.0.0.1", port))
        assert has_socket_at((path, None))
        assert not has_socket_at(("127.0.0.2", port))
    assert not has_socket_at(("127.0.0.1", port))
    assert not has_socket_at(("testserver", 80))
