"""The errors of the CAP clients. They have fields, so programs need not parse messages.

::

    CAPError
    ├── CAPConnectionError
    ├── CAPProtocolError
    │   └── CAPStreamReset
    ├── CAPRuntimeError
    └── CAPTimeoutError
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from ..errors import CoreasonError

if TYPE_CHECKING:
    from coreason_manifest.definitions.presentation import StreamError

    from .position import Position

__all__ = [
    "CAPConnectionError",
    "CAPError",
    "CAPProtocolError",
    "CAPRuntimeError",
    "CAPStreamReset",
    "CAPTimeoutError",
]


class CAPError(CoreasonError):
    """The base class of all errors of the CAP clients.

    Attributes:
        position: the position after the last packet, for `resume`; None before the first packet.
        attempts: the number of connections in a row that failed; 0 if the error has another reason.
        method: the HTTP method of the last request.
        url: its URL, without user, password and query.
        proxy: the proxy through which it went, without user and password.
        status_code: the HTTP status of the last response, if there was one.
        headers: its headers; names are case-insensitive.
        body: its body, up to a limit.
        retry_after: the seconds that the server asked to wait.
        stream_error: the error that the server sent in the stream.
    """

    def __init__(
        self,
        message: str,
        *,
        position: "Position | None" = None,
        attempts: int = 0,
        method: str | None = None,
        url: str | None = None,
        proxy: str | None = None,
        status_code: int | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        retry_after: float | None = None,
        stream_error: "StreamError | None" = None,
    ) -> None:
        super().__init__(message)
        self.position = position
        self.attempts = attempts
        self.method = method
        self.url = url
        self.proxy = proxy
        self.status_code = status_code
        self.headers = headers
        self.body = body
        self.retry_after = retry_after
        self.stream_error = stream_error


class CAPConnectionError(CAPError):
    """Connecting failed, or connections kept breaking, until the retry budget was exhausted."""


class CAPProtocolError(CAPError):
    """The server violated the wire protocol."""


class CAPStreamReset(CAPProtocolError):
    """The server sent another answer than the one being read; two answers are never joined.

    Either it is another stream, after a reconnect; or the same stream, which another run of the
    agent has written anew: the store of the server has lost packets, or the server rewinds the
    stream of a chat that cannot take text back (`rewinds=False`).

    Attributes:
        expected: the stream that was being read.
        received: the stream that the server sent instead; the same one if it was written anew.
    """

    def __init__(
        self, expected: UUID, received: UUID, *, position: "Position | None" = None
    ) -> None:
        why = (
            f"after a reconnect the server sent stream {received} instead of {expected}: the text"
            " so far belongs to another answer; send the message again with a new request_id"
        )
        if expected == received:
            why = (
                f"the answer of stream {expected} was written anew: the text so far belongs to"
                " another run; read the stream again from its start, as rewinds=True does, or send"
                " the message again with a new request_id"
            )
        super().__init__(why, position=position)
        self.expected = expected
        self.received = received

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.expected, self.received), self.__dict__


class CAPRuntimeError(CAPError):
    """The server rejected the request, or ended the stream with a fatal error."""


class CAPTimeoutError(CAPError, TimeoutError):
    """The answer was not complete within `deadline` seconds; also a built-in `TimeoutError`."""
