"""The options of `coreason serve`, in the order of its help."""

from pathlib import Path
from typing import Annotated

import typer

from .._logs import LogFormat
from .._options import parse_duration
from ..llm import complete_model
from ._secrets import (
    FILE_VARIABLE,
    KEY_VARIABLE,
    KEYS_VARIABLE,
    SECRETS_FILE_VARIABLE,
    SECRETS_VARIABLE,
)

__all__ = [
    "DEFAULT_MAX_RESTARTS",
    "METRICS_KEY_VARIABLE",
    "PASSWORD_VARIABLE",
    "STORE_VARIABLES",
    "AgentId",
    "AgentName",
    "AllowedHosts",
    "ApiKeys",
    "ApiKeysFile",
    "Card",
    "Chaos",
    "CorsOrigins",
    "DrainTimeout",
    "Durable",
    "ExtendedCard",
    "GrpcPort",
    "GrpcUrl",
    "Host",
    "HttpWebhooks",
    "Llm",
    "MaxConnections",
    "MaxRestarts",
    "Metrics",
    "MetricsKey",
    "MetricsKeyFile",
    "OldStore",
    "OpenPage",
    "Page",
    "PerMinute",
    "Port",
    "PublicUrl",
    "Reload",
    "Retention",
    "RootPath",
    "ServerLogFormat",
    "ServesA2A",
    "SslCertfile",
    "SslKeyfile",
    "SslKeyfilePasswordFile",
    "Store",
    "TicketSecretsFile",
    "Uds",
    "UdsMode",
    "Workers",
    "parse_mode",
]

STORE_VARIABLES = ["COREASON_STORE", "COREASON_LOG"]  # the second is the earlier name
METRICS_KEY_VARIABLE = "COREASON_METRICS_KEY"
PASSWORD_VARIABLE = "COREASON_SSL_KEYFILE_PASSWORD"  # noqa: S105 - a name
DEFAULT_MAX_RESTARTS = 3


def parse_mode(text: str) -> int:
    """Return permissions that are given as octal digits.

    Raises:
        typer.BadParameter: they are not.
    """
    if not (0 < len(text) <= 4 and set(text) <= set("01234567")) or int(text, 8) > 0o777:
        raise typer.BadParameter(f"must be octal permissions such as 660, got {text!r}")
    return int(text, 8)


AgentName = Annotated[
    str | None,
    typer.Argument(
        metavar="MODULE:AGENT",
        help="The agent; the current directory is searched first.",
        show_default="the built-in guide",
    ),
]

Llm = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Serve a model as the agent; its key is read from the environment or .env.",
        show_default=False,
        autocompletion=complete_model,
    ),
]

Store = Annotated[
    str | None,
    typer.Option(
        envvar=STORE_VARIABLES,
        metavar="memory|sqlite:PATH|valkey://HOST",
        help="Where streams are stored.",
        show_default="memory",
    ),
]

StoreReplicas = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=99,
        metavar="N",
        help="With a Valkey store: how many of its replicas must have a packet before clients get "
        "it, so that it survives a failover to one of them.",
        show_default="0",
    ),
]

OldStore = Annotated[str | None, typer.Option("--log", hidden=True)]

Retention = Annotated[
    float | None,
    typer.Option(
        parser=parse_duration,
        metavar="SECONDS",
        help="How long the packets of a stream are kept after its end, such as 90, 15m or 7d.",
        show_default="15m",
    ),
]

AgentId = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Name of the agent. Streams and conversations belong to it: keep it when the code is "
        "renamed.",
        show_default="the module and name of the function",
    ),
]

Durable = Annotated[
    bool,
    typer.Option(
        "--durable",
        help="Continue answers whose process has died; needs a --store that outlives the "
        "process, and an agent that puts models, tools and clocks into steps.",
    ),
]

MaxRestarts = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="With --durable: limit for restarts of an answer in a row without progress.",
        show_default=str(DEFAULT_MAX_RESTARTS),
    ),
]

ApiKeys = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY",
        help="Key that clients may use; repeatable. Without a key, only this machine may "
        "connect. Other users of this machine can see it in the process list: prefer "
        f"the environment or --api-keys-file.  [env var: {KEYS_VARIABLE}, {KEY_VARIABLE}]",
        show_default=False,
    ),
]

ApiKeysFile = Annotated[
    Path | None,
    typer.Option(
        envvar=FILE_VARIABLE,
        metavar="PATH",
        help="File with one key per line, optionally followed by a space and the name of its "
        "owner; empty lines and lines that start with # are ignored. It is read again when "
        "it changes.",
        show_default=False,
    ),
]

TicketSecretsFile = Annotated[
    Path | None,
    typer.Option(
        envvar=SECRETS_FILE_VARIABLE,
        metavar="PATH",
        help="File with one secret per line, of at least 32 bytes, that signs tickets for "
        f"browsers; several for a rotation.  [env var: {SECRETS_VARIABLE}]",
        show_default=False,
    ),
]

