"""The options of an application, checked once."""

import re
from dataclasses import dataclass
from typing import Literal

from ..errors import ArgumentError

__all__ = ["PATHS", "PROBES", "Options"]

PROBES = ("/health", "/ready")
"""Paths for balancers and orchestrators: no key is needed, and any Host will do."""

PATHS = ("/assist", "/v1/assist", *PROBES, "/openapi.json")

_NOT_NEGATIVE = ("abandon_grace", "retention", "final_retention", "drain_timeout", "cancel_grace")
_PATH = re.compile(r"(?:/[A-Za-z0-9._~-]+)+", re.ASCII)
_POSITIVE = (
    "heartbeat",
    "send_timeout",
    "body_timeout",
    "max_body_bytes",
    "max_json_values",
    "max_messages",
    "max_parts",
    "max_header_bytes",
    "max_streams_per_key",
    "max_readers_per_key",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one `AgentApp`; times are in seconds."""

    agent_id: str
    version: str
    max_body_bytes: int
    max_json_values: int
    max_messages: int
    max_parts: int
    max_header_bytes: int
    max_streams_per_key: int
    max_readers_per_key: int
    max_requests_per_minute: int | None
    metrics_path: str | None
    on_abandoned: Literal["continue", "cancel"]  # "cancel" is refused on a shared log
    abandon_grace: float
    heartbeat: float
    send_timeout: float
    body_timeout: float
    retention: float
    final_retention: float
    drain_timeout: float
    cancel_grace: float

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            if not getattr(self, name) > 0:
                raise ArgumentError(name, "must be greater than 0", getattr(self, name))
        for name in _NOT_NEGATIVE:
            if not getattr(self, name) >= 0:
                raise ArgumentError(name, "must be 0 or more", getattr(self, name))
        _check_rate(self.max_requests_per_minute)
        _check_path(self.metrics_path)
        if self.on_abandoned not in ("continue", "cancel"):
            raise ArgumentError("on_abandoned", 'must be "continue" or "cancel"', self.on_abandoned)
        if self.final_retention < self.retention:
            raise ArgumentError(
                "final_retention",
                f"must be at least as long as retention, which is {self.retention}: the status of "
                "a stream outlives its packets",
                self.final_retention,
            )


def _check_rate(per_minute: object) -> None:
    if per_minute is None:
        return
    if isinstance(per_minute, bool) or not isinstance(per_minute, int) or per_minute < 1:
        raise ArgumentError(
            "max_requests_per_minute",
            "must be a whole number greater than 0, or None for no limit",
            per_minute,
        )


def _check_path(path: str | None) -> None:
    if path is None:
        return
    if not _PATH.fullmatch(path):
        raise ArgumentError("metrics", "must be True, False or a path such as /metrics", path)
    if path in PATHS or path.startswith("/streams/"):
        raise ArgumentError("metrics", "must not be a path that the protocol uses", path)
