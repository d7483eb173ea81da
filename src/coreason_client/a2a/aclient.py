"""The async A2A client: signatures and docstrings; the rules are in the modules without I/O."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Self, Unpack

from .._drive_async import AsyncClosing, run_async
from .._http._async import AsyncSender
from .._http._types import TimeoutLike, timeouts_from
from .._retry import Backoff
from ._auth import Auth, CardCredential
from ._card import SHARED_CACHE, CardRules
from ._client_base import (
    Conversations,
    Pages,
    ReplyTo,
    all_push_configs,
    finished_task,
)
from ._options import CallOptions, Options, resolver_options
from ._streams_async import AsyncEventStream, run_calls_async
from ._transport_async import (
    AsyncCardSender,
    AsyncCardTransport,
    AsyncJsonRpcTransport,
    AsyncTransport,
)
from .types import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    Event,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageConfiguration,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)

__all__ = ["AsyncA2AClient", "AsyncAgentCardResolver", "default_async_resolver"]


class AsyncAgentCardResolver(AsyncClosing):
    """Fetches the cards of agents, and caches them as long as their servers allow.

    Args:
        http_client: your own `httpx2.AsyncClient` or `httpx.AsyncClient`, which stays open.
        headers: extra headers for every request.
        timeout: the limit in seconds, or an `httpx2.Timeout`.
        max_card_bytes: the largest card that is accepted.
        auth: a credential, or a callable that returns it, for cards that require one.
        max_retries: how often a request is retried after a transient failure.
        max_retry_delay: the longest wait that a server may ask for, in seconds.

    Raises:
        ValueError, TypeError: an argument is not valid.
    """

    def __init__(
        self,
        *,
        http_client: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | TimeoutLike = 30.0,
        max_card_bytes: int = 1_000_000,
        auth: Auth | None = None,
        max_retries: int = 3,
        max_retry_delay: float = 60.0,
    ) -> None:
        self._credential = CardCredential(auth)
        self._rules = CardRules(
            dict(headers or {}),
            timeouts_from(timeout),
            max_card_bytes,
            max_retries=max_retries,
            backoff=Backoff(max_server_delay=max_retry_delay),
            has_credential=bool(self._credential),
        )
        self._sender = AsyncSender(http_client)

    async def resolve(self, base_url: str) -> AgentCard:
        """Return the card of the agent at a URL.

        Args:
            base_url: the root of the agent, such as `https://a2a.example`, or the URL of its card.

        Raises:
            A2AHTTPError: there is no card, or no response, or it is too large.
            A2AJSONError: the body is not a card.
            ValueError, TypeError: the URL is not valid.
        """
        flow = self._rules.resolve(base_url)
        sender = AsyncCardSender(self._sender, self._credential)
        with sender.redacting():
            return await run_async(flow, sender, self._rules.max_card_bytes)

    async def aclose(self) -> None:
        """Close the connections; may be called twice."""
        await self._sender.aclose()


default_async_resolver = AsyncAgentCardResolver()
"""A shared resolver with default options; it connects on first use."""


class AsyncA2AClient(AsyncClosing):
    """A client for one agent, in any version and binding of the protocol.

    Created from a URL alone, it uses JSON-RPC: version 1.0, or 0.3 if the agent does not know
    1.0. `connect` reads the card of the agent instead.

    Args:
        url: the URL of the agent's JSON-RPC interface.
        options: the optional arguments of `Options`.

    Attributes:
        card: the card of the agent, None if the client was created without one.
        transport: the transport.

    Raises:
        ValueError, TypeError: an argument is not valid.
    """

    def __init__(self, url: str, **options: Unpack[Options]) -> None:
        self._set_up(AsyncJsonRpcTransport(url, **options), None)

    @classmethod
    def from_agent_card(
        cls, card: AgentCard | Mapping[str, Any], **options: Unpack[Options]
    ) -> Self:
        """Create a client from a card; the preferred interface is tried first.

        Args:
            card: the card, or its JSON object.
            options: the optional arguments of `Options`.

        Raises:
            A2ANoSupportedInterfaceError: this client supports no interface of the card.
            A2AOriginError: the supported interfaces are at other origins than the named one.
            A2ACardSignatureError: it has no valid signature of one of the `card_keys`.
            ExtensionSupportRequiredError: it requires an extension that was not declared.
            ValueError, TypeError: an argument is not valid.
        """
        transport = AsyncCardTransport(card, **options)
        return cls._from_transport(transport, transport.card)

    @classmethod
    def with_transport(cls, transport: AsyncTransport) -> Self:
        """Create a client with your own transport."""
        return cls._from_transport(transport, None)

    @classmethod
    async def connect(cls, base_url: str, **options: Unpack[Options]) -> Self:
        """Fetch the card of the agent at a URL, and create a client from it.

        The card is cached as long as its server allows, for all clients. `headers` are sent with
        the request for it; `auth` only if the server requires it. Both are sent to this origin and
        to those in `interface_origins` only.

        Args:
            base_url: the root of the agent, such as `https://a2a.example`, or the URL of its card.
            options: the optional arguments of `Options`.

        Raises:
            A2AHTTPError, A2AJSONError: there is no card.
            A2ANoSupportedInterfaceError: this client supports no interface of the card.
            A2AOriginError: the supported interfaces are at other origins.
            A2ACardSignatureError: it has no valid signature of one of the `card_keys`.
            ExtensionSupportRequiredError: it requires an extension that was not declared.
            ValueError, TypeError: an argument is not valid.
        """
        async with AsyncAgentCardResolver(**resolver_options(options)) as resolver:
            # Not for a caller's own HTTP client, which may add credentials.
            if options.get("http_client") is None:
                resolver._rules.cache = SHARED_CACHE
            return cls.from_agent_card(await resolver.resolve(base_url), **options)

    @classmethod
    def _from_transport(cls, transport: AsyncTransport, card: AgentCard | None) -> Self:
        client = cls.__new__(cls)
        client._set_up(transport, card)
        return client

    def _set_up(self, transport: AsyncTransport, card: AgentCard | None) -> None:
        self.transport = transport
        self._untyped_transport: Any = transport  # a custom transport need not declare options
        self.card = card
        self._conversations = Conversations()
        self._clock = AsyncSender()  # only for its sleep method

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.transport!r})"

    # Messages

    async def send_message(
        self,
        message: str | Message,
        config: SendMessageConfiguration | None = None,
        *,
        reply_to: ReplyTo | None = None,
        metadata: dict[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> Event:
        """Send a message and return the answer: a task, or a message.

        A message is never sent twice: if the response is lost, an error is raised.

        Args:
            message: a text, or a message.
            config: options of the response.
            reply_to: a task, message, event or stream whose conversation is continued.
            metadata: the metadata of the request.
            options: the optional arguments of `CallOptions`.

        Raises:
            A2AError: there was no response, or it is an error.
        """
        request = self._conversations.request(message, config, reply_to, metadata)
        return self._conversations.remember(
            await self._untyped_transport.send_message(request, **options)
        )

    async def send_message_with_config(
        self,
        message: str | Message,
        config: SendMessageConfiguration,
        *,
        reply_to: ReplyTo | None = None,
        metadata: dict[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> Event:
        """Send a message with a configuration; arguments and errors are those of `send_message`."""
        return await self.send_message(
            message, config, reply_to=reply_to, metadata=metadata, **options
        )

    def send_message_stream(
        self,
        message: str | Message,
        config: SendMessageConfiguration | None = None,
        *,
        reply_to: ReplyTo | None = None,
        resume: bool = True,
        metadata: dict[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncEventStream:
        """Send a message and return an async iterator of the events; it reconnects by itself.

        If the card says that the agent does not stream, the message is sent with a unary call, and
        the task is polled until it ends; the events are derived from the task.

        Nothing is sent before you iterate, and the errors are raised while you do.

        Args:
            message: a text, or a message.
            config: options of the response.
            reply_to: a task, message, event or stream whose conversation is continued.
            resume: False raises an error if the connection is lost.
            metadata: the metadata of the request.
            options: the optional arguments of `CallOptions`.

        Raises:
            A2AStreamClosedError: the stream ended before its task, and could not be resumed.
            A2AError: the agent sent an error, or an event that cannot be parsed.
        """
        request = self._conversations.request(message, config, reply_to, metadata)
        if resume:
            return self._remembering(
                self._untyped_transport.send_message_stream(request, **options)
            )
        return self._remembering(
            self._untyped_transport.send_message_stream(request, resume=False, **options)
        )

    def _remembering(self, events: Any) -> AsyncEventStream:
        """Return the stream; its task is remembered as soon as it is known."""
        stream = AsyncEventStream.of(events)
        stream.on_task(self._conversations.remember_ids)
        return stream

    # Tasks

    async def get_task(
        self,
        task_id: str,
        *,
        history_length: int | None = None,
        **options: Unpack[CallOptions],
    ) -> Task:
        """Return a task.

        Args:
            task_id: the id of the task.
            history_length: the maximum number of messages in its history.
            options: the optional arguments of `CallOptions`.

        Raises:
            A2AError: there was no response, or it is an error.
        """
        request = GetTaskRequest(id=task_id, history_length=history_length)
        task: Task = await self._untyped_transport.get_task(request, **options)
        self._conversations.remember(task)
        return task

    async def cancel_task(
        self,
        task_id: str,
        *,
        metadata: dict[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> Task:
        """Cancel a task and return it.

        Args:
            task_id: the id of the task.
            metadata: the metadata of the request.
            options: the optional arguments of `CallOptions`.

        Raises:
            A2AError: there was no response, or it is an error.
        """
        request = CancelTaskRequest(id=task_id, metadata=metadata)
        task: Task = await self._untyped_transport.cancel_task(request, **options)
        return task

    def resubscribe(
        self, task_id: str, *, resume: bool = True, **options: Unpack[CallOptions]
    ) -> AsyncEventStream:
        """Return an async iterator of the events of a running task; its current state comes first.

        The task is polled if subscribing is unsafe (0.3) or not possible.

        Args:
            task_id: the id of the task.
            resume: False subscribes once, and raises an error if the connection is lost.
            options: the optional arguments of `CallOptions`.

        Raises:
            A2AError: while iterating, as in `send_message_stream`.
        """
        request = SubscribeToTaskRequest(id=task_id)
        if resume:
            return self._remembering(self._untyped_transport.resubscribe(request, **options))
        return self._remembering(
            self._untyped_transport.resubscribe(request, resume=False, **options)
        )

    async def wait_for_task(self, task_id: str, **options: Unpack[CallOptions]) -> Task:
        """Wait until a task is over or waits for the user, and return it.

        Args:
            task_id: the id of the task.
            options: the optional arguments of `CallOptions`.

        Raises:
            A2AError: there was no response, or it is an error.
        """
        flow = finished_task(task_id)
        return await run_calls_async(flow, self, self._clock.sleep, options)

    async def list_tasks(
        self,
        *,
        context_id: str | None = None,
        status: TaskState | str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        history_length: int | None = None,
        status_timestamp_after: str | None = None,
        include_artifacts: bool | None = None,
        **options: Unpack[CallOptions],
    ) -> ListTasksResponse:
        """Return a page of tasks, the newest first; 1.0 only.

        Args:
            context_id: only tasks of this conversation.
            status: only tasks in this state.
            page_size: the maximum number of tasks on a page.
            page_token: the `next_page_token` of the page before.
            history_length: the maximum number of messages of each task.
            status_timestamp_after: only tasks whose status changed after this time (ISO 8601).
            include_artifacts: True to get the artifacts too.
            options: the optional arguments of `CallOptions`.

        Raises:
            A2AError: there was no response, or it is an error.
        """
        request = ListTasksRequest(
            context_id=context_id,
            status=status,
            page_size=page_size,
            page_token=page_token,
            history_length=history_length,
            status_timestamp_after=status_timestamp_after,
            include_artifacts=include_artifacts,
        )
        page: ListTasksResponse = await self._untyped_transport.list_tasks(request, **options)
        return page

    async def iter_tasks(
        self,
        *,
        context_id: str | None = None,
        status: TaskState | str | None = None,
        page_size: int | None = None,
        history_length: int | None = None,
        status_timestamp_after: str | None = None,
        include_artifacts: bool | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncIterator[Task]:
        """Iterate over all tasks, page by page; arguments and errors are those of `list_tasks`."""
        pages = Pages()
        while not pages.done:
            page = await self.list_tasks(
                context_id=context_id,
                status=status,
                page_size=page_size,
                page_token=pages.token,
                history_length=history_length,
                status_timestamp_after=status_timestamp_after,
                include_artifacts=include_artifacts,
                **options,
            )
            pages.received(page.next_page_token)
            for task in page.tasks:
                yield task

    # Push notifications

    async def create_push_config(
        self,
        task_id: str,
        config: TaskPushNotificationConfig | str,
        **options: Unpack[CallOptions],
    ) -> TaskPushNotificationConfig:
        """Configure push notifications of a task to a URL.

        Args:
            task_id: the id of the task.
            config: the configuration, or only its URL.
            options: the optional arguments of `CallOptions`.

        Raises:
            A2AError: there was no response, or it is an error.
        """
        if isinstance(config, str):
            config = TaskPushNotificationConfig(url=config)
        request = config.model_copy(update={"task_id": task_id})
        created: TaskPushNotificationConfig = await self._untyped_transport.create_push_config(
            request, **options
        )
        return created

    async def get_push_config(
        self, task_id: str, config_id: str | None = None, **options: Unpack[CallOptions]
    ) -> TaskPushNotificationConfig:
        """Return a push configuration of a task.

        Args:
            task_id: the id of the task.
            config_id: the id of the configuration; None leaves the choice to the agent.
            options: the optional arguments of `CallOptions`.

        Raises:
            A2AError: there was no response, or it is an error.
        """
        request = GetTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
        found: TaskPushNotificationConfig = await self._untyped_transport.get_push_config(
            request, **options
        )
        return found

    async def list_push_configs(
        self, task_id: str, **options: Unpack[CallOptions]
    ) -> list[TaskPushNotificationConfig]:
        """Return all push configurations of a task.

        Args:
            task_id: the id of the task.
            options: the optional arguments of `CallOptions`.

        Raises:
            A2AError: there was no response, or it is an error.
        """
        flow = all_push_configs(task_id)
        return await run_calls_async(flow, self._untyped_transport, self._clock.sleep, options)

    async def delete_push_config(
        self, task_id: str, config_id: str, **options: Unpack[CallOptions]
    ) -> None:
        """Delete a push configuration; deleting it twice is safe.

        Args:
            task_id: the id of the task.
            config_id: the id of the configuration.
            options: the optional arguments of `CallOptions`.

        Raises:
            A2AError: there was no response, or it is an error.
        """
        request = DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
        await self._untyped_transport.delete_push_config(request, **options)

    # The agent

    async def get_extended_card(self, **options: Unpack[CallOptions]) -> AgentCard:
        """Return the authenticated extended agent card.

        Args:
            options: the optional arguments of `CallOptions`.

        Raises:
            A2AError: there was no response, or it is an error.
        """
        request = GetExtendedAgentCardRequest()
        card: AgentCard = await self._untyped_transport.get_extended_card(request, **options)
        return card

    async def aclose(self) -> None:
        """Close the connections; streams that are being read end with an error."""
        await self._clock.aclose()
        close = getattr(self.transport, "aclose", None)
        if close is not None:
            await close()


# Flows of `_client_base`
