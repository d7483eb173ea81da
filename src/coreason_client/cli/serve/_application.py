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
from .._logs import show_server_logs
from .._options import reject_system, usage_error
from ..exits import ExitCode, Failure, reason_of
from ._options import DEFAULT_MAX_RESTARTS, ServeOptions, option_names
from ._secrets import ServeSecrets

if TYPE_CHECKING:
    from coreason_client.a2a.types import AgentCard

    from ...server import A2A, AGUI, AISDK, AgentApp, AgentGroup, OpenAIAPI, StreamLog

logger = logging.getLogger("coreason_client.server")

# Passes the configuration to workers. Arguments would be visible to every user of the machine.
_CONFIG_VARIABLE = "COREASON_SERVE_CONFIG"
# The names on the command line of arguments that are not named as their option.
_OTHER_NAMES = {
    "grpc_address": "--host with --grpc-port",
    "headers": "--openai-header",
    "path": "--ai-sdk-path or --ag-ui-path",
    "replicas": "--store-replicas",
    "url": "--store",
}
# AgentApp keeps the status of a stream at least as long as its packets.
_FINAL_RETENTION = 86400.0
_GUIDE_ID = "guide"  # that of the built-in agent, which is a title on the page
_RELOAD_DRAIN = 1.0  # seconds; who changes a file wants to see the effect
# The guide would finish before anybody could cut a connection or press another button of the page.
_SECONDS_PER_WORD = 0.04
_POSTGRES_SCHEMES = frozenset({"postgresql", "postgres"})
_VALKEY_SCHEMES = frozenset(
    name + rest for name in ("redis", "rediss", "valkey", "valkeys") for rest in ("", "+sentinel")
)


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """All that defines the application; `to_json` is for the workers."""

    options: ServeOptions
    secrets: ServeSecrets = field(default_factory=ServeSecrets)
    keys_before: str | None = field(default=None, repr=False)
    """The content of the file of keys when it was last valid."""

    @property
    def has_metrics(self) -> bool:
        """True if there are metrics; a key for them implies it."""
        return self.options.metrics or self.secrets.metrics_key.value is not None

    def to_json(self) -> str:
        """Return the configuration as JSON; a path becomes text."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> "ServeConfig":
        """Return the configuration of which `to_json` has made a text."""
        values = json.loads(text)
        secrets = ServeSecrets.from_dict(values["secrets"])
        return cls(ServeOptions(**values["options"]), secrets, values["keys_before"])

    def app(self) -> "AgentApp | AgentGroup":
        """Create the application.

        Raises:
            Failure: an argument is invalid.
        """
        options, secrets = self.options, self.secrets
        if options.durable and options.location == "memory":
            raise Failure(
                "--durable needs a store that outlives the process: add --store sqlite:PATH, "
                "postgresql://HOST or valkey://HOST",
                ExitCode.USAGE,
            )
        try:
            return self._app_of(_find_agents(options))
        except ArgumentError as error:
            sources = {
                "api_keys": secrets.keys.source,
                "ticket_secrets": secrets.tickets_source,
                "metrics_key": secrets.metrics_key.source,
            }
            names = option_names() | _OTHER_NAMES | sources
            if options.has_several_agents:
                names["agent_id"] = "the id of an agent"
            raise usage_error(error, names) from None
        except (TypeError, ValueError) as error:
            raise Failure(str(error), ExitCode.USAGE) from None

    def _app_of(self, agents: Sequence[Any]) -> "AgentApp | AgentGroup":
        from ...server import AgentApp, AgentGroup
        from ...server._agent_ids import default_agent_id

        options = self.options
        for name, agent in zip(options.agents or (), agents, strict=False):
            if isinstance(agent, AgentApp | AgentGroup):
                raise Failure(
                    f"{name} is an {type(agent).__name__}, which has its own log and keys: give "
                    f"the agent inside it, or run the application with uvicorn {name}",
                    ExitCode.USAGE,
                )
        log = _create_log(options.location, options.store_replicas or 0)
        public_url, root_path = options.public_url, options.root_path or ""
        if not options.has_several_agents:
            agent_id = options.agent_id or (_GUIDE_ID if options.serves_guide else options.llm)
            return self._create(
                agents[0], log, agent_id=agent_id, public_url=public_url, root_path=root_path
            )
        urls = [public_url and f"{public_url.rstrip('/')}/{default_agent_id(a)}" for a in agents]
        apps = [self._create(a, log, public_url=u) for a, u in zip(agents, urls, strict=True)]
        return AgentGroup(apps, root_path=root_path)

    def _create(self, agent: Any, log: "StreamLog", **others: Any) -> "AgentApp":
        from ...server import AgentApp

        options, secrets = self.options, self.secrets
        return AgentApp(
            agent,
            log=log,
            api_keys=secrets.keys.values or None,
            api_keys_file=secrets.keys.file,
            ticket_secrets=secrets.tickets or None,
            metrics=self.has_metrics,
            metrics_key=secrets.metrics_key.value,
            max_requests_per_minute=options.max_requests_per_minute,
            allowed_hosts=options.allowed_hosts or (),
            cors_origins=options.cors_origins or (),
            durable=options.durable,
            max_restarts=options.max_restarts or DEFAULT_MAX_RESTARTS,
            on_busy=options.on_busy,
            inbox=options.inbox,
            a2a=self._a2a_settings(),
            openai=self._openai_settings(),
            ai_sdk=self._ai_sdk_settings(),
            ag_ui=self._ag_ui_settings(),
            page=options.has_page,
            **self._times(),
            _cuts=options.chaos,
            _documents=self._documents(),
            _keys_before=self.keys_before,
            **others,
        )

    def _documents(self) -> dict[str, str]:
        """Return the documents that the guide cites, for the page."""
        if not (self.options.serves_guide and self.options.has_page):
            return {}
        from ...agents.guide import documents

        return documents()

    def _times(self) -> dict[str, Any]:
        times: dict[str, float] = {}
        drain_timeout, retention = self.options.drain_timeout, self.options.retention
        if self.options.reload or drain_timeout is not None:
            times["drain_timeout"] = _RELOAD_DRAIN if drain_timeout is None else drain_timeout
        if retention is not None:
            times["retention"] = retention
            times["final_retention"] = max(retention, _FINAL_RETENTION)
        return times

    def _a2a_settings(self) -> "A2A | bool":
        options = self.options
        if not options.serves_a2a:
            return False
        from ...server import A2A

        card, extended = options.card, options.extended_card
        return A2A(
            card=None if card is None else read_card("--card", card),
            extended_card=None if extended is None else read_card("--extended-card", extended),
            grpc_address=options.grpc_address,
            grpc_url=options.grpc_url,
            allow_http_webhooks=options.http_webhooks,
            # The host is that of HTTP, for which the command has its own check.
            grpc_allow_public=True,
        )

    def _openai_settings(self) -> "OpenAIAPI | bool":
        if not self.options.serves_openai:
            return False
        from ...server import OpenAIAPI

        tools = self.options.openai_tools or "ignore"
        return OpenAIAPI(tools=tools, headers=self.options.openai_headers or ())

    def _ai_sdk_settings(self) -> "AISDK | bool":
        if (path := self.options.ai_sdk_path) is None:
            return self.options.serves_ai_sdk
        from ...server import AISDK

        return AISDK(path=path)

    def _ag_ui_settings(self) -> "AGUI | bool":
        if (path := self.options.ag_ui_path) is None:
            return self.options.serves_ag_ui
        from ...server import AGUI

        return AGUI(path=path)

    @contextmanager
    def for_workers(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Yield the import string of the application factory for workers started in the block.

        Call the function that comes with it now and then: a worker that is started while the file
        of keys is invalid gets the keys from before.
        """
        from ...server._keys_file import ValidFile

        path = self.secrets.keys.file
        file = None if path is None else ValidFile(str(path))

        def update() -> None:
            config = self if file is None else replace(self, keys_before=file.read())
            os.environ[_CONFIG_VARIABLE] = config.to_json()

        update()
        try:
            name = f"{worker_app.__module__}:{worker_app.__name__}"
            yield name, (lambda: None) if file is None else update
        finally:
            del os.environ[_CONFIG_VARIABLE]


