"""The gRPC binding in both dialects: builds requests, parses responses and events. Pure."""

import time
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from ..._http._checks import shown
from ..._http._types import ResponseHead
from ..._retry import retry_after
from .._call import Settings, json_error
from .._dialects import V10, Dialect, Operation
from .._wire import FROM_PYTHON, event_of
from ..errors import (
    A2AEmptyResultError,
    A2AError,
    A2AHTTPError,
    A2ASSEParseError,
    InvalidParamsError,
)
from ..types import Event, UnknownEvent
from ._convert import parse_message, to_json_object, to_message
from ._exchange import GrpcRequest, event_content
from ._messages import message_type
from ._methods import GrpcMethod, methods_of
from ._status import error_from_object

__all__ = ["GrpcCall", "GrpcChannel"]

_MAX_BODY_KEPT = 65_536


class GrpcChannel:
    """An interface over gRPC in one dialect; `url` is that of `_address.grpc_url`."""

    def __init__(
        self, url: str, settings: Settings, tenant: str | None = None, dialect: Dialect = V10
    ) -> None:
        self.url = url
        self.dialect = dialect
        self._settings = settings
        self._tenant = tenant if dialect.has_tenants else None
        self._methods = methods_of(dialect.version)

    def call(
        self,
        operation: Operation,
        params: dict[str, Any],
        last_event_id: str | None = None,
        settings: Settings | None = None,
    ) -> "GrpcCall":
        """Build a call. There is no cursor over gRPC, so `last_event_id` is not used.

        Raises:
            UnsupportedOperationError: this dialect has no such operation.
            InvalidParamsError: a parameter cannot be sent.
        """
        rpc = self._methods.get(operation.name)
        if rpc is None:
            raise self.dialect.lacks(operation)
        encode = self.dialect.encode.get(operation.name)
        values = dict(params) if encode is None else encode(params)
        if self._tenant and not values.get("tenant"):
            values["tenant"] = self._tenant
        try:
            content = to_message(rpc.request, values).SerializeToString()
        except ValueError as error:
            raise InvalidParamsError(f"the parameters of {operation.name}: {error}") from None
        settings = settings or self._settings
        request = GrpcRequest(
            "POST",
            self.url + rpc.path,
            settings.sent_headers(self.dialect, operation, params),
            content,
            settings.stream if operation.streams else settings.unary,
            rpc=rpc,
            max_message_bytes=max(settings.max_body_bytes, settings.max_event_bytes),
        )
        return GrpcCall(self, request, operation, rpc)


class GrpcCall:
    """One request, and the parsing of its response."""

    def __init__(
        self, channel: GrpcChannel, request: GrpcRequest, operation: Operation, rpc: GrpcMethod
    ) -> None:
        self.channel = channel
        self.request: Any = request  # a `Request`, as the protocol of calls requires
        self.operation = operation
        self._rpc = rpc
        self._type = message_type(rpc.response)

    def parse_response(self, body: bytes) -> Any:
        """Return the result in a serialised message.

        Raises:
            A2AEmptyResultError: a required result is missing.
            A2AJSONError: the body is not the expected result.
        """
        if self.operation.result == "nothing":
            return None
        try:
            return self._value(body)
        except (ValidationError, ValueError) as error:
            raise json_error(f"the response to {self.operation.name}", body, error) from None

    def parse_event(self, data: bytes) -> Event:
        """Return the event in the data of a streamed response.

        Raises:
            A2AError: the status that ended the stream.
            A2AEmptyResultError: it is empty.
            A2ASSEParseError: it is not an event.
        """
        try:
            content = event_content(data)
            if isinstance(content, dict):
                raise self._error(content)
            event: Event = self._value(content)
        except (ValidationError, ValueError) as error:
            message = str(json_error("an event of the stream", data, error))
            raise A2ASSEParseError(message, data) from None
        return event

    def response_error(self, head: ResponseHead, body: bytes) -> A2AError:
        """Return the error for a response whose status is not 2xx."""
        try:
            found = from_json(body)
        except ValueError:
            found = None
        error = found.get("error") if isinstance(found, dict) else None
        return self._error(
            error if isinstance(error, dict) else {},
            status=head.status,
            headers=head.headers,
            body=body[:_MAX_BODY_KEPT],
            retry_after=retry_after(head.headers, time.time),
        )

    def try_other_verb(self, head: ResponseHead, error: A2AError) -> bool:
        """Return False: gRPC has no verbs."""
        return False

    def _error(self, error: dict[str, Any], **fields: Any) -> A2AError:
        found = error_from_object(error, **fields)
        if found is not None:
            return found
        code, detail = error.get("status", "UNKNOWN"), error.get("message")
        message = f"{shown(self.request.url)} was answered with the gRPC status {code}"
        fields.setdefault("status", error.get("code"))
        return A2AHTTPError(f"{message}: {detail}" if detail else message, **fields)

    def _value(self, data: bytes) -> Any:
        kind = self.operation.result
        value = to_json_object(parse_message(self._type, data))
        if not value and data and kind == "event":
            return UnknownEvent()  # only fields of a later version
        if not value and kind not in ("tasks", "pushes"):
            raise A2AEmptyResultError(f"the response to {self.operation.name} contains no result")
        typed = FROM_PYTHON[kind](self.channel.dialect.decoded(kind, value))
        return event_of(typed) if kind == "event" else typed
