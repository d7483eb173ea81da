"""The base of the sync and the async transports over HTTP: a call with settings and hooks."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from .._drive import Flow
from ._auth_redaction import RedactingSender
from ._hooks import CallInfo, Hooks
from ._options import CallOptions, Options, hooks_of
from ._polling import can_stream, stream_operation
from ._resubscribe import ResubscribeMachine
from ._route import Route
from .types import AgentCard, Event

__all__ = ["HttpTransportBase", "TransportCall"]

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
        route: Route,
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

    def __init__(self, route: Route, card: AgentCard | None, options: Options) -> None:
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
