"""Async transports: the protocol that the async client requires, and those of the bindings.

The transports of the bindings make generic calls, using a table of methods (`_dialects`); the rules
are in `_route` and `_resubscribe`. A client accepts any object that implements `AsyncTransport`.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from typing import Any, Protocol, Unpack, runtime_checkable

from pydantic import BaseModel

from .._drive_async import AsyncOpener, run_async
from .._http._async import AsyncSender
from .._http._types import Request
from ._auth import CardCredential, Credentials, credentials
from ._options import (
    CallOptions,
    Options,
    card_route,
    grpc_route,
    jsonrpc_route,
    rest_route,
    trusted_card,
)
from ._route import AgentRoute
from ._streams_async import AsyncEventStream
from ._transport_base import HttpTransportBase, RedactingSender, TransportCall
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


@runtime_checkable
class AsyncTransport(Protocol):
    """The transport that `AsyncA2AClient` requires; methods that are never called may be missing.

    The options of a call (`CallOptions`, and `resume` of a stream) are passed by name, and only
    if the caller gave them, so a transport without options need not declare them.
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
        """Return the stream of a running task, at once."""

    async def list_tasks(self, request: ListTasksRequest) -> ListTasksResponse:
        """Return a page of tasks."""

    async def create_push_config(
        self, request: TaskPushNotificationConfig
    ) -> TaskPushNotificationConfig:
        """Create a push configuration and return it."""

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
        """Return the authenticated extended agent card."""


# Senders; the rules of credentials are in `_auth`


class AsyncCardSender(RedactingSender):
    """A sender of the requests for one card."""

    _credentials: CardCredential

    def __init__(self, sender: AsyncOpener, credentials: CardCredential) -> None:
        super().__init__(credentials)
        self._sender = sender
        self.sleep = sender.sleep

    async def open(self, request: Request) -> Any:
        """Send the request, with the credential if the server has challenged it."""
        credentials = self._credentials.for_request(request)
        await _fetch_tokens(credentials, request, self._sender)
        prepared = await credentials.apply_async(request)
        return await self._sender.open(self._remember(prepared))


class AsyncAuthSender(RedactingSender):
    """A sender that adds credentials to the requests of one call."""

    _credentials: Credentials

    def __init__(self, sender: AsyncOpener, credentials: Credentials) -> None:
        super().__init__(credentials)
        self._sender = sender
        self.sleep = sender.sleep

    async def open(self, request: Request) -> Any:
        """Send the request, and once more with new credentials on a 401."""
        await _fetch_tokens(self._credentials, request, self._sender)
        prepared = await self._credentials.apply_async(request)
        used = self._credentials.values
        response = await self._sender.open(self._remember(prepared))
        if not self._credentials.refresh_after(request, response.head.status):
            return response
        await response.aclose()
        await _fetch_tokens(self._credentials, request, self._sender, rejected=used)
        refreshed = await self._credentials.apply_async(request, refresh=True)
        return await self._sender.open(self._remember(refreshed))


async def _fetch_tokens(
    credentials: Credentials,
    request: Request,
    sender: AsyncOpener,
    rejected: Collection[str] = (),
) -> None:
    """Request the tokens that a request needs, unless there are usable ones."""
    for cache in credentials.token_caches(request):
        if cache.is_usable(rejected):
            continue
        attempts = cache.attempts
        async with cache.lock_async():
            if not cache.is_usable(rejected):
                cache.raise_failure_since(attempts)
                await run_async(cache.fetch(), sender)


class _AsyncClosingOpener(AsyncOpener, Protocol):
    async def aclose(self) -> None: ...


class _AsyncBindingSender:
    """Sends requests of a gRPC channel over gRPC, and all others with the sender over HTTP."""

    def __init__(self, http: _AsyncClosingOpener) -> None:
        from ._grpc._channel import GrpcRequest  # needs the extra `grpc`
        from ._grpc._sender_async import AsyncGrpcSender

        self._http = http
        self._grpc = AsyncGrpcSender()
        self._grpc_request = GrpcRequest
        self.sleep = http.sleep

    async def open(self, request: Request) -> Any:
        """Send the request and return the response as soon as it begins.

        Raises:
            TransportFailure: no response was received.
        """
        if isinstance(request, self._grpc_request):
            return await self._grpc.open(request)
        return await self._http.open(request)

    async def aclose(self) -> None:
        """Close the connections; may be called repeatedly."""
        try:
            await self._grpc.aclose()
        finally:
            await self._http.aclose()


