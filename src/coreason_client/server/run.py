"""Serve an application with uvicorn: until a signal, or in a thread for as long as it is needed."""

import ipaddress
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtraError
from ._listen import listen
from .app import AgentApp

if TYPE_CHECKING:
    from uvicorn import Config, Server

__all__ = ["RunningServer", "check_host", "running", "serve", "serve_workers"]

_START_WITHIN = 30.0
_AFTER_DRAIN = 5  # seconds for responses to be sent, once the streams have ended


def serve(
    app: AgentApp,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    allow_public: bool = False,
    **options: Any,
) -> None:
    """Serve until SIGINT or SIGTERM, then drain. Further options go to `uvicorn.Config`.

    Raises:
        ValueError: the host can be reached from outside, and no key is needed to ask.
        LogUnavailable: the log cannot be opened.
    """
    check_host(app, host, allow_public=allow_public)
    try:
        _server(app, host=host, port=port, **options).run()
    except SystemExit:  # how uvicorn says that the start failed
        if app.startup_error is not None:
            raise app.startup_error from None
        raise


def serve_workers(
    factory: str,
    sock: socket.socket,
    workers: int,
    *,
    shutdown_timeout: float,
    **options: Any,
) -> None:
    """Serve with several processes until SIGINT or SIGTERM; a process that dies is replaced.

    `factory` is `module:function`, which makes the application in each of them; its log must be
    one that they share. Each drains for as long as `shutdown_timeout` says. Further options go to
    `uvicorn.Config`.
    """
    _need_uvicorn()
    import uvicorn
    from uvicorn.supervisors import Multiprocess

    options.setdefault("log_level", "warning")
    options.setdefault("timeout_graceful_shutdown", round(shutdown_timeout) + _AFTER_DRAIN)
    config = uvicorn.Config(factory, factory=True, workers=workers, **options)
    Multiprocess(config, [sock]).run()


def check_host(app: AgentApp, host: str, *, allow_public: bool = False) -> None:
    """Refuse to open an agent without keys to the network.

    Raises:
        ValueError: the host can be reached from outside, and no key is needed to ask.
    """
    if not (app.has_keys or allow_public or _is_loopback(host)):
        raise ValueError(
            f"without api_keys anybody who reaches {host} could use the agent: give api_keys, "
            "bind to 127.0.0.1, or pass allow_public=True"
        )


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server in a thread of this process."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """Its address, as a client wants it."""
        return f"http://{self.host}:{self.port}"


@contextmanager
def running(app: Any, host: str = "127.0.0.1", **options: Any) -> Iterator[RunningServer]:
    """Serve any ASGI application on a free port, in a thread, while the block runs.

    The server accepts connections when the block is entered, and has drained when it is left.

    Raises:
        RuntimeError: the application did not start, and did not say why; else what it said.
    """
    sock = listen(host, 0)
    started = threading.Event()
    server = _server(app, started=started, host=host, **options)
    thread = threading.Thread(
        target=_run_quietly, args=(server, sock, started), name="coreason-server", daemon=True
    )
    thread.start()
    try:
        if not started.wait(_START_WITHIN) or not server.started:
            raise getattr(app, "startup_error", None) or RuntimeError("the server did not start")
        yield RunningServer(host, sock.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()
        sock.close()


def _run_quietly(server: "Server", sock: socket.socket, started: threading.Event) -> None:
    try:
        server.run([sock])
    except SystemExit:  # how uvicorn says that the lifespan failed
        pass
    finally:
        started.set()


def _server(app: Any, started: threading.Event | None = None, **options: Any) -> "Server":
    _need_uvicorn()
    import uvicorn

    class DrainingServer(uvicorn.Server):
        """Tells the application of a shutdown before it waits for open responses."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            with super().capture_signals():
                yield
                # uvicorn would raise the signal once more. A drain that was asked for and has
                # succeeded is no failure: the process leaves with code 0.
                self._captured_signals.clear()

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if started is not None:
                started.set()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            if isinstance(app, AgentApp):
                app.begin_shutdown()
            await super().shutdown(sockets)

    return DrainingServer(_config(uvicorn.Config, app, options))


def _need_uvicorn() -> None:
    """Say what is missing; it is slow to import, and not needed under another server."""
    if find_spec("uvicorn") is None:
        raise MissingExtraError("coreason_client.server", "server")


def _config(config: "type[Config]", app: Any, options: dict[str, Any]) -> "Config":
    if isinstance(app, AgentApp):
        # Readers leave when their streams end, and these end within the drain; a reader that
        # takes nothing must not hold up the rest.
        options.setdefault("timeout_graceful_shutdown", round(app.shutdown_timeout) + _AFTER_DRAIN)
    options.setdefault("log_level", "warning")
    return config(app, **options)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
