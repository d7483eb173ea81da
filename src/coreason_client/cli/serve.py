"""`coreason serve`: serves an agent over HTTP until a signal arrives."""

import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coreason_client import ArgumentError

from .._host_port import host_port
from ._application import DEFAULT_MAX_RESTARTS, ServeConfig, redacted_log
from ._browser import open_browser
from ._curl import curl_line
from ._keys import FILE_VARIABLE, KEY_VARIABLE, KEYS_VARIABLE, Keys
from ._listening import listen_errors
from ._logs import LogFormat, show_server_logs
from ._options import System, Verbose, usage_error
from ._required_extras import require_server
from ._ticket_secrets import SECRETS_FILE_VARIABLE, SECRETS_VARIABLE, load_ticket_secrets
from .exits import EXIT_CODES_HELP, ExitCode, Failure, exit_codes
from .llm import complete_model
from .output import print_stdout

if TYPE_CHECKING:
    from ..server import AgentApp, StreamLog

__all__ = ["serve"]

_TICKET_HEADER = '"Authorization: Bearer $TICKET"'

EPILOG = f"""\
\b
Examples:
  coreason serve
  coreason serve my_module:agent --port 9000 --log sqlite:streams.db
  coreason serve my_module:agent --durable --log sqlite:streams.db
  coreason serve my_module:agent --host 0.0.0.0 --api-keys-file keys.txt
  coreason serve my_module:agent --log valkey://127.0.0.1:6379 --workers 3
  coreason serve --llm anthropic/claude-sonnet-4-5 --system "Be brief."
  coreason serve --open
  coreason serve my_module:agent --card card.json --grpc-port 50051

An agent is async def agent(request, stream), or an async generator of text and events. A plain def
runs in a thread, so it may block.

{EXIT_CODES_HELP}
"""


