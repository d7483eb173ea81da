"""The sync A2A client: signatures and docstrings; the rules are in the modules without I/O."""

from collections.abc import Iterator, Mapping
from typing import Any, Self, Unpack

from .._closing import Closing
from .._drive import run
from .._http._sync import SyncSender
from .._http._types import TimeoutLike, timeouts_from
from ._card import CardRules, read_card
from ._conversation import Conversations, ReplyTo
from ._options import Options
from ._waiting import can_subscribe, is_over, polls
from .errors import MethodNotFoundError, UnsupportedOperationError
from .streams import EventStream
from .transport import CardTransport, JsonRpcTransport, Transport
from .types import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    Event,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageConfiguration,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)

__all__ = ["A2AClient", "AgentCardResolver", "default_resolver"]


class AgentCardResolver(Closing):
    """Finds the cards of agents, and keeps them as long as their servers say.

    Args:
        http_client: an `httpx2.Client` or `httpx.Client` of your own, which stays open.
        headers: extra headers for every request.
        timeout: the limit in seconds, or an `httpx2.Timeout`.
        max_card_bytes: the largest card that is accepted.
    """

    def __init__(
        self,
        *,
        http_client: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | TimeoutLike = 30.0,
        max_card_bytes: int = 1_000_000,
    ) -> None:
        self._rules = CardRules(dict(headers or {}), timeouts_from(timeout), max_card_bytes)
        self._sender = SyncSender(http_client)

    def resolve(self, base_url: str) -> AgentCard:
        """Return the card of the agent at an address.

        Raises:
            A2AHTTPError: there is no card, or no answer, or it is too large.
            A2AJSONError: what is there is not a card.
            ValueError: it is no address.
        """
        flow = self._rules.resolve(base_url)
        return run(flow, self._sender, self._rules.max_card_bytes)

    def close(self) -> None:
        """Close the connections; may be called twice."""
        self._sender.close()


default_resolver = AgentCardResolver()
"""A resolver for all who need no other; its connections are made when it is first used."""


