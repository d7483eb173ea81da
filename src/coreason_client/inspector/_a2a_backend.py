"""An A2A agent behind the page: an `AgentApp` that passes each message on to it.

So the page speaks CAP, and resuming, a second tab and cancelling work as for any agent here.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import unquote, urlsplit

from starlette.types import Receive, Scope, Send

from coreason_client.a2a import A2AError, AsyncA2AClient, SendMessageConfiguration
from coreason_manifest.definitions.presentation import StreamOpCode
from coreason_manifest.definitions.service import ServiceRequest

from .._http._types import Request, timeouts_from
from ..a2a._auth import credentials
from ..a2a.types import AgentCard
from ..server import AgentApp, AgentStream
from ..server.page import BEARER_OPTION, KEY_MARK, CurlOption, PageConfig
from ._a2a_packets import A2AConversation, A2APackets, Payload, error_of
from .target import A2ATarget

_CANCEL_GRACE: Final = 5.0


class A2ABackend:
    """Serves an A2A agent as a CAP agent."""

    shutdown_timeout = _CANCEL_GRACE

    def __init__(self, target: A2ATarget) -> None:
        self._target = target
        self._bridge = A2ABridge(target.client, target.redact)
        # Nobody can resume a stream once this process has ended, so nothing is waited for.
        self._app = AgentApp(
            self._bridge,
            agent_id=target.card.name or "agent",
            version=target.card.version or "0",
            drain_timeout=0.0,
            cancel_grace=_CANCEL_GRACE,
            inbox=True,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve as ASGI."""
        await self._app(scope, receive, send)

    def config(self) -> PageConfig:
        """Return what the page has to know."""
        card = self._target.card
        return {
            "agent_id": card.name,
            "version": card.version,
            "protocol": "a2a",
            "target": self._target.shown_url,
            "needs_key": False,
            "adds_key": self._target.has_token,
            "curl_option": curl_option(card),
            "cut": True,
            "inbox": True,
            "documents": False,
            "card": card.dump(),
        }

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while the block runs."""
        try:
            async with self._app.lifespan():
                yield
        finally:
            await self._target.client.aclose()

    async def drain(self) -> None:
        """End every stream, but not the tasks of the agent."""
        self._bridge.stopping = True
        await self._app.drain()


logger = logging.getLogger("coreason_client.inspector")

_MAX_CONVERSATIONS: Final = 1000
_CANCEL_SECONDS: Final = 4.0  # less than the grace of a cancelled agent
_ADVICE: Final = ": start `coreason inspect` again with the right --token"


class A2ABridge:
    """The agent of an `AgentApp` in front of an A2A agent; `redact` removes secrets from errors.

    A session is a conversation (`contextId`). A task that waits for the user gets the next message,
    and a running one what is sent to its answer. A cancelled stream cancels the task, unless this
    server is being stopped.
    """

    def __init__(self, client: AsyncA2AClient, redact: Callable[[str], str]) -> None:
        self.stopping = False
        self._client = client
        self._redact = redact
        self._conversations: OrderedDict[str, A2AConversation] = OrderedDict()

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        """Answer a request."""
        session = request.context.session_id
        before = self._conversations.get(session, A2AConversation())
        packets = A2APackets(before)
        try:
            await self._forward(before, packets, stream)
        except asyncio.CancelledError:
            await self._cancel(packets.task_id)
            raise
        except A2AError as error:
            found = error_of(error)
            message = self._redact(found.message)
            if error.status == 401:
                message += _ADVICE
            await stream.fail(found.code, message, found.details)
        finally:
            self._remember(session, packets.conversation)

    async def _forward(
        self, before: A2AConversation, packets: A2APackets, stream: AgentStream
    ) -> None:
        sending = asyncio.create_task(self._send_messages(packets, stream))
        try:
            events = self._client.send_message_stream(before.message(stream.question))
            async with events:
                async for event in events:
                    for payload in packets.of(event):
                        await _write(stream, payload)
        finally:
            sending.cancel()
            await asyncio.wait({sending})
        for payload in packets.end():
            await _write(stream, payload)

    async def _send_messages(self, packets: A2APackets, stream: AgentStream) -> None:
        """Send to the running task what the user sends to its answer."""
        config = SendMessageConfiguration(return_immediately=True)
        async for said in stream.inbox:
            reason = "it has not begun a task"
            try:
                if (message := packets.message(said.text)) is not None:
                    await self._client.send_message(message, config)
                    continue
            except A2AError as error:
                reason = self._redact(error_of(error).message)
            not_taken = f"The agent did not take the message {said.text!r}: {reason}"
            await stream.warn("message_not_taken", not_taken)

    async def _cancel(self, task_id: str | None) -> None:
        if task_id is None or self.stopping:
            return
        try:
            async with asyncio.timeout(_CANCEL_SECONDS):
                await self._client.cancel_task(task_id)
        except (A2AError, TimeoutError) as error:
            reason = self._redact(str(error)) or "there was no answer in time"
            logger.warning("task %s could not be cancelled: %s", task_id, reason)

    def _remember(self, session: str, conversation: A2AConversation) -> None:
        self._conversations[session] = conversation
        self._conversations.move_to_end(session)
        if len(self._conversations) > _MAX_CONVERSATIONS:
            self._conversations.popitem(last=False)


async def _write(stream: AgentStream, payload: Payload) -> None:
    op, p = payload
    try:
        await stream.write_packet(op, p)
    except ValueError as error:
        if op is not StreamOpCode.EVENT:
            raise
        await stream.warn("a2a_event_not_shown", f"An event of the agent is not shown: {error}")


_URL: Final = "http://agent.invalid/"


def curl_option(card: AgentCard) -> CurlOption:
    """Return an option of curl and its value, in which `KEY_MARK` stands for the credential.

    The rules for where a credential goes are those of the client: they are applied to a request
    with the mark, and the mark is looked for in the result.
    """
    bare = Request("POST", _URL, {}, b"", timeouts_from(None))
    sent = credentials(KEY_MARK, card).apply(bare)
    if query := urlsplit(sent.url).query:
        return "--url-query", unquote(query)
    for name, value in sent.headers.items():
        if KEY_MARK in value:
            return "-H", f"{name}: {value}"
        if value.startswith("Basic "):
            return "-u", KEY_MARK  # curl encodes `user:password` itself
    return BEARER_OPTION
