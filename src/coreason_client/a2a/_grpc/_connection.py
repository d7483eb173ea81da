"""Shared by the sync and the async sender: channels, arguments of calls, and the ends of calls.

The sync API works in a forked child, with new channels, unless `GRPC_ENABLE_FORK_SUPPORT` turns
that off. After the async API was used, neither works in a forked child: a call would wait forever.
A call that is refused for this reason was not sent, so the next interface of the card is used.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]

from ... import _ownership
from ..._http._types import FailureKind, ResponseHead, TransportFailure
from ..._version import __version__
from ._address import target_of
from ._channel import (
    GrpcRequest,
    answer_in,
    delay_field,
    error_event,
    query_failure,
    status_from,
    stream_failure,
)
from ._messages import metadata_from_headers
from ._status import GrpcStatus

_OFF = ("0", "false", "no")


class ForkSupport:
    """Records the processes in which each API was first used."""

    def __init__(self) -> None:
        self._users: dict[bool, _ownership.OwnerProcess] = {}  # by whether the API is async

    def check(self, *, is_async: bool) -> None:
        """Record a use of one of the APIs in this process.

        Raises:
            TransportFailure: it does not work, because this process is a forked child.
        """
        for used_async in self._users:
            if not self._users[used_async].is_current and not self._works(used_async, is_async):
                raise TransportFailure(
                    FailureKind.CONNECT,
                    "gRPC was used before this process was forked, and does not work in it;"
                    " use the start method 'spawn', or connect only after the fork",
                )
        self._users.setdefault(is_async, _ownership.OwnerProcess())

    def _works(self, used_async: bool, is_async: bool) -> bool:
        is_off = os.environ.get("GRPC_ENABLE_FORK_SUPPORT", "").lower() in _OFF
        return not (used_async or is_async or is_off)


ChannelKey = tuple[str, bool, int]
"""The properties that calls on one channel share: target, TLS, and the largest message."""

FORK_SUPPORT = ForkSupport()
"""Shared by all senders of the process, because gRPC itself has one state per process."""


def channel_key(request: GrpcRequest) -> ChannelKey:
    """Return the key of the channel for a request."""
    return (*target_of(request.url), request.max_message_bytes)


def channel_options(key: ChannelKey) -> list[tuple[str, Any]]:
    """Return the options of a channel.

    There are no keep-alive pings: many servers close a connection that sends them, and
    `stream_timeout` ends a stream whose connection is dead.
    """
    return [
        ("grpc.max_receive_message_length", key[2]),
        ("grpc.max_send_message_length", -1),
        ("grpc.primary_user_agent", f"coreason-client/{__version__}"),
        # A new channel must connect at once, not when another channel's back-off is over.
        ("grpc.use_local_subchannel_pool", 1),
        # The client has its own retries, which know what may be repeated.
        ("grpc.enable_retries", 0),
    ]


def credentials_for(key: ChannelKey) -> Any:
    """Return the TLS credentials of a channel; None if it is plain.

    The certificates are verified with `SSL_CERT_FILE` if it is set, as HTTP clients do, else with
    the roots that gRPC has.

    Raises:
        TransportFailure: the file cannot be read.
    """
    if not key[1]:
        return None
    roots = os.environ.get("SSL_CERT_FILE")
    try:
        return grpc.ssl_channel_credentials(Path(roots).read_bytes() if roots else None)
    except OSError as error:
        message = f"the file in SSL_CERT_FILE cannot be read: {error}"
        raise TransportFailure(FailureKind.REQUEST, message) from error


def metadata_of(request: GrpcRequest) -> tuple[tuple[str, str], ...]:
    """Return the metadata of a request.

    Raises:
        TransportFailure: gRPC cannot send what the request contains.
    """
    if "?" in request.url:
        raise query_failure()
    try:
        return metadata_from_headers(request.headers)
    except ValueError as error:
        raise TransportFailure(FailureKind.REQUEST, str(error)) from None


def status_of(error: Any) -> GrpcStatus:
    """Return the status of an exception of gRPC."""
    return status_from(error.code().name, error.details(), error.trailing_metadata())


def connect_failure(key: ChannelKey, reason: str) -> TransportFailure:
    """Return the failure for a channel that did not connect."""
    return TransportFailure(FailureKind.CONNECT, f"no connection to {key[0]}: {reason}")


def connect_timeout(key: ChannelKey, seconds: float | None) -> TransportFailure:
    """Return the failure for a channel that did not connect in time."""
    return TransportFailure(
        FailureKind.CONNECT_TIMEOUT, f"no connection to {key[0]} within {seconds} s"
    )


def new_channel(api: Any, key: ChannelKey) -> Any:
    """Return a new channel; `api` is `grpc` or `grpc.aio`."""
    credentials, options = credentials_for(key), channel_options(key)
    if credentials is None:
        return api.insecure_channel(key[0], options)
    return api.secure_channel(key[0], credentials, options)


class GrpcResponseBase:
    """The base of the sync and the async response."""

    def __init__(self, head: ResponseHead, body: bytes, check_open: Callable[[], None]) -> None:
        self.head = head
        self._body = body
        self._check_open = check_open
        self._process = _ownership.OwnerProcess()

    def _end(self, error: Any) -> tuple[bytes, TransportFailure | None]:
        """Return the last bytes of a stream that an error has ended, and the failure after them."""
        self._check_open()
        status = status_of(error)
        failure = stream_failure(status)
        return error_event(status) if failure is None else delay_field(status), failure


class GrpcSenderBase:
    """The base of the sync and the async sender."""

    _closed = False

    def _check_open(self) -> None:
        if self._closed:
            raise TransportFailure(FailureKind.CLOSED, "the client was closed")

    def _answer_to(self, error: Any) -> tuple[ResponseHead, bytes]:
        """Return the head and the body for an error before the first message.

        Raises:
            TransportFailure: there was no answer.
        """
        self._check_open()
        try:
            return answer_in(status_of(error))
        except TransportFailure as failure:
            raise failure from error
