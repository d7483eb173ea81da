"""A uvicorn server with a drain before its shutdown, connection limits and signal handling."""

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, Protocol, runtime_checkable

import uvicorn

from ...errors import ArgumentError
from .._internals import listening_servers, protocol_factory
from ..observe._throttled_lines import throttled_http_lines
from ._accept import Listener
from ._connections import Connections, guarded
from ._descriptors import default_max_connections, descriptor_limit
from ._hangup import SIGHUP, Hangup, is_ignored
from ._tls import check_tls

__all__ = ["AFTER_DRAIN", "Drainable", "DrainingServer", "Limits", "Reloadable", "exit_now"]

logger = logging.getLogger("coreason_client.server")

AFTER_DRAIN = 5  # seconds for responses to be sent, once the streams have ended


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


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of connections; `max_connections` of None depends on the descriptors."""

    max_connections: int | None = None
    head_timeout: float = 10.0

    def __post_init__(self) -> None:
        if self.max_connections is not None and self.max_connections < 1:
            raise ArgumentError("max_connections", "must be at least 1", self.max_connections)
        if not self.head_timeout > 0:
            raise ArgumentError("head_timeout", "must be greater than 0", self.head_timeout)

    def connections(self) -> Connections:
        """Return an empty collection of connections with these limits."""
        most = self.max_connections
        if most is None:
            most = default_max_connections(descriptor_limit())
        return Connections(most, self.head_timeout)


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
        self._loop: asyncio.AbstractEventLoop | None = None
        self._limits = limits
        self._on_started = on_started
        self._is_worker = is_worker

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal, or until `should_exit` is set."""
        with self._handling_signals(), throttled_http_lines():
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
        """Start uvicorn, and then accept connections within the limits."""
        self._loop = asyncio.get_running_loop()
        config, connections = self.config, self._limits.connections()
        make_protocol = protocol_factory(self)
        if make_protocol is not None:
            config.http_protocol_class = guarded(config.http_protocol_class, connections)
        await super().startup(sockets)
        if make_protocol is not None:
            self.servers: list[Any] = [
                listener
                for server in listening_servers(self)
                for listener in self._taken_over(server, make_protocol, connections)
            ]
        if self._on_started is not None:
            self._on_started()

    def _taken_over(
        self,
        server: asyncio.Server,
        make_protocol: Callable[[], asyncio.Protocol],
        connections: Connections,
    ) -> list[Any]:
        if self.config.uds is not None:
            return [server]  # asyncio would remove the file of a Unix socket that it has created
        return Listener.take_over(server, make_protocol, connections, tls=self.config.ssl)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain while still listening; then stop listening and wait for open responses."""
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
