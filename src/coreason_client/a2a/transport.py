"""Transports: what a client needs of one, and those over HTTP, sync and async.

Each class of ours is one generic call over a table of methods (`_dialects`); the rules are in
`_route` and `_heal`. A client takes any object that fits `Transport` or `AsyncTransport`.
"""

from contextlib import AbstractContextManager
from typing import Any, Protocol, Unpack, runtime_checkable

from pydantic import BaseModel

from .._drive import Flow, run, run_async
from .._http._async import AsyncSender
from .._http._sync import SyncSender
from ._auth import credentials
from ._auth_senders import AsyncAuthSender, SyncAuthSender
from ._heal import HealMachine
from ._hooks import CallInfo, Hooks
from ._options import CallOptions, Options, card_route, hooks_of, jsonrpc_route, rest_route
from ._route import Route
from ._waiting import can_stream, stream_operation
from .streams import AsyncEventStream, EventStream
from .types import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    Event,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
)

__all__ = [
    "AsyncCardTransport",
    "AsyncJsonRpcTransport",
    "AsyncRestTransport",
    "AsyncTransport",
    "CardTransport",
    "JsonRpcTransport",
    "RestTransport",
    "Transport",
]

_EMPTY_MEANS_ABSENT = frozenset({"extensions", "referenceTaskIds", "acceptedOutputModes"})


