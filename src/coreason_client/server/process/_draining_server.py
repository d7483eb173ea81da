"""A uvicorn server with a drain before its shutdown, connection limits and signal handling."""

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, Protocol, runtime_checkable

import uvicorn

from ..._fallback import report_lost_protection
from ...errors import ArgumentError
from .._internals import protocol_factory, sets_servers
from ..observe._log_lines import redacted_access_lines, throttled_http_lines
from ._connections import Connections, guarded
from ._listen import Listener, default_max_connections, descriptor_limit
from ._tls import check_tls

# The meaning of SIGHUP: the terminal was closed, or files have to be read again.
#
# A server in a terminal must end when its terminal is closed; a server without one, such as a
# service, has never had a terminal that could be closed.

SIGHUP: Any = getattr(signal, "SIGHUP", None)  # Windows has none


def has_terminal() -> bool:
    """Return True if this process has a controlling terminal that is not closed."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | getattr(os, "O_NOCTTY", 0)))
    except OSError:
        return False
    return True


class Hangup:
    """Remembers whether the process had a terminal when it started."""

    __slots__ = ("_had_terminal", "_has_terminal")

    def __init__(self, terminal: Callable[[], bool] = has_terminal) -> None:
        self._has_terminal = terminal
        self._had_terminal = terminal()

    def terminal_closed(self) -> bool:
        """Return True if the process has lost its terminal since it started."""
        return self._had_terminal and not self._has_terminal()


def is_ignored() -> bool:
    """Return True if SIGHUP is ignored, as under `nohup`, or does not exist."""
    return SIGHUP is None or signal.getsignal(SIGHUP) is signal.SIG_IGN


logger = logging.getLogger("coreason_client.server")

AFTER_DRAIN = 5  # seconds for responses to be sent, once the streams have ended
_HEAD_TIMEOUT = 10.0


@runtime_checkable
class Drainable(Protocol):
    """An application that ends its responses when it is asked to, such as an `AgentApp`."""

    @property
    def shutdown_timeout(self) -> float: ...
    async def drain(self) -> None: ...


@runtime_checkable
class Reloadable(Protocol):
    """An application that can read its keys again, such as an `AgentApp`."""

    def reload_keys(self) -> None: ...


@runtime_checkable
class CountsConnections(Protocol):
    """An application with metrics of connections, such as an `AgentApp`."""

    def watch_connections(self, used: Callable[[], int], maximum: int | None) -> None: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of connections; None stands for the default.

    That of `max_connections` depends on the descriptors.
    """

    max_connections: int | None = None
    head_timeout: float | None = None

    def __post_init__(self) -> None:
        if self.max_connections is not None and self.max_connections < 1:
            raise ArgumentError("max_connections", "must be at least 1", self.max_connections)
        if self.head_timeout is not None and not self.head_timeout > 0:
            raise ArgumentError("head_timeout", "must be greater than 0", self.head_timeout)

    def connections(self) -> Connections:
        """Return an empty collection of connections with these limits."""
        most, timeout = self.max_connections, self.head_timeout
        if most is None:
            most = default_max_connections(descriptor_limit())
        return Connections(most, _HEAD_TIMEOUT if timeout is None else timeout)

    def lose(self, names: Iterable[str], internals: str, effect: str) -> None:
        """Report that limits cannot be applied, because internals are not as expected.

        Raises:
            ArgumentError: the caller has set one of them.
        """
        for name in names:
            if (value := getattr(self, name)) is not None:
                rule = (
                    f"cannot be applied, because {internals} not as expected in the installed "
                    "version: install a version of uvicorn that this release supports, or serve "
                    "without this limit"
                )
                raise ArgumentError(name, rule, value)
        report_lost_protection(internals, effect)


