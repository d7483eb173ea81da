"""The two HTTP bindings in both dialects: build requests, parse responses and events. Pure.

JSON-RPC:

* A request is `{"jsonrpc": "2.0", "method", "params", "id"}`; ids count up and never repeat.
* A response has the id of its request, as a number or as a string of digits. An error may have the
  id null, if the agent could not read the request; any other id is an error. An event of a stream
  may come without the envelope.
* `error` wins over `result`; it may be a string. Only the response to a delete may omit the
  result.

HTTP+JSON:

* Path parameters of the request go into the path, after the tenant; other members go into the query
  of a GET or DELETE and into the body of a POST.
* A response body is the result itself. An error is a status with a `google.rpc.Status`; its reason
  identifies the error, so the same classes are raised as over JSON-RPC.
* Subscribing: the text of the specification says POST, its proto says GET, and servers accept one
  or the other. POST is tried first; GET if the status is 404 or 405 without a protocol error. The
  channel remembers the verb that worked.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

from pydantic import ValidationError
from pydantic_core import to_json

from .._http._types import Request, ResponseHead
from ._call import Settings, http_error, json_error, json_rpc_error, status_error
from ._dialects import V10, Dialect, Operation
from ._v03._rest import V03_REST, protocol_error
from ._wire import BARE, ENVELOPES, FROM_PYTHON, bare_event, event_of, parse_json
from .errors import (
    A2AEmptyResultError,
    A2AError,
    A2AHTTPError,
    A2AJSONError,
    A2AJSONRPCError,
    A2ASSEParseError,
)
from .types import Event

_MAX_MESSAGE = 500


class JsonRpcChannel:
    """An interface over JSON-RPC in one dialect."""

    def __init__(
        self,
        url: str,
        dialect: Dialect,
        settings: Settings,
        ids: Iterator[int],
        tenant: str | None = None,
    ) -> None:
        self.url = url
        self.dialect = dialect
        self._settings = settings
        self._ids = ids
        self._tenant = tenant

    def call(
        self,
        operation: Operation,
        params: dict[str, Any],
        last_event_id: str | None = None,
        settings: Settings | None = None,
    ) -> "JsonRpcCall":
        """Build a call.

        Raises:
            UnsupportedOperationError: this dialect has no such method.
        """
        method = self.dialect.methods.get(operation.name)
        if method is None:
            raise self.dialect.lacks(operation)
        if self._tenant and self.dialect.has_tenants:
            params = {"tenant": self._tenant, **params}
        settings = settings or self._settings
        headers = settings.sent_headers(self.dialect, operation, params)
        headers["Content-Type"] = "application/json"
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        encode = self.dialect.encode.get(operation.name)
        number = next(self._ids)
        body = {"jsonrpc": "2.0", "id": number, "method": method}
        body["params"] = params if encode is None else encode(params)
        timeouts = settings.stream if operation.streams else settings.unary
        request = Request("POST", self.url, headers, to_json(body), timeouts)
        return JsonRpcCall(self, request, operation, number)


class JsonRpcCall:
    """One request, and the parsing of its response."""

    def __init__(
        self, channel: JsonRpcChannel, request: Request, operation: Operation, number: int
    ) -> None:
        self.channel = channel
        self.request = request
        self.operation = operation
        self._number = number
        kind = operation.result
        converts = kind in channel.dialect.decode
        self._read = self._read_converted if converts else ENVELOPES[kind]

    def parse_response(self, body: bytes) -> Any:
        """Return the result in a complete body.

        Raises:
            A2AJSONRPCError: the agent's error.
            A2AEmptyResultError: a required result is missing.
            A2AJSONError: the body is not a response to this request.
        """
        what = f"the response to {self.operation.name}"
        try:
            value = self._value(self._read(body))
        except (ValidationError, ValueError) as error:
            raise json_error(what, body, error) from None
        return value

    def parse_event(self, data: bytes) -> Event:
        """Return the event in the data of a streamed response.

        Raises:
            A2AJSONRPCError: the agent's error.
            A2ASSEParseError: it is not a response to this request.
        """
        event: Event
        try:
            envelope = self._read(data)
            # The common case first, for speed: an event of this request.
            result = envelope.get("result")
            if result and self._is_own(envelope.get("id")) and envelope.get("error") is None:
                return event_of(result)
            event = self._without_envelope(data, envelope) or self._value(envelope)
        except (ValidationError, ValueError, A2AJSONError) as error:
            message = str(json_error("an event of the stream", data, error))
            raise A2ASSEParseError(message, data) from None
        return event

    def response_error(self, head: ResponseHead, body: bytes) -> A2AError:
        """Return the error for a response whose status is not 2xx."""
        return http_error(self.request, head, body, json_rpc_error)

    def try_other_verb(self, head: ResponseHead, error: A2AError) -> bool:
        """Return False: JSON-RPC uses POST only."""
        return False

    def _is_own(self, number: object) -> bool:
        """Return True if this number is the id of the request; 7.0 and True are not ids."""
        return number == self._number and type(number) is int

    def _value(self, envelope: dict[str, Any]) -> Any:
        number, error = envelope.get("id"), envelope.get("error")
        matches = self._is_own(number) or number == str(self._number)
        if not matches and not (number is None and error is not None):
            raise ValueError(f"its id must be {self._number}, got {number!r:.50}")
        if error is not None:
            raise _error_of(error)
        result = envelope.get("result")
        kind = self.operation.result
        if kind == "nothing":  # null, {}, or no result at all if the agent omits nulls
            return None
        if result is None or (kind == "event" and not result):
            raise A2AEmptyResultError(f"the response to {self.operation.name} contains no result")
        return event_of(result) if kind == "event" else result

    def _without_envelope(self, data: bytes, envelope: dict[str, Any]) -> Event | None:
        if "result" in envelope or "error" in envelope:
            return None
        value = parse_json(data)
        return bare_event(value) if "jsonrpc" not in value else None

    def _read_converted(self, data: bytes) -> dict[str, Any]:
        """Parse an envelope and convert its result from another dialect."""
        envelope = parse_json(data)
        if not isinstance(envelope, dict):
            raise ValueError("it is not a JSON object")
        if envelope.get("result") is not None:
            kind = self.operation.result
            value = self.channel.dialect.decoded(kind, envelope["result"])
            envelope["result"] = FROM_PYTHON[kind](value)
        return envelope


def _error_of(error: object) -> Exception:
    if isinstance(error, str):
        return A2AJSONRPCError(error[:_MAX_MESSAGE])
    return json_rpc_error(error) or ValueError("its error is not an error object")


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
