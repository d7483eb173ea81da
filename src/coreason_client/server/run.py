"""Serves an application with uvicorn, until a signal arrives or in a thread for a `with` block."""

import ipaddress
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ..errors import ArgumentError, MissingExtraError
from .observe._log_lines import logger
from .process._listen import UDS_MODE, listen, listen_unix, raise_descriptor_limit, remove_unix
from .process._tls import TlsFile, check_tls

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from .process._draining_server import DrainingServer

__all__ = [
    "RunningServer",
    "ServedAgents",
    "check_host",
    "is_loopback",
    "running",
    "serve",
    "serve_asgi",
    "serve_reloading",
    "serve_workers",
    "tls_options",
    "unix_socket",
]

_START_TIMEOUT = 30.0


@runtime_checkable
class ServedAgents(Protocol):
    """An application of this package: an `AgentApp` or an `AgentGroup`."""

    @property
    def has_keys(self) -> bool: ...
    @property
    def startup_error(self) -> Exception | None: ...
    def check_workers(self, workers: int) -> None: ...
    def become_worker(self) -> None: ...


def serve(
    app: ServedAgents,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    allow_public: bool = False,
    max_connections: int | None = None,
    head_timeout: float | None = None,
    sockets: Sequence[socket.socket] | None = None,
    uds: str | os.PathLike[str] | None = None,
    uds_mode: int = UDS_MODE,
    ssl_certfile: TlsFile = None,
    ssl_keyfile: TlsFile = None,
    ssl_keyfile_password: str | None = None,
    **options: Any,
) -> None:
    """Serve until SIGINT or SIGTERM, then drain.

    SIGHUP reads the certificate and the keys of `api_keys_file` again. A second SIGINT or SIGTERM
    ends the process at once, with exit code 130 or 143.

    Args:
        app: the application, an `AgentApp` or an `AgentGroup`.
        host: the address to listen at.
        port: the port.
        allow_public: True to serve an agent without keys at a public address.
        max_connections: the maximum number of open connections. The default depends on the number
            of files that the process may open, a limit that is raised as far as the system allows.
        head_timeout: the seconds within which a connection must send the head of a request; 10 by
            default.
        sockets: listening sockets to serve on instead, such as those of `listen`; they are closed
            at the end. `host` must still be their address.
        uds: the path of a Unix socket to serve on instead of `host` and `port`; it is removed at
            the end.
        uds_mode: the permissions of the Unix socket.
        ssl_certfile: the certificate in PEM form, to use TLS; it has the key too if there is no
            `ssl_keyfile`.
        ssl_keyfile: the key of the certificate.
        ssl_keyfile_password: the password of the key.
        options: further options of `uvicorn.Config`.

    Raises:
        ValueError: the host is not a loopback address, and the agent has no keys; a file of TLS
            cannot be used; or `max_connections` or `head_timeout` is set, and cannot be applied to
            the installed uvicorn.
        LogUnavailable: the log cannot be opened.
        OSError: it cannot listen at `uds`.
    """
    check_host(app, host, allow_public=allow_public)
    tls = tls_options(ssl_certfile, ssl_keyfile, ssl_keyfile_password)
    raise_descriptor_limit()
    server = _server(app, max_connections, head_timeout, host=host, port=port, **tls, **options)
    with ExitStack() as stack:
        if uds is not None:
            sockets = [stack.enter_context(unix_socket(uds, uds_mode))]
        try:
            server.run(None if sockets is None else list(sockets))
        except SystemExit:  # raised by uvicorn if the start failed
            if app.startup_error is not None:
                raise app.startup_error from None
            raise


@contextmanager
def unix_socket(path: str | os.PathLike[str], mode: int | None = None) -> Iterator[socket.socket]:
    """Listen at a path while the block runs, and then remove the file; raises as `listen_unix`."""
    sock = listen_unix(path, UDS_MODE if mode is None else mode)
    try:
        yield sock
    finally:
        sock.close()
        remove_unix(path)


def tls_options(certfile: TlsFile, keyfile: TlsFile, password: str | None) -> dict[str, Any]:
    """Return the options of uvicorn for TLS, none without a certificate; raises as `serve`."""
    check_tls(certfile, keyfile, password)
    if certfile is None:
        return {}
    return {"ssl_certfile": certfile, "ssl_keyfile": keyfile, "ssl_keyfile_password": password}


def serve_asgi(
    app: Any,
    sockets: Sequence[socket.socket],
    *,
    on_started: Callable[[], None] | None = None,
    **options: Any,
) -> None:
    """Serve any ASGI application until SIGINT or SIGTERM; options go to `uvicorn.Config`.

    If it has `drain()` and `shutdown_timeout`, its responses are ended first, as with `serve`.
    `on_started` is called as soon as connections are accepted.
    """
    raise_descriptor_limit()
    _server(app, None, None, on_started=on_started, **options).run(list(sockets))


