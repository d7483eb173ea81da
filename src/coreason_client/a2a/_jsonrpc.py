"""The JSON-RPC binding in both dialects: builds requests, parses responses and events. Pure.

* A request is `{"jsonrpc": "2.0", "method", "params", "id"}`; ids count up and never repeat.
* A response has the id of its request, as a number or as a string of digits. An error may have the
  id null, if the agent could not read the request; any other id is an error. An event of a stream
  may come without the envelope.
* `error` wins over `result`; it may be a string. Only the response to a delete may omit the
  result.
"""

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_json

from .._http._types import Request, ResponseHead
from ._call import Settings, http_error, json_error, json_rpc_error
from ._dialects import Dialect, Operation
from ._wire import ENVELOPES, FROM_PYTHON, bare_event, event_of, parse_json
from .errors import (
    A2AEmptyResultError,
    A2AError,
    A2AJSONError,
    A2AJSONRPCError,
    A2ASSEParseError,
)
from .types import Event

__all__ = ["JsonRpcCall", "JsonRpcChannel"]

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
