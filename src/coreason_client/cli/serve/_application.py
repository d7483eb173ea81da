"""The application that `coreason serve` runs, in this process or in its workers."""

import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from coreason_client import ArgumentError, CoreasonError

from .._load import load_agent
from .._logs import LogFormat, show_server_logs
from .._options import reject_system, usage_error
from ..exits import ExitCode, Failure
from ._options import DEFAULT_MAX_RESTARTS

__all__ = ["ServeConfig", "read_card", "redacted_log", "worker_app"]

if TYPE_CHECKING:
    from ...server import A2A, AgentApp, StreamLog


logger = logging.getLogger("coreason_client.server")

# Passes the configuration to workers. Arguments would be visible to every user of the machine.
_CONFIG_VARIABLE = "COREASON_SERVE_CONFIG"
# The command line options that set arguments of AgentApp.
_OPTION_NAMES = {
    "agent_id": "--agent-id",
    "allowed_hosts": "--allowed-host",
    "api_keys_file": "--api-keys-file",
    "cors_origins": "--cors-origin",
    "drain_timeout": "--drain-timeout",
    "durable": "--durable",
    "grpc_address": "--host with --grpc-port",
    "grpc_url": "--grpc-url",
    "max_restarts": "--max-restarts",
    "max_requests_per_minute": "--max-requests-per-minute",
    "public_url": "--public-url",
    "retention": "--retention",
    "replicas": "--store-replicas",
    "root_path": "--root-path",
    "url": "--store",
}
# AgentApp keeps the status of a stream at least as long as its packets.
_FINAL_RETENTION = 86400.0
_GUIDE_ID = "guide"  # that of the built-in agent, which is a title on the page
_RELOAD_DRAIN = 1.0  # seconds; who changes a file wants to see the effect
# The guide would finish before anybody could cut a connection or press another button of the page.
_SECONDS_PER_WORD = 0.04
_VALKEY_SCHEMES = frozenset(
    name + rest for name in ("redis", "rediss", "valkey", "valkeys") for rest in ("", "+sentinel")
)


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """The command line arguments that define the application."""

    agent: str | None
    llm: str | None
    system: str | None
    log: str
    api_keys: Sequence[str] = field(repr=False)  # those outside the file
    keys_source: str  # option or environment variable
    metrics: bool
    max_requests_per_minute: int | None
    verbose: int
    allowed_hosts: Sequence[str] = ()
    cors_origins: Sequence[str] = ()
    log_format: LogFormat = "text"
    durable: bool = False
    max_restarts: int = DEFAULT_MAX_RESTARTS
    public_url: str | None = None
    a2a: bool = False
    card: str | None = None  # the path of a file
    extended_card: str | None = None  # likewise
    grpc_address: str | None = None
    grpc_url: str | None = None
    http_webhooks: bool = False
    page: bool = False
    chaos: bool = False
    watched: bool = False  # somebody watches the answers in a browser
    ticket_secrets: Sequence[str] = field(default=(), repr=False)
    secrets_source: str = ""  # option or environment variable
    api_keys_file: str | None = None  # the path of a file
    keys_before: str | None = field(default=None, repr=False)  # its content when it was last valid
    metrics_key: str | None = field(default=None, repr=False)
    metrics_source: str = "--metrics-key"
    drain_timeout: float | None = None
    retention: float | None = None
    agent_id: str | None = None
    root_path: str = ""
    reload: bool = False
    store_replicas: int = 0

    @property
    def serves_a2a(self) -> bool:
        """True if the agent is also served over A2A; every option of A2A implies it."""
        options = (self.card, self.extended_card, self.grpc_address)
        return self.a2a or self.http_webhooks or any(option is not None for option in options)

    @property
    def _serves_guide(self) -> bool:
        return self.agent is None and self.llm is None

    def app(self) -> "AgentApp":
        """Create the application.

        Raises:
            Failure: an argument is invalid.
        """
        from ...server import AgentApp

        if self.durable and self.log == "memory":
            raise Failure(
                "--durable needs a store that outlives the process: add --store sqlite:PATH or "
                "--store valkey://HOST",
                ExitCode.USAGE,
            )
        agent = _find_agent(self.agent, self.llm, self.system, watched=self.watched)
        if isinstance(agent, AgentApp):
            raise Failure(
                f"{self.agent} is an AgentApp, which has its own log and keys: give the agent "
                f"inside it, or run the application with uvicorn {self.agent}",
                ExitCode.USAGE,
            )
        try:
            return AgentApp(
                agent,
                log=_create_log(self.log, self.store_replicas),
                api_keys=self.api_keys or None,
                api_keys_file=self.api_keys_file,
                ticket_secrets=self.ticket_secrets or None,
                metrics=self.metrics,
                metrics_key=self.metrics_key,
                max_requests_per_minute=self.max_requests_per_minute,
                allowed_hosts=self.allowed_hosts,
                cors_origins=self.cors_origins,
                durable=self.durable,
                max_restarts=self.max_restarts,
                public_url=self.public_url,
                root_path=self.root_path,
                agent_id=self.agent_id or (_GUIDE_ID if self._serves_guide else None),
                a2a=self._a2a_settings(),
                page=self.page,
                **self._times(),
                _cuts=self.chaos,
                _documents=self._documents(),
                _keys_before=self.keys_before,
            )
        except ArgumentError as error:
            sources = {
                "api_keys": self.keys_source,
                "ticket_secrets": self.secrets_source,
                "metrics_key": self.metrics_source,
            }
            raise usage_error(error, _OPTION_NAMES | sources) from None
        except (TypeError, ValueError) as error:
            raise Failure(str(error), ExitCode.USAGE) from None

    def _documents(self) -> dict[str, str]:
        """Return the documents that the guide cites, for the page."""
        if not (self._serves_guide and self.page):
            return {}
        from ...agents.guide import documents

        return documents()

    def _times(self) -> dict[str, Any]:
        times: dict[str, float] = {}
        if self.reload or self.drain_timeout is not None:
            times["drain_timeout"] = (
                _RELOAD_DRAIN if self.drain_timeout is None else self.drain_timeout
            )
        if self.retention is not None:
            times["retention"] = self.retention
            times["final_retention"] = max(self.retention, _FINAL_RETENTION)
        return times

    def _a2a_settings(self) -> "A2A | bool":
        if not self.serves_a2a:
            return False
        from ...server import A2A

        card, extended = self.card, self.extended_card
        return A2A(
            card=None if card is None else read_card("--card", card),
            extended_card=None if extended is None else read_card("--extended-card", extended),
            grpc_address=self.grpc_address,
            grpc_url=self.grpc_url,
            allow_http_webhooks=self.http_webhooks,
            # The host is that of HTTP, for which the command has its own check.
            grpc_allow_public=True,
        )

    @contextmanager
    def for_workers(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Yield the import string of the application factory for workers started in the block.

        Call the function that comes with it now and then: a worker that is started while the file
        of keys is invalid gets the keys from before.
        """
        from ...server._keys_file import ValidFile

        file = None if self.api_keys_file is None else ValidFile(self.api_keys_file)

        def update() -> None:
            config = self if file is None else replace(self, keys_before=file.read())
            os.environ[_CONFIG_VARIABLE] = json.dumps(asdict(config))

        update()
        try:
            name = f"{worker_app.__module__}:{worker_app.__name__}"
            yield name, (lambda: None) if file is None else update
        finally:
            del os.environ[_CONFIG_VARIABLE]


def worker_app() -> "AgentApp":
    """Create the application in a worker process."""
    config = ServeConfig(**json.loads(os.environ.pop(_CONFIG_VARIABLE)))
    show_server_logs(config.verbose, config.log_format)
    try:
        return config.app()
    except (Failure, CoreasonError) as error:  # code or files may have changed since the start
        logger.error("%s", error)
        raise SystemExit(ExitCode.FAILED) from None


def redacted_log(name: str) -> str:
    """Return the location of a log other than `memory`, without its password."""
    parts = urlsplit(name)
    if parts.scheme not in _VALKEY_SCHEMES:
        return name.partition(":")[2]
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


def _find_agent(agent: str | None, llm: str | None, system: str | None, *, watched: bool) -> Any:
    """Return the object that the arguments name; its type is not checked.

    Raises:
        Failure: there is no such object, or the arguments name two.
    """
    if llm is not None:
        if agent is not None:
            raise Failure(
                f"{agent} and --llm {llm} cannot be used together: give one of them", ExitCode.USAGE
            )
        from .._load import model_agent

        return model_agent(llm, system, tell_errors=False)
    reject_system(system)
    if agent is not None:
        return load_agent(agent)
    from ...agents.guide import guide, paced

    return paced(_SECONDS_PER_WORD) if watched else guide


def _create_log(name: str, replicas: int) -> "StreamLog":
    from ...server import MemoryStreamLog, SQLiteStreamLog

    kind, _, path = name.partition(":")
    if kind in _VALKEY_SCHEMES and path.startswith("//"):
        from ...server import ValkeyStreamLog

        return ValkeyStreamLog(name, replicas=replicas)
    if replicas:
        raise Failure("--store-replicas needs --store valkey://HOST", ExitCode.USAGE)
    if name == "memory":
        return MemoryStreamLog()
    if kind == "sqlite" and path:
        return SQLiteStreamLog(path)
    raise Failure(
        # Only the scheme is shown, because the rest may contain a password.
        f"--store must be memory, sqlite:PATH or valkey://HOST, got {kind!r}",
        ExitCode.USAGE,
    )


if TYPE_CHECKING:
    from coreason_client.a2a.types import AgentCard


_MAX_BYTES = 1024 * 1024


def read_card(option: str, path: str) -> "AgentCard":
    """Return the card in the file of an option.

    Raises:
        Failure: the file cannot be read, or is not a card; the message names the option.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise _failure(option, path, (error.strerror or str(error)).lower()) from None
    if len(data) > _MAX_BYTES:
        raise _failure(option, path, "the file is larger than 1 MiB")
    try:
        return _parse(data)
    except ValueError as error:
        raise _failure(option, path, str(error)) from None


def _parse(data: bytes) -> "AgentCard":
    # Imported here because most calls of the command need no card.
    from pydantic import ValidationError
    from pydantic_core import from_json

    from coreason_client.a2a.types import AgentCard

    try:
        content = from_json(data)
    except ValueError as error:
        raise ValueError(f"the file is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ValueError("an agent card must be a JSON object")
    try:
        return AgentCard.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"] if not _is_union_member(part))
        raise ValueError(f"this is not an agent card: {path}: {first['msg'].lower()}") from None


def _is_union_member(part: int | str) -> bool:
    """Return True for what pydantic puts into a path besides names: the tried type of a union."""
    return isinstance(part, str) and ("[" in part or part in ("str", "bool", "none"))


def _failure(option: str, path: str, reason: str) -> Failure:
    return Failure(f"{option} {path}: {reason}", ExitCode.USAGE)