Host = Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")]

Port = Annotated[
    int,
    typer.Option(min=0, max=65535, metavar="PORT", help="Port to listen on; 0 chooses a free one."),
]

Uds = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="Listen on a Unix socket instead, for example for a proxy on this machine.",
        show_default=False,
    ),
]

UdsMode = Annotated[
    int | None,
    typer.Option(
        parser=parse_mode,
        metavar="MODE",
        help="Permissions of the Unix socket.",
        show_default="660",
    ),
]

SslCertfile = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="Serve with TLS: file with the certificate and its chain, as PEM.",
        show_default=False,
    ),
]

SslKeyfile = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="File with the key of the certificate, as PEM.",
        show_default="the file of the certificate",
    ),
]

SslKeyfilePasswordFile = Annotated[
    Path | None,
    typer.Option(
        envvar=f"{PASSWORD_VARIABLE}_FILE",
        metavar="PATH",
        help="File with the password of an encrypted key, in one line.  "
        f"[env var: {PASSWORD_VARIABLE}]",
        show_default=False,
    ),
]

RootPath = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="Path below which a proxy serves the agent, such as /agents/one. The proxy may remove "
        "it or pass it on.",
        show_default=False,
    ),
]

AllowedHosts = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Host name that a server without keys accepts besides localhost and IP addresses, "
        "for example behind a proxy on this machine; repeatable.",
        show_default=False,
    ),
]

CorsOrigins = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ORIGIN",
        help="Origin of web pages that may send requests, such as http://localhost:5173; "
        "repeatable.",
        show_default=False,
    ),
]

PublicUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="URL at which clients reach the server, for example behind a proxy.",
        show_default=False,
    ),
]

ServesA2A = Annotated[
    bool, typer.Option("--a2a", help="Serve the agent over A2A too, with a card made from it.")
]

Card = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="The agent's A2A card as JSON; implies --a2a. The server fills in its interfaces "
        "and capabilities.",
        show_default=False,
    ),
]

ExtendedCard = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="The A2A card for clients with a key; implies --a2a.",
        show_default=False,
    ),
]

GrpcPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        metavar="PORT",
        help="Port for A2A over gRPC; implies --a2a; 0 chooses a free one.",
        show_default="no gRPC",
    ),
]

GrpcUrl = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Address at which gRPC clients reach the server, if it is another one; with "
        "https:// if a proxy adds TLS.",
        show_default=False,
    ),
]

HttpWebhooks = Annotated[
    bool,
    typer.Option(
        "--http-webhooks",
        help="Let A2A clients register webhooks that begin with http://, which everybody on the "
        "way can read; implies --a2a.",
    ),
]

Page = Annotated[
    bool | None,
    typer.Option(
        "--page/--no-page",
        help="Serve a page for browsers at /, to talk to the agent.",
        show_default="on a loopback address",
    ),
]

OpenPage = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]

Chaos = Annotated[
    bool,
    typer.Option("--chaos", help="Let the page cut connections, to watch how answers are resumed."),
]

Workers = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="N",
        help="Number of processes; more than one needs a shared store (valkey://).",
    ),
]

Reload = Annotated[
    bool,
    typer.Option(
        "--reload",
        help="For development: restart when a Python file in the current directory or beside the "
        "agent changes. Answers continue with --durable.",
    ),
]

DrainTimeout = Annotated[
    float | None,
    typer.Option(
        parser=parse_duration,
        metavar="SECONDS",
        help="How long running streams may go on after Ctrl-C or SIGTERM.",
        show_default="10, with --reload 1",
    ),
]

Metrics = Annotated[bool, typer.Option("--metrics", help="Expose Prometheus metrics at /metrics.")]

MetricsKey = Annotated[
    str | None,
    typer.Option(
        metavar="KEY",
        help="Key that /metrics needs; implies --metrics. Prefer the environment or a file.  "
        f"[env var: {METRICS_KEY_VARIABLE}]",
        show_default="the keys of clients",
    ),
]

MetricsKeyFile = Annotated[
    Path | None,
    typer.Option(
        envvar=f"{METRICS_KEY_VARIABLE}_FILE",
        metavar="PATH",
        help="File with the key for /metrics, in one line; implies --metrics.",
        show_default=False,
    ),
]

PerMinute = Annotated[
    int | None,
    typer.Option(
        "--max-requests-per-minute",
        min=1,
        metavar="N",
        help="Limit for each key, in all processes that share a store.",
        show_default="no limit",
    ),
]

MaxConnections = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Limit for open connections, in each process.",
        show_default="from the limit of open files",
    ),
]

ServerLogFormat = Annotated[
    LogFormat, typer.Option(help="Format of log lines; json writes one object per line.")
]
