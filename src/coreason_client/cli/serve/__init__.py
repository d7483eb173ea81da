"""`coreason serve`: serves agents over HTTP until a signal arrives."""

from collections.abc import Container
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import typer

from coreason_client import ArgumentError

from .._load import require_server
from .._logs import show_server_logs
from .._options import is_given, set_parameters, usage_error
from ..exits import ExitCode, Failure, epilog, exit_codes
from ._application import ServeConfig
from ._options import KEYS_VARIABLE, PASSWORD_VARIABLE, ServeCommand, ServeOptions
from ._secrets import ServeSecrets, load_secret
from ._serving import Serving

if TYPE_CHECKING:
    from ...server import AgentApp, AgentGroup, StreamLog

__all__ = ["EPILOG", "ServeCommand", "broken_rule", "serve"]


EPILOG = epilog(
    "coreason serve",
    "coreason serve my_module:agent --port 9000 --store sqlite:streams.db",
    "coreason serve my_module:agent --durable --store sqlite:streams.db --reload",
    "coreason serve my_module:agent --host 0.0.0.0 --api-keys-file keys.txt",
    "coreason serve my_module:agent --ssl-certfile cert.pem --ssl-keyfile key.pem",
    "coreason serve my_module:agent --uds agent.sock --root-path /agent",
    "coreason serve my_module:agent --store postgresql://me@db/agents --workers 3",
    "coreason serve my_module:agent --store valkey://127.0.0.1:6379 --workers 3",
    'coreason serve --llm anthropic/claude-sonnet-4-5 --system "Be brief."',
    "coreason serve --open",
    "coreason serve my_module:agent --card card.json --grpc-port 50051",
    "coreason serve my_module:agent --openai",
    "coreason serve my_module:agent other_module:agent --openai",
    "coreason serve my_module:agent --ai-sdk --cors-origin http://localhost:3000",
    about="An agent is async def agent(request, stream), or an async generator of text and events. "
    "A plain def runs in a thread, so it may block. An agent of pydantic-ai or of the OpenAI "
    "Agents SDK and a compiled graph of LangGraph are served as they are.",
)


def serve(context: typer.Context, **values: Any) -> None:
    """Serve agents over HTTP: your own, a model, or the built-in guide.

    Ctrl-C or SIGTERM stops the server; running streams get a few seconds to end, and those of
    --durable continue in the next process. A second Ctrl-C stops it at once. Logs go to stderr;
    -v adds the access log.
    """
    with exit_codes():
        options = ServeOptions(**values)
        show_server_logs(options.verbose, options.log_format)
        require_server("coreason serve")
        config = ServeConfig(options, ServeSecrets.load(options))
        _check_options(config, context)
        tls = _tls(options)
        app = config.app()
        _check(app, options)
        Serving(config, app, tls).run()


set_parameters(serve, ServeOptions)


def _check_options(config: ServeConfig, context: typer.Context) -> None:
    """Refuse options that do not fit together.

    Raises:
        Failure: they do not.
    """
    given = {one.name for one in fields(ServeOptions) if is_given(context, one.name)}
    message = broken_rule(config.options, given)
    secrets = config.secrets
    has_key = bool(secrets.keys) or secrets.metrics_key.value is not None
    if message is None and config.has_metrics and secrets.tickets and not has_key:
        message = "--metrics needs a key in addition to tickets: set --metrics-key-file"
    if message is not None:
        raise Failure(message, ExitCode.USAGE)


def _tls(options: ServeOptions) -> dict[str, Any]:
    """Return the options for TLS.

    Raises:
        Failure: a file or the password cannot be used.
    """
    from ...server.run import tls_options

    file = options.ssl_keyfile_password_file
    password = load_secret("--ssl-keyfile-password", PASSWORD_VARIABLE, file=file)
    if options.ssl_certfile is None:
        return {}
    missing = f"--ssl-keyfile-password-file or {PASSWORD_VARIABLE}"
    names = {
        "ssl_certfile": "--ssl-certfile",
        "ssl_keyfile": "--ssl-keyfile",
        "ssl_keyfile_password": missing if password.value is None else password.source,
    }
    try:
        return tls_options(options.ssl_certfile, options.ssl_keyfile, password.value)
    except ArgumentError as error:
        raise usage_error(error, names) from None


