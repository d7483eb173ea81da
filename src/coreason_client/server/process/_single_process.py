"""One process for a log of one process.

A log that lives in one process cannot be served by several: a resume that reaches another process
would not find its stream. Several processes are recognised in two ways. When the application
starts, by the number of workers that its server was told to start, as far as the server can be
asked. And with the first request at each local address, by a lock on that address: processes that
share a listening socket, by fork or otherwise, receive connections at the same one.
"""

import asyncio
import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from ...errors import ArgumentError
from .._internals import signalled_server
from ..log.base import StreamLog
from ._address_lock import LocalAddress, claim, has_socket_at, release

__all__ = ["OneProcess", "SeveralProcesses", "check_workers", "workers_around"]

# An earlier process may still be draining, as after a reload.
_WAIT = 2.0
_LOOK_EVERY = 0.05
_MOST_ADDRESSES = 1000  # a machine has few; names of test clients are not worth keeping


class SeveralProcesses(ValueError):
    """More than one process serves a log that lives in one."""


class _TooManyWorkers(SeveralProcesses, ArgumentError):
    """The number of workers is an argument."""


def check_workers(log: StreamLog, workers: int) -> None:
    """Refuse more workers than the log can serve.

    Raises:
        SeveralProcesses: the log lives in one process.
    """
    if workers > 1 and not log.shared:
        raise _TooManyWorkers(
            "workers",
            f"must be 1 with {type(log).__name__}, which serves one process; more workers need a "
            "log that processes share, or a resume that reaches another worker would not find its "
            "stream",
            workers,
        )


def workers_around(
    argv: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
    server: object = None,
) -> int:
    """Return how many workers the parent process has started, as far as it can be known.

    uvicorn's own configuration says it for certain. Otherwise it is read from the command line and
    the environment, which workers have in common with their parent. A process that nobody started
    as a worker is the only one.
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


class OneProcess:
    """Makes sure that no other process serves at the addresses of an application."""

    def __init__(
        self,
        log: StreamLog,
        *,
        is_real: Callable[[LocalAddress], bool] = has_socket_at,
        wait: float = _WAIT,
    ) -> None:
        self._log = log
        self._is_real = is_real
        self._wait = wait
        self._pid = 0
        self._known: dict[LocalAddress, bool] = {}  # whether it was claimed

    def check_start(self) -> None:
        """Refuse to start as one of several workers.

        Raises:
            SeveralProcesses: there are more workers than the log can serve.
        """
        if not self._log.shared:
            check_workers(self._log, workers_around())

    async def check_address(self, server: Sequence[object] | None) -> None:
        """Refuse a request at a local address (`server` of its ASGI scope) of another process.

        Raises:
            SeveralProcesses: another process serves there.
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
        if len(self._known) >= _MOST_ADDRESSES:
            self.release()
        if not self._is_real(address):
            self._known[address] = False
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._wait
        while not claim(address):
            if loop.time() >= deadline:
                self._wait = 0.0  # the next request is refused at once, or served if it is alone
                raise SeveralProcesses(
                    f"another process serves at {_shown(address)}, and {type(self._log).__name__} "
                    "serves one process: run one worker, or use a log that processes share"
                )
            await asyncio.sleep(_LOOK_EVERY)
        if self._known.get(address):  # another request was faster
            release(address)
        self._known[address] = True


def _shown(address: LocalAddress) -> str:
    host, port = address
    if port is None:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _option(argv: Sequence[str]) -> str:
    for index, word in enumerate(argv):
        if word == "--workers":
            return argv[index + 1] if index + 1 < len(argv) else ""
        if word.startswith("--workers="):
            return word.partition("=")[2]
    return ""


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