def serve(
    agent: Annotated[
        str | None,
        typer.Argument(
            metavar="MODULE:AGENT",
            help="The agent; the current directory is searched first.",
            show_default="the built-in guide",
        ),
    ] = None,
    llm: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Serve a model as the agent; its key is read from the environment or .env.",
            show_default=False,
            autocompletion=complete_model,
        ),
    ] = None,
    system: System = None,
    log: Annotated[
        str,
        typer.Option(
            envvar="COREASON_LOG",
            metavar="memory|sqlite:PATH|valkey://HOST",
            help="Where streams are stored.",
        ),
    ] = "memory",
    durable: Annotated[
        bool,
        typer.Option(
            "--durable",
            help="Continue answers whose process has died; needs a --log that outlives the "
            "process, and an agent that puts models, tools and clocks into steps.",
        ),
    ] = False,
    max_restarts: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="With --durable: limit for restarts of an answer in a row without progress.",
            show_default=str(DEFAULT_MAX_RESTARTS),
        ),
    ] = None,
    api_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="Key that clients may use; repeatable. Without a key, only this machine may "
            "connect. Other users of this machine can see it in the process list: prefer "
            f"the environment or --api-keys-file.  [env var: {KEYS_VARIABLE}, {KEY_VARIABLE}]",
            show_default=False,
        ),
    ] = None,
    api_keys_file: Annotated[
        Path | None,
        typer.Option(
            envvar=FILE_VARIABLE,
            metavar="PATH",
            help="File with one key per line, optionally followed by a space and the name of its "
            "owner; empty lines and lines that start with # are ignored.",
            show_default=False,
        ),
    ] = None,
    ticket_secrets_file: Annotated[
        Path | None,
        typer.Option(
            envvar=SECRETS_FILE_VARIABLE,
            metavar="PATH",
            help="File with one secret per line, of at least 32 bytes, that signs tickets for "
            f"browsers; several for a rotation.  [env var: {SECRETS_VARIABLE}]",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, metavar="PORT", help="Port to listen on; 0 chooses a free one."
        ),
    ] = 8000,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Host name that a server without keys accepts besides localhost and IP addresses, "
            "for example behind a proxy on this machine; repeatable.",
            show_default=False,
        ),
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Origin of web pages that may send requests, such as http://localhost:5173; "
            "repeatable.",
            show_default=False,
        ),
    ] = None,
    public_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="URL at which clients reach the server, for example behind a proxy.",
            show_default=False,
        ),
    ] = None,
    a2a: Annotated[
        bool, typer.Option("--a2a", help="Serve the agent over A2A too, with a card made from it.")
    ] = False,
    card: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The agent's A2A card as JSON; implies --a2a. The server fills in its interfaces "
            "and capabilities.",
            show_default=False,
        ),
    ] = None,
    extended_card: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The A2A card for clients with a key; implies --a2a.",
            show_default=False,
        ),
    ] = None,
    grpc_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            metavar="PORT",
            help="Port for A2A over gRPC; implies --a2a; 0 chooses a free one.",
            show_default="no gRPC",
        ),
    ] = None,
    grpc_url: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address at which gRPC clients reach the server, if it is another one; with "
            "https:// if a proxy adds TLS.",
            show_default=False,
        ),
    ] = None,
    page: Annotated[
        bool | None,
        typer.Option(
            "--page/--no-page",
            help="Serve a page for browsers at /, to talk to the agent.",
            show_default="on a loopback address",
        ),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    chaos: Annotated[
        bool,
        typer.Option(
            "--chaos", help="Let the page cut connections, to watch how answers are resumed."
        ),
    ] = False,
    workers: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of processes; more than one needs a shared log (valkey://).",
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
            help="Limit for each key, in all processes that share a store.",
            show_default="no limit",
        ),
    ] = None,
    max_connections: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Limit for open connections, in each process.",
            show_default="from the limit of open files",
        ),
    ] = None,
    log_format: Annotated[
        LogFormat, typer.Option(help="Format of log lines; json writes one object per line.")
    ] = "text",
    verbose: Verbose = 0,
) -> None:
    """Serve an agent over HTTP: your own, a model, or the built-in guide.

    Ctrl-C or SIGTERM stops the server; running streams get a few seconds to end, and those of
    --durable continue in the next process. A second Ctrl-C stops it at once. Logs go to stderr;
    -v adds the access log.
    """
    with exit_codes():
        show_server_logs(verbose, log_format)
        require_server("coreason serve")
        has_page = _has_page(page, host)
        _refuse(
            (max_restarts is not None and not durable, "--max-restarts needs --durable"),
            (grpc_url is not None and grpc_port is None, "--grpc-url needs --grpc-port"),
            (
                grpc_port == 0 and workers > 1,
                "--grpc-port 0 with --workers would give each process another port: choose one",
            ),
            (open_page and not has_page, "--open needs --page"),
            (chaos and not has_page, "--chaos needs --page"),
            (
                chaos and workers > 1,
                "--chaos cuts the connections of one process: leave out --workers",
            ),
        )
        keys = Keys.load(api_key, file=api_keys_file)
        secrets, secrets_source = load_ticket_secrets(ticket_secrets_file)
        _refuse(
            (
                metrics and bool(secrets) and not keys.values,
                "--metrics needs a key in addition to tickets: set --api-keys-file or --api-key",
            )
        )
        config = ServeConfig(
            agent,
            llm,
            system,
            log,
            keys.with_owners(),
            keys.source,
            metrics,
            per_minute,
            verbose,
            allowed_hosts=allowed_host or (),
            cors_origins=cors_origin or (),
            log_format=log_format,
            durable=durable,
            max_restarts=max_restarts or DEFAULT_MAX_RESTARTS,
            public_url=public_url,
            a2a=a2a,
            card=card,
            extended_card=extended_card,
            grpc_address=None if grpc_port is None else host_port(host, grpc_port),
            grpc_url=grpc_url,
            page=has_page,
            chaos=chaos,
            watched=chaos or open_page,
            ticket_secrets=secrets,
            secrets_source=secrets_source,
        )
        app = config.app()
        _check(app, host, workers)
        # `show_server_logs` has set the levels of uvicorn's loggers.
        options = {"log_config": None, "log_level": None, "max_connections": max_connections}
        # The server uses these sockets, so no other process can take the port in between.
        with _listening(host, port, workers, grpc_port) as sockets:
            url = f"http://{host_port(host, sockets[0].getsockname()[1])}"
            authorization = keys.authorization() or (_TICKET_HEADER if secrets else None)
            banner = partial(_banner, config, url, authorization)

            def announce(grpc_port: int | None) -> None:
                print_stdout(banner(grpc_port))
                if open_page:
                    open_browser(f"{url}/")

            if workers == 1:
                _serve(app, host, sockets, _once(lambda: announce(app.grpc_port)), options)
            else:
                started = partial(announce, grpc_port)
                _serve_workers(config, app, workers, sockets[0], started, options)


