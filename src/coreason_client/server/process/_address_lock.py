"""A lock on the address that a process serves: two processes cannot hold the same one.

Processes that receive connections at the same local address share a listening socket, however they
were started. The lock is one byte of a file in the directory for temporary files; its position is
computed from the address. Such a lock (POSIX) belongs to the process: a forked child does not
inherit it, and it ends with the process, even after SIGKILL.
"""

import hashlib
import os
import socket
import stat
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

LocalAddress = tuple[str, int | None]  # host and port, or the path of a Unix socket and None

_guard = threading.Lock()
_claims: Counter[LocalAddress] = Counter()
_file: list[int] = []  # open until the process ends: closing it would release every lock
_pid: list[int] = []


def claim(address: LocalAddress) -> bool:
    """Return False if another process holds this address; otherwise this process holds it.

    Several applications of one process may claim the same address. If locks are not available,
    every claim succeeds.
    """
    with _guard:
        _forget_parent()
        if not _claims[address] and not _lock(address):
            return False
        _claims[address] += 1
        return True


def release(address: LocalAddress) -> None:
    """Undo one claim."""
    with _guard:
        _forget_parent()
        if not _claims[address]:
            return
        _claims[address] -= 1
        if not _claims[address] and (file := _open()) is not None:
            _set_lock(file, address, locked=False)


def release_closed() -> None:
    """Release the addresses at which this process has no socket any more.

    An application that was dropped without its shutdown would otherwise hold its address until the
    process ends, and the system may give the port to another process before.
    """
    with _guard:
        _forget_parent()
        if not _claims:
            return
        own = {_port_or_path(address) for address in _own_sockets()}
        for address in [address for address in _claims if _port_or_path(address) not in own]:
            if _claims.pop(address) and (file := _open()) is not None:
                _set_lock(file, address, locked=False)


def has_socket_at(address: LocalAddress) -> bool:
    """Return True if this process has a socket at an address; a test client has none."""
    return any(name == address for name in _own_sockets())


def _forget_parent() -> None:
    """Drop the claims of the parent after a fork."""
    if _pid != [os.getpid()]:
        _pid[:] = [os.getpid()]
        _claims.clear()


def _lock(address: LocalAddress) -> bool:
    if (file := _open()) is None:
        return True
    try:
        _set_lock(file, address, locked=True)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _set_lock(file: int, address: LocalAddress, *, locked: bool) -> None:
    if sys.platform != "win32":
        import fcntl

        operation = fcntl.LOCK_EX | fcntl.LOCK_NB if locked else fcntl.LOCK_UN
        fcntl.lockf(file, operation, 1, _position(address))


def _open() -> int | None:
    """Return the file with the locks, None if there is none, as on Windows."""
    if not _file and sys.platform != "win32":
        path = Path(tempfile.gettempdir(), f"coreason-{os.getuid()}.lock")
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError:
            return None
        status = os.fstat(file)
        if status.st_uid != os.getuid() or not stat.S_ISREG(status.st_mode):
            os.close(file)
            return None
        _file.append(file)
    return _file[0] if _file else None


def _position(address: LocalAddress) -> int:
    try:
        network = str(Path("/proc/self/ns/net").readlink())  # a container has its own ports
    except OSError:
        network = ""
    digest = hashlib.sha256(repr((network, address)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 2


def _port_or_path(address: LocalAddress) -> int | str:
    """Return the part that a listening socket shares with its connections.

    A socket that listens at every address of the machine has another host than they.
    """
    host, port = address
    return host if port is None else port


def _own_sockets() -> Iterator[LocalAddress]:
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        folder = Path("/dev/fd")
    try:
        numbers = [int(entry.name) for entry in folder.iterdir()]
    except OSError:
        return
    for number in numbers:
        if (name := _address_of(number)) is not None:
            yield name


def _address_of(descriptor: int) -> LocalAddress | None:
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return None
        sock = socket.socket(fileno=descriptor)
    except OSError:
        return None
    try:
        name = sock.getsockname()
    except OSError:
        return None
    finally:
        sock.detach()  # the descriptor has another owner
    if isinstance(name, str):
        return name, None
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) and len(name) > 1 else None
