"""Async transports: what the async client requires of one, and those over HTTP.

Each class of ours is one generic call over a table of methods (`_dialects`); the rules are in
`_route` and `_resubscribe`. A client takes any object that fits `AsyncTransport`.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Protocol, Unpack, runtime_checkable

from pydantic import BaseModel

from .._drive_async import run_async
from .._http._async import AsyncSender
from ._auth import credentials
from ._auth_senders_async import AsyncAuthSender
from ._options import CallOptions, Options, card_route, jsonrpc_route, rest_route
from ._route import Route
from ._streams_async import AsyncEventStream
from ._transport_base import HttpTransportBase, TransportCall
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
]


@runtime_checkable
class AsyncTransport(Protocol):
    """What `AsyncA2AClient` requires of a transport; calls that are never made may be missing.

    The options of a call (`CallOptions`, and `resume` of a stream) are passed by name, and only
    those that the caller gave, so a transport that takes none need not name them.
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


class _AsyncHttpTransport(HttpTransportBase):
    """The calls of the protocol over HTTP."""

    _opener: AsyncAuthSender

    def __init__(self, route: Route, card: AgentCard | None, options: Options) -> None:
        super().__init__(route, card, options)
        self._sender = AsyncSender(options.get("http_client"))
        self._opener = AsyncAuthSender(self._sender, credentials(options.get("auth"), card))

    async def _call_unary(self, name: str, request: BaseModel, options: CallOptions) -> Any:
        call = self._call(name, request, options)
        limit = self._route.settings.max_body_bytes
        with call.observed():
            result = call.info.result = await run_async(call.flow(), self._opener, limit)
        return result

    def _stream(
        self, name: str, request: BaseModel, resume: bool, options: CallOptions
    ) -> AsyncEventStream:
        call = self._call(name, request, options)
        stream = AsyncEventStream.from_machine(
            call.machine(resume=resume, streams=self._streams), self._opener, call.redact
        )
        if self._hooks:
            stream.wrap_events(lambda events: _observed(events, call))
        return stream

    async def send_message(
        self, request: SendMessageRequest, **options: Unpack[CallOptions]
    ) -> Event:
        """Send a message and return the answer; raises `A2AError`."""
        event: Event = await self._call_unary("send_message", request, options)
        return event

    def send_message_stream(
        self, request: SendMessageRequest, *, resume: bool = True, **options: Unpack[CallOptions]
    ) -> AsyncEventStream:
        """Send a message and return the stream of the answer; iterating raises `A2AError`."""
        return self._stream("send_message_stream", request, resume, options)

    async def get_task(self, request: GetTaskRequest, **options: Unpack[CallOptions]) -> Task:
        """Return a task; raises `A2AError`."""
        task: Task = await self._call_unary("get_task", request, options)
        return task

    async def list_tasks(
        self, request: ListTasksRequest, **options: Unpack[CallOptions]
    ) -> ListTasksResponse:
        """Return a page of tasks; raises `A2AError`."""
        page: ListTasksResponse = await self._call_unary("list_tasks", request, options)
        return page

    async def cancel_task(self, request: CancelTaskRequest, **options: Unpack[CallOptions]) -> Task:
        """Cancel a task and return it; raises `A2AError`."""
        task: Task = await self._call_unary("cancel_task", request, options)
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
        config: TaskPushNotificationConfig = await self._call_unary(
            "create_push_config", request, options
        )
        return config

    async def get_push_config(
        self, request: GetTaskPushNotificationConfigRequest, **options: Unpack[CallOptions]
    ) -> TaskPushNotificationConfig:
        """Return a push configuration; raises `A2AError`."""
        config: TaskPushNotificationConfig = await self._call_unary(
            "get_push_config", request, options
        )
        return config

    async def list_push_configs(
        self, request: ListTaskPushNotificationConfigsRequest, **options: Unpack[CallOptions]
    ) -> ListTaskPushNotificationConfigsResponse:
        """Return a page of a task's push configurations; raises `A2AError`."""
        page: ListTaskPushNotificationConfigsResponse = await self._call_unary(
            "list_push_configs", request, options
        )
        return page

    async def delete_push_config(
        self, request: DeleteTaskPushNotificationConfigRequest, **options: Unpack[CallOptions]
    ) -> None:
        """Delete a push configuration; raises `A2AError`."""
        await self._call_unary("delete_push_config", request, options)

    async def get_extended_card(
        self, request: GetExtendedAgentCardRequest, **options: Unpack[CallOptions]
    ) -> AgentCard:
        """Return the card that callers who are known get to see; raises `A2AError`."""
        card: AgentCard = await self._call_unary("get_extended_card", request, options)
        return card

    async def aclose(self) -> None:
        """Close the connections; may be called twice."""
        await self._sender.aclose()


class AsyncJsonRpcTransport(_AsyncHttpTransport):
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


class AsyncRestTransport(_AsyncHttpTransport):
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


class AsyncCardTransport(_AsyncHttpTransport):
    """The interfaces of a card, in its order; the next one when one cannot be reached.

    Raises:
        A2ANoSupportedInterfaceError: the card offers none that we speak.
    """

    def __init__(self, card: AgentCard, **options: Unpack[Options]) -> None:
        super().__init__(card_route(card, options), card, options)


async def _observed(events: AsyncIterator[Event], call: TransportCall) -> AsyncGenerator[Event]:
    """Iterate over a stream; the hooks run when it is first read, and at its end."""
    with call.observed():
        try:
            async for event in events:
                yield event
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()
