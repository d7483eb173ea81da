"""The body of a request of CAP: validated and fingerprinted. Pure."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from uuid import UUID

from pydantic import ValidationError
from pydantic_core import from_json

from coreason_manifest.definitions.service import ServiceRequest

from .._off_loop import LARGE_BODY
from .._options import Options
from ..engine._conversation import dump_question, dump_request
from ..http._body import count_messages
from ..http._problems import Problem, validation_problem

__all__ = ["ParsedBody", "fingerprint", "parse_body"]

_NO_TRACE: Final[Mapping[str, str]] = {}
# A parsed body has no circular references; looking for them would be a sixth of the time.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False)


@dataclass(frozen=True, slots=True)
class ParsedBody:
    """A validated body; the log stores `question` while the stream runs."""

    request: ServiceRequest
    fingerprint: str
    question: bytes


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
    if len(body) <= options.max_messages and len(body) <= options.max_parts:
        return  # each one has more than a byte
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
        return sha256(_CANONICAL.encode(from_json(body)).encode()).hexdigest()
    # The same in small steps: encoding everything or parsing many long numbers in one call would
    # keep all other threads from running.
    digest = sha256()
    for piece in _CANONICAL.iterencode(json.loads(body, parse_int=_int)):
        digest.update(piece.encode())
    return digest.hexdigest()


def _int(digits: str) -> int:
    return int(digits)
