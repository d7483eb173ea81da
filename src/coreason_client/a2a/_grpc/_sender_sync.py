"""The sync sender over gRPC: `grpc` channels, which threads share.

It has the methods of the sender over HTTP (`_http._sync`), so the same shells use it. Written by
hand, because the sync API of gRPC has no timeout for the next message of a stream.
"""

import math
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from typing import Any

import grpc  # type: ignore[import-untyped]

from ... import _ownership
from ..._http._types import FailureKind, ResponseHead, TransportFailure
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
from ._internals import READY, UNREACHABLE, connecting_state, wait_for_change

_LONGEST_WAIT = 0.2


class _Messages:
    """The messages of a stream, each within a time limit.

    One timer thread for each stream cancels the call if the limit passes; it is restarted only
    when it wakes up too early, not for each message.
    """

    def __init__(self, call: Any, timeout: float | None) -> None:
        self._call = call
        self._timeout = timeout
        self._deadline: float | None = None  # None while nobody waits for a message
        self._timed_out = False
        self._over = threading.Event()
        if timeout is not None:
            threading.Thread(target=self._watch, name="coreason-grpc", daemon=True).start()

    def next(self) -> bytes | None:
        """Return the next message, None at the end.

        Raises:
            TransportFailure: there was none in time.
            grpc.RpcError: the call ended with an error.
        """
        self._deadline = None if self._timeout is None else time.monotonic() + self._timeout
        try:
            return bytes(next(self._call))
        except StopIteration:
            self._over.set()
            return None
        except grpc.RpcError:
            self._over.set()
            if self._timed_out:
                message = f"no message for {self._timeout} s"
                raise TransportFailure(FailureKind.TIMEOUT, message) from None
            raise
        finally:
            self._deadline = None

    def cancel(self) -> None:
        """Cancel the call if it is not over."""
        self._over.set()
        self._call.cancel()

    def _watch(self) -> None:
        delay = self._timeout
        while not self._over.wait(delay):
            deadline = self._deadline
            delay = self._timeout if deadline is None else deadline - time.monotonic()
            if delay is not None and delay <= 0:
                self._timed_out = True
                self._call.cancel()
                return


class SyncGrpcResponse(GrpcResponseBase):
    """A response whose messages have not all been read yet; call `close` in every case."""

    def __init__(
        self,
        head: ResponseHead,
        body: bytes,
        messages: _Messages | None = None,
        check_open: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(head, body, check_open)
        self._messages = messages  # of a stream

    def chunks(self) -> Generator[bytes]:
        """Iterate over the body as it arrives.

        Raises:
            TransportFailure: the connection broke, or no message arrived in time.
        """
        if self._body:
            yield self._body
        while self._messages is not None:
            self._process.check()
            try:
                message = self._messages.next()
            except grpc.RpcError as error:
                last, failure = self._end(error)
                yield last
                if failure is not None:
                    raise failure from error
                return
            if message is None:
                return
            yield message_event(message)

    def collect(self, add: Callable[[bytes], None]) -> None:
        """Pass each piece of the body to a function."""
        with closing(self.chunks()) as chunks:
            for chunk in chunks:
                add(chunk)

    def read(self, limit: int) -> bytes:
        """Return the body of an error response, up to a limit."""
        return self._body[:limit]

    def close(self) -> None:
        """Cancel the call if it is not over; may be called repeatedly."""
        if self._messages is not None and self._process.is_current:
            self._messages.cancel()


class GrpcSender(GrpcSenderBase):
    """Sends requests; safe to use from many threads. A forked child starts with no connections."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: dict[ChannelKey, _Connection] = {}
        _ownership.register(self)

    def open(self, request: GrpcRequest) -> SyncGrpcResponse:
        """Send the request; return the response as soon as its first message has arrived.

        Raises:
            TransportFailure: no response was received.
        """
        rpc = request.rpc
        assert rpc is not None, "requests of a gRPC channel have a method"  # noqa: S101
        metadata = metadata_of(request)
        limits = request.timeouts
        channel = self._connected(request, None if limits is None else limits.connect)
        timeout = None if limits is None else limits.read
        try:
            if not rpc.streams:
                call = channel.unary_unary(rpc.path)
                body = bytes(call(request.content, timeout=timeout, metadata=metadata))
                return SyncGrpcResponse(unary_head(body), body)
            call = channel.unary_stream(rpc.path)(request.content, metadata=metadata)
            messages = _Messages(call, timeout)
            try:
                first = messages.next()
            except BaseException:
                messages.cancel()
                raise
        except grpc.RpcError as error:
            return SyncGrpcResponse(*self._answer_to(error))
        except ValueError as error:
            self._check_open()
            raise connect_failure(channel_key(request), "the channel was closed") from error
        chunk = b"" if first is None else message_event(first)
        stream = None if first is None else messages
        return SyncGrpcResponse(STREAM_HEAD, chunk, stream, self._check_open)

    def close(self) -> None:
        """Close the channels; may be called repeatedly."""
        with self._lock:
            self._closed = True
            connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.channel.close()

    def after_fork(self) -> None:
        """Drop the channels of the parent process, and locks that its threads may hold."""
        _ownership.never_finalize(self._connections)
        self._lock = threading.Lock()
        self._connections = {}

    def _connected(self, request: GrpcRequest, timeout: float | None) -> Any:
        """Return a channel that is connected."""
        FORK_SUPPORT.check(is_async=False)
        key = channel_key(request)
        with self._lock:
            self._check_open()
            connection = self._connections.get(key)
            if connection is None:
                connection = self._connections[key] = _Connection(key)
        try:
            connection.connect(timeout)
        except TransportFailure:
            self._check_open()
            # A new channel connects at once; this one would wait for its back-off.
            with self._lock:
                if self._connections.get(key) is connection:
                    del self._connections[key]
            connection.channel.close()
            raise
        return connection.channel


class _Connection:
    """A channel, and the lock of the thread that waits until it is connected."""

    def __init__(self, key: ChannelKey) -> None:
        self._key = key
        self._lock = threading.Lock()
        self.channel = new_channel(grpc, key)

    def connect(self, timeout: float | None) -> None:
        """Wait until the channel is connected.

        Raises:
            TransportFailure: it cannot connect, not in time, or another thread has closed it.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while (state := self._state()) != READY:
            if state in UNREACHABLE:
                raise connect_failure(self._key, "the server cannot be reached")
            left = deadline - time.monotonic()
            if left <= 0:
                raise connect_timeout(self._key, timeout)
            with self._lock, suppress(ValueError):  # a short wait, so that others get their turn
                if self._state() == state:
                    wait_for_change(self.channel, state, min(left, _LONGEST_WAIT))

    def _state(self) -> int:
        try:
            return connecting_state(self.channel)
        except ValueError:
            raise connect_failure(self._key, "the channel was closed") from None
