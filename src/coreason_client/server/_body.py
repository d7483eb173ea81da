"""The body of a request: read within bounds, validated, and known again by its fingerprint."""

import asyncio
import json
from contextlib import suppress
from hashlib import sha256
from uuid import UUID

from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request

from coreason_manifest.definitions.service import ServiceRequest

from ._problems import Problem, validation_problem

__all__ = ["drain_body", "fingerprint", "parse_body", "read_body"]

_MOST_UNWANTED_BYTES = 1024 * 1024
_MOST_UNWANTED_SECONDS = 1.0


async def read_body(request: Request, most_bytes: int, seconds: float) -> bytes:
    """Read the body.

    Raises:
        Problem: 415, 413 or 408.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json" and not content_type.endswith("+json"):
        raise Problem(415, "unsupported-media-type", "Send the request as application/json.")
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > most_bytes):
        raise _too_large(most_bytes)
    try:
        async with asyncio.timeout(seconds):
            return await _read(request, most_bytes)
    except TimeoutError:
        raise Problem(
            408,
            "request-timeout",
            f"The body did not arrive within {seconds:g} s.",
            headers={"Connection": "close"},
        ) from None
    except ClientDisconnect:
        raise Problem(400, "incomplete-body", "The body was cut off.") from None


async def drain_body(request: Request) -> None:
    """Drain a bounded part of an unwanted body.

    A connection that is closed on bytes that still arrive is reset, and the reset may overtake the
    refusal: the client would learn that the connection broke, and not why.
    """
    left = _MOST_UNWANTED_BYTES
    with suppress(TimeoutError, ClientDisconnect, RuntimeError):  # the last: it is read already
        async with asyncio.timeout(_MOST_UNWANTED_SECONDS):
            async for chunk in request.stream():
                left -= len(chunk)
                if left < 0:
                    return


async def _read(request: Request, most_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise _too_large(most_bytes)
    return bytes(body)


def _too_large(most_bytes: int) -> Problem:
    return Problem(
        413,
        "body-too-large",
        f"A request may have {most_bytes} bytes.",
        headers={"Connection": "close"},
    )


def parse_body(body: bytes, x_request_id: str | None) -> ServiceRequest:
    """Validate the body; the id of a request that has none may come from `X-Request-ID`.

    The body's own id wins: proxies are known to write into the header.

    Raises:
        Problem: 422, naming the fields.
    """
    try:
        request = ServiceRequest.model_validate_json(body)
    except ValidationError as error:
        raise validation_problem(error) from None
    if "request_id" in request.model_fields_set or x_request_id is None:
        return request
    try:
        return request.model_copy(update={"request_id": UUID(x_request_id)})
    except ValueError:
        return request


def fingerprint(body: bytes) -> str:
    """Return what two bodies share if and only if they say the same.

    White space and the order of keys do not count: an attempt that resumes elsewhere may have
    been written by another version of a client.
    """
    with suppress(ValueError, RecursionError):  # numbers of thousands of digits and the like
        body = json.dumps(json.loads(body), sort_keys=True, separators=(",", ":")).encode()
    return sha256(body).hexdigest()
