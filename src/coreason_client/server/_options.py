"""The options of an application, checked once."""

import re
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Literal, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from ..errors import ArgumentError

T = TypeVar("T")
OnBusy: TypeAlias = Literal["parallel", "wait", "reject", "interrupt"]
"""What happens to a message while an earlier one of its conversation is being answered."""

PATHS = ("/assist", "/v1/assist", "/health", "/ready", "/openapi.json")

A2A_PATH = "/a2a"
"""The path of A2A: JSON-RPC is at it, HTTP+JSON below it."""

CARD_PATH = "/.well-known/agent-card.json"
"""The path of the card, where clients of A2A begin."""

FIRST_PARTS = frozenset(
    path.split("/")[1] for path in (*PATHS, A2A_PATH, CARD_PATH, "/streams", "/page")
) - {"v1"}
"""The first parts of the paths that are served: a prefix with such a name would be ambiguous."""

_PATH = re.compile(r"(?:/[A-Za-z0-9._~-]+)+", re.ASCII)

# The bound of a number is part of its type, so each option is listed once.
_ABOVE_0, _NOT_NEGATIVE = "must be greater than 0", "must be 0 or more"
Count: TypeAlias = Annotated[int, _ABOVE_0]
Seconds: TypeAlias = Annotated[float, _ABOVE_0]
Delay: TypeAlias = Annotated[float, _NOT_NEGATIVE]  # in seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one `AgentApp`; its signature has the defaults."""

    agent_id: str
    version: str
    max_body_bytes: Count
    max_json_values: Count
    max_messages: Count
    max_parts: Count
    max_header_bytes: Count
    max_streams_per_key: Count
    max_readers_per_key: Count
    max_requests_per_minute: int | None
    metrics_path: str | None
    on_abandoned: Literal["continue", "cancel"]  # "cancel" is refused on a shared log
    on_busy: OnBusy
    inbox: bool
    abandon_grace: Delay
    heartbeat: Seconds
    send_timeout: Seconds
    body_timeout: Seconds
    retention: Delay
    final_retention: Delay
    drain_timeout: Delay
    cancel_grace: Delay
    durable: bool
    max_restarts: Count
    root_path: str = ""
    serves_a2a: bool = False
    api_paths: tuple[str, ...] = ()  # of the protocols whose paths can be changed

    def __post_init__(self) -> None:
        for name, bound in _bounds().items():
            value = getattr(self, name)
            if not isinstance(value, int | float):
                raise ArgumentError(name, "must be a number", value)
            if not (value > 0 if bound is _ABOVE_0 else value >= 0):
                raise ArgumentError(name, bound, value)
        _check_agent_id(self.agent_id)
        check_root_path(self.root_path)
        _check_rate(self.max_requests_per_minute)
        _check_path(self.metrics_path, self.api_paths, serves_a2a=self.serves_a2a)
        for path in self.api_paths:
            if self.api_paths.count(path) > 1:
                raise ArgumentError("path", "must be another one for each protocol", path)
            if self.root_path.split("/")[1:2] == path.split("/")[1:2]:
                rule = f"must not begin like {path}, which is the path of a protocol"
                raise ArgumentError("root_path", rule, self.root_path)
        if self.on_abandoned not in ("continue", "cancel"):
            raise ArgumentError("on_abandoned", 'must be "continue" or "cancel"', self.on_abandoned)
        if self.on_busy not in get_args(OnBusy):
            rule = f"must be one of {', '.join(get_args(OnBusy))}"
            raise ArgumentError("on_busy", rule, self.on_busy)
        if self.final_retention < self.retention:
            raise ArgumentError(
                "final_retention",
                f"must be at least as long as retention, which is {self.retention}: the status of "
                "a stream outlives its packets",
                self.final_retention,
            )


@cache
def _bounds() -> dict[str, str]:
    """Return the bounds of the numeric options."""
    hints = get_type_hints(Options, include_extras=True)
    return {name: kind.__metadata__[0] for name, kind in hints.items() if _is_bounded(kind)}


def _is_bounded(kind: object) -> bool:
    return get_origin(kind) is Annotated


def option_names() -> frozenset[str]:
    """Return the names of all options."""
    return frozenset(field.name for field in fields(Options))


def _check_agent_id(agent_id: object) -> None:
    if not isinstance(agent_id, str) or not agent_id.strip():
        raise ArgumentError("agent_id", "must be text that is not empty", agent_id)


def check_root_path(path: object) -> None:
    """Check the prefix below which a proxy serves an application.

    Raises:
        ArgumentError: it is not a path, or begins like a path of the server.
    """
    if path == "":
        return
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        raise ArgumentError(
            "root_path", "must be a path such as /agents/one, without a final slash", path
        )
    if path.split("/")[1] in FIRST_PARTS:
        raise ArgumentError("root_path", "must not begin like a path that the server uses", path)


def check_api_path(argument: str, path: object) -> None:
    """Check the path of a protocol that can be changed.

    Raises:
        ArgumentError: it is not a path, or one that the server uses for something else.
    """
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        raise ArgumentError(argument, "must be a path such as /api/chat", path)
    if path.split("/")[1] in FIRST_PARTS | {"v1"}:
        raise ArgumentError(argument, "must not begin like a path that the server uses", path)


def check_max_tool_result(given: object) -> None:
    """Check the number of characters of a tool's result that the clients of a protocol get.

    Raises:
        ArgumentError: it is not a whole number, or negative.
    """
    if type(given) is not int or given < 0:
        raise ArgumentError("max_tool_result", "must be a whole number, 0 or more", given)


def protocol_settings(argument: str, given: object, of: type[T]) -> T:
    """Return the settings of a protocol; True has all defaults.

    Raises:
        ArgumentError: it is neither True nor such settings.
    """
    if given is True:
        return of()
    if not isinstance(given, of):
        rule = f"must be True, False or an {of.__name__}"
        raise ArgumentError(argument, rule, type(given).__name__)
    return given


def _check_rate(per_minute: object) -> None:
    if per_minute is None:
        return
    if isinstance(per_minute, bool) or not isinstance(per_minute, int) or per_minute < 1:
        raise ArgumentError(
            "max_requests_per_minute",
            "must be a whole number greater than 0, or None for no limit",
            per_minute,
        )


def _check_path(path: str | None, api_paths: tuple[str, ...], *, serves_a2a: bool) -> None:
    if path is None:
        return
    if not _PATH.fullmatch(path):
        raise ArgumentError("metrics", "must be True, False or a path such as /metrics", path)
    below = ("/streams/", "/page/", "/v1/", *(f"{one}/" for one in api_paths))
    taken = path in (*PATHS, *api_paths) or path.startswith(below)
    if serves_a2a:
        taken = taken or path in (A2A_PATH, CARD_PATH) or path.startswith(f"{A2A_PATH}/")
    if taken:
        raise ArgumentError("metrics", "must not be a path that the protocol uses", path)
