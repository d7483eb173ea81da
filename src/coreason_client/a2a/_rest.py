"""The HTTP+JSON binding in both dialects: builds requests, parses responses and events. Pure.

* Path parameters of the request go into the path, after the tenant; other members go into the query
  of a GET or DELETE and into the body of a POST.
* A response body is the result itself. An error is a status with a `google.rpc.Status`; its reason
  identifies the error, so the same classes are raised as over JSON-RPC.
* Subscribing: the text of the specification says POST, its proto says GET, and servers accept one
  or the other. POST is tried first; GET if the status is 404 or 405 without a protocol error. The
  channel remembers the verb that worked.
"""

import re
from typing import Any
from urllib.parse import quote, urlencode

from pydantic import ValidationError
from pydantic_core import to_json

from .._http._types import Request, ResponseHead
from ._call import Settings, http_error, json_error, json_rpc_error, status_error
from ._dialects import V10, Dialect, Operation
from ._v03._rest import V03_REST, protocol_error
from ._wire import BARE, FROM_PYTHON, event_of, parse_json
from .errors import (
    A2AEmptyResultError,
    A2AError,
    A2AHTTPError,
    A2AJSONRPCError,
    A2ASSEParseError,
)
from .types import Event

__all__ = ["RestCall", "RestChannel"]

_PATH_PARAMETER = re.compile(r"\{(\w+)\}")


class RestChannel:
    """An interface over HTTP+JSON in one dialect."""

    def __init__(
        self, url: str, settings: Settings, tenant: str | None = None, dialect: Dialect = V10
    ) -> None:
        self.url = url.rstrip("/")
        self.dialect = dialect
        self._settings = settings
        self._tenant = tenant if dialect.has_tenants else None
        self.subscribes_with = "POST"

    def call(
        self,
        operation: Operation,
        params: dict[str, Any],
        last_event_id: str | None = None,
        settings: Settings | None = None,
    ) -> "RestCall":
        """Build a call.

        Raises:
            UnsupportedOperationError: this dialect has no such operation.
        """
        if operation.name not in self.dialect.paths:
            raise self.dialect.lacks(operation)
        verb, path = self.dialect.paths[operation.name]
        if operation.name == "resubscribe":
            verb = self.subscribes_with
        encode = self.dialect.encode.get(operation.name)
        rest = dict(params) if encode is None else encode(params)
        tenant = rest.pop("tenant", None) or self._tenant
        path = _PATH_PARAMETER.sub(lambda name: quote(str(rest.pop(name[1], "")), safe=""), path)
        url = self.url + (f"/{quote(tenant, safe='')}" if tenant else "") + path
        settings = settings or self._settings
        headers = settings.sent_headers(self.dialect, operation, params)
        if not operation.streams:
            accepted = dict.fromkeys((self.dialect.media_type, "application/json"))
            headers["Accept"] = ", ".join(accepted)
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        body = b""
        if verb == "POST":
            headers["Content-Type"] = self.dialect.media_type
            body = to_json(rest)
        elif rest:
            url = f"{url}?{urlencode({name: _query_value(value) for name, value in rest.items()})}"
        timeouts = settings.stream if operation.streams else settings.unary
        return RestCall(self, Request(verb, url, headers, body, timeouts), operation)


def _query_value(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


class RestCall:
    """One request, and the parsing of its response."""

    def __init__(self, channel: RestChannel, request: Request, operation: Operation) -> None:
        self.channel = channel
        self.request = request
        self.operation = operation
        self._read = BARE[operation.result]

    def parse_response(self, body: bytes) -> Any:
        """Return the result in a complete body.

        Raises:
            A2AJSONRPCError: the agent's error.
            A2AEmptyResultError: a required result is missing.
            A2AJSONError: the body is not the expected result.
        """
        kind = self.operation.result
        if kind == "nothing":
            return None
        if body.strip() in (b"", b"null", b"{}"):
            if kind in ("tasks", "pushes"):  # ProtoJSON omits empty members
                return self._read(b"{}")
            raise A2AEmptyResultError(f"the response to {self.operation.name} contains no result")
        try:
            return self._value(body)
        except (ValidationError, ValueError) as error:
            raise json_error(f"the response to {self.operation.name}", body, error) from None

    def parse_event(self, data: bytes) -> Event:
        """Return the event in the data of a streamed response.

        Raises:
            A2AJSONRPCError: the agent's error.
            A2AEmptyResultError: it is empty.
            A2ASSEParseError: it is not an event.
        """
        if data.strip() in (b"null", b"{}"):
            raise A2AEmptyResultError("an event of the stream is empty")
        try:
            event: Event = self._value(data)
        except (ValidationError, ValueError) as error:
            message = str(json_error("an event of the stream", data, error))
            raise A2ASSEParseError(message, data) from None
        return event

    def response_error(self, head: ResponseHead, body: bytes) -> A2AError:
        """Return the error for a response whose status is not 2xx."""
        error = http_error(self.request, head, body, status_error)
        if type(error) is A2AHTTPError and self.channel.dialect is V03_REST:
            return protocol_error(self.operation.name, error)
        return error

    def try_other_verb(self, head: ResponseHead, error: A2AError) -> bool:
        """Return True if the call should be repeated with GET, and use GET from now on."""
        rejected = head.status in (404, 405) and self.operation.name == "resubscribe"
        if not rejected or isinstance(error, A2AJSONRPCError) or self.request.method == "GET":
            return False
        self.channel.subscribes_with = "GET"
        return True

    def _value(self, data: bytes) -> Any:
        kind = self.operation.result
        dialect = self.channel.dialect
        if kind in dialect.decode:
            value = FROM_PYTHON[kind](dialect.decoded(kind, parse_json(data)))
        else:
            value = self._read(data)
        if kind != "event":
            return value
        if set(value) == {"error"}:  # inside a stream an error has no HTTP status
            error = value["error"]
            raise status_error(error) or json_rpc_error(error) or ValueError("an unknown error")
        return event_of(value)
