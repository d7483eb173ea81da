"""What the sync and the async sender share: making clients' requests and reading their heads."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ._types import SHORTEST_SECONDS, Headers, Request, ResponseHead, shorter

__all__ = [
    "MAX_ERROR_BODY_SECONDS",
    "body_reader",
    "build",
    "head_of",
    "hurry",
    "is_over",
    "is_raw",
    "once",
    "read_limit",
    "send_options",
    "with_authorization",
]

MAX_ERROR_BODY_SECONDS = 5.0


def build(client: Any, request: Request) -> Any:
    """Build the request for the client, `httpx2` or `httpx`, in the classes of its library."""
    limits = request.timeouts
    built = client.build_request(
        request.method,
        request.url,
        # Bytes, because the libraries encode text as ASCII where the standard says UTF-8.
        headers={name: value.encode() for name, value in request.headers.items()},
        content=request.content,
        # A tuple, because each library knows only its own Timeout class.
        **({"timeout": (limits.connect, limits.read, limits.write, limits.pool)} if limits else {}),
    )
    if not request.bare:
        return built
    return type(built)(
        request.method,
        request.url,
        headers={name: value.encode() for name, value in request.headers.items()},
        content=request.content,
        extensions=built.extensions,
    )


def once(action: Callable[[], None]) -> Callable[[], None]:
    """Return a callable that does something the first time and nothing afterwards."""
    pending = [action]

    def act() -> None:
        if pending:
            pending.pop()()

    return act


def with_authorization(request: Request, authorization: str) -> Request:
    """Return the request with this `Authorization`, unless it is bare or has its own."""
    if request.bare or any(name.lower() == "authorization" for name in request.headers):
        return request
    return replace(request, headers={**request.headers, "Authorization": authorization})


def send_options(request: Request) -> dict[str, Any]:
    """Return the arguments of `send`; redirects are ours to follow, because we know the rules."""
    options: dict[str, Any] = {"stream": True, "follow_redirects": False}
    if request.bare:
        options["auth"] = None
    return options


def head_of(response: Any) -> ResponseHead:
    return ResponseHead(response.status_code, Headers(response.headers.multi_items()))


def hurry(response: Any, seconds: float) -> None:
    """Let no read of this response's body wait longer than so many seconds."""
    limits = response.request.extensions.get("timeout")
    if isinstance(limits, dict):  # the transport looks it up when it begins to read the body
        read = limits.get("read")
        limits["read"] = seconds if read is None else min(read, seconds)


def is_over(response: Any) -> bool:
    """Say whether all of the body has arrived, so that reading it to its end waits for nothing.

    Only our own network backend knows; of a caller's client it is never sure.
    """
    stream = response.extensions.get("network_stream")
    return getattr(stream, "response_is_over", False) is True


def body_reader(response: Any) -> tuple[Any, float | None]:
    """Return what reads a body past h11, and with which timeout; None on a caller's client.

    For each piece of a body h11 and the generators of httpx2 cost more than all the rest.
    """
    stream = response.extensions.get("network_stream")
    limits = response.request.extensions.get("timeout")
    read = limits.get("read") if isinstance(limits, dict) else None
    return getattr(stream, "read_body", None), read


def read_limit(timeout: float | None, deadline: float | None) -> float | None:
    """Return how long the next read may wait: the read timeout, but not beyond the deadline."""
    if deadline is None:
        return timeout
    return shorter(timeout, max(deadline - time.monotonic(), SHORTEST_SECONDS))


def is_raw(response: Any, head: ResponseHead) -> bool:
    """Say whether the raw body is the body: not encoded, and not read already by a mock."""
    encoding = head.headers.get("content-encoding", "identity").strip().lower()
    return encoding == "identity" and not response.is_stream_consumed