class DrainingServer(uvicorn.Server):
    """Serves resumes while the streams of the application end, and then stops listening.

    The first signal starts the drain, a second one ends the process at once. A worker ignores
    SIGINT, which a terminal sends to every process, and a second SIGTERM: systemd sends one to
    every process, and the parent sends another one.

    SIGHUP reads the keys and the certificate again, unless it says that the terminal was closed.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        app: Any,
        limits: Limits,
        *,
        on_started: Callable[[], None] | None = None,
        is_worker: bool = False,
    ) -> None:
        super().__init__(config)
        self._app = app if isinstance(app, Drainable) else None
        self._keys = app if isinstance(app, Reloadable) else None
        self._counts = app if isinstance(app, CountsConnections) else None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._limits = limits
        self._connections = limits.connections()
        self._on_started = on_started
        self._is_worker = is_worker

    @property
    def drains_app(self) -> bool:
        """True if the application learns from this server that it has to stop."""
        return self._app is not None

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal, or until `should_exit` is set.

        Raises:
            ArgumentError: a limit that was set cannot be applied.
        """
        with self._handling_signals(), throttled_http_lines(), redacted_access_lines():
            super().run(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing: `run` handles the signals and does not raise them again.

        A drain that has succeeded is not a failure: the exit code of the process is 0.
        """
        yield

    @contextmanager
    def _handling_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGTERM,) if self._is_worker else (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        if SIGHUP is not None and not is_ignored():
            before[SIGHUP] = signal.signal(SIGHUP, self._hangup_handler())
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start the drain at the first signal, end the process at the second."""
        if self.should_exit and not self._is_worker:
            exit_now(sig)
        self.should_exit = True

    def _hangup_handler(self) -> Callable[[int, FrameType | None], None]:
        hangup = Hangup()

        def handle(number: int, frame: FrameType | None) -> None:
            if hangup.terminal_closed():
                if not self._is_worker:  # the parent stops its workers
                    self.should_exit = True
            elif self._loop is not None:
                # Not here: the signal may have interrupted a write to the log.
                self._loop.call_soon_threadsafe(self.reload)

        return handle

    def reload(self) -> None:
        """Read the keys and the certificate again; what is invalid stays as it was."""
        if self._keys is not None:
            self._keys.reload_keys()
        config = self.config
        if config.ssl is None or config.ssl_certfile is None:
            return
        files = config.ssl_certfile, config.ssl_keyfile, config.ssl_keyfile_password
        try:
            check_tls(*files)
        except ArgumentError as error:
            logger.error("the certificate was not read again, and stays as it was: %s", error.rule)
            return
        certfile, keyfile, password = files
        config.ssl.load_cert_chain(certfile, keyfile, lambda: password or "")
        logger.info("the certificate was read again from %s", certfile)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start uvicorn, and then accept connections within the limits.

        Raises:
            ArgumentError: a limit that was set cannot be applied.
        """
        self._loop = asyncio.get_running_loop()
        make_protocol = self._guarded_protocol()
        takes_over = make_protocol is not None and self._can_take_over(super().startup)
        if make_protocol is not None and self._counts is not None:
            connections = self._connections
            self._counts.watch_connections(connections.__len__, connections.most)
        await super().startup(sockets)
        if make_protocol is not None and takes_over:
            self.servers: list[Any] = [
                listener
                for server in self.servers
                for listener in self._taken_over(server, make_protocol)
            ]
        if self._on_started is not None:
            self._on_started()

    def _guarded_protocol(self) -> Callable[[], asyncio.Protocol] | None:
        """Return a function that makes protocols with limits, None if there can be none."""
        config, make_protocol = self.config, protocol_factory(self)
        if make_protocol is None:
            effect = (
                "max_connections, head_timeout and the limit of 128 KiB for a head are off, "
                "ambiguous heads and trailers are not checked, and a drain does not close idle "
                "connections"
            )
            names = "max_connections", "head_timeout"
            self._limits.lose(names, "the connections of uvicorn are", effect)
            return None
        config.http_protocol_class = guarded(config.http_protocol_class, self._connections)
        return make_protocol

    def _can_take_over(self, startup: Callable[..., object]) -> bool:
        if sys.platform == "win32":  # its event loop cannot wait for a listening socket
            if (value := self._limits.max_connections) is not None:
                raise ArgumentError("max_connections", "cannot be applied on Windows", value)
            return False
        if sets_servers(startup):
            return True
        effect = "max_connections is off"
        self._limits.lose(["max_connections"], "the servers of uvicorn are", effect)
        return False

    def _taken_over(
        self, server: asyncio.Server, make_protocol: Callable[[], asyncio.Protocol]
    ) -> list[Any]:
        if self.config.uds is not None:
            return [server]  # asyncio would remove the file of a Unix socket that it has created
        return Listener.take_over(server, make_protocol, self._connections, tls=self.config.ssl)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain while still listening; then stop listening and wait for open responses."""
        self._connections.drain()
        if self._app is not None:
            began = time.monotonic()
            await self._drain(self._app)
            if (limit := self.config.timeout_graceful_shutdown) is not None:
                left = round(limit - (time.monotonic() - began))
                self.config.timeout_graceful_shutdown = max(left, AFTER_DRAIN)
        await super().shutdown(sockets)

    async def _drain(self, app: Drainable) -> None:
        drain = asyncio.ensure_future(app.drain())
        await asyncio.wait({drain}, timeout=app.shutdown_timeout + AFTER_DRAIN)
        if drain.done():
            drain.result()
        else:
            # The lifespan will wait for the same streams again.
            drain.cancel()


def exit_now(number: int) -> None:
    """End the process at once, with the exit code that shells use for this signal."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(128 + number)
