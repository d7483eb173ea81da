"""`coreason serve`: serves an agent over HTTP until a signal arrives."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from coreason_client import ArgumentError

from ..._host_port import host_port
from .._listening import Address
from .._load import require_server
from .._logs import show_server_logs
from .._options import System, Verbose, usage_error
from ..exits import EXIT_CODES_HINT, ExitCode, Failure, exit_codes
from . import _options as option
from ._application import ServeConfig
from ._rules import address_rules, process_rules, refuse, tls_rules
from ._secrets import KEYS_VARIABLE, Keys, SecretValue, load_secret, load_ticket_secrets
from ._serving import Serving

if TYPE_CHECKING:
    from ...server import AgentApp, StreamLog

__all__ = ["serve"]

_TICKET_HEADER = '"Authorization: Bearer $TICKET"'

EPILOG = f"""\
\b
Examples:
  coreason serve
  coreason serve my_module:agent --port 9000 --store sqlite:streams.db
  coreason serve my_module:agent --durable --store sqlite:streams.db --reload
  coreason serve my_module:agent --host 0.0.0.0 --api-keys-file keys.txt
  coreason serve my_module:agent --ssl-certfile cert.pem --ssl-keyfile key.pem
  coreason serve my_module:agent --uds agent.sock --root-path /agent
  coreason serve my_module:agent --store valkey://127.0.0.1:6379 --workers 3
  coreason serve --llm anthropic/claude-sonnet-4-5 --system "Be brief."
  coreason serve --open
  coreason serve my_module:agent --card card.json --grpc-port 50051

An agent is async def agent(request, stream), or an async generator of text and events. A plain def
runs in a thread, so it may block.

