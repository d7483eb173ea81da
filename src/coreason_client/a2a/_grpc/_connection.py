"""Shared by the sync and the async sender: options of channels, arguments of calls."""

import os
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]

from ..._http._types import FailureKind, TransportFailure
from ..._version import __version__
from ._address import target_of
from ._exchange import GrpcRequest, query_failure, status_from
from ._fork_support import ForkSupport
from ._metadata import metadata_from_headers
from ._status import GrpcStatus

__all__ = [
    "FORK_SUPPORT",
    "ChannelKey",
    "channel_key",
    "channel_options",
    "connect_failure",
    "connect_timeout",
    "credentials_for",
    "metadata_of",
    "status_of",
]

ChannelKey = tuple[str, bool, int]
"""What calls that share a channel have in common: target, TLS, and the largest message."""

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
        # The client has retries of its own, which know what may be repeated.
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
