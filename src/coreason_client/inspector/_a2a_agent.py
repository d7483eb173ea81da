"""An agent that passes each message on to an A2A agent, and writes what that one answers."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from coreason_client.a2a import A2AError, AsyncA2AClient
from coreason_manifest.definitions.presentation import StreamOpCode
from coreason_manifest.definitions.service import ServiceRequest

from ..server import AgentStream
from ._a2a_packets import A2APackets, Conversation, Payload, error_of

__all__ = ["A2ABridge"]

logger = logging.getLogger("coreason_client.inspector")

_MAX_CONVERSATIONS: Final = 1000
_CANCEL_SECONDS: Final = 4.0  # less than the grace of a cancelled agent
_ADVICE: Final = ": start `coreason inspect` again with the right --token"


class A2ABridge:
    """The agent of an `AgentApp` in front of an A2A agent; `redact` removes secrets from errors.

    A session is a conversation (`contextId`). A task that waits for the user gets the next message.
    A cancelled stream cancels the task, unless this server is being stopped.
    """

    def __init__(self, client: AsyncA2AClient, redact: Callable[[str], str]) -> None:
        self.stopping = False
        self._client = client
        self._redact = redact
        self._conversations: OrderedDict[str, Conversation] = OrderedDict()

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        """Answer a request."""
        session = request.context.session_id
        before = self._conversations.get(session, Conversation())
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
        self, before: Conversation, packets: A2APackets, stream: AgentStream
    ) -> None:
        events = self._client.send_message_stream(before.message(stream.question))
        async with events:
            async for event in events:
                for payload in packets.of(event):
                    await _write(stream, payload)
        for payload in packets.end():
            await _write(stream, payload)

    async def _cancel(self, task_id: str | None) -> None:
        if task_id is None or self.stopping:
            return
        try:
            async with asyncio.timeout(_CANCEL_SECONDS):
                await self._client.cancel_task(task_id)
        except (A2AError, TimeoutError) as error:
            reason = self._redact(str(error)) or "there was no answer in time"
            logger.warning("task %s could not be cancelled: %s", task_id, reason)

    def _remember(self, session: str, conversation: Conversation) -> None:
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
