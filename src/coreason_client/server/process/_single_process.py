"""Makes sure that only one process serves a log that is not shared.

With several processes, a resume that reaches another process would not find its stream. They are
detected in two ways: when the application starts, by the number of workers in the configuration of
its server, as far as it is known; and with the first request at each local address, by a lock on
that address, because processes that share a listening socket receive connections at the same one.
"""

import asyncio
import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from ..._host_port import host_port
from ...errors import ArgumentError
from .._internals import signalled_server
from ..log.base import StreamLog
from ._address_lock import LocalAddress, claim, has_socket_at, release, release_closed

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
