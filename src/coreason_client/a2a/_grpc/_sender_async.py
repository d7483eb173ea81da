"""The async sender over gRPC: `grpc.aio` channels, one set for each event loop.

It has the methods of the sender over HTTP (`_http._async`), so the same shells use it. It needs
asyncio: on trio a call fails as if there were no connection, and the next interface is used.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Any

import grpc.aio  # type: ignore[import-untyped]

from ..._http._types import (
    FailureKind,
    ResponseHead,
    TransportFailure,
)
from ..._ownership import PerLoop
from ._channel import (
    STREAM_HEAD,
    GrpcRequest,
    message_event,
    unary_head,
)
from ._connection import (
    FORK_SUPPORT,
    ChannelKey,
    GrpcResponseBase,
    GrpcSenderBase,
    channel_key,
    connect_failure,
    connect_timeout,
    metadata_of,
    new_channel,
)

_READY = grpc.ChannelConnectivity.READY
_FAILED = frozenset({grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN})


class AsyncGrpcResponse(GrpcResponseBase):
    """A response whose messages have not all been read yet; call `aclose` in every case."""

    def __init__(
        self,
        head: ResponseHead,
        body: bytes,
        call: Any = None,
        timeout: float | None = None,
        check_open: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(head, body, check_open)
        self._call = call  # of a stream
        self._timeout = timeout

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Iterate over the body as it arrives.

        Raises:
            TransportFailure: the connection broke, or no message arrived in time.
        """
        if self._body:
            yield self._body
        while self._call is not None:
            self._process.check()
            try:
                message = await read_message(self._call, self._timeout)
            except grpc.aio.AioRpcError as error:
                last, failure = self._end(error)
                yield last
                if failure is not None:
                    raise failure from error
                return
            if message is None:
                return
            yield message_event(message)

    async def collect(self, add: Callable[[bytes], None]) -> None:
        """Pass each piece of the body to a function."""
        async with aclosing(self.chunks()) as chunks:
            async for chunk in chunks:
                add(chunk)

    async def read(self, limit: int) -> bytes:
        """Return the body of an error response, up to a limit."""
        return self._body[:limit]

    async def aclose(self) -> None:
        """Cancel the call if it is not over; may be called repeatedly."""
        if self._call is not None and self._process.is_current:
            self._call.cancel()


async def read_message(call: Any, timeout: float | None) -> bytes | None:
    """Return the next message of a stream, None at its end.

    Raises:
        TransportFailure: there was none in time; the call is cancelled.
        grpc.aio.AioRpcError: the call ended with an error.
    """
    try:
        async with asyncio.timeout(timeout):
            message = await call.read()
    except TimeoutError:
        call.cancel()
        raise TransportFailure(FailureKind.TIMEOUT, f"no message for {timeout} s") from None
    return None if message is grpc.aio.EOF else bytes(message)


class AsyncGrpcSender(GrpcSenderBase):
    """Sends requests on the running event loop. A forked child starts with no connections."""

    def __init__(self) -> None:
        self._channels: PerLoop[dict[ChannelKey, Any]] = PerLoop(asyncio.get_running_loop)

    async def open(self, request: GrpcRequest) -> AsyncGrpcResponse:
        """Send the request; return the response as soon as its first message has arrived.

        Raises:
            TransportFailure: no response was received.
        """
        self._check_open()
        rpc = request.rpc
        assert rpc is not None, "requests of a gRPC channel have a method"  # noqa: S101
        metadata = metadata_of(request)
        limits = request.timeouts
        channel = await self._connected(request, None if limits is None else limits.connect)
        timeout = None if limits is None else limits.read
        make = channel.unary_stream if rpc.streams else channel.unary_unary
        call = make(rpc.path)(
            request.content, metadata=metadata, timeout=None if rpc.streams else timeout
        )
        try:
            if not rpc.streams:
                body = bytes(await call)
                return AsyncGrpcResponse(unary_head(body), body)
            first = await read_message(call, timeout)
        except grpc.aio.AioRpcError as error:
            return AsyncGrpcResponse(*self._answer_to(error))
        except asyncio.CancelledError:
            call.cancel()
            raise
        chunk = b"" if first is None else message_event(first)
        stream = None if first is None else call
        return AsyncGrpcResponse(STREAM_HEAD, chunk, stream, timeout, self._check_open)

    async def aclose(self) -> None:
        """Close the channels of this event loop; may be called repeatedly."""
        self._closed = True
        if _on_asyncio():
            await self._channels.aclose()

    async def _connected(self, request: GrpcRequest, timeout: float | None) -> Any:
        """Return a channel that is connected."""
        if not _on_asyncio():
            raise TransportFailure(
                FailureKind.CONNECT, "gRPC needs asyncio, and this event loop is another one"
            )
        FORK_SUPPORT.check(is_async=True)
        key = channel_key(request)
        channels = await self._on_this_loop()
        channel: Any = channels.get(key)
        if channel is None:
            channel = channels[key] = new_channel(grpc.aio, key)
        try:
            async with asyncio.timeout(timeout):
                await _connect(channel, key)
        except (TimeoutError, TransportFailure) as error:
            # A new channel connects at once; this one would wait for its back-off.
            if channels.get(key) is channel:
                del channels[key]
            await channel.close()
            if isinstance(error, TransportFailure):
                raise
            raise connect_timeout(key, timeout) from None
        return channel

    async def _on_this_loop(self) -> dict[ChannelKey, Any]:
        channels = self._channels.get()
        if channels is None:
            channels = {}
            await self._channels.open(channels, lambda: _close_all(channels))
        return channels


async def _connect(channel: Any, key: ChannelKey) -> None:
    while (state := channel.get_state(try_to_connect=True)) is not _READY:
        if state in _FAILED:
            raise connect_failure(key, "the server cannot be reached")
        await channel.wait_for_state_change(state)


async def _close_all(channels: dict[ChannelKey, Any]) -> None:
    while channels:
        _, channel = channels.popitem()
        with suppress(grpc.aio.AioRpcError):
            await channel.close()


def _on_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
