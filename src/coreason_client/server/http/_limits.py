"""The refusals of requests that exceed a limit, the same for all protocols. No I/O."""

from .._options import Options
from ._problems import Problem
from ._rate_limit import retry_after

__all__ = ["shutting_down", "too_many_readers", "too_many_requests", "too_many_streams"]

_SOON = {"Retry-After": "1"}


def too_many_readers(options: Options) -> Problem:
    """Return the refusal of another reader."""
    return Problem(
        429,
        "too-many-readers",
        f"This key has {options.max_readers_per_key} open responses, which is the limit.",
        headers=_SOON,
    )


def too_many_streams(options: Options) -> Problem:
    """Return the refusal of another running stream."""
    return Problem(
        429,
        "too-many-streams",
        f"This key has {options.max_streams_per_key} running streams, which is the limit.",
        headers=_SOON,
    )


def too_many_requests(options: Options, wait: int) -> Problem:
    """Return the refusal of another request within `wait` nanoseconds."""
    return Problem(
        429,
        "too-many-requests",
        f"This key may send {options.max_requests_per_minute} requests a minute.",
        headers={"Retry-After": retry_after(wait)},
    )


def shutting_down() -> Problem:
    """Return the refusal of a new stream during a drain."""
    return Problem(503, "shutting-down", "The server is shutting down.", headers=_SOON)
