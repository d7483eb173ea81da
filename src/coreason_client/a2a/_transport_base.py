"""The base of the sync and the async transports: a call with its settings, hooks and secrets.

This is the one place where A2A errors lose their secrets. An agent may quote a request in its
response, so the text of an error may contain what was sent. Each call (unary, stream or card) has
its own sender and runs inside `redacting`; all its errors leave through there, before the hooks and
the caller see them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from .._drive import Flow
from .._http._types import Request
from .._secret import header_secrets, redact, redact_chain
from ._options import CallInfo, CallOptions, Hooks, Options, hooks_of
from ._resubscribe import ResubscribeMachine
from ._route import AgentRoute
from .errors import A2AError, A2AJSONRPCError, A2ASSEParseError
from .types import AgentCard, Event


class _SecretValues(Protocol):
    @property
    def values(self) -> tuple[str, ...]: ...


class RedactingSender:
    """The sender of one call, which remembers the secrets that the call has sent.

    A call may send several: a token that was refreshed, the headers of a hook.
    """

    _credentials: _SecretValues

    def __init__(self, credentials: _SecretValues) -> None:
        self._credentials = credentials
        self._sent: set[str] = set()

    def _remember(self, request: Request) -> Request:
        """Remember the secrets of a request, which is returned unchanged."""
        if not request.without_client_defaults:
            self._sent.update(self._credentials.values, header_secrets(request.headers))
        return request

    def redact(self, text: str) -> str:
        """Return a text without the secrets of this call."""
        return redact(text, (*self._credentials.values, *self._sent))

    @contextmanager
    def redacting(self) -> Iterator[None]:
        """Redact the errors that leave the body of the `with` statement, and their causes."""
        try:
            yield
        except A2AError as error:
            redact_chain(error, self.redact)
            self._redact_fields(error)
            raise

    def _redact_fields(self, error: BaseException | None) -> None:
        """Redact what an error and its causes have of a response: `message`, `data` and `body`."""
        while error is not None:
            if isinstance(error, A2AError) and error.body is not None:
                error.body = self._redacted(error.body)
            if isinstance(error, A2AJSONRPCError):
                error.message = self.redact(error.message)
            if isinstance(error, A2AJSONRPCError | A2ASSEParseError):
                error.data = self._redacted(error.data)
            error = error.__cause__

    def _redacted(self, value: Any) -> Any:
        """Return a JSON value or bytes without the secrets of this call."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, bytes):
            text = value.decode("utf-8", "surrogateescape")
            return self.redact(text).encode("utf-8", "surrogateescape")
        if isinstance(value, dict):
            return {self._redacted(key): self._redacted(member) for key, member in value.items()}
        if isinstance(value, list):
            return [self._redacted(member) for member in value]
        return value


def can_stream(card: AgentCard | None) -> bool:
    """Return False if the card says that the agent does not stream."""
    return card is None or card.capabilities.streaming is not False


def stream_operation(
    name: str, params: dict[str, Any], *, streams: bool
) -> tuple[str, dict[str, Any]]:
    """Return the operation and parameters that begin a stream.

    If the agent does not stream, the message is sent with `returnImmediately`, and the task is
    then polled: so the timeout of a unary call does not limit the task.
    """
    if streams:
        return name, params
    if name == "resubscribe":
        return "get_task", params
    configuration = {"returnImmediately": True, **(params.get("configuration") or {})}
    return "send_message", {**params, "configuration": configuration}


_WITH_METADATA = frozenset({"send_message", "send_message_stream", "cancel_task"})
_EMPTY_MEANS_ABSENT = frozenset({"extensions", "referenceTaskIds", "acceptedOutputModes"})


def _params(request: BaseModel) -> dict[str, Any]:
    """Return the parameters in the shape of 1.0, without optional empty lists."""
    params = request.model_dump(mode="json", by_alias=True, exclude_none=True)
    for name in ("message", "configuration"):
        inner = params.get(name)
        if isinstance(inner, dict):
            params[name] = {
                key: value
                for key, value in inner.items()
                if value or key not in _EMPTY_MEANS_ABSENT
            }
    return params


class TransportCall:
    """One call: the route with the settings of the call, and the `CallInfo` for the hooks."""

    def __init__(
        self,
        name: str,
        request: BaseModel,
        route: AgentRoute,
        hooks: Hooks,
        sender: RedactingSender,
    ) -> None:
        self.params = _params(request)
        self.route = route
        self._sender = sender
        self.info = CallInfo(name, _params(request) if hooks else self.params)
        self.info.metadata.update(self.info.params.get("metadata") or {})
        self._hooks = hooks

    @contextmanager
    def observed(self) -> Iterator[None]:
        """Run the hooks around the body of the `with` statement, and redact its errors first."""
        with self._hooks.around(self.info, self.prepare), self._sender.redacting():
            yield

    def prepare(self, info: CallInfo) -> None:
        """Add the headers of a hook to the settings, and its metadata to the parameters.

        Raises:
            ValueError: a header is not valid, or the metadata is not JSON.
        """
        self.route.settings = self.route.settings.for_call(headers=info.headers)
        if self._hooks and info.operation in _WITH_METADATA:
            self.params.pop("metadata", None)
            if info.metadata:
                self.params["metadata"] = to_jsonable_python(info.metadata)

    def received(self, event: Event) -> Event:
        """Run the hook for an event of a stream, and return the event."""
        self._hooks.event(self.info, event)
        return event

    def flow(self) -> Flow[Any]:
        """Return the flow of a unary call."""
        return self.route.call_unary(self.info.operation, self.params)

    def machine(self, *, resume: bool, streams: bool) -> ResubscribeMachine:
        """Return the machine of a stream; `streams` is False if the agent cannot stream."""
        # The machine keeps these parameters, which a hook may change before the first request.
        name, self.params = stream_operation(self.info.operation, self.params, streams=streams)
        machine = ResubscribeMachine(self.route, name, self.params, resume=resume)
        machine.redact = self._sender.redact
        return machine


class HttpTransportBase:
    """The settings of a transport over HTTP, and the calls made with them."""

    def __init__(self, route: AgentRoute, card: AgentCard | None, options: Options) -> None:
        self._route = route
        self._streams = can_stream(card)
        self._hooks = hooks_of(options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(version={self.version!r})"

    @property
    def version(self) -> str:
        """The protocol version of the next call."""
        return self._route.channel.dialect.version

    def _call(
        self, name: str, request: BaseModel, options: CallOptions, sender: RedactingSender
    ) -> TransportCall:
        unknown = set(options) - set(CallOptions.__annotations__)
        if unknown:
            raise TypeError(f"{name} has no option {', '.join(sorted(unknown))}")
        route = self._route
        settings = route.settings.for_call(options.get("timeout"), options.get("headers"))
        if self._hooks or settings is not route.settings:
            route = route.with_settings(settings)
        return TransportCall(name, request, route, self._hooks, sender)
