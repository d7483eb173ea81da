"""The options of `coreason serve`: each with its type, its help, its bounds and its default."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import typer
from typer.core import TyperCommand
from typer.models import OptionInfo

from ..._host_port import host_port
from .._logs import LogFormat
from .._options import System, Verbose, argument, flag, option, parse_duration
from ..llm import complete_model

STORE_VARIABLE = "COREASON_STORE"
KEYS_VARIABLE = "COREASON_API_KEYS"
KEY_VARIABLE = "COREASON_API_KEY"  # for one key; `coreason chat` reads it too
FILE_VARIABLE = "COREASON_API_KEYS_FILE"
SECRETS_VARIABLE = "COREASON_TICKET_SECRETS"
SECRETS_FILE_VARIABLE = "COREASON_TICKET_SECRETS_FILE"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The values of all options; the help lists them in this order."""

    # The agent
    agents: list[str] | None = argument(
        metavar="MODULE:AGENT",
        help="The agent, or several; the current directory is searched first. Each of several "
        "agents is served below its id.",
        show_default="the built-in guide",
    )
    llm: str | None = option(
        metavar="MODEL",
        help="Serve a model as the agent; its key is read from the environment or .env.",
        autocompletion=complete_model,
    )
    system: System = None
    agent_id: str | None = option(
        metavar="NAME",
        help="Name of the agent. Streams and conversations belong to it: keep it when the code "
        "is renamed.",
        show_default="the module and name of the function, or the model",
    )

    # Streams and their store
    store: str | None = option(
        envvar=STORE_VARIABLE,
        metavar="memory|sqlite:PATH|postgresql://HOST|valkey://HOST",
        help="Where streams are stored.",
        show_default="memory",
    )
    store_replicas: int | None = option(
        min=0,
        max=99,
        metavar="N",
        help="With Postgres or Valkey: how many standbys or replicas must have a packet before "
        "clients get it, so that it survives a failover to one of them. Postgres must be "
        "configured for it.",
        show_default="0",
    )
    retention: float | None = option(
        parser=parse_duration,
        metavar="SECONDS",
        help="How long the packets of a stream are kept after its end, such as 90, 15m or 7d.",
        show_default="15m",
    )
    durable: bool = flag(
        "--durable",
        help="Continue answers whose process has died; needs a --store that outlives the "
        "process, and an agent that puts models, tools and clocks into steps.",
    )
    max_restarts: int | None = option(
        min=1,
        metavar="N",
        help="With --durable: limit for restarts of an answer in a row without progress.",
        show_default=str(DEFAULT_MAX_RESTARTS),
    )
    on_busy: Literal["parallel", "wait", "reject", "interrupt"] = option(
        default="parallel",
        help="For a message while an earlier one of its conversation is being answered: answer "
        "it at once or next, refuse it, or cancel the earlier answer.",
    )
    inbox: bool = flag(
        "--inbox", help="Let clients send messages to a running answer; the agent reads them."
    )

    # Access
    api_keys: list[str] | None = option(
        "--api-key",
        secret=True,
        metavar="KEY",
        help="Key that clients may use; repeatable. Without a key, only this machine may "
        "connect. Other users of this machine can see it in the process list: prefer "
        f"the environment or --api-keys-file.  [env var: {KEYS_VARIABLE}, {KEY_VARIABLE}]",
    )
    api_keys_file: Path | None = option(
        envvar=FILE_VARIABLE,
        metavar="PATH",
        help="File with one key per line, optionally followed by a space and the name of its "
        "owner; empty lines and lines that start with # are ignored. It is read again when "
        "it changes.",
    )
    ticket_secrets_file: Path | None = option(
        envvar=SECRETS_FILE_VARIABLE,
        metavar="PATH",
        help="File with one secret per line, of at least 32 bytes, that signs tickets for "
        f"browsers; several for a rotation.  [env var: {SECRETS_VARIABLE}]",
    )
    allowed_hosts: list[str] | None = option(
        "--allowed-host",
        metavar="NAME",
        help="Host name that a server without keys accepts besides localhost and IP addresses, "
        "for example behind a proxy on this machine; repeatable.",
    )
    cors_origins: list[str] | None = option(
        "--cors-origin",
        metavar="ORIGIN",
        help="Origin of web pages that may send requests, such as http://localhost:5173; "
        "repeatable.",
    )

    # Address and TLS
    host: str = option(default="127.0.0.1", metavar="ADDRESS", help="Address to listen on.")
    port: int = option(
        default=8000,
        min=0,
        max=65535,
        metavar="PORT",
        help="Port to listen on; 0 chooses a free one.",
    )
    uds: Path | None = option(
        metavar="PATH",
        help="Listen on a Unix socket instead, for example for a proxy on this machine.",
    )
    uds_mode: int | None = option(
        parser=parse_mode,
        metavar="MODE",
        help="Permissions of the Unix socket.",
        show_default="660",
    )
    ssl_certfile: Path | None = option(
        metavar="PATH", help="Serve with TLS: file with the certificate and its chain, as PEM."
    )
    ssl_keyfile: Path | None = option(
        metavar="PATH",
        help="File with the key of the certificate, as PEM.",
        show_default="the file of the certificate",
    )
    ssl_keyfile_password_file: Path | None = option(
        envvar=f"{PASSWORD_VARIABLE}_FILE",
        metavar="PATH",
        help="File with the password of an encrypted key, in one line.  "
        f"[env var: {PASSWORD_VARIABLE}]",
    )
    root_path: str | None = option(
        metavar="PATH",
        help="Path below which a proxy serves the agent, such as /agents/one. The proxy may "
        "remove it or pass it on.",
    )
    public_url: str | None = option(
        metavar="URL", help="URL at which clients reach the server, for example behind a proxy."
    )

    # A2A
    a2a: bool = flag("--a2a", help="Serve the agent over A2A too, with a card made from it.")
    card: str | None = option(
        metavar="FILE",
        help="The agent's A2A card as JSON; implies --a2a. The server fills in its interfaces "
        "and capabilities.",
    )
    extended_card: str | None = option(
        metavar="FILE", help="The A2A card for clients with a key; implies --a2a."
    )
    grpc_port: int | None = option(
        min=0,
        max=65535,
        metavar="PORT",
        help="Port for A2A over gRPC; implies --a2a; 0 chooses a free one.",
        show_default="no gRPC",
    )
    grpc_url: str | None = option(
        metavar="ADDRESS",
        help="Address at which gRPC clients reach the server, if it is another one; with "
        "https:// if a proxy adds TLS.",
    )
    http_webhooks: bool = flag(
        "--http-webhooks",
        help="Let A2A clients register webhooks that begin with http://, which everybody on "
        "the way can read; implies --a2a.",
    )

    # The OpenAI-compatible API
    openai: bool = flag(
        "--openai", help="Serve the OpenAI-compatible API at /v1 too, with each agent as a model."
    )
    openai_tools: Literal["ignore", "refuse"] | None = option(
        help="Requests that bring their own tools, which an agent cannot call; implies --openai.",
        show_default="ignore",
    )
    openai_headers: list[str] | None = option(
        "--openai-header",
        metavar="NAME",
        help="Request header that the agent gets in the metadata; repeatable; implies --openai.",
    )

    # Pages of other frameworks
    ai_sdk: bool = flag(
        "--ai-sdk", help="Serve pages that use the AI SDK (useChat) too, at /api/chat."
    )
    ai_sdk_path: str | None = option(
        metavar="PATH",
        help="The path for pages that use the AI SDK; implies --ai-sdk.",
        show_default="/api/chat",
    )
    ag_ui: bool = flag("--ag-ui", help="Serve pages that use AG-UI (CopilotKit) too, at /ag-ui.")
    ag_ui_path: str | None = option(
        metavar="PATH",
        help="The path for pages that use AG-UI; implies --ag-ui.",
        show_default="/ag-ui",
    )

    # The page for browsers
    page: bool | None = option(
        "--page/--no-page",
        help="Serve a page for browsers at /, to talk to the agent.",
        show_default="on a loopback address",
    )
    open_page: bool = flag("--open", help="Open the page in a browser.")
    chaos: bool = flag(
        "--chaos", help="Let the page cut connections, to watch how answers are resumed."
    )

    # Processes and limits
    workers: int = option(
        default=1,
        min=1,
        metavar="N",
        help="Number of processes; more than one needs a shared store (postgresql:// or "
        "valkey://).",
    )
    reload: bool = flag(
        "--reload",
        help="For development: restart when a Python file in the current directory or beside "
        "the agent changes. Answers continue with --durable.",
    )
    drain_timeout: float | None = option(
        parser=parse_duration,
        metavar="SECONDS",
        help="How long running streams may go on after Ctrl-C or SIGTERM.",
        show_default="10, with --reload 1",
    )
    max_requests_per_minute: int | None = option(
        min=1,
        metavar="N",
        help="Limit for each key, in all processes that share a store.",
        show_default="no limit",
    )
    max_connections: int | None = option(
        min=1,
        metavar="N",
        help="Limit for open connections, in each process.",
        show_default="from the limit of open files",
    )

    # Logs and metrics
    metrics: bool = flag("--metrics", help="Expose Prometheus metrics at /metrics.")
    metrics_key: str | None = option(
        secret=True,
        metavar="KEY",
        help="Key that /metrics needs; implies --metrics. Prefer the environment or a file.  "
        f"[env var: {METRICS_KEY_VARIABLE}]",
        show_default="the keys of clients",
    )
    metrics_key_file: Path | None = option(
        envvar=f"{METRICS_KEY_VARIABLE}_FILE",
        metavar="PATH",
        help="File with the key for /metrics, in one line; implies --metrics.",
    )
    log_format: LogFormat = option(
        default="text", help="Format of log lines; json writes one object per line."
    )
    verbose: Verbose = 0

    @property
    def location(self) -> str:
        """The place where streams are stored, in the form of `--store`."""
        return self.store or "memory"

    @property
    def has_page(self) -> bool:
        """True if browsers get a page; without an option, only on a loopback address."""
        from ...server.run import is_loopback

        is_local = self.uds is None and is_loopback(self.host)
        return is_local if self.page is None else self.page

    @property
    def grpc_address(self) -> str | None:
        """The address of gRPC, None if it is not served."""
        return None if self.grpc_port is None else host_port(self.host, self.grpc_port)

    @property
    def serves_a2a(self) -> bool:
        """True if the agent is also served over A2A; every option of A2A implies it."""
        values = (self.card, self.extended_card, self.grpc_port)
        return self.a2a or self.http_webhooks or any(value is not None for value in values)

    @property
    def serves_openai(self) -> bool:
        """True if the OpenAI-compatible API is served; every option of it implies it."""
        return self.openai or self.openai_tools is not None or bool(self.openai_headers)

    @property
    def serves_ai_sdk(self) -> bool:
        """True if pages that use the AI SDK are served."""
        return self.ai_sdk or self.ai_sdk_path is not None

    @property
    def serves_ag_ui(self) -> bool:
        """True if pages that use AG-UI are served."""
        return self.ag_ui or self.ag_ui_path is not None

    @property
    def serves_guide(self) -> bool:
        """True if the agent is the built-in guide."""
        return not self.agents and self.llm is None

    @property
    def has_several_agents(self) -> bool:
        """True if each agent is served below its id."""
        return len(self.agents or ()) > 1