def serve_workers(
    factory: str,
    sock: socket.socket,
    workers: int,
    *,
    shutdown_timeout: float,
    max_connections: int | None = None,
    head_timeout: float | None = None,
    grpc_address: str | None = None,
    on_tick: Callable[[], None] = lambda: None,
    **options: Any,
) -> None:
    """Serve with several processes until SIGINT or SIGTERM; a process that dies is replaced.

    Args:
        factory: `module:function`; the function makes the application in each process, with a
            shared log.
        sock: the listening socket, from `listen`.
        workers: the number of processes.
        shutdown_timeout: the seconds that a drain may take.
        max_connections: the maximum number of open connections of each process.
        head_timeout: the seconds within which a connection must send the head of a request; 10 by
            default.
        grpc_address: the address at which the applications serve A2A over gRPC, if they do: it is
            reserved for them, so that no other process can take it.
        on_tick: called in this process before one is started, and twice a second.
        options: further options of `uvicorn.Config`.

    Raises:
        RuntimeError: no process could start.
        OSError: another process listens at `grpc_address`.
    """
    _require_uvicorn()
    from .process._draining_server import AFTER_DRAIN
    from .process._worker_processes import Supervisor

    start = _starter(factory, sock, workers, max_connections, head_timeout, options)
    with _reserved(grpc_address):
        Supervisor(start, workers, shutdown_timeout + 2 * AFTER_DRAIN, on_tick).run()


def serve_reloading(
    factory: str,
    sock: socket.socket,
    folders: Iterable[Path],
    *,
    shutdown_timeout: float,
    max_connections: int | None = None,
    head_timeout: float | None = None,
    **options: Any,
) -> None:
    """Serve with one process until SIGINT or SIGTERM; restart it when a Python file changes.

    The files are those below `folders`. The other arguments are those of `serve_workers`.
    """
    _require_uvicorn()
    from .process._draining_server import AFTER_DRAIN
    from .process._reload import Reloader

    start = _starter(factory, sock, 1, max_connections, head_timeout, options)
    Reloader(start, folders, shutdown_timeout + 2 * AFTER_DRAIN).run()


def _starter(
    factory: str,
    sock: socket.socket,
    workers: int,
    max_connections: int | None,
    head_timeout: float | None,
    options: dict[str, Any],
) -> "Callable[[Connection[bytes, bytes]], BaseProcess]":
    """Return a function that starts a process which serves on the socket."""
    from .process._draining_server import Limits

    raise_descriptor_limit()
    Limits(max_connections, head_timeout)  # raises here instead of in each process
    _check_tls_options(options)
    spawn = get_context("spawn")

    def start(pipe: "Connection[bytes, bytes]") -> "BaseProcess":
        arguments = (factory, sock, pipe, workers, max_connections, head_timeout, options)
        process = spawn.Process(target=_run_worker, args=arguments, name="coreason-worker")
        # Ctrl-C must not end a starting process with a traceback; the process unblocks it later.
        with _signal_blocked(signal.SIGINT):
            process.start()
        return process

    return start


@contextmanager
def _reserved(grpc_address: str | None) -> Iterator[None]:
    if grpc_address is None:
        yield
        return
    from .a2a import parse_address, reserve

    with ExitStack() as sockets:
        for sock in reserve(parse_address(grpc_address)):
            sockets.enter_context(sock)
        yield


def _run_worker(
    factory: str,
    sock: socket.socket,
    pipe: "Connection[bytes, bytes]",
    workers: int,
    max_connections: int | None,
    head_timeout: float | None,
    options: dict[str, Any],
) -> None:
    from .process._worker_processes import WorkerLink

    # A terminal sends Ctrl-C to all processes; the parent forwards it once, as SIGTERM. Programs
    # that an agent starts do not inherit a handler that does nothing, unlike SIG_IGN.
    signal.signal(signal.SIGINT, lambda *_: None)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    with sock:  # also if the application cannot be made
        link = WorkerLink(pipe)
        module, _, name = factory.partition(":")
        app = getattr(import_module(module), name)()
        _check_worker(app, workers, options)
        if isinstance(app, ServedAgents):
            app.become_worker()
        server = _server(
            app, max_connections, head_timeout, on_started=link.ready, is_worker=True, **options
        )
        link.open()
        with _one_line_errors():
            server.run([sock])


