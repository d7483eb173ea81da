"""`coreason serve`: an agent behind HTTP, until a signal."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coreason_client import ArgumentError

from ._application import Served, shown_log
from ._curl import curl_line
from ._keys import FILE_VARIABLE, KEY_VARIABLE, KEYS_VARIABLE, Keys
from ._logs import LogFormat, show_server_logs
from ._options import System, Verbose, wrong_usage
from ._required_extras import need_server
from .exits import EXIT_CODES_HELP, ExitCode, Failure, ending_well
from .output import say

if TYPE_CHECKING:
    from ..server import AgentApp, StreamLog

__all__ = ["serve"]

EPILOG = f"""\
\b
Examples:
  coreason serve
  coreason serve my_module:agent --port 9000 --log sqlite:streams.db
  coreason serve my_module:agent --host 0.0.0.0 --api-keys-file keys.txt
  coreason serve my_module:agent --log valkey://127.0.0.1:6379 --workers 3
  coreason serve --llm anthropic/claude-sonnet-4-5 --system "Answer in one sentence."

An agent is async def agent(request, stream), or a generator of text and events. A plain def runs
in a thread, so it may block.

{EXIT_CODES_HELP}
"""


def serve(
    agent: Annotated[
        str | None,
        typer.Argument(
            metavar="MODULE:AGENT",
            help="The agent to serve, looked for in the current directory first.",
            show_default="the built-in one",
        ),
    ] = None,
    llm: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Serve a model as the agent; its key is in the environment or in .env.",
            show_default=False,
        ),
    ] = None,
    system: System = None,
    log: Annotated[
        str,
        typer.Option(
            envvar="COREASON_LOG",
            metavar="memory|sqlite:PATH|valkey://HOST",
            help="Where streams are kept.",
        ),
    ] = "memory",
    api_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="A key that may ask; give it again for more. Without any, only this machine may. "
            "Every user of this machine can see it in the process list: prefer --api-keys-file or "
            f"the environment. [env var: {KEYS_VARIABLE}, {KEY_VARIABLE}]",
            show_default=False,
        ),
    ] = None,
    api_keys_file: Annotated[
        Path | None,
        typer.Option(
            envvar=FILE_VARIABLE,
            metavar="PATH",
            help="A file with one key per line, each optionally followed by a blank and the name "
            "of its owner; blank lines and lines that begin with # are ignored.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, metavar="PORT", help="The port to listen on; 0 takes a free one."
        ),
    ] = 8000,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A host name that a server without keys answers to besides localhost and IP "
            "addresses, for example behind a proxy on this machine; give it again for more.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Processes; more than one needs a log that they can share."
        ),
    ] = 1,
    metrics: Annotated[
        bool, typer.Option("--metrics", help="Expose Prometheus metrics at /metrics.")
    ] = False,
    per_minute: Annotated[
        int | None,
        typer.Option(
            "--max-requests-per-minute",
            min=1,
            metavar="N",
            help="How often a key may ask, in each process.",
            show_default="no limit",
        ),
    ] = None,
    max_connections: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Connections that may be open, in each process.",
            show_default="as many as the limit of open files allows",
        ),
    ] = None,
    log_format: Annotated[
        LogFormat, typer.Option(help="Log lines as text, or each as a JSON object.")
    ] = "text",
    verbose: Verbose = 0,
) -> None:
    """Serve an agent over HTTP: yours, a model, or the built-in one.

    Ctrl-C or SIGTERM stops it; streams that run then are given some seconds to end. A second
    Ctrl-C ends it at once. Logs go to stderr; -v adds the access log.
    """
    with ending_well():
        show_server_logs(verbose, log_format)
        need_server("coreason serve")
        keys = Keys.found(api_key, file=api_keys_file)
        served = Served(
            agent,
            llm,
            system,
            log,
            keys.named(),
            keys.name,
            metrics,
            per_minute,
            verbose,
            allowed_hosts=allowed_host or (),
            log_format=log_format,
        )
        app = served.app()
        _check(app, host, workers)
        # The levels of uvicorn's loggers are those of `show_server_logs`.
        options = {"log_config": None, "log_level": None, "max_connections": max_connections}
        # These sockets serve: a port that was free is not given back before.
        with _listening(host, port, workers) as sockets:
            port = sockets[0].getsockname()[1]
            url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            told = _told(agent or llm, log, url, keys.authorization())
            if workers == 1:
                _serve(app, host, sockets, _once(told), options)
            else:
                _serve_workers(served, app, workers, sockets[0], told, options)


def _check(app: "AgentApp", host: str, workers: int) -> None:
    """Refuse what the server would refuse, or fail at, once it runs."""
    from ..server import check_host

    try:
        app.check_workers(workers)
    except ArgumentError as error:
        raise wrong_usage(error, {"workers": "--workers"}) from None
    try:
        check_host(app, host)
    except ArgumentError:
        raise Failure(
            f"without --api-key anybody who reaches {host} could use the agent: give --api-key or "
            f"{KEYS_VARIABLE}, or listen on 127.0.0.1",
            ExitCode.USAGE,
        ) from None
    asyncio.run(_check_log(app.log))


async def _check_log(log: "StreamLog") -> None:
    await log.start("check")
    await log.stop("check")


@contextmanager
def _listening(host: str, port: int, workers: int) -> Iterator[list[socket.socket]]:
    """Listen at every address of a host while the block runs; workers share one socket.

    Raises:
        Failure: that is not possible.
    """
    from ..server import listen, listen_all

    try:
        sockets = listen_all(host, port) if workers == 1 else [listen(host, port)]
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise Failure(f"cannot listen on {host}, port {port}: {reason}") from None
    try:
        yield sockets
    finally:
        for sock in sockets:
            sock.close()


def _told(agent: str | None, log: str, url: str, authorization: str | None) -> str:
    name = agent or "the built-in guide"
    kept = "in memory" if log == "memory" else f"in {shown_log(log)}"
    return (
        f"Serving {name} at {url}, streams kept {kept}. Ctrl-C stops it. Try:\n\n"
        f"{curl_line(url, authorization)}\n"
    )


def _once(told: str) -> Callable[[], Awaitable[None]]:
    """Return what uvicorn calls when it listens, and now and then later."""
    left = [told]

    async def notify() -> None:
        if left:
            say(left.pop())

    return notify


def _serve(
    app: "AgentApp",
    host: str,
    sockets: list[socket.socket],
    announce: Callable[[], Awaitable[None]],
    options: dict[str, Any],
) -> None:
    from ..server import serve as serve_until_signal

    serve_until_signal(app, host, sockets=sockets, callback_notify=announce, **options)


def _serve_workers(
    served: Served,
    app: "AgentApp",
    workers: int,
    sock: socket.socket,
    told: str,
    options: dict[str, Any],
) -> None:
    """Serve with several processes, each of which makes the same application for itself."""
    from ..server import serve_workers

    with served.for_workers() as factory:
        say(told)  # the socket takes connections from now on
        try:
            serve_workers(factory, sock, workers, shutdown_timeout=app.shutdown_timeout, **options)
        except RuntimeError as error:
            raise Failure(str(error)) from None
