"""Transports: what a client needs of one, and those over HTTP, sync and async.

Each class of ours is one generic call over a table of methods (`_dialects`); the rules are in
`_route` and `_heal`. A client takes any object that fits `Transport` or `AsyncTransport`.
"""

from typing import Any, Protocol, Unpack, runtime_checkable

from pydantic import BaseModel

from .._drive import run, run_async
from .._http._async import AsyncSender
from .._http._sync import SyncSender
from ._auth import AsyncAuthSender, SyncAuthSender, credentials
from ._heal import HealMachine
from ._options import Options, card_route, jsonrpc_route, rest_route
from ._route import Route
from .errors import A2AError
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
    """What `A2AClient` asks of a transport; a call that is never made need not be there."""

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
    """What `AsyncA2AClient` asks of a transport; a call that is never made need not be there."""

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


class _Base:
    """What all transports over HTTP share."""

    _opener: SyncAuthSender | AsyncAuthSender

    def __init__(self, route: Route) -> None:
        self._route = route

    def __repr__(self) -> str:
        return f"{type(self).__name__}(version={self.version!r})"

    @property
    def version(self) -> str:
        """The version of the protocol that the next call speaks."""
        return self._route.channel.dialect.version

    def _machine(self, name: str, request: BaseModel, resume: bool) -> HealMachine:
        machine = HealMachine(self._route, name, _params(request), resume=resume)
        machine.redact = self._opener.redact
        return machine