def worker_app() -> "AgentApp | AgentGroup":
    """Create the application in a worker process."""
    config = ServeConfig.from_json(os.environ.pop(_CONFIG_VARIABLE))
    show_server_logs(config.options.verbose, config.options.log_format)
    try:
        return config.app()
    except (Failure, CoreasonError) as error:  # code or files may have changed since the start
        logger.error("%s", error)
        raise SystemExit(ExitCode.FAILED) from None


def redacted_location(name: str) -> str:
    """Return where streams are stored, without a password."""
    parts = urlsplit(name)
    if parts.scheme not in _VALKEY_SCHEMES | _POSTGRES_SCHEMES:
        return name.partition(":")[2] or name
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _find_agents(options: ServeOptions) -> list[Any]:
    """Return the objects that the options name; their types are not checked.

    An object of a framework is returned as an agent of the same name.

    Raises:
        Failure: there is no such object, or the options name an agent and a model.
        TypeError, ValueError: the object of a framework cannot be served.
    """
    agents, llm = options.agents, options.llm
    if llm is not None:
        if agents:
            raise Failure(
                f"{agents[0]} and --llm {llm} cannot be used together: give one of them",
                ExitCode.USAGE,
            )
        from .._load import model_agent

        return [model_agent(llm, options.system, tell_errors=False)]
    reject_system(options.system)
    if agents:
        from ...adapters import adapted

        return [adapted(load_agent(name), name) for name in agents]
    from ...agents.guide import guide, paced

    is_watched = options.chaos or options.open_page  # in a browser
    return [paced(_SECONDS_PER_WORD) if is_watched else guide]


def _create_log(name: str, replicas: int) -> "StreamLog":
    from ...server import MemoryStreamLog, SQLiteStreamLog

    kind, _, path = name.partition(":")
    if kind in _VALKEY_SCHEMES and path.startswith("//"):
        from ...server import ValkeyStreamLog

        return ValkeyStreamLog(name, replicas=replicas)
    if kind in _POSTGRES_SCHEMES and path.startswith("//"):
        from ...server import PostgresStreamLog

        return PostgresStreamLog(name, replicas=replicas)
    if replicas:
        raise Failure(
            "--store-replicas needs --store postgresql://HOST or valkey://HOST", ExitCode.USAGE
        )
    if name == "memory":
        return MemoryStreamLog()
    if kind == "sqlite" and path:
        return SQLiteStreamLog(path)
    raise Failure(
        # Only the scheme is shown, because the rest may contain a password.
        f"--store must be memory, sqlite:PATH, postgresql://HOST or valkey://HOST, got {kind!r}",
        ExitCode.USAGE,
    )


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
        raise _failure(option, path, reason_of(error)) from None
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