@runtime_checkable
class Transport(Protocol):
    """What `A2AClient` asks of a transport; a call that is never made need not be there.

    The options of a call (`CallOptions`, and `resume` of a stream) are passed by name, and only
    those that the caller gave, so a transport that takes none need not name them.
    """

    def send_message(self, request: SendMessageRequest) -> Event:
        """Send a message and return the answer."""

    def send_message_stream(self, request: SendMessageRequest) -> EventStream:
        """Send a message and return the stream of the answer."""

    def get_task(self, request: GetTaskRequest) -> Task:
        """Return a task."""

    def cancel_task(self, request: CancelTaskRequest) -> Task:
        """Cancel a task and return it."""

    def resubscribe(self, request: SubscribeToTaskRequest) -> EventStream:
        """Return the stream of a task that is under way."""

    def list_tasks(self, request: ListTasksRequest) -> ListTasksResponse:
        """Return a page of tasks."""

    def create_push_config(self, request: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
        """Ask for push notifications and return how they were configured."""

    def get_push_config(
        self, request: GetTaskPushNotificationConfigRequest
    ) -> TaskPushNotificationConfig:
        """Return a push configuration."""

    def list_push_configs(
        self, request: ListTaskPushNotificationConfigsRequest
    ) -> ListTaskPushNotificationConfigsResponse:
        """Return a page of a task's push configurations."""

    def delete_push_config(self, request: DeleteTaskPushNotificationConfigRequest) -> None:
        """Delete a push configuration."""

    def get_extended_card(self, request: GetExtendedAgentCardRequest) -> AgentCard:
        """Return the card that callers who are known get to see."""


@runtime_checkable
class AsyncTransport(Protocol):
    """What `AsyncA2AClient` asks of a transport; a call that is never made need not be there.

    The options of a call are passed as to a `Transport`.
    """

    async def send_message(self, request: SendMessageRequest) -> Event:
        """Send a message and return the answer."""

    def send_message_stream(self, request: SendMessageRequest) -> AsyncEventStream:
        """Send a message and return the stream of the answer, at once."""

    async def get_task(self, request: GetTaskRequest) -> Task:
        """Return a task."""

    async def cancel_task(self, request: CancelTaskRequest) -> Task:
        """Cancel a task and return it."""

    def resubscribe(self, request: SubscribeToTaskRequest) -> AsyncEventStream:
        """Return the stream of a task that is under way, at once."""

    async def list_tasks(self, request: ListTasksRequest) -> ListTasksResponse:
        """Return a page of tasks."""

    async def create_push_config(
        self, request: TaskPushNotificationConfig
    ) -> TaskPushNotificationConfig:
        """Ask for push notifications and return how they were configured."""

    async def get_push_config(
        self, request: GetTaskPushNotificationConfigRequest
    ) -> TaskPushNotificationConfig:
        """Return a push configuration."""

    async def list_push_configs(
        self, request: ListTaskPushNotificationConfigsRequest
    ) -> ListTaskPushNotificationConfigsResponse:
        """Return a page of a task's push configurations."""

    async def delete_push_config(self, request: DeleteTaskPushNotificationConfigRequest) -> None:
        """Delete a push configuration."""

    async def get_extended_card(self, request: GetExtendedAgentCardRequest) -> AgentCard:
        """Return the card that callers who are known get to see."""


def _params(request: BaseModel) -> dict[str, Any]:
    """Return the parameters in the shape of 1.0, without lists that say nothing."""
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


class _Call:
    """One call: the route with its own settings, and what the hooks see of it."""

    def __init__(
        self,
        name: str,
        request: BaseModel,
        route: Route,
        hooks: Hooks,
        opener: SyncAuthSender | AsyncAuthSender,
    ) -> None:
        self.params = _params(request)
        self.route = route
        self.redact = opener.hide
        self._opener = opener
        self.info = CallInfo(name, _params(request) if hooks else self.params)
        self._hooks = hooks

    def observed(self) -> AbstractContextManager[None]:
        """Redact the errors of what is done inside, and run the hooks around it."""
        return self._hooks.around(self.info, self.prepare, self.redact)

    def prepare(self, info: CallInfo) -> None:
        """Send the headers that a hook added.

        Raises:
            ValueError: they cannot be sent.
        """
        self.route.settings = self.route.settings.for_call(headers=info.headers)

    def flow(self) -> Flow[Any]:
        """Return the flow of a unary call."""
        return self.route.ask(self.info.operation, self.params)

    def machine(self, *, resume: bool, streams: bool) -> HealMachine:
        """Return the machine of a stream; `streams` says whether the agent can stream."""
        name, params = stream_operation(self.info.operation, self.params, streams=streams)
        machine = HealMachine(self.route, name, params, resume=resume)
        machine.redact = self._opener.redact
        return machine


class _Base:
    """What all transports over HTTP share."""

    _opener: SyncAuthSender | AsyncAuthSender

    def __init__(self, route: Route, card: AgentCard | None, options: Options) -> None:
        self._route = route
        self._streams = can_stream(card)
        self._hooks = hooks_of(options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(version={self.version!r})"

    @property
    def version(self) -> str:
        """The version of the protocol that the next call speaks."""
        return self._route.channel.dialect.version

    def _call(self, name: str, request: BaseModel, options: CallOptions) -> _Call:
        unknown = set(options) - set(CallOptions.__annotations__)
        if unknown:
            raise TypeError(f"{name} has no option {', '.join(sorted(unknown))}")
        route = self._route
        settings = route.settings.for_call(options.get("timeout"), options.get("headers"))
        if self._hooks or settings is not route.settings:
            route = route.with_settings(settings)
        return _Call(name, request, route, self._hooks, self._opener)


class _HttpTransport(_Base):
    """The calls of the protocol, sync."""

    _opener: SyncAuthSender

    def __init__(self, route: Route, card: AgentCard | None, options: Options) -> None:
        super().__init__(route, card, options)
        self._sender = SyncSender(options.get("http_client"))
        self._opener = SyncAuthSender(self._sender, credentials(options.get("auth"), card))

    def _ask(self, name: str, request: BaseModel, options: CallOptions) -> Any:
        call = self._call(name, request, options)
        limit = self._route.settings.max_body_bytes
        with call.observed():
            result = call.info.result = run(call.flow(), self._opener, limit)
        return result

    def _stream(
        self, name: str, request: BaseModel, resume: bool, options: CallOptions
    ) -> EventStream:
        call = self._call(name, request, options)
        stream = EventStream.driven(
            call.machine(resume=resume, streams=self._streams), self._opener, call.redact
        )
        if self._hooks:
            watch = self._hooks.stream
            stream.watch(lambda events: watch(events, call.info, call.prepare, call.redact))
        return stream

    def send_message(self, request: SendMessageRequest, **options: Unpack[CallOptions]) -> Event:
        """Send a message and return the answer; raises `A2AError`."""
        event: Event = self._ask("send_message", request, options)
        return event

    def send_message_stream(
        self, request: SendMessageRequest, *, resume: bool = True, **options: Unpack[CallOptions]
    ) -> EventStream:
        """Send a message and return the stream of the answer; iterating raises `A2AError`."""
        return self._stream("send_message_stream", request, resume, options)

    def get_task(self, request: GetTaskRequest, **options: Unpack[CallOptions]) -> Task:
        """Return a task; raises `A2AError`."""
        task: Task = self._ask("get_task", request, options)
        return task

    def list_tasks(
        self, request: ListTasksRequest, **options: Unpack[CallOptions]
    ) -> ListTasksResponse:
        """Return a page of tasks; raises `A2AError`."""
        page: ListTasksResponse = self._ask("list_tasks", request, options)
        return page

    def cancel_task(self, request: CancelTaskRequest, **options: Unpack[CallOptions]) -> Task:
        """Cancel a task and return it; raises `A2AError`."""
        task: Task = self._ask("cancel_task", request, options)
        return task

    def resubscribe(
        self,
        request: SubscribeToTaskRequest,
        *,
        resume: bool = True,
        **options: Unpack[CallOptions],
    ) -> EventStream:
        """Return the stream of a task that is under way; iterating raises `A2AError`."""
        return self._stream("resubscribe", request, resume, options)

    def create_push_config(
        self, request: TaskPushNotificationConfig, **options: Unpack[CallOptions]
    ) -> TaskPushNotificationConfig:
        """Ask for push notifications and return how they were configured; raises `A2AError`."""
        config: TaskPushNotificationConfig = self._ask("create_push_config", request, options)
        return config

    def get_push_config(
        self, request: GetTaskPushNotificationConfigRequest, **options: Unpack[CallOptions]
    ) -> TaskPushNotificationConfig:
        """Return a push configuration; raises `A2AError`."""
        config: TaskPushNotificationConfig = self._ask("get_push_config", request, options)
        return config

    def list_push_configs(
        self, request: ListTaskPushNotificationConfigsRequest, **options: Unpack[CallOptions]
    ) -> ListTaskPushNotificationConfigsResponse:
        """Return a page of a task's push configurations; raises `A2AError`."""
        page: ListTaskPushNotificationConfigsResponse = self._ask(
            "list_push_configs", request, options
        )
        return page

    def delete_push_config(
        self, request: DeleteTaskPushNotificationConfigRequest, **options: Unpack[CallOptions]
    ) -> None:
        """Delete a push configuration; raises `A2AError`."""
        self._ask("delete_push_config", request, options)

    def get_extended_card(
        self, request: GetExtendedAgentCardRequest, **options: Unpack[CallOptions]
    ) -> AgentCard:
        """Return the card that callers who are known get to see; raises `A2AError`."""
        card: AgentCard = self._ask("get_extended_card", request, options)
        return card

    def close(self) -> None:
        """Close the connections; may be called twice."""
        self._sender.close()


class _AsyncHttpTransport(_Base):
    """The calls of the protocol, async."""

    _opener: AsyncAuthSender

    def __init__(self, route: Route, card: AgentCard | None, options: Options) -> None:
        super().__init__(route, card, options)
        self._sender = AsyncSender(options.get("http_client"))
        self._opener = AsyncAuthSender(self._sender, credentials(options.get("auth"), card))

    async def _ask(self, name: str, request: BaseModel, options: CallOptions) -> Any:
        call = self._call(name, request, options)
        limit = self._route.settings.max_body_bytes
        with call.observed():
            result = call.info.result = await run_async(call.flow(), self._opener, limit)
        return result

    def _stream(
        self, name: str, request: BaseModel, resume: bool, options: CallOptions
    ) -> AsyncEventStream:
        call = self._call(name, request, options)
        stream = AsyncEventStream.driven(
            call.machine(resume=resume, streams=self._streams), self._opener, call.redact
        )
        if self._hooks:
            watch = self._hooks.stream_async
            stream.watch(lambda events: watch(events, call.info, call.prepare, call.redact))
        return stream

    async def send_message(
        self, request: SendMessageRequest, **options: Unpack[CallOptions]
    ) -> Event:
        """Send a message and return the answer; raises `A2AError`."""
        event: Event = await self._ask("send_message", request, options)
        return event

    def send_message_stream(
        self, request: SendMessageRequest, *, resume: bool = True, **options: Unpack[CallOptions]
    ) -> AsyncEventStream:
        """Send a message and return the stream of the answer; iterating raises `A2AError`."""
        return self._stream("send_message_stream", request, resume, options)

    async def get_task(self, request: GetTaskRequest, **options: Unpack[CallOptions]) -> Task:
        """Return a task; raises `A2AError`."""
        task: Task = await self._ask("get_task", request, options)
        return task

    async def list_tasks(
        self, request: ListTasksRequest, **options: Unpack[CallOptions]
    ) -> ListTasksResponse:
        """Return a page of tasks; raises `A2AError`."""
        page: ListTasksResponse = await self._ask("list_tasks", request, options)
        return page

    async def cancel_task(self, request: CancelTaskRequest, **options: Unpack[CallOptions]) -> Task:
        """Cancel a task and return it; raises `A2AError`."""
        task: Task = await self._ask("cancel_task", request, options)
        return task

    def resubscribe(
        self,
        request: SubscribeToTaskRequest,
        *,
        resume: bool = True,
        **options: Unpack[CallOptions],
    ) -> AsyncEventStream:
        """Return the stream of a task that is under way; iterating raises `A2AError`."""
        return self._stream("resubscribe", request, resume, options)

    async def create_push_config(
        self, request: TaskPushNotificationConfig, **options: Unpack[CallOptions]
    ) -> TaskPushNotificationConfig:
        """Ask for push notifications and return how they were configured; raises `A2AError`."""
        config: TaskPushNotificationConfig = await self._ask("create_push_config", request, options)
        return config

    async def get_push_config(
        self, request: GetTaskPushNotificationConfigRequest, **options: Unpack[CallOptions]
    ) -> TaskPushNotificationConfig:
        """Return a push configuration; raises `A2AError`."""
        config: TaskPushNotificationConfig = await self._ask("get_push_config", request, options)
        return config

    async def list_push_configs(
        self, request: ListTaskPushNotificationConfigsRequest, **options: Unpack[CallOptions]
    ) -> ListTaskPushNotificationConfigsResponse:
        """Return a page of a task's push configurations; raises `A2AError`."""
        page: ListTaskPushNotificationConfigsResponse = await self._ask(
            "list_push_configs", request, options
        )
        return page

    async def delete_push_config(
        self, request: DeleteTaskPushNotificationConfigRequest, **options: Unpack[CallOptions]
    ) -> None:
        """Delete a push configuration; raises `A2AError`."""
        await self._ask("delete_push_config", request, options)

    async def get_extended_card(
        self, request: GetExtendedAgentCardRequest, **options: Unpack[CallOptions]
    ) -> AgentCard:
        """Return the card that callers who are known get to see; raises `A2AError`."""
        card: AgentCard = await self._ask("get_extended_card", request, options)
        return card

    async def aclose(self) -> None:
        """Close the connections; may be called twice."""
        await self._sender.aclose()


class JsonRpcTransport(_HttpTransport):
    """JSON-RPC to one address. Without a `version` 1.0 is tried, and 0.3 if it is not known.

    Raises:
        ValueError, TypeError: an argument that cannot work.
    """

    def __init__(
        self,
        url: str,
        *,
        version: str | None = None,
        tenant: str | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(jsonrpc_route(url, version, tenant, options), None, options)


class AsyncJsonRpcTransport(_AsyncHttpTransport):
    """JSON-RPC to one address; the twin of `JsonRpcTransport`."""

    def __init__(
        self,
        url: str,
        *,
        version: str | None = None,
        tenant: str | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(jsonrpc_route(url, version, tenant, options), None, options)


class RestTransport(_HttpTransport):
    """HTTP+JSON to one address, in 1.0 or, with `version="0.3"`, in 0.3.

    Raises:
        ValueError, TypeError: an argument that cannot work.
    """

    def __init__(
        self,
        url: str,
        *,
        version: str = "1.0",
        tenant: str | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(rest_route(url, version, tenant, options), None, options)


class AsyncRestTransport(_AsyncHttpTransport):
    """HTTP+JSON to one address; the twin of `RestTransport`."""

    def __init__(
        self,
        url: str,
        *,
        version: str = "1.0",
        tenant: str | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(rest_route(url, version, tenant, options), None, options)


class CardTransport(_HttpTransport):
    """The interfaces of a card, in its order; the next one when one cannot be reached.

    Raises:
        A2ANoSupportedInterfaceError: the card offers none that we speak.
    """

    def __init__(self, card: AgentCard, **options: Unpack[Options]) -> None:
        super().__init__(card_route(card, options), card, options)


class AsyncCardTransport(_AsyncHttpTransport):
    """The interfaces of a card, in its order; the twin of `CardTransport`."""

    def __init__(self, card: AgentCard, **options: Unpack[Options]) -> None:
        super().__init__(card_route(card, options), card, options)
