"""Makes sure that only one process serves a log that is not shared.

With several processes, a resume that reaches another process would not find its stream. They are
detected in two ways: when the application starts, by the number of workers in the configuration of
its server, as far as it is known; and with the first request at each local address, by a lock on
that address, because processes that share a listening socket receive connections at the same one.
"""

import asyncio
import hashlib
import multiprocessing
import os
import socket
import stat
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ..._host_port import host_port
from ...errors import ArgumentError
from .._internals import signalled_server
from ..log.base import StreamLog

__all__ = [
    "LocalAddress",
    "SeveralProcesses",
    "SingleProcessGuard",
    "check_workers",
    "claim",
    "configured_workers",
    "has_socket_at",
    "release",
    "release_closed",
]

# A lock on the address that a process serves: two processes cannot hold the same one.
#
# Processes that receive connections at the same local address share a listening socket, however
# they were started. The lock is one byte of a file in the directory for temporary files; its
# position is computed from the address. Such a lock (POSIX) belongs to the process: a forked child
# does not inherit it, and it ends with the process, even after SIGKILL.

try:
    import fcntl
except ImportError:  # Windows: nothing is locked
    fcntl = None  # type: ignore[assignment]


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
            fcntl.lockf(file, fcntl.LOCK_UN, 1, _position(address))


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
                fcntl.lockf(file, fcntl.LOCK_UN, 1, _position(address))


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
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _position(address))
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _open() -> int | None:
    if not _file and fcntl is not None:
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


# Seconds: the previous process may still be draining, as after a reload.
_WAIT = 2.0
_POLL_INTERVAL = 0.05
_MAX_ADDRESSES = 1000  # a machine has few; test clients may use many names


class SeveralProcesses(ValueError):
    """More than one process serves a log that is not shared."""


class _TooManyWorkers(SeveralProcesses, ArgumentError):
    """More than one worker was configured for a log that is not shared."""


def check_workers(log: StreamLog, workers: int) -> None:
    """Refuse more workers than the log can serve.

    Raises:
        SeveralProcesses: the log is not shared.
    """
    if workers > 1 and not log.shared:
        raise _TooManyWorkers(
            "workers",
            f"must be 1 with {type(log).__name__}, which serves one process; more workers need a "
            "log that processes share, or a resume that reaches another worker would not find its "
            "stream",
            workers,
        )


def configured_workers(
    argv: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
    server: object = None,
) -> int:
    """Return how many workers the parent process has started, as far as this is known.

    The configuration of uvicorn is certain. Otherwise the number is read from the command line and
    the environment, which workers share with their parent. A process without such a parent is the
    only one.
    """
    if multiprocessing.parent_process() is None:
        return 1
    config = getattr(server or signalled_server(), "config", None)
    configured = getattr(config, "workers", None)
    if isinstance(configured, int):
        return 1 if getattr(config, "reload", False) else max(configured, 1)
    argv = sys.argv if argv is None else argv
    environ = os.environ if environ is None else environ
    return max(_number(_option(argv)), _number(environ.get("WEB_CONCURRENCY", "")), 1)


class SingleProcessGuard:
    """Makes sure that no other process serves at the addresses of an application."""

    def __init__(
        self,
        log: StreamLog,
        *,
        has_socket: Callable[[LocalAddress], bool] = has_socket_at,
        wait: float = _WAIT,
    ) -> None:
        self._log = log
        self._has_socket = has_socket
        self._wait = wait
        self._pid = 0
        self._known: dict[LocalAddress, bool] = {}  # True if it was claimed

    def check_start(self) -> None:
        """Refuse to start as one of several workers.

        Raises:
            SeveralProcesses: there are more workers than the log can serve.
        """
        if not self._log.shared:
            check_workers(self._log, configured_workers())

    async def check_address(self, server: Sequence[object] | None) -> None:
        """Refuse a request if another process serves its local address (`server` in the scope).

        Raises:
            SeveralProcesses: another process serves this address.
        """
        if self._log.shared or server is None:
            return
        if self._pid != os.getpid():  # the first request, or the first one after a fork
            self._pid = os.getpid()
            self._known.clear()
        host, port = server
        address = str(host), port if isinstance(port, int) else None
        if address not in self._known:
            await self._claim(address)

    def release(self) -> None:
        """Let other processes serve at these addresses."""
        if self._pid == os.getpid():
            for address, claimed in self._known.items():
                if claimed:
                    release(address)
        self._known.clear()

    async def _claim(self, address: LocalAddress) -> None:
        if len(self._known) >= _MAX_ADDRESSES:
            self.release()
        if not self._has_socket(address):
            self._known[address] = False
            return
        release_closed()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._wait
        while not claim(address):
            if loop.time() >= deadline:
                self._wait = 0.0  # later requests do not wait
                raise SeveralProcesses(
                    f"another process serves at {_shown(address)}, and {type(self._log).__name__} "
                    "serves one process: run one worker, or use a log that processes share"
                )
            await asyncio.sleep(_POLL_INTERVAL)
        if self._known.get(address):  # another request has claimed it meanwhile
            release(address)
        self._known[address] = True


def _shown(address: LocalAddress) -> str:
    host, port = address
    return host if port is None else host_port(host, port)


def _option(argv: Sequence[str]) -> str:
    for index, word in enumerate(argv):
        if word == "--workers":
            return argv[index + 1] if index + 1 < len(argv) else ""
        if word.startswith("--workers="):
            return word.partition("=")[2]
    return ""


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