def _new_sender(route: AgentRoute, options: Options) -> Any:
    sender = AsyncSender(options.get("http_client"))
    return _AsyncBindingSender(sender) if route.needs_grpc else sender


# Transports


class _AsyncHttpTransport(HttpTransportBase):
    """The calls of the protocol over HTTP and gRPC."""

    def __init__(self, route: AgentRoute, card: AgentCard | None, options: Options) -> None:
        super().__init__(route, card, options)
        self._sender = _new_sender(route, options)
        self._credentials = credentials(options.get("auth"), card)

    async def _call_unary(self, name: str, request: BaseModel, options: CallOptions) -> Any:
        sender = AsyncAuthSender(self._sender, self._credentials)
        call = self._call(name, request, options, sender)
        limit = self._route.settings.max_body_bytes
        with call.observed():
            result = call.info.result = await run_async(call.flow(), sender, limit)
        return result

    def _stream(
        self, name: str, request: BaseModel, resume: bool, options: CallOptions
    ) -> AsyncEventStream:
        sender = AsyncAuthSender(self._sender, self._credentials)
        call = self._call(name, request, options, sender)
        machine = call.machine(resume=resume, streams=self._streams)
        stream = AsyncEventStream.from_machine(machine, sender)
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
        """Return the stream of a running task; iterating raises `A2AError`."""
        return self._stream("resubscribe", request, resume, options)

    async def create_push_config(
        self, request: TaskPushNotificationConfig, **options: Unpack[CallOptions]
    ) -> TaskPushNotificationConfig:
        """Create a push configuration and return it; raises `A2AError`."""
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
        """Return the authenticated extended agent card; raises `A2AError`."""
        card: AgentCard = await self._call_unary("get_extended_card", request, options)
        return card

    async def aclose(self) -> None:
        """Close the connections; may be called twice."""
        await self._sender.aclose()


class AsyncJsonRpcTransport(_AsyncHttpTransport):
    """JSON-RPC to one URL.

    Args:
        url: the URL of the interface.
        version: "1.0" or "0.3"; None tries 1.0 first and then 0.3.
        tenant: the tenant that is sent with each request.
        options: the optional arguments of `Options`.

    Raises:
        ValueError, TypeError: an argument is not valid.
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
    """HTTP+JSON to one URL, in version 1.0 or 0.3.

    Args:
        url: the URL of the interface, to which the paths of the protocol are added.
        version: "1.0" or "0.3".
        tenant: the tenant that is sent with each request.
        options: the optional arguments of `Options`.

    Raises:
        ValueError, TypeError: an argument is not valid.
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


class AsyncGrpcTransport(_AsyncHttpTransport):
    """gRPC to one address, in version 1.0 or 0.3; needs the extra `grpc`.

    Args:
        url: a URL without a path (https, or http for a plain connection), or `host:port`, which is
            plain for this machine and encrypted for all others.
        version: "1.0" or "0.3".
        tenant: the tenant that is sent with each request.
        options: the optional arguments of `Options`.

    Raises:
        MissingExtraError: the extra `grpc` is not installed.
        ValueError, TypeError: an argument is not valid.
    """

    def __init__(
        self,
        url: str,
        *,
        version: str = "1.0",
        tenant: str | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(grpc_route(url, version, tenant, options), None, options)


class AsyncCardTransport(_AsyncHttpTransport):
    """The interfaces of a card in their order; if one cannot be reached, the next one is used.

    Args:
        card: the card, or its JSON object.
        options: the optional arguments of `Options`.

    Raises:
        A2ANoSupportedInterfaceError: this client supports none of the interfaces of the card.
        A2ACardSignatureError: the card has no valid signature of one of the `card_keys`.
    """

    def __init__(self, card: AgentCard | Mapping[str, Any], **options: Unpack[Options]) -> None:
        self.card = trusted_card(card, options)
        super().__init__(card_route(self.card, options), self.card, options)


async def _observed(events: AsyncIterator[Event], call: TransportCall) -> AsyncGenerator[Event]:
    """Iterate over a stream; hooks run before the first event, for each, and at the end."""
    with call.observed():
        try:
            async for event in events:
                # async only: begin
                if event is None:  # this is another event loop
                    yield event
                    continue
                # async only: end
                yield call.received(event)
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()
