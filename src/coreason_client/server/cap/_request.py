"""The body of a request: read within limits, validated and fingerprinted."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from uuid import UUID

from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request

from coreason_manifest.definitions.service import ServiceRequest

from .._off_loop import LARGE_BODY
from .._options import Options
from ..engine._conversation import dump_question, dump_request
from ..http._json_size import ValueCount, count_messages
from ..http._problems import Problem, validation_problem

__all__ = ["ParsedBody", "body_length", "drain_body", "fingerprint", "parse_body", "read_body"]

_MAX_DRAINED_BYTES: Final = 1024 * 1024
_MAX_DRAIN_SECONDS: Final = 1.0
_NO_TRACE: Final[Mapping[str, str]] = {}
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class ParsedBody:
    """A validated body; the log stores `question` while the stream runs."""

    request: ServiceRequest
    fingerprint: str
    question: bytes


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
    try:
        async with asyncio.timeout(options.body_timeout):
            return await _read(request, options, reserve)
    except TimeoutError:
        raise Problem(
            408,
            "request-timeout",
            f"The body did not arrive within {options.body_timeout:g} s.",
            headers={"Connection": "close"},
        ) from None
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
    body, values = bytearray(), ValueCount()
    async for chunk in request.stream():
        body += chunk
        if len(body) > options.max_body_bytes:
            raise _too_large(options.max_body_bytes)
        if not values.feed(chunk, options.max_json_values):
            raise Problem(
                413,
                "body-too-complex",
                f"A request may have at most {options.max_json_values} JSON values.",
                headers={"Connection": "close"},
            )
        if len(body) > LARGE_BODY:  # and its length was not known
            await reserve(options.max_body_bytes)
    return bytes(body)


def _too_large(max_bytes: int) -> Problem:
    return Problem(
        413,
        "body-too-large",
        f"A request may have at most {max_bytes} bytes.",
        headers={"Connection": "close"},
    )


def parse_body(
    body: bytes,
    principal: str,
    x_request_id: str | None,
    options: Options,
    *,
    resumes: bool,
    trace: Mapping[str, str] = _NO_TRACE,
) -> ParsedBody:
    """Validate a body and prepare it for a new stream; a resume needs no `question`.

    A body without a request_id gets that of `X-Request-ID`. An id in the body takes precedence,
    because some proxies write the header.

    Raises:
        Problem: 422, naming the fields.
    """
    _check_messages(body, options)
    try:
        request = ServiceRequest.model_validate_json(body)
    except ValidationError as error:
        raise validation_problem(error) from None
    if "request_id" not in request.model_fields_set and x_request_id is not None:
        with suppress(ValueError):
            request = request.model_copy(update={"request_id": UUID(x_request_id)})
    question = b"" if resumes else _dump(principal, request, trace, options)
    return ParsedBody(request, fingerprint(body), question)


def _dump(
    principal: str, request: ServiceRequest, trace: Mapping[str, str], options: Options
) -> bytes:
    if options.durable:
        return dump_request(principal, request, trace)
    return dump_question(principal, request)


def _check_messages(body: bytes, options: Options) -> None:
    messages, parts = count_messages(body)
    if messages > options.max_messages:
        raise _too_many("messages", f"{options.max_messages} messages, got {messages}")
    if parts > options.max_parts:
        raise _too_many("parts", f"{options.max_parts} parts of messages, got {parts}")


def _too_many(what: str, limit: str) -> Problem:
    detail = f"A request may have at most {limit}."
    errors = [{"loc": ["payload", "messages"], "msg": detail}]
    return Problem(422, f"too-many-{what}", detail, errors=errors)


def fingerprint(body: bytes) -> str:
    """Return a digest that is equal for two bodies if and only if they mean the same.

    White space and the order of keys are ignored: the request of a resume may have been encoded by
    another version of a client.
    """
    with suppress(ValueError, RecursionError):  # for example, numbers with thousands of digits
        return _canonical_digest(body)
    return sha256(body).hexdigest()


def _canonical_digest(body: bytes) -> str:
    if len(body) <= LARGE_BODY:
        return sha256(_CANONICAL.encode(json.loads(body)).encode()).hexdigest()
    # The same in small steps: encoding everything or parsing many long numbers in one call would
    # keep all other threads from running.
    digest = sha256()
    for piece in _CANONICAL.iterencode(json.loads(body, parse_int=_int)):
        digest.update(piece.encode())
    return digest.hexdigest()


def _int(digits: str) -> int:
    return int(digits)
