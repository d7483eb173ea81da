"""The errors of one stream, filled with what is known about it. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from coreason_manifest.definitions.presentation import StreamError

from .._connections import Connections
from .._http._checks import shown
from .._http._types import ResponseHead, TransportFailure
from ._numbering import Numbering
from ._words import describe, where
from .errors import CAPConnectionError, CAPError, CAPRuntimeError, CAPTimeoutError

__all__ = ["NO_EVIDENCE", "Evidence", "StreamErrors"]

_Error = TypeVar("_Error", bound=CAPError)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a refusal or a loss left behind, for the fields of an error."""

    server_delay: float | None = None
    failure: TransportFailure | None = None
    head: ResponseHead | None = None
    body: bytes | None = None
    stream_error: StreamError | None = None

    @property
    def cause(self) -> BaseException | None:
        """The exception that the error is raised from."""
        return self.failure and (self.failure.__cause__ or self.failure)


NO_EVIDENCE = Evidence()


class StreamErrors:
    """Makes errors that say how far the stream was read and which request failed.

    `redact` removes our secrets from a text, and `proxy_for` returns the proxy for a URL.
    """

    __slots__ = ("_connections", "_numbering", "_proxy_for", "redact")

    def __init__(
        self,
        connections: Connections,
        numbering: Numbering,
        redact: Callable[[str], str],
        proxy_for: Callable[[str], str | None],
    ) -> None:
        self._connections = connections
        self._numbering = numbering
        self._proxy_for = proxy_for
        self.redact = redact

    def make(self, kind: type[_Error], message: str, evidence: Evidence = NO_EVIDENCE) -> _Error:
        """Return an error with all its fields."""
        position, request = self._numbering.position, self._connections.request
        head = evidence.head
        message = self.redact(message)
        return kind(
            message if position is None else f"{message} (read up to {position})",
            position=position,
            attempts=self._connections.budget.failures,
            method=None if request is None else request.method,
            url=None if request is None else shown(request.url),
            proxy=None if request is None else self._proxy_for(request.url),
            status_code=None if head is None else head.status,
            headers=None if head is None else head.headers,
            body=evidence.body,
            retry_after=evidence.server_delay,
            stream_error=evidence.stream_error,
        )

    def exhausted(self, why: str, evidence: Evidence) -> CAPConnectionError:
        """Return the error for a retry budget that is spent."""
        budget = self._connections.budget
        asked, longest = evidence.server_delay, budget.max_server_delay
        if asked is not None and asked > longest:
            reason = f"the server asks to wait {asked:g} s, more than max_retry_delay={longest:g}"
        elif budget.failures == 1:
            reason = "the connection brought no new packet"
        else:
            reason = f"{budget.failures} connections in a row brought no new packet"
        message = f"{self.where()} failed: {reason}; the last one: {why}"
        return self.make(CAPConnectionError, message, evidence)

    def expired(self, why: str, evidence: Evidence = NO_EVIDENCE) -> CAPTimeoutError:
        """Return the error for a deadline that has passed."""
        deadline = self._connections.deadline
        message = f"{self.where()} passed its deadline of {deadline:g} s: {why}"
        return self.make(CAPTimeoutError, message, evidence)

    def unusable_redirect(
        self, head: ResponseHead, body: bytes, why: ValueError
    ) -> CAPRuntimeError:
        """Return the error for a redirect that cannot be followed."""
        message = f"{self.describe(head, body)}, a redirect that is not followed: {why}"
        return self.make(CAPRuntimeError, message, Evidence(head=head, body=body))

    def where(self) -> str:
        """Return the last request in words: method, URL and proxy."""
        request = self._connections.request
        return "the request" if request is None else where(request, self._proxy_for(request.url))

    def describe(self, head: ResponseHead, body: bytes) -> str:
        """Return a response that does not carry the stream in words, without secrets."""
        request = self._connections.request
        assert request is not None  # noqa: S101 - a response follows a request
        return self.redact(describe(request, head, body))