def _check(app: "AgentApp | AgentGroup", options: ServeOptions) -> None:
    """Check now what would fail once the server runs."""
    from ...server import check_host

    try:
        app.check_workers(options.workers)
    except ArgumentError as error:
        message = usage_error(error, {"workers": "--workers"})
        advice = "add --store postgresql://HOST or valkey://HOST, or leave out --workers"
        raise Failure(f"{message}: {advice}", ExitCode.USAGE) from None
    try:
        check_host(app, options.host)
    except ArgumentError:
        raise Failure(
            f"without a key, anyone who can reach {options.host} could use the agent: set "
            f"--api-keys-file, --api-key or {KEYS_VARIABLE}, or listen on 127.0.0.1",
            ExitCode.USAGE,
        ) from None
    import asyncio  # only here, so that `coreason --help` is quick

    asyncio.run(_check_log(app.log))


async def _check_log(log: "StreamLog") -> None:
    await log.start("check")
    await log.stop("check")


# Options that do not fit together


def broken_rule(options: ServeOptions, given: Container[str]) -> str | None:
    """Return the sentence for the first rule that the options break, None if they break none.

    `given` has the names of the options that are on the command line.
    """
    rules = (
        *_address_rules(options, given),
        *_process_rules(options),
        *_tls_rules(options),
        *_group_rules(options),
        *_other_rules(options),
    )
    return next((message for is_broken, message in rules if is_broken), None)


def _address_rules(options: ServeOptions, given: Container[str]) -> tuple[tuple[bool, str], ...]:
    unix = options.uds is not None
    return (
        (unix and "port" in given, "--uds and --port cannot be used together: give one of them"),
        (
            # gRPC always has a host and a port.
            unix and "host" in given and options.grpc_port is None,
            "--uds and --host cannot be used together: give one of them",
        ),
        (unix and options.open_page, "--open needs a port: a browser cannot open a Unix socket"),
        (not unix and options.uds_mode is not None, "--uds-mode needs --uds"),
    )


def _process_rules(options: ServeOptions) -> tuple[tuple[bool, str], ...]:
    workers, reload = options.workers, options.reload
    return (
        (
            options.grpc_port == 0 and workers > 1,
            "--grpc-port 0 with --workers would give each process another port: choose one",
        ),
        (
            options.grpc_port == 0 and reload,
            "--grpc-port 0 with --reload would give each restart another port: choose one",
        ),
        (
            options.chaos and workers > 1,
            "--chaos cuts the connections of one process: leave out --workers",
        ),
        (reload and workers > 1, "--reload restarts one process: leave out --workers"),
        (
            reload and not options.agents,
            "--reload needs MODULE:AGENT: only your own code can change",
        ),
    )


def _tls_rules(options: ServeOptions) -> tuple[tuple[bool, str], ...]:
    has_tls = options.ssl_certfile is not None
    return (
        (not has_tls and options.ssl_keyfile is not None, "--ssl-keyfile needs --ssl-certfile"),
        (
            not has_tls and options.ssl_keyfile_password_file is not None,
            "--ssl-keyfile-password-file needs --ssl-certfile",
        ),
        (
            has_tls and options.grpc_port is not None,
            "--ssl-certfile does not apply to --grpc-port: let a proxy add TLS to both",
        ),
    )


def _group_rules(options: ServeOptions) -> tuple[tuple[bool, str], ...]:
    several = options.has_several_agents
    given = {
        "--agent-id": options.agent_id,
        "--card": options.card,
        "--extended-card": options.extended_card,
        "--grpc-port": options.grpc_port,
    }
    return tuple(
        (several and value is not None, f"{name} is for one agent: leave it out with several")
        for name, value in given.items()
    )


def _other_rules(options: ServeOptions) -> tuple[tuple[bool, str], ...]:
    return (
        (
            options.max_restarts is not None and not options.durable,
            "--max-restarts needs --durable",
        ),
        (
            options.grpc_url is not None and options.grpc_port is None,
            "--grpc-url needs --grpc-port",
        ),
        (options.open_page and not options.has_page, "--open needs --page"),
        (options.chaos and not options.has_page, "--chaos needs --page"),
    )