@contextmanager
def _signal_blocked(number: signal.Signals) -> Iterator[None]:
    if sys.platform == "win32":  # it cannot block signals
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _check_worker(app: Any, workers: int, options: dict[str, Any]) -> None:
    """Report in one line what has changed since the parent has checked it."""
    with _one_line_errors():
        if isinstance(app, ServedAgents):
            app.check_workers(workers)
        _check_tls_options(options)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Report an invalid argument in one line, and end the process."""
    try:
        yield
    except ArgumentError as error:
        logger.error("%s", error)
        raise SystemExit(1) from None


def _check_tls_options(options: dict[str, Any]) -> None:
    names = ("ssl_certfile", "ssl_keyfile", "ssl_keyfile_password")
    check_tls(*(options.get(name) for name in names))


def check_host(app: ServedAgents, host: str, *, allow_public: bool = False) -> None:
    """Refuse to serve an agent without keys on a public address.

    Args:
        app: the application, an `AgentApp` or an `AgentGroup`.
        host: the address at which it will be served.
        allow_public: True if it may be public.

    Raises:
        ValueError: the host is not a loopback address, and the agent has no keys.
    """
    if not (app.has_keys or allow_public or is_loopback(host)):
        raise ArgumentError(
            "host",
            "must be a loopback address such as 127.0.0.1 for an agent without keys, because every "
            "client that reaches it could use it: pass api_keys, or allow_public=True",
            host,
        )


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server in a thread of this process; `host` and `port` are its address."""

    host: str
    port: int
    scheme: str = "http"

    @property
    def url(self) -> str:
        """The URL of the server, for a client."""
        return f"{self.scheme}://{self.host}:{self.port}"


@contextmanager
def running(
    app: Any,
    host: str = "127.0.0.1",
    *,
    max_connections: int | None = None,
    head_timeout: float | None = None,
    **options: Any,
) -> Iterator[RunningServer]:
    """Serve any ASGI application on a free port, in a thread, while the block runs.

    The server accepts connections when the block begins, and has drained after the block.

    Args:
        app: any ASGI application.
        host: the address to listen at.
        max_connections: the maximum number of open connections, as in `serve`.
        head_timeout: the seconds within which a connection must send the head of a request; 10 by
            default.
        options: the options of TLS as in `serve`, and further options of `uvicorn.Config`.

    Raises:
        RuntimeError: the application did not start; the error of its start is raised if there is
            one.
    """
    started, failures = threading.Event(), list[Exception]()
    server = _server(
        app, max_connections, head_timeout, on_started=started.set, host=host, **options
    )
    sock = listen(host, 0)
    port = sock.getsockname()[1]
    thread = threading.Thread(
        target=_run_in_thread,
        args=(server, sock, started, failures),
        name="coreason-server",
        daemon=True,
    )
    thread.start()
    try:
        if not started.wait(_START_TIMEOUT) or not server.started:
            if failures:
                raise failures[0]
            raise getattr(app, "startup_error", None) or RuntimeError("the server did not start")
        yield RunningServer(host, port, "https" if server.config.is_ssl else "http")
    finally:
        server.should_exit = True
        thread.join()
        sock.close()


def _run_in_thread(
    server: "DrainingServer",
    sock: socket.socket,
    started: threading.Event,
    failures: list[Exception],
) -> None:
    try:
        server.run([sock])
    except SystemExit:  # raised by uvicorn if the lifespan failed
        pass
    except ArgumentError as error:  # raised before the start
        failures.append(error)
    finally:
        started.set()


def _server(
    app: Any,
    max_connections: int | None,
    head_timeout: float | None,
    *,
    on_started: Callable[[], None] | None = None,
    is_worker: bool = False,
    **options: Any,
) -> "DrainingServer":
    _require_uvicorn()
    from uvicorn import Config

    from .process._draining_server import AFTER_DRAIN, Drainable, DrainingServer, Limits

    if isinstance(app, Drainable):
        # Readers disconnect when their streams end, and streams end within the drain; a reader
        # that reads nothing must not delay the others.
        options.setdefault("timeout_graceful_shutdown", round(app.shutdown_timeout) + AFTER_DRAIN)
    options.setdefault("log_level", "warning")
    limits = Limits(max_connections, head_timeout)
    config = Config(app, **options)
    return DrainingServer(config, app, limits, on_started=on_started, is_worker=is_worker)


def _require_uvicorn() -> None:
    """Raise an error if uvicorn is not installed, without importing it, which is slow."""
    if find_spec("uvicorn") is None:
        raise MissingExtraError("coreason_client.server", "server")


def is_loopback(host: str) -> bool:
    """Return True if only this machine can connect to a server on the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