def _refuse(*rules: tuple[bool, str]) -> None:
    """Raise a failure for the first rule that is broken."""
    for broken, message in rules:
        if broken:
            raise Failure(message, ExitCode.USAGE)


def _has_page(chosen: bool | None, host: str) -> bool:
    from ..server.run import is_loopback

    return is_loopback(host) if chosen is None else chosen


def _check(app: "AgentApp", host: str, workers: int) -> None:
    """Check now what would fail once the server runs."""
    from ..server import check_host

    try:
        app.check_workers(workers)
    except ArgumentError as error:
        raise usage_error(error, {"workers": "--workers"}) from None
    try:
        check_host(app, host)
    except ArgumentError:
        raise Failure(
            f"without a key, anyone who can reach {host} could use the agent: set --api-keys-file, "
            f"--api-key or {KEYS_VARIABLE}, or listen on 127.0.0.1",
            ExitCode.USAGE,
        ) from None
    import asyncio  # only here, so that `coreason --help` is quick

    asyncio.run(_check_log(app.log))


async def _check_log(log: "StreamLog") -> None:
    await log.start("check")
    await log.stop("check")


@contextmanager
def _listening(
    host: str, port: int, workers: int, grpc_port: int | None
) -> Iterator[list[socket.socket]]:
    """Listen on every address of a host while the block runs; workers share one socket.

    gRPC has its own sockets: its port is only checked, because gRPC does not say what is wrong.

    Raises:
        Failure: the address or the port cannot be used.
    """
    from ..server import listen, listen_all

    with listen_errors(host, port):
        sockets = listen_all(host, port) if workers == 1 else [listen(host, port)]
    try:
        if grpc_port:
            with listen_errors(host, grpc_port):
                for sock in listen_all(host, grpc_port):
                    sock.close()
        yield sockets
    finally:
        for sock in sockets:
            sock.close()


def _banner(config: ServeConfig, url: str, authorization: str | None, grpc_port: int | None) -> str:
    name = config.agent or config.llm or "the built-in guide"
    location = "in memory" if config.log == "memory" else f"in {redacted_log(config.log)}"
    durable = " and continue after a restart" if config.durable else ""
    page = f"Open {url}/ in a browser. " if config.page else ""
    card_url = f"{(config.public_url or url).rstrip('/')}/.well-known/agent-card.json"
    a2a = f"Its A2A card is {card_url}. " if config.serves_a2a else ""
    if grpc_port is not None:
        a2a += f"gRPC uses port {grpc_port}. "
    return (
        f"Serving {name} at {url}, streams are stored {location}{durable}. {page}{a2a}"
        f"Press Ctrl-C to stop. Try:\n\n{curl_line(url, authorization)}\n"
    )


def _once(announce: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    """Return a callback that announces only once; uvicorn calls it at the start and later again."""
    left = [announce]

    async def notify() -> None:
        if left:
            left.pop()()

    return notify


def _serve(
    app: "AgentApp",
    host: str,
    sockets: list[socket.socket],
    on_start: Callable[[], Awaitable[None]],
    options: dict[str, Any],
) -> None:
    from ..server import serve as serve_until_signal

    serve_until_signal(app, host, sockets=sockets, callback_notify=on_start, **options)


def _serve_workers(
    config: ServeConfig,
    app: "AgentApp",
    workers: int,
    sock: socket.socket,
    announce: Callable[[], None],
    options: dict[str, Any],
) -> None:
    """Serve with several processes; each creates the application for itself."""
    from ..server import serve_workers

    with config.for_workers() as factory:
        announce()  # the socket already accepts connections
        try:
            serve_workers(
                factory,
                sock,
                workers,
                shutdown_timeout=app.shutdown_timeout,
                grpc_address=config.grpc_address,
                **options,
            )
        except (OSError, RuntimeError) as error:
            raise Failure(str(error)) from None