class A2AClient(Closing):
    """Talks to one agent, in whichever version of the protocol and binding it speaks.

    Made from an address alone it speaks JSON-RPC: 1.0, and 0.3 with an agent that does not know
    it. `options` are those of `Options`.

    Raises:
        ValueError, TypeError: an argument that cannot work.
    """

    def __init__(self, url: str, **options: Unpack[Options]) -> None:
        self._begin(JsonRpcTransport(url, **options), None)

    @classmethod
    def from_agent_card(
        cls, card: AgentCard | Mapping[str, Any], **options: Unpack[Options]
    ) -> Self:
        """Make a client from a card: the preferred interface first.

        Raises:
            A2ANoSupportedInterfaceError: the card offers none that we speak.
            ValueError, TypeError: an argument that cannot work.
        """
        card = card if isinstance(card, AgentCard) else read_card(card)
        return cls._made(CardTransport(card, **options), card)

    @classmethod
    def with_transport(cls, transport: Transport) -> Self:
        """Make a client on a transport of your own."""
        return cls._made(transport, None)

    @classmethod
    def connect(cls, base_url: str, **options: Unpack[Options]) -> Self:
        """Find the card of the agent at an address, and make a client from it.

        Raises:
            A2AHTTPError, A2AJSONError: there is no card.
            A2ANoSupportedInterfaceError: the card offers no interface that we speak.
            ValueError, TypeError: an argument that cannot work.
        """
        given, timeout = options.get("http_client"), options.get("timeout", 30.0)
        with AgentCardResolver(http_client=given, timeout=timeout) as resolver:
            return cls.from_agent_card(resolver.resolve(base_url), **options)

    @classmethod
    def _made(cls, transport: Transport, card: AgentCard | None) -> Self:
        client = cls.__new__(cls)
        client._begin(transport, card)
        return client

    def _begin(self, transport: Transport, card: AgentCard | None) -> None:
        self.transport = transport
        self.card = card
        self._conversations = Conversations()
        self._clock = SyncSender()  # for its sleep alone

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.transport!r})"

    # Messages

    def send_message(
        self,
        message: str | Message,
        config: SendMessageConfiguration | None = None,
        *,
        reply_to: ReplyTo | None = None,
    ) -> Event:
        """Send a message and return the answer: a task, or a message.

        `reply_to` continues the conversation of a task, message, event or stream. A message
        whose answer was lost is not sent again; the error says so.

        Raises:
            A2AError: there was no answer, or it is an error.
        """
        request = self._conversations.request(message, config, reply_to)
        return self._conversations.heard(self.transport.send_message(request))

    def send_message_with_config(
        self,
        message: str | Message,
        config: SendMessageConfiguration,
        *,
        reply_to: ReplyTo | None = None,
    ) -> Event:
        """Send a message with a configuration; as `send_message`."""
        return self.send_message(message, config, reply_to=reply_to)

    def send_message_stream(
        self,
        message: str | Message,
        config: SendMessageConfiguration | None = None,
        *,
        reply_to: ReplyTo | None = None,
        resume: bool = True,
    ) -> EventStream:
        """Send a message and iterate over the events of the answer, which heals itself.

        Raises, while iterating:
            A2AStreamClosedError: the stream ended before its task, and could not be resumed.
            A2AError: the agent's error, or what cannot be read.
        """
        request = self._conversations.request(message, config, reply_to)
        options: Any = {} if resume else {"resume": False}
        return self._noted(self.transport.send_message_stream(request, **options))

    def _noted(self, stream: Any) -> EventStream:
        noted = EventStream.of(stream)
        noted.on_task(self._conversations.note)
        return noted

    # Tasks

    def get_task(self, task_id: str, *, history_length: int | None = None) -> Task:
        """Return a task; raises `A2AError`."""
        request = GetTaskRequest(id=task_id, history_length=history_length)
        task = self.transport.get_task(request)
        self._conversations.heard(task)
        return task

    def cancel_task(self, task_id: str, *, metadata: dict[str, Any] | None = None) -> Task:
        """Cancel a task and return it; raises `A2AError`."""
        return self.transport.cancel_task(CancelTaskRequest(id=task_id, metadata=metadata))

    def resubscribe(self, task_id: str, *, resume: bool = True) -> EventStream:
        """Iterate over the events of a task that is under way, its state so far first.

        Raises, while iterating:
            A2AError: as `send_message_stream`.
        """
        options: Any = {} if resume else {"resume": False}
        request = SubscribeToTaskRequest(id=task_id)
        return self._noted(self.transport.resubscribe(request, **options))

    def wait_for_task(self, task_id: str) -> Task:
        """Wait until a task is over or waits for the user, and return it; raises `A2AError`."""
        if can_subscribe(self.card):
            try:
                with self.resubscribe(task_id) as stream:
                    for _ in stream:
                        pass
                    if is_over(stream.task):
                        return stream.task
            except (UnsupportedOperationError, MethodNotFoundError):
                pass  # then it is asked for
        delays = polls()
        while not is_over(task := self.get_task(task_id)):
            self._clock.sleep(next(delays))
        return task

    def list_tasks(
        self,
        *,
        context_id: str | None = None,
        status: TaskState | str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        history_length: int | None = None,
        status_timestamp_after: str | None = None,
        include_artifacts: bool | None = None,
    ) -> ListTasksResponse:
        """Return a page of tasks, the newest first; 1.0 only; raises `A2AError`."""
        request = ListTasksRequest(
            context_id=context_id,
            status=status,
            page_size=page_size,
            page_token=page_token,
            history_length=history_length,
            status_timestamp_after=status_timestamp_after,
            include_artifacts=include_artifacts,
        )
        return self.transport.list_tasks(request)

    def iter_tasks(
        self,
        *,
        context_id: str | None = None,
        status: TaskState | str | None = None,
        page_size: int | None = None,
        history_length: int | None = None,
        status_timestamp_after: str | None = None,
        include_artifacts: bool | None = None,
    ) -> Iterator[Task]:
        """Iterate over all tasks, page by page; as `list_tasks`."""
        page_token: str | None = None
        while True:
            page = self.list_tasks(
                context_id=context_id,
                status=status,
                page_size=page_size,
                page_token=page_token,
                history_length=history_length,
                status_timestamp_after=status_timestamp_after,
                include_artifacts=include_artifacts,
            )
            yield from page.tasks
            if not page.next_page_token or page.next_page_token == page_token:
                return
            page_token = page.next_page_token

    # Push notifications

    def create_push_config(
        self, task_id: str, config: TaskPushNotificationConfig | str
    ) -> TaskPushNotificationConfig:
        """Have the news of a task sent to an address; raises `A2AError`."""
        if isinstance(config, str):
            config = TaskPushNotificationConfig(url=config)
        request = config.model_copy(update={"task_id": task_id})
        return self.transport.create_push_config(request)

    def get_push_config(
        self, task_id: str, config_id: str | None = None
    ) -> TaskPushNotificationConfig:
        """Return a push configuration of a task; raises `A2AError`."""
        request = GetTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
        return self.transport.get_push_config(request)

    def list_push_configs(self, task_id: str) -> list[TaskPushNotificationConfig]:
        """Return all push configurations of a task; raises `A2AError`."""
        found: list[TaskPushNotificationConfig] = []
        page_token: str | None = None
        while True:
            request = ListTaskPushNotificationConfigsRequest(task_id=task_id, page_token=page_token)
            page = self.transport.list_push_configs(request)
            found += page.configs
            if not page.next_page_token or page.next_page_token == page_token:
                return found
            page_token = page.next_page_token

    def delete_push_config(self, task_id: str, config_id: str) -> None:
        """Delete a push configuration; one that is gone already does no harm; raises `A2AError`."""
        request = DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
        self.transport.delete_push_config(request)

    # The agent

    def get_extended_card(self) -> AgentCard:
        """Return the card that callers who are known get to see; raises `A2AError`."""
        return self.transport.get_extended_card(GetExtendedAgentCardRequest())

    def close(self) -> None:
        """Close the connections; streams that are being read end with an error."""
        self._clock.close()
        close = getattr(self.transport, "close", None)
        if close is not None:
            close()
