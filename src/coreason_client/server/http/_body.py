"""Reads the bodies of requests within limits, the same for all protocols."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final

from starlette.requests import ClientDisconnect, Request

from .._internals import response_cycle
from .._off_loop import LARGE_BODY
from .._options import Options
from ._direct_write import SEND
from ._json_size import ValueCount
from ._problems import Problem

__all__ = [
    "body_length",
    "drain_body",
    "read_body",
    "read_within",
    "too_complex",
    "too_slow",
]

_MAX_DRAINED_BYTES: Final = 1024 * 1024
_MAX_DRAIN_SECONDS: Final = 1.0


def body_length(headers: Mapping[str, str], max_bytes: int) -> int | None:
    """Return the length of the body according to the head, None if it gives none.

    Raises:
        Problem: 415 or 413.
    """
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json" and not content_type.endswith("+json"):
        raise Problem(415, "unsupported-media-type", "Send the request as application/json.")
    length = headers.get("content-length", "")
    if not (length.isascii() and length.isdigit()):
        return None
    if len(length) > 18 or int(length) > max_bytes:
        raise _too_large(max_bytes)
    return int(length)


async def read_body(
    request: Request,
    length: int | None,
    options: Options,
    reserve: Callable[[int], Awaitable[None]],
) -> bytes:
    """Read the body; `reserve` is called with its size before a large body is stored.

    Raises:
        Problem: 413, 408, or 400 if the body is incomplete.
    """
    if length is not None:
        await reserve(length)
    cycle = response_cycle(request.scope.get(SEND))
    arrived = cycle is not None and not cycle.more_body  # so no timer is needed
    reading = _read(request, options, reserve)
    return await _arriving_within(None if arrived else options.body_timeout, reading)


async def read_within(request: Request, max_bytes: int, seconds: float) -> bytes:
    """Read a body that is not checked any further.

    Raises:
        Problem: 413, 408, or 400 if the body is incomplete.
    """
    return await _arriving_within(seconds, _read_up_to(request, max_bytes))


async def _read_up_to(request: Request, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
    return bytes(body)


async def _arriving_within(seconds: float | None, reading: Awaitable[bytes]) -> bytes:
    try:
        if seconds is None:
            return await reading
        try:
            async with asyncio.timeout(seconds):
                return await reading
        except TimeoutError:
            raise too_slow(seconds) from None
    except ClientDisconnect:
        raise Problem(
            400, "incomplete-body", "The connection ended before the body was complete."
        ) from None


async def drain_body(request: Request) -> None:
    """Drain a bounded part of an unwanted body.

    If a connection is closed while bytes still arrive, it is reset, and the reset may discard the
    response: the client would see a broken connection instead of the reason for the refusal.
    """
    left = _MAX_DRAINED_BYTES
    with suppress(TimeoutError, ClientDisconnect, RuntimeError):  # RuntimeError: already read
        async with asyncio.timeout(_MAX_DRAIN_SECONDS):
            async for chunk in request.stream():
                left -= len(chunk)
                if left < 0:
                    return


async def _read(
    request: Request, options: Options, reserve: Callable[[int], Awaitable[None]]
) -> bytes:
    body, values, counted = bytearray(), ValueCount(), 0
    async for chunk in request.stream():
        body += chunk
        if len(body) > options.max_body_bytes:
            raise _too_large(options.max_body_bytes)
        if len(body) > options.max_json_values:  # each value has a byte
            if not values.feed(body[counted:], options.max_json_values):
                raise too_complex(options.max_json_values)
            counted = len(body)
        if len(body) > LARGE_BODY:  # and its length was not known
            await reserve(options.max_body_bytes)
    return bytes(body)


def too_slow(timeout: float) -> Problem:
    """Return the refusal of a body that did not arrive in time."""
    return Problem(
        408,
        "request-timeout",
        f"The body did not arrive within {timeout:g} s.",
        headers={"Connection": "close"},
    )


def too_complex(max_values: int) -> Problem:
    """Return the refusal of a body with too many values."""
    return Problem(
        413,
        "body-too-complex",
        f"A request may have at most {max_values} JSON values.",
        headers={"Connection": "close"},
    )


def _too_large(max_bytes: int) -> Problem:
    return Problem(
        413,
        "body-too-large",
        f"A request may have at most {max_bytes} bytes.",
        headers={"Connection": "close"},
    )
