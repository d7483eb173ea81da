"""A request of CAP: its head, and its body, validated and fingerprinted. No I/O."""

from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.requests import Request

from coreason_manifest.definitions.service import ServiceRequest

from .._options import Options
from ..http._admission import ParsedBody, StreamRequest
from ..http._body import count_messages, fingerprint
from ..http._cursor import Cursor, parse_cursor, stream_in_path
from ..http._decision import RequestFacts
from ..http._problems import Problem, validation_problem

__all__ = ["CapRequest", "ReadRequest"]


class CapRequest(StreamRequest):
    """A `POST /assist`."""

    def __init__(self, request: Request, options: Options) -> None:
        super().__init__(request)
        self._options = options
        self._named: UUID | None = None

    def facts(self, principal: str) -> RequestFacts:
        """Return the position and the id in the head."""
        headers = self.http.headers
        cursor = _cursor(headers)
        self._named = _request_id(headers)
        return RequestFacts(principal, cursor, named=self._named)

    def parse(self, body: bytes, question: Callable[[ServiceRequest], bytes]) -> ParsedBody:
        """Validate a body and prepare it for a new stream.

        A body without a request_id gets the one that `X-Request-ID` has named. An id in the body
        takes precedence, because some proxies write the header.

        Raises:
            Problem: 422, naming the fields.
        """
        _check_messages(body, self._options)
        try:
            request = ServiceRequest.model_validate_json(body)
        except ValidationError as error:
            raise validation_problem(error) from None
        if self._named is not None and "request_id" not in request.model_fields_set:
            request = request.model_copy(update={"request_id": self._named})
        return ParsedBody(request, fingerprint(body), question(request))


class ReadRequest(StreamRequest):
    """A `GET /streams/{stream_id}`."""

    def facts(self, principal: str) -> RequestFacts:
        """Return the stream of the path, and the position in the head."""
        stream_id = stream_in_path(self.http.path_params["stream_id"])
        return RequestFacts(principal, _cursor(self.http.headers), reads=stream_id)


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


def _request_id(headers: Headers) -> UUID | None:
    given = headers.get("x-request-id")
    if given is not None:
        with suppress(ValueError):
            return UUID(given)
    return None


def _cursor(headers: Headers) -> Cursor | None:
    values = headers.getlist("last-event-id")
    if not values:
        return None
    try:
        return parse_cursor(",".join(values))
    except ValueError as error:
        raise Problem(400, "bad-last-event-id", f"{error}.") from None
