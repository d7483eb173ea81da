"""The requests and responses of both CAP clients: their rules, without I/O."""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

from pydantic import ValidationError
from pydantic_core import to_json

from coreason_manifest.definitions._base import explain
from coreason_manifest.definitions.message import ChatMessage
from coreason_manifest.definitions.request import AgentRequest
from coreason_manifest.definitions.service import HealthCheckResponse, ServiceRequest
from coreason_manifest.definitions.session import SessionContext

from .._context import caller_headers, trace_headers
from .._drive import Flow, Reply, Wait
from .._http._checks import check_headers, check_key, check_url, merged_headers, shown, wrong_url
from .._http._redirect import follow_redirects
from .._http._types import (
    FINAL_FAILURES,
    Request,
    TimeoutArgument,
    Timeouts,
    TransportFailure,
    timeouts_from,
)
from .._retry import Backoff, retry_after
from .._secret import Credential, CredentialLike, redacted_cause
from .._version import __version__
from ..errors import ArgumentError
from ._resume import ResumeMachine
from ._stream_state import describe_request, describe_response
from .answer import WITH_REWINDS
from .errors import CAPConnectionError, CAPProtocolError, CAPRuntimeError
from .position import Bookmark, Position

SyncApiKey = str | Callable[[], str]
ApiKey = CredentialLike


class ApiKeyCredential(Credential):
    """The API key of a client; a callable is called for every request.

    Raises:
        TypeError: it is neither a string nor a callable.
        ValueError: it is a string that cannot be sent.
    """

    def __init__(self, api_key: ApiKey) -> None:
        super().__init__(api_key, "api_key", check=check_key, async_client="AsyncCAPClient")

    def authorization(self) -> str:
        """Return the header's value for a sync client."""
        return f"Bearer {self.get(refresh=True)}"

    async def authorization_async(self) -> str:
        """Return the header's value for an async client."""
        return f"Bearer {await self.get_async(refresh=True)}"


_OF_STREAMS = {
    "Accept": "text/event-stream",
    "Cache-Control": "no-cache",
    "Content-Type": "application/json",
}