# The headings of the help, each with the first option below it.
_HEADINGS = {
    "llm": "The agent",
    "store": "Streams and their store",
    "api_keys": "Access",
    "host": "Address and TLS",
    "a2a": "A2A",
    "openai": "The OpenAI-compatible API",
    "ai_sdk": "Pages of other frameworks",
    "page": "The page for browsers",
    "workers": "Processes and limits",
    "metrics": "Logs and metrics",
    "help": "Help",
}


class ServeCommand(TyperCommand):
    """A command whose help has the options of `ServeOptions` in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and the options."""
        heading, groups = "Arguments", dict[str, list[tuple[str, str]]]()
        for one in self.get_params(ctx):
            heading = _HEADINGS.get(one.name or "", heading)
            if (row := one.get_help_record(ctx)) is not None:
                groups.setdefault(heading, []).append(row)
        for heading, rows in groups.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


def option_names() -> dict[str, str]:
    """Return the option on the command line for each field of `ServeOptions` that has one."""
    found = {}
    for one in fields(ServeOptions):
        parameter = one.metadata.get("parameter")
        if isinstance(parameter, OptionInfo):
            name, *_ = parameter.param_decls or [f"--{one.name.replace('_', '-')}"]
            found[one.name] = name.partition("/")[0]
    return found
