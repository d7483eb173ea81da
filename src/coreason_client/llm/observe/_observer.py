"""`ReportingObserver`: reports the attempts of one call to hooks and to telemetry. No I/O.

The retry rules (`_attempts.py`) tell it of every attempt; the client enters it at the beginning of
a call and leaves it at the end. A call without hooks and without telemetry has a `CallObserver`,
which does nothing.

* `on_request` is called before each request. An exception that it raises ends the call: nothing is
  sent, and there is neither a retry nor a fallback.
* `on_response` is called exactly once for each request that was sent. An exception that it raises
  is logged, because the answer must not be lost.
* A failure of the telemetry is logged as well.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from ..._http._checks import merged_headers, shown
from ..._http._types import Request, ResponseHead
from ..._secret import header_secrets, redact
from ...sse import ServerSentEvent
from .._answer import add_usages
from .._attempts import CallObserver
from .._route import ModelRoute
from ..errors import LLMError
from ..types import Usage
from ._attributes import Identity, read_identity
from ._instruments import report
from ._spans import CallEnding, CallTelemetry
from .hooks import RequestHook, RequestInfo, ResponseHook, ResponseInfo

logger = logging.getLogger("coreason_client.llm")

_IDENTITY_EVENTS = 3  # events of a stream in which its id and model are looked for

_MASK = "***"
_COOKIES = "set-cookie"


class ObservedAttempt:
    """One request and what was received for it, as hooks get them: without secrets.

    Attributes:
        number: the number of the attempt in its call, from 1.
        started: the time of the request.
        head: status and headers of the response, None until they are received.
        body: the complete body of the response; None for a stream.
        chunks: the number of events of a stream so far.
        last_chunk: the time of the last one.
    """

    __slots__ = (
        "_plan",
        "_request",
        "_stream",
        "body",
        "chunks",
        "head",
        "last_chunk",
        "number",
        "started",
    )

    def __init__(
        self, plan: Any, number: int, request: Request, started: float, *, stream: bool
    ) -> None:
        self._plan = plan
        self.number = number
        self._request = request
        self.started = started
        self._stream = stream
        self.head: ResponseHead | None = None
        self.body: bytes | None = None
        self.last_chunk: float | None = None
        self.chunks = 0

    def request_info(self) -> RequestInfo:
        """Return the request as hooks get it."""
        route: ModelRoute = self._plan.route
        return RequestInfo(
            provider=route.profile.name,
            model=route.model,
            url=self._url(),
            attempt=self.number,
            stream=self._stream,
            headers=_visible(self._request.headers, self._secrets()),
            body=_redacted(self._request.content, self._secrets()),
        )

    def response_info(
        self, now: float, usage: Usage | None, error: BaseException | None
    ) -> ResponseInfo:
        """Return the outcome of the attempt as hooks get it."""
        route, head = self._plan.route, self.head
        return ResponseInfo(
            provider=route.profile.name,
            model=route.model,
            url=self._url(),
            attempt=self.number,
            stream=self._stream,
            status=None if head is None else head.status,
            headers={} if head is None else _visible(head.headers, self._secrets()),
            body=None if self.body is None else _redacted(self.body, self._secrets()),
            seconds=now - self.started,
            usage=None if usage is None else usage.copy(),
            error=error,
        )

    def _url(self) -> str:
        return redact(shown(self._request.url), self._secrets())

    def _secrets(self) -> list[str]:
        return [*self._plan.route.secrets(), *header_secrets(self._request.headers)]


class ReportingObserver(CallObserver):
    """Watches one call; `stream` is True if it is read by an iterator."""

    def __init__(
        self,
        on_request: RequestHook | None,
        on_response: ResponseHook | None,
        telemetry: CallTelemetry | None,
        *,
        stream: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spent: Callable[[], Usage | None] = lambda: None
        self._on_request = on_request
        self._on_response = on_response
        self._telemetry = telemetry
        self._stream = stream
        self._clock = clock
        self._current: AbstractContextManager[Any] = nullcontext()
        self._attempt: ObservedAttempt | None = None  # the one that is under way
        self._attempts = 0
        self._identity = Identity()
        self._first_chunk: float | None = None
        self._response: Mapping[str, Any] | None = None
        self._continued = False  # the current attempt continues the answer of the one before
        self._usages: list[Usage] = []  # of the requests that succeeded

    def __enter__(self) -> None:
        if self._telemetry is not None:
            report(self._telemetry.begin)
            if not self._stream:  # a generator runs in the context of whoever reads it
                self._current = self._telemetry.current()
                self._current.__enter__()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._end_attempt(error)
        if self._telemetry is not None:
            self._current.__exit__(None, None, None)
            self._end_telemetry(self._telemetry, error)

    def attempt_started(self, plan: Any, request: Request) -> Request:
        if added := self._trace_headers(request):
            request = replace(request, headers=merged_headers(request.headers, added))
        self._end_attempt(None)  # of the request before, if the call has several
        number = self._attempts + 1
        attempt = ObservedAttempt(plan, number, request, self._clock(), stream=self._stream)
        if self._on_request is not None:
            self._on_request(attempt.request_info())
        self._attempt, self._attempts = attempt, number
        self._response = None
        if not self._continued:
            self._identity, self._first_chunk = Identity(), None
        self._continued = False
        if self._telemetry is not None:
            report(self._telemetry.attempt_started, plan)
        return request

    def head_received(self, head: ResponseHead) -> None:
        if self._attempt is not None:
            self._attempt.head = head

    def body_received(self, body: bytes) -> None:
        if self._attempt is not None:
            self._attempt.body = body
            if self._telemetry is not None:
                self._identity = read_identity(body)

    def watched(self, events: Iterable[ServerSentEvent]) -> Iterator[ServerSentEvent]:
        for event in events:
            if self._attempt is not None and self._telemetry is not None:
                self._chunk_received(self._attempt, self._telemetry, event)
            yield event

    def attempt_failed(self, error: LLMError, *, continued: bool = False) -> None:
        attempt, self._continued = self._attempt, continued
        self._end_attempt(error)
        if attempt is not None and self._telemetry is not None:
            report(self._telemetry.attempt_failed, attempt.number, error)

    def attempt_succeeded(self, response: Mapping[str, Any]) -> None:
        self._response = response
        self._usages.append(response["usage"])
        self._end_attempt(None)

    def answered(self, response: Mapping[str, Any]) -> None:
        self._response = response

    def set_spent(self, spent: Callable[[], Usage | None]) -> None:
        self._spent = spent

    def _chunk_received(
        self, attempt: ObservedAttempt, telemetry: CallTelemetry, event: ServerSentEvent
    ) -> None:
        now = self._clock()
        if attempt.last_chunk is not None:
            report(telemetry.chunk, now - attempt.last_chunk)
        elif self._first_chunk is None:
            self._first_chunk = now - attempt.started
        attempt.last_chunk = now
        attempt.chunks += 1
        if attempt.chunks <= _IDENTITY_EVENTS and not all(self._identity):
            self._identity = self._identity.merged(read_identity(event.data_bytes))

    def _end_telemetry(self, telemetry: CallTelemetry, error: BaseException | None) -> None:
        ending = CallEnding(
            attempts=self._attempts,
            error=error,
            response=self._response,
            identity=self._identity,
            first_chunk=self._first_chunk,
            spent=report(self._total_spent, error),
        )
        report(telemetry.end, ending)

    def _total_spent(self, error: BaseException | None) -> Usage | None:
        """Return the usage of all attempts, None if nothing was received."""
        if self._response is not None:
            spent: Usage = self._response.get("spent", self._response["usage"])
            return spent
        if isinstance(error, LLMError) and error.spent is not None:
            return error.spent
        if self._usages:  # a later request of the call failed
            return add_usages(self._usages)
        return self._spent()

    def _end_attempt(self, error: BaseException | None) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is None or self._on_response is None:
            return
        usage = None if error is not None or self._response is None else self._response["usage"]
        try:
            self._on_response(attempt.response_info(self._clock(), usage, error))
        except Exception as raised:
            logger.error("on_response raised %s", type(raised).__name__, exc_info=raised)

    def _trace_headers(self, request: Request) -> Mapping[str, str]:
        if self._telemetry is None:
            return {}
        return report(self._telemetry.headers, request.headers) or {}


def _visible(headers: Mapping[str, str], secrets: Iterable[str]) -> dict[str, str]:
    """Return headers without their secrets."""
    known = [*secrets]
    return {
        name: _MASK if _is_secret(name, value) else redact(value, known)
        for name, value in headers.items()
    }


def _is_secret(name: str, value: str) -> bool:
    return name.lower() == _COOKIES or any(True for _ in header_secrets({name: value}))


def _redacted(body: bytes, secrets: Iterable[str]) -> bytes:
    """Return a body without the secrets of the client, which a provider may repeat."""
    text = body.decode("utf-8", "surrogateescape")
    return redact(text, secrets).encode("utf-8", "surrogateescape")