class _HttpTransport(_Base):
    """The calls of the protocol, sync."""

    _opener: SyncAuthSender

    def __init__(self, route: Route, card: AgentCard | None, options: Options) -> None:
        super().__init__(route)
        self._sender = SyncSender(options.get("http_client"))
        self._opener = SyncAuthSender(self._sender, credentials(options.get("auth"), card))

    def _ask(self, name: str, request: BaseModel) -> Any:
        limit = self._route.settings.max_body_bytes
        try:
            return run(self._route.ask(name, _params(request)), self._opener, limit)
        except A2AError as error:
            self._opener.hide(error)
            raise

    def send_message(self, request: SendMessageRequest) -> Event:
        """Send a message and return the answer; raises `A2AError`."""
        event: Event = self._ask("send_message", request)
        return event

    def send_message_stream(
        self, request: SendMessageRequest, *, resume: bool = True
    ) -> EventStream:
        """Send a message and return the stream of the answer; iterating raises `A2AError`."""
        machine = self._machine("send_message_stream", request, resume)
        return EventStream.driven(machine, self._opener, self._opener.hide)

    def get_task(self, request: GetTaskRequest) -> Task:
        """Return a task; raises `A2AError`."""
        task: Task = self._ask("get_task", request)
        return task

    def list_tasks(self, request: ListTasksRequest) -> ListTasksResponse:
        """Return a page of tasks; raises `A2AError`."""
        page: ListTasksResponse = self._ask("list_tasks", request)
        return page

    def cancel_task(self, request: CancelTaskRequest) -> Task:
        """Cancel a task and return it; raises `A2AError`."""
        task: Task = self._ask("cancel_task", request)
        return task

    def resubscribe(self, request: SubscribeToTaskRequest, *, resume: bool = True) -> EventStream:
        """Return the stream of a task that is under way; iterating raises `A2AError`."""
        return EventStream.driven(
            self._machine("resubscribe", request, resume), self._opener, self._opener.hide
        )

    def create_push_config(self, request: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
        """Ask for push notifications and return how they were configured; raises `A2AError`."""
        config: TaskPushNotificationConfig = self._ask("create_push_config", request)
        return config

    def get_push_config(
        self, request: GetTaskPushNotificationConfigRequest
    ) -> TaskPushNotificationConfig:
        """Return a push configuration; raises `A2AError`."""
        config: TaskPushNotificationConfig = self._ask("get_push_config", request)
        return config

    def list_push_configs(
        self, request: ListTaskPushNotificationConfigsRequest
    ) -> ListTaskPushNotificationConfigsResponse:
        """Return a page of a task's push configurations; raises `A2AError`."""
        page: ListTaskPushNotificationConfigsResponse = self._ask("list_push_configs", request)
        return page

    def delete_push_config(self, request: DeleteTaskPushNotificationConfigRequest) -> None:
        """Delete a push configuration; raises `A2AError`."""
        self._ask("delete_push_config", request)

    def get_extended_card(self, request: GetExtendedAgentCardRequest) -> AgentCard:
        """Return the card that callers who are known get to see; raises `A2AError`."""
        card: AgentCard = self._ask("get_extended_card", request)
        return card

    def close(self) -> None:
        """Close the connections; may be called twice."""
        self._sender.close()


class _AsyncHttpTransport(_Base):
    """The calls of the protocol, async."""

    _opener: AsyncAuthSender

    def __init__(self, route: Route, card: AgentCard | None, options: Options) -> None:
        super().__init__(route)
        self._sender = AsyncSender(options.get("http_client"))
        self._opener = AsyncAuthSender(self._sender, credentials(options.get("auth"), card))

    async def _ask(self, name: str, request: BaseModel) -> Any:
        limit = self._route.settings.max_body_bytes
        try:
            return await run_async(self._route.ask(name, _params(request)), self._opener, limit)
        except A2AError as error:
            self._opener.hide(error)
            raise

    async def send_message(self, request: SendMessageRequest) -> Event:
        """Send a message and return the answer; raises `A2AError`."""
        event: Event = await self._ask("send_message", request)
        return event

    def send_message_stream(
        self, request: SendMessageRequest, *, resume: bool = True
    ) -> AsyncEventStream:
        """Send a message and return the stream of the answer; iterating raises `A2AError`."""
        machine = self._machine("send_message_stream", request, resume)
        return AsyncEventStream.driven(machine, self._opener, self._opener.hide)

    async def get_task(self, request: GetTaskRequest) -> Task:
        """Return a task; raises `A2AError`."""
        task: Task = await self._ask("get_task", request)
        return task

    async def list_tasks(self, request: ListTasksRequest) -> ListTasksResponse:
        """Return a page of tasks; raises `A2AError`."""
        page: ListTasksResponse = await self._ask("list_tasks", request)
        return page

    async def cancel_task(self, request: CancelTaskRequest) -> Task:
        """Cancel a task and return it; raises `A2AError`."""
        task: Task = await self._ask("cancel_task", request)
        return task

    def resubscribe(
        self, request: SubscribeToTaskRequest, *, resume: bool = True
    ) -> AsyncEventStream:
        """Return the stream of a task that is under way; iterating raises `A2AError`."""
        return AsyncEventStream.driven(
            self._machine("resubscribe", request, resume), self._opener, self._opener.hide
        )

    async def create_push_config(
        self, request: TaskPushNotificationConfig
    ) -> TaskPushNotificationConfig:
        """Ask for push notifications and return how they were configured; raises `A2AError`."""
        config: TaskPushNotificationConfig = await self._ask("create_push_config", request)
        return config

    async def get_push_config(
        self, request: GetTaskPushNotificationConfigRequest
    ) -> TaskPushNotificationConfig:
        """Return a push configuration; raises `A2AError`."""
        config: TaskPushNotificationConfig = await self._ask("get_push_config", request)
        return config

    async def list_push_configs(
        self, request: ListTaskPushNotificationConfigsRequest
    ) -> ListTaskPushNotificationConfigsResponse:
        """Return a page of a task's push configurations; raises `A2AError`."""
        page: ListTaskPushNotificationConfigsResponse = await self._ask(
            "list_push_configs", request
        )
        return page

    async def delete_push_config(self, request: DeleteTaskPushNotificationConfigRequest) -> None:
        """Delete a push configuration; raises `A2AError`."""
        await self._ask("delete_push_config", request)

    async def get_extended_card(self, request: GetExtendedAgentCardRequest) -> AgentCard:
        """Return the card that callers who are known get to see; raises `A2AError`."""
        card: AgentCard = await self._ask("get_extended_card", request)
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