@dataclass(frozen=True)
class Endpoint:
    """The address of an agent service and the settings for it; checked when it is created.

    Raises:
        ArgumentError: a setting is not valid.
    """

    base_url: str
    credential: ApiKeyCredential = field(repr=False)
    timeouts: Timeouts
    max_retries: int
    reconnect_for: float
    deadline: float | None
    max_retry_delay: float
    user_id: str
    headers: Mapping[str, str] = field(repr=False)
    strict_sequence: bool
    max_event_bytes: int
    proxy_for: Callable[[str], str | None]
    """Returns the proxy of the HTTP client for a URL."""

    def __post_init__(self) -> None:
        _check_base_url(self.base_url)
        if isinstance(self.max_retries, bool) or not isinstance(self.max_retries, int):
            raise TypeError(f"max_retries must be a whole number, got {self.max_retries!r}")
        if self.max_retries < 0:
            raise ArgumentError("max_retries", "must be 0 or more", self.max_retries)
        if not self.reconnect_for >= 0:
            raise ArgumentError("reconnect_for", "must be 0 or more", self.reconnect_for)
        _check_deadline(self.deadline)
        if not self.max_retry_delay >= 0:
            raise ArgumentError("max_retry_delay", "must be 0 or more", self.max_retry_delay)
        if self.max_event_bytes < 1:
            raise ArgumentError("max_event_bytes", "must be at least 1", self.max_event_bytes)
        if not self.user_id:
            raise ArgumentError("user_id", "must not be empty; leave it out, or pass an id")
        check_headers(self.headers)

    # Streams

    def assist(
        self,
        request: ServiceRequest,
        headers: Mapping[str, str] | None,
        timeout: TimeoutArgument,
        deadline: float | None,
        bookmark: Bookmark | None = None,
        *,
        rewinds: bool = False,
    ) -> ResumeMachine:
        """Return the machine that reads the answer to a request, from its start or a bookmark.

        With `rewinds` it reads the stream again if the server has lost packets.
        """
        _check_deadline(deadline)
        if not isinstance(request, ServiceRequest):
            raise TypeError(f"request must be a ServiceRequest, got {type(request).__name__}")
        fixed = self._headers({**_OF_STREAMS, "X-Request-ID": str(request.request_id)}, headers)
        content = request.to_json().encode()  # once, so that every attempt sends the same bytes
        timeouts = self._timeouts(timeout)

        def attempt(cursor: str | None) -> Request:
            sent = fixed if cursor is None else {**fixed, "Last-Event-ID": cursor}
            return Request("POST", f"{self.base_url}/assist", sent, content, timeouts)

        return self._machine(
            attempt,
            fixed,
            self.deadline if deadline is None else deadline,
            position=None if bookmark is None else bookmark.position,
            complete=bookmark is not None and bookmark.complete,
            error=None if bookmark is None else bookmark.error,
            rewinds=rewinds,
        )

    def follow(
        self,
        conversation_id: str | UUID,
        after: Position | None,
        headers: Mapping[str, str] | None,
        timeout: TimeoutArgument,
    ) -> ResumeMachine:
        """Return the machine that reads the answer after a position in a conversation."""
        fixed = self._headers({"Accept": "text/event-stream", "Cache-Control": "no-cache"}, headers)
        url = f"{self.base_url}/conversations/{quote(str(conversation_id))}/events"
        begin = "" if after is None else after.cursor or f"{after.stream_id}:{after.seq}"
        timeouts = self._timeouts(timeout)

        def attempt(cursor: str | None) -> Request:
            sent = fixed if cursor is None else {**fixed, "Last-Event-ID": cursor}
            return Request("GET", url, sent, b"", timeouts)

        return self._machine(attempt, fixed, after=begin)

    def _machine(
        self,
        attempt: Callable[[str | None], Request],
        headers: Mapping[str, str],
        deadline: float | None = None,
        **options: Any,
    ) -> ResumeMachine:
        return ResumeMachine(
            attempt,
            max_retries=self.max_retries,
            reconnect_for=self.reconnect_for,
            deadline=deadline,
            backoff=self._backoff,
            strict_sequence=self.strict_sequence,
            max_event_bytes=self.max_event_bytes,
            redact=lambda text: self.credential.redact(text, headers),
            proxy_for=self.proxy_for,
            **options,
        )

    def bookmark(self, request: ServiceRequest | Bookmark, position: Position | None) -> Bookmark:
        """Return the bookmark that `resume` was given, or build one from its two parts.

        Raises:
            TypeError: it is neither a bookmark nor a request with a position.
        """
        if isinstance(request, Bookmark):
            if position is not None:
                raise TypeError("a bookmark contains its position; do not pass another one")
            return request
        if position is None:
            raise TypeError("resume takes a bookmark, or a request and a position")
        return Bookmark(request=request, position=position)

    def chat_request(
        self, message: str, conversation_id: str | UUID | None, *, rewinds: bool = False
    ) -> ServiceRequest:
        """Return the request for a user's message; without a conversation_id a new one begins.

        With `rewinds` it says that the client understands REWIND events.

        Raises:
            TypeError: the message is not a string.
            ArgumentError: the conversation_id is empty.
        """
        if not isinstance(message, str):
            raise TypeError(f"message must be a string, got {type(message).__name__}")
        session_id = str(uuid4() if conversation_id is None else conversation_id)
        if not session_id:
            raise ArgumentError(
                "conversation_id", "must not be empty; leave it out to begin a conversation"
            )
        return ServiceRequest(
            context=SessionContext(session_id=session_id, user_id=self.user_id),
            payload=AgentRequest(
                messages=[ChatMessage.user(message)],
                session_id=session_id,
                capabilities=WITH_REWINDS if rewinds else None,
            ),
        )

    # Unary calls

    def health(
        self, headers: Mapping[str, str] | None, timeout: TimeoutArgument
    ) -> Flow[HealthCheckResponse]:
        """Fetch the health report once; an unhealthy agent may send it with any status."""
        request = self._unary("GET", "/health", headers, timeout)
        reply = yield from self._exchange(request, attempts=1)
        try:
            return HealthCheckResponse.model_validate_json(reply.body)
        except ValidationError as error:
            why = explain(error)
        if reply.head.status == 200:
            why = self.credential.redact(why, request.headers)
            message = f"the response to GET /health is not a health report: {why}"
            raise CAPProtocolError(message, status_code=200, body=reply.body)
        raise self._rejection_error(request, reply)

    def cancel(
        self, stream_id: UUID | str, headers: Mapping[str, str] | None, timeout: TimeoutArgument
    ) -> Flow[None]:
        """Tell the agent to stop; retried if there is no response, because it is idempotent."""
        path = f"/streams/{quote(str(stream_id), safe='')}"
        request = self._unary("DELETE", path, headers, timeout)
        reply = yield from self._exchange(request, attempts=self.max_retries + 1)
        if not 200 <= reply.head.status < 300:
            raise self._rejection_error(request, reply)

    def send(
        self,
        stream_id: UUID | str,
        text: str,
        message_id: str | None,
        headers: Mapping[str, str] | None,
        timeout: TimeoutArgument,
    ) -> Flow[None]:
        """Send a message to a running agent; retried, because its id makes it idempotent."""
        if not isinstance(text, str):
            raise TypeError(f"text must be a string, got {type(text).__name__}")
        path = f"/streams/{quote(str(stream_id), safe='')}/messages"
        content = to_json({"id": str(message_id or uuid4()), "text": text})
        request = self._unary("POST", path, headers, timeout, content)
        reply = yield from self._exchange(request, attempts=self.max_retries + 1)
        if not 200 <= reply.head.status < 300:
            raise self._rejection_error(request, reply)

    def _exchange(self, request: Request, attempts: int) -> Flow[Reply]:
        """Send the request until there is a response, with the common back-off between attempts."""
        failures = 0
        while True:
            result = yield from follow_redirects(request)
            if isinstance(result, Reply):
                return result
            failures += 1
            if failures >= attempts or result.kind in FINAL_FAILURES:
                raise self._no_response_error(request, result, failures)
            yield Wait(self._backoff.delay(failures, random.random))

    def _no_response_error(
        self, request: Request, failure: TransportFailure, attempts: int
    ) -> CAPConnectionError:
        def redacted(text: str) -> str:
            return self.credential.redact(text, request.headers)

        proxy = self.proxy_for(request.url)
        error = CAPConnectionError(
            redacted(f"no answer to {describe_request(request, proxy)}: {failure}"),
            attempts=attempts,
            method=request.method,
            url=shown(request.url),
            proxy=proxy,
        )
        error.__cause__ = redacted_cause(failure.__cause__ or failure, redacted)
        return error

    def _rejection_error(self, request: Request, reply: Reply) -> CAPRuntimeError:
        message = describe_response(request, reply.head, reply.body)
        return CAPRuntimeError(
            self.credential.redact(message, request.headers),
            status_code=reply.head.status,
            headers=reply.head.headers,
            body=reply.body,
            retry_after=retry_after(reply.head.headers, time.time),
        )

    def _unary(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None,
        timeout: TimeoutArgument,
        content: bytes = b"",
    ) -> Request:
        kind = {"Content-Type": "application/json"} if content else {}
        sent = self._headers({"Accept": "application/json", **kind}, headers)
        return Request(method, self.base_url + path, sent, content, self._timeouts(timeout))

    # Settings of one call

    @property
    def _backoff(self) -> Backoff:
        return Backoff(max_server_delay=self.max_retry_delay)

    def _timeouts(self, timeout: TimeoutArgument) -> Timeouts:
        return self.timeouts if timeout is None else timeouts_from(timeout)

    def _headers(
        self, protocol_headers: Mapping[str, str], extra: Mapping[str, str] | None
    ) -> Mapping[str, str]:
        """Return all headers; the caller cannot replace those of the protocol."""
        extra = extra or {}
        check_headers(extra)
        agent = {"User-Agent": f"coreason-client/{__version__}"}
        trace = trace_headers(self.headers, extra)
        return merged_headers(
            agent, trace, self.headers, extra, {**caller_headers(), **protocol_headers}
        )


