"""The async CAP client: signatures and docstrings; the rules are in `_protocol` and `_resume`."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, overload
from uuid import UUID

from coreason_manifest.definitions.service import HealthCheckResponse, ServiceRequest

from .._drive_async import AsyncClosing, run_async
from .._http._async import AsyncSender
from .._http._build import proxy_for
from .._http._types import TimeoutLike, timeouts_from
from ._protocol import (
    DEFAULT_MAX_RETRIES,
    ApiKey,
    ApiKeyCredential,
    Endpoint,
    base_url_of,
    reconnect_seconds,
)
from ._resume import ResumeMachine
from ._streams_async import AsyncChatStream, AsyncConversationStream, AsyncPacketStream
from .answer import Answer, Rewound, accepts_rewinds
from .position import Bookmark, Position

__all__ = ["AsyncCAPClient"]


class AsyncCAPClient(AsyncClosing):
    """A client for one agent service; works on asyncio and on trio.

    Args:
        base_url: the root of the service, such as `https://agent.example`; a final `/assist`
            is removed.
        api_key: the key, or a function, sync or async, that returns it and is called before every
            request.
        timeout: the longest silence in seconds before a connection counts as lost, or an
            `httpx2.Timeout` (or `httpx.Timeout`) with all four limits.
        max_retries: the number of reconnections in a row without a new packet.
        reconnect_for: the seconds for which a stream that has begun keeps reconnecting without a
            new packet, even if `max_retries` is used up. The default is 30, and 0 if you pass
            `max_retries`; 0 turns it off.
        deadline: the seconds within which the whole answer must be complete; heartbeats and
            reconnects do not extend it. None, the default, means no limit.
        http_client: your own `httpx2.AsyncClient` or `httpx.AsyncClient`, which stays open.
        user_id: the user id that `chat` sends.
        headers: extra headers for every request.
        strict_sequence: raise an error if packet numbers are missing and a reconnect does not
            bring them.
        max_event_bytes: the largest event that is accepted.
        max_retry_delay: the longest wait that a server may ask for, in seconds.

    Raises:
        ValueError, TypeError: an argument is not valid.
    """

    def __init__(
        self,
        base_url: str,
        api_key: ApiKey,
        timeout: float | TimeoutLike = 60.0,
        max_retries: int = DEFAULT_MAX_RETRIES,
        *,
        reconnect_for: float | None = None,
        deadline: float | None = None,
        http_client: Any = None,
        user_id: str | UUID = "anonymous",
        headers: Mapping[str, str] | None = None,
        strict_sequence: bool = False,
        max_event_bytes: int = 10_000_000,
        max_retry_delay: float = 60.0,
    ) -> None:
        self.base_url = base_url_of(base_url)
        self.api_key = api_key
        self.max_retries = max_retries
        credential = ApiKeyCredential(api_key)
        self._endpoint = Endpoint(
            base_url=self.base_url,
            credential=credential,
            timeouts=timeouts_from(timeout),
            max_retries=max_retries,
            reconnect_for=reconnect_seconds(max_retries, reconnect_for),
            deadline=deadline,
            max_retry_delay=max_retry_delay,
            user_id=str(user_id),
            headers=dict(headers or {}),
            strict_sequence=strict_sequence,
            max_event_bytes=max_event_bytes,
            proxy_for=partial(proxy_for, http_client),
        )
        self._sender = AsyncSender(http_client, credential.authorization_async)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self.base_url!r})"

    def assist(
        self,
        request: ServiceRequest,
        *,
        rewinds: bool = False,
        headers: Mapping[str, str] | None = None,
        timeout: float | TimeoutLike | None = None,
        deadline: float | None = None,
    ) -> AsyncPacketStream:
        """Send a request and return an async iterator of the packets; CLOSE comes last.

        Nothing is sent before you iterate, and the errors are raised while you do.

        Args:
            request: the request; a stream can be resumed only with the same one.
            rewinds: True if the caller handles REWIND events. If the server has lost packets, the
                stream is then read again from its start, after a REWIND event with the number 0,
                instead of an error.
            headers: extra headers for the requests of this call.
            timeout: replaces that of the client for this call.
            deadline: replaces that of the client for this call, in seconds.

        Raises:
            CAPConnectionError: the retry budget is exhausted.
            CAPProtocolError: the server violated the protocol.
            CAPRuntimeError: the server rejected the request, or sent a fatal error.
            CAPTimeoutError: the deadline has passed.
        """
        machine = self._endpoint.assist(request, headers, timeout, deadline, rewinds=rewinds)
        return AsyncPacketStream(machine, request, self._sender)

    def resume(
        self,
        request: ServiceRequest | Bookmark,
        position: Position | None = None,
        *,
        rewinds: bool = False,
        headers: Mapping[str, str] | None = None,
        timeout: float | TimeoutLike | None = None,
        deadline: float | None = None,
    ) -> AsyncPacketStream:
        """Continue a stream from a bookmark, in this process or another; raises as `assist`.

        Args:
            request: the bookmark, or the request that opened the stream.
            position: the position to continue after, if `request` is not a bookmark.
            rewinds: as in `assist`.
            headers: extra headers for the requests of this call.
            timeout: replaces that of the client for this call.
            deadline: replaces that of the client for this call, in seconds.
        """
        bookmark = self._endpoint.bookmark(request, position)
        original = bookmark.request
        machine = self._endpoint.assist(
            original, headers, timeout, deadline, bookmark, rewinds=rewinds
        )
        return AsyncPacketStream(machine, original, self._sender)

    @overload
    def chat(
        self,
        message: str,
        conversation_id: str | UUID | None = None,
        *,
        rewinds: Literal[False] = ...,
        headers: Mapping[str, str] | None = ...,
        timeout: float | TimeoutLike | None = ...,
        deadline: float | None = ...,
    ) -> AsyncChatStream[str]: ...

    @overload
    def chat(
        self,
        message: str,
        conversation_id: str | UUID | None = None,
        *,
        rewinds: bool,
        headers: Mapping[str, str] | None = ...,
        timeout: float | TimeoutLike | None = ...,
        deadline: float | None = ...,
    ) -> AsyncChatStream[str | Rewound]: ...

    def chat(
        self,
        message: str,
        conversation_id: str | UUID | None = None,
        *,
        rewinds: bool = False,
        headers: Mapping[str, str] | None = None,
        timeout: float | TimeoutLike | None = None,
        deadline: float | None = None,
    ) -> AsyncChatStream[Any]:
        """Send a message and return an async iterator of the text; raises as `assist`.

        Nothing is sent before you iterate; `ask` returns the whole answer. A durable agent whose
        process died may write a part of its answer anew. With `rewinds=True` the iterator then
        yields a `Rewound`; without it, such a stream ends with the error `producer_lost`. If the
        server has lost packets, a stream with `rewinds=True` is read again from its start.

        Args:
            message: the text of the user.
            conversation_id: the id of the conversation to continue; None begins a new one.
            rewinds: True if the caller handles `Rewound`.
            headers: extra headers for the requests of this call.
            timeout: replaces that of the client for this call.
            deadline: replaces that of the client for this call, in seconds.
        """
        request = self._endpoint.chat_request(message, conversation_id, rewinds=rewinds)
        packets = self.assist(
            request, rewinds=rewinds, headers=headers, timeout=timeout, deadline=deadline
        )
        return self._chat_stream(packets, headers, timeout, deadline)

    def resume_chat(
        self,
        bookmark: Bookmark,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | TimeoutLike | None = None,
        deadline: float | None = None,
    ) -> AsyncChatStream[Any]:
        """Continue a chat from a bookmark: yields the text after it; raises as `assist`.

        It yields `Rewound` too if the chat was started with `rewinds=True`.

        Args:
            bookmark: the bookmark of the stream, from `stream.bookmark()`.
            headers: extra headers for the requests of this call.
            timeout: replaces that of the client for this call.
            deadline: replaces that of the client for this call, in seconds.
        """
        rewinds = accepts_rewinds(bookmark.request)
        packets = self.resume(
            bookmark, rewinds=rewinds, headers=headers, timeout=timeout, deadline=deadline
        )
        return self._chat_stream(packets, headers, timeout, deadline)

    def _chat_stream(
        self,
        packets: AsyncPacketStream,
        headers: Mapping[str, str] | None,
        timeout: float | TimeoutLike | None,
        deadline: float | None,
    ) -> AsyncChatStream[Any]:
        request = packets.request

        def read_again(position: Position) -> AsyncPacketStream:
            return self.resume(
                request,
                position,
                rewinds=accepts_rewinds(request),
                headers=headers,
                timeout=timeout,
                deadline=deadline,
            )

        return AsyncChatStream._from_packets(packets, request.context.session_id, read_again)

    async def ask(
        self,
        message: str,
        conversation_id: str | UUID | None = None,
        *,
        rewinds: bool = False,
        headers: Mapping[str, str] | None = None,
        timeout: float | TimeoutLike | None = None,
        deadline: float | None = None,
    ) -> Answer:
        """Send a message and return the whole answer, a string; raises as `assist`.

        Args:
            message: the text of the user.
            conversation_id: the id of the conversation to continue; None begins a new one.
            rewinds: True if a durable agent may write a part of its answer anew, as in `chat`.
            headers: extra headers for the requests of this call.
            timeout: replaces that of the client for this call.
            deadline: replaces that of the client for this call, in seconds.
        """
        stream = self.chat(
            message,
            conversation_id,
            rewinds=rewinds,
            headers=headers,
            timeout=timeout,
            deadline=deadline,
        )
        async with stream:
            async for _ in stream:
                pass
            return stream._answer()

    async def health(
        self,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | TimeoutLike | None = None,
    ) -> HealthCheckResponse:
        """Return the health of the agent; one request, without retries.

        Args:
            headers: extra headers for the requests of this call.
            timeout: replaces that of the client for this call.

        Raises:
            CAPConnectionError: there was no response.
            CAPRuntimeError: the server rejected the request.
            CAPProtocolError: the response is not a health report.
        """
        return await run_async(self._endpoint.health(headers, timeout), self._sender)

    async def cancel(
        self,
        stream_id: UUID | str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | TimeoutLike | None = None,
    ) -> None:
        """Tell the agent to stop working on a stream.

        Args:
            stream_id: the id of the stream, from `stream.stream_id`.
            headers: extra headers for the requests of this call.
            timeout: replaces that of the client for this call.

        Raises:
            CAPConnectionError: there was no response.
            CAPRuntimeError: the server does not know the stream, or rejected the request.
        """
        await run_async(self._endpoint.cancel(stream_id, headers, timeout), self._sender)

    async def send(
        self,
        stream_id: UUID | str,
        text: str,
        *,
        message_id: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | TimeoutLike | None = None,
    ) -> None:
        """Send a message to an agent that is still answering; the agent decides when to read it.

        Args:
            stream_id: the id of the stream, from `stream.stream_id`.
            text: the message.
            message_id: the id of the message, by default a new one. A message that is sent again
                with its id is delivered once.
            headers: extra headers for the requests of this call.
            timeout: replaces that of the client for this call.

        Raises:
            CAPConnectionError: there was no response.
            CAPRuntimeError: the stream has ended (409), its agent takes no messages or the stream
                is not known (404), or has too many that are unread (429).
        """
        flow = self._endpoint.send(stream_id, text, message_id, headers, timeout)
        await run_async(flow, self._sender)

    def follow_conversation(
        self,
        conversation_id: str | UUID,
        after: Position | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | TimeoutLike | None = None,
    ) -> AsyncConversationStream:
        """Return an async iterator of the packets of a conversation, also of what others ask there.

        The agent must answer the messages of a conversation in order, see `on_busy`.

        Args:
            conversation_id: the id of the conversation.
            after: the `position` of an earlier call, to continue there. By default it begins with
                the answer that is being written, or with the next one.
            headers: extra headers for the requests of this call.
            timeout: replaces that of the client for this call.

        Raises:
            CAPConnectionError: the retry budget is exhausted.
            CAPRuntimeError: the agent does not answer in order (404), or no longer has the
                position (410).
        """

        def follow(after: Position | None) -> ResumeMachine:
            return self._endpoint.follow(conversation_id, after, headers, timeout)

        return AsyncConversationStream(follow, after, self._sender)

    async def aclose(self) -> None:
        """Close the connections; streams that are being read end with `CAPConnectionError`."""
        await self._sender.aclose()
