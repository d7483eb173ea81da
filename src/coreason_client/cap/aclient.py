"""The async CAP client: signatures and docstrings; the rules are in `_protocol` and `_resume`."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

from coreason_manifest.definitions.service import HealthCheckResponse, ServiceRequest

from .._closing import AsyncClosing
from .._drive import run_async
from .._http._async import AsyncSender
from .._http._types import TimeoutLike, timeouts_from
from ._protocol import ApiKey, Credential, Endpoint, chat_request
from .position import Position
from .streams import AsyncChatStream, AsyncPacketStream

__all__ = ["AsyncCAPClient"]


class AsyncCAPClient(AsyncClosing):
    """Talks to one agent service, on asyncio or trio; the twin of `CAPClient`.

    Args:
        base_url: the root of the service, such as `https://agent.example`.
        api_key: the key, or a callable, async or not, that returns it and is asked before every
            request.
        timeout: the longest silence in seconds before a connection counts as lost, or an
            `httpx2.Timeout` (or `httpx.Timeout`) with all four limits.
        max_retries: reconnections in a row without a new packet.
        http_client: an `httpx2.AsyncClient` or `httpx.AsyncClient` of your own, which stays open.
        user_id: whom `chat` speaks for.
        headers: extra headers for every request.
        strict_sequence: a gap in the numbers that a reconnect does not mend is an error.
        max_event_bytes: the largest event that is accepted.
        max_retry_delay: the longest wait that a server may ask for, in seconds.

    Raises:
        ValueError, TypeError: an argument that cannot work.
    """

    def __init__(
        self,
        base_url: str,
        api_key: ApiKey,
        timeout: float | TimeoutLike = 60.0,
        max_retries: int = 3,
        *,
        http_client: Any = None,
        user_id: str = "anonymous",
        headers: Mapping[str, str] | None = None,
        strict_sequence: bool = False,
        max_event_bytes: int = 10_000_000,
        max_retry_delay: float = 60.0,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.api_key = api_key
        self.max_retries = max_retries
        credential = Credential(api_key)
        self._endpoint = Endpoint(
            base_url=self.base_url,
            credential=credential,
            timeouts=timeouts_from(timeout),
            max_retries=max_retries,
            max_retry_delay=max_retry_delay,
            user_id=user_id,
            headers=dict(headers or {}),
            strict_sequence=strict_sequence,
            max_event_bytes=max_event_bytes,
        )
        self._sender = AsyncSender(http_client, credential.authorization_async)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self.base_url!r})"

    def assist(
        self,
        request: ServiceRequest,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | TimeoutLike | None = None,
    ) -> AsyncPacketStream:
        """Ask, and iterate with `async for` over the packets of the answer, the CLOSE packet last.

        Raises, while iterating:
            CAPConnectionError: the retries are used up.
            CAPProtocolError: the server sent what the protocol does not allow.
            CAPRuntimeError: the server refused, or ended the stream with a fatal error.
        """
        machine = self._endpoint.assist(request, None, headers, timeout)
        return AsyncPacketStream(machine, request, self._sender)

    def resume(
        self,
        request: ServiceRequest,
        position: Position,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | TimeoutLike | None = None,
    ) -> AsyncPacketStream:
        """Go on with a stream where it was left, in this process or another; raises as `assist`."""
        machine = self._endpoint.assist(request, position, headers, timeout)
        return AsyncPacketStream(machine, request, self._sender)

    def chat(
        self,
        message: str,
        conversation_id: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | TimeoutLike | None = None,
    ) -> AsyncChatStream:
        """Say something, and iterate with `async for` over the text; raises as `assist`."""
        conversation_id = str(uuid4()) if conversation_id is None else conversation_id
        request = chat_request(message, conversation_id, self._endpoint.user_id)
        packets = self.assist(request, headers=headers, timeout=timeout)
        return AsyncChatStream.of(packets, conversation_id)

    async def health(
        self,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | TimeoutLike | None = None,
    ) -> HealthCheckResponse:
        """Ask how the agent is, once and without retries.

        Raises:
            CAPConnectionError: there was no answer.
            CAPRuntimeError: the server refused.
            CAPProtocolError: the answer is no health report.
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

        Raises:
            CAPConnectionError: there was no answer.
            CAPRuntimeError: the server does not know the stream, or refused.
        """
        await run_async(self._endpoint.cancel(stream_id, headers, timeout), self._sender)

    async def aclose(self) -> None:
        """Close the connections; streams that are being read end with `CAPConnectionError`."""
        await self._sender.aclose()