def base_url_of(base_url: str) -> str:
    """Return a base URL without a final slash and without a final `/assist`.

    Raises:
        TypeError: it is not a string.
    """
    if not isinstance(base_url, str):
        raise TypeError(f"base_url must be a string, got {type(base_url).__name__}")
    return base_url.rstrip("/").removesuffix("/assist").rstrip("/")


def _check_deadline(deadline: float | None) -> None:
    if deadline is not None and not deadline > 0:  # also true for NaN
        raise ArgumentError("deadline", "must be greater than 0", deadline)


def _check_base_url(base_url: str) -> None:
    parts = check_url(base_url, "base_url", credentials_go_into="api_key")
    if parts.query or parts.fragment:
        raise wrong_url("base_url", "must not have a query or a fragment", base_url)


DEFAULT_RECONNECT_FOR = 30.0


class _Default(int):
    """Marks the default value, because a 3 that the caller passes means exactly 3 reconnections."""


DEFAULT_MAX_RETRIES = _Default(3)


def reconnect_seconds(max_retries: int, reconnect_for: float | None) -> float:
    """Return for how many seconds a stream that has begun keeps reconnecting.

    The result is 0 if the caller passes `max_retries` and no `reconnect_for`: then only the number
    of reconnections counts.
    """
    if reconnect_for is not None:
        return reconnect_for
    return DEFAULT_RECONNECT_FOR if isinstance(max_retries, _Default) else 0.0