{EXIT_CODES_HINT}
"""


def serve(
    context: typer.Context,
    agent: option.AgentName = None,
    llm: option.Llm = None,
    system: System = None,
    store: option.Store = None,
    store_replicas: option.StoreReplicas = None,
    log: option.OldStore = None,
    retention: option.Retention = None,
    agent_id: option.AgentId = None,
    durable: option.Durable = False,
    max_restarts: option.MaxRestarts = None,
    api_key: option.ApiKeys = None,
    api_keys_file: option.ApiKeysFile = None,
    ticket_secrets_file: option.TicketSecretsFile = None,
    host: option.Host = "127.0.0.1",
    port: option.Port = 8000,
    uds: option.Uds = None,
    uds_mode: option.UdsMode = None,
    ssl_certfile: option.SslCertfile = None,
    ssl_keyfile: option.SslKeyfile = None,
    ssl_keyfile_password_file: option.SslKeyfilePasswordFile = None,
    root_path: option.RootPath = None,
    allowed_host: option.AllowedHosts = None,
    cors_origin: option.CorsOrigins = None,
    public_url: option.PublicUrl = None,
    a2a: option.ServesA2A = False,
    card: option.Card = None,
    extended_card: option.ExtendedCard = None,
    grpc_port: option.GrpcPort = None,
    grpc_url: option.GrpcUrl = None,
    http_webhooks: option.HttpWebhooks = False,
    page: option.Page = None,
    open_page: option.OpenPage = False,
    chaos: option.Chaos = False,
    workers: option.Workers = 1,
    reload: option.Reload = False,
    drain_timeout: option.DrainTimeout = None,
    metrics: option.Metrics = False,
    metrics_key: option.MetricsKey = None,
    metrics_key_file: option.MetricsKeyFile = None,
    per_minute: option.PerMinute = None,
    max_connections: option.MaxConnections = None,
    log_format: option.ServerLogFormat = "text",
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
        has_page = _has_page(page, host, uds)
        given = partial(_is_given, context)
        secrets, secrets_source = load_ticket_secrets(ticket_secrets_file)
        keys = Keys.load(api_key, file=api_keys_file)
        metrics_secret = load_secret(
            "--metrics-key", option.METRICS_KEY_VARIABLE, given=metrics_key, file=metrics_key_file
        )
        metrics = metrics or metrics_secret.value is not None
        refuse(
            (
                given("store") and given("log"),
                "--log is the earlier name of --store: give one of them",
            ),
            *address_rules(
                host_given=given("host"),
                port_given=given("port"),
                uds=uds,
                uds_mode=uds_mode,
                grpc_port=grpc_port,
                open_page=open_page,
            ),
            *process_rules(agent, workers=workers, reload=reload, chaos=chaos, grpc_port=grpc_port),
            *tls_rules(ssl_certfile, ssl_keyfile, ssl_keyfile_password_file, grpc_port),
            (max_restarts is not None and not durable, "--max-restarts needs --durable"),
            (grpc_url is not None and grpc_port is None, "--grpc-url needs --grpc-port"),
            (open_page and not has_page, "--open needs --page"),
            (chaos and not has_page, "--chaos needs --page"),
            (
                metrics and bool(secrets) and not keys and metrics_secret.value is None,
                "--metrics needs a key in addition to tickets: set --metrics-key-file",
            ),
        )
        password = load_secret(
            "--ssl-keyfile-password", option.PASSWORD_VARIABLE, file=ssl_keyfile_password_file
        )
        tls = _tls(ssl_certfile, ssl_keyfile, password)
        config = ServeConfig(
            agent,
            llm,
            system,
            (log if given("log") else store) or "memory",
            keys.values,
            keys.source,
            metrics,
            per_minute,
            verbose,
            allowed_hosts=allowed_host or (),
            cors_origins=cors_origin or (),
            log_format=log_format,
            durable=durable,
            max_restarts=max_restarts or option.DEFAULT_MAX_RESTARTS,
            public_url=public_url,
            a2a=a2a,
            card=card,
            extended_card=extended_card,
            grpc_address=None if grpc_port is None else host_port(host, grpc_port),
            grpc_url=grpc_url,
            http_webhooks=http_webhooks,
            page=has_page,
            chaos=chaos,
            watched=chaos or open_page,
            ticket_secrets=secrets,
            secrets_source=secrets_source,
            api_keys_file=None if keys.file is None else str(keys.file),
            metrics_key=metrics_secret.value,
            metrics_source=metrics_secret.source,
            drain_timeout=drain_timeout,
            retention=retention,
            agent_id=agent_id,
            root_path=root_path or "",
            reload=reload,
            store_replicas=store_replicas or 0,
        )
        app = config.app()
        _check(app, host, workers)
        address = Address(host, port, uds, uds_mode, tls=bool(tls))
        # `show_server_logs` has set the levels of uvicorn's loggers.
        options = {"log_config": None, "log_level": None, "max_connections": max_connections, **tls}
        authorization = keys.authorization() or (_TICKET_HEADER if secrets else None)
        serving = Serving(config, app, address, workers, options)
        serving.run(authorization, grpc_port, open_page=open_page)


def _is_given(context: typer.Context, parameter: str) -> bool:
    """Return True if an option is on the command line."""
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def _has_page(chosen: bool | None, host: str, uds: Path | None = None) -> bool:
    from ...server.run import is_loopback

    return (is_loopback(host) and uds is None) if chosen is None else chosen


def _tls(certfile: Path | None, keyfile: Path | None, password: SecretValue) -> dict[str, Any]:
    """Return the options for TLS.

    Raises:
        Failure: a file or the password cannot be used.
    """
    from ...server.run import tls_options

    if certfile is None:
        return {}
    missing = f"--ssl-keyfile-password-file or {option.PASSWORD_VARIABLE}"
    names = {
        "ssl_certfile": "--ssl-certfile",
        "ssl_keyfile": "--ssl-keyfile",
        "ssl_keyfile_password": missing if password.value is None else password.source,
    }
    try:
        return tls_options(certfile, keyfile, password.value)
    except ArgumentError as error:
        raise usage_error(error, names) from None


def _check(app: "AgentApp", host: str, workers: int) -> None:
    """Check now what would fail once the server runs."""
    from ...server import check_host

    try:
        app.check_workers(workers)
    except ArgumentError as error:
        message = usage_error(error, {"workers": "--workers"})
        advice = "add --store valkey://HOST, or leave out --workers"
        raise Failure(f"{message}: {advice}", ExitCode.USAGE) from None
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
