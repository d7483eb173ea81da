"""The resubscribe machine: how a stream of a task is read over as many connections as it takes.

It knows no socket, clock, thread or event loop. What of an event is news is decided in
`_assemble`; here is what happens to connections. The rules, by the names of `docs/decisions.md`:

* End. A terminal state ends the stream; so do `final`, and an end of body or a break after an
  interrupted state or a message. Any other end or break is a loss.
* Loss. With a task known: resubscribe, with the common back-off; the last SSE id goes along as a
  cursor (25). Before the first event there is no task to go on with: `A2AStreamClosedError`, or
  the next interface when nothing was sent. A subscription itself may be asked for again.
  `resume=False`: `A2AStreamClosedError` at any loss.
* Budget (24). `max_retries` losses in a row. News refills it, and so does a snapshot that shows
  the task still running; the delays go on growing until there is news.
* Fetching. An agent that refuses to subscribe (-32004: the task is over; -32601: it cannot) is
  asked for the task, and so is one whose subscription leaves a gap. The rest is delivered from
  the answer; while the task is still running it is asked for again, at growing delays.
* Answers that are no stream. A JSON body is an error, or the one event there is. On a
  resubscribe, some statuses and a 200 of another type are one more loss; the rest is final.
  307 and 308 are followed.
* Dialect and interface (20) as for unary calls: they may change before the first event.
* Errors in the stream, and what is not an event, are raised and not retried.
"""

import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .._drive import Wait
from .._http._checks import shown
from .._http._redirect import MOST_REDIRECTS, redirected
from .._http._types import FINAL_FAILURES, Request, ResponseHead, TransportFailure
from .._retry import RETRIED_STATUSES, retry_after
from ..sse import ServerSentEvent, SSEDecoder, SSEEventTooLarge
from ._assemble import Assembly, Gap
from ._call import (
    Call,
    connection_error,
    unreached,
)
from ._route import Route, is_redirect
from .errors import (
    A2AError,
    A2AHTTPError,
    A2AResponseTooLargeError,
    A2ASSEParseError,
    A2AStreamClosedError,
    MethodNotFoundError,
    UnsupportedOperationError,
)
from .types import Event

__all__ = ["HealMachine"]

logger = logging.getLogger("coreason_client.a2a")

_CANNOT_SUBSCRIBE = (UnsupportedOperationError, MethodNotFoundError)


class HealMachine:
    """Reads the stream of one task.

    `name` and `params` are the operation that begins it. `jitter` gives numbers from 0 to 1,
    `now` the seconds since 1970; both are for tests to replace.
    """

    def __init__(
        self,
        route: Route,
        name: str,
        params: dict[str, Any],
        *,
        resume: bool = True,
        jitter: Callable[[], float] = random.random,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._route = route
        self._settings = route.settings
        self._resume = resume
        self._jitter = jitter
        self._now = now
        self._operation: tuple[str, dict[str, Any]] = (name, params)
        self._subscribes = name == "resubscribe"
        known = params.get("id") if self._subscribes else params.get("message", {}).get("taskId")
        self.assembly = Assembly(known)
        self.redact: Callable[[str], str] = str  # for log lines; the transport sets it

        # Where we are.
        self._begun = False  # the first response was accepted
        self._failures = 0
        self._losses = 0  # since the last news
        self._skipped = 0
        self._wait: Wait | None = None
        self._call: Call | None = None
        self._request: Request = Request("", "", {})
        self._redirected: Request | None = None
        self._redirects = 0
        self._attempts = 0
        self._last_event_id = b""
        self._decoder = SSEDecoder(self._settings.max_event_bytes)
        self._body: bytearray | None = None  # of an answer that is no stream
        self._body_size: int | None = None
        self._settled = True
        self._finished = False
        self._reading = False
        self._head: ResponseHead | None = None

    @property
    def reconnects(self) -> int:
        """How many connections there were after the first."""
        return max(self._attempts - 1, 0)

    @property
    def response_head(self) -> ResponseHead | None:
        """The head of the last response."""
        return self._head

    @property
    def reading(self) -> bool:
        """Whether more bytes of this response are wanted."""
        return self._reading

    # Steps

    def next_step(self) -> Request | Wait | None:
        """Say what to do next; None when the stream is over."""
        if self._finished:
            return None
        if self._wait is not None:
            wait, self._wait = self._wait, None
            return wait
        self._settled = False
        if self._redirected is not None:
            self._request, self._redirected = self._redirected, None
            return self._request
        self._attempts += 1
        self._redirects = 0
        name, params = self._operation
        cursor = self._cursor()
        self._call = self._route.call(name, params, cursor)
        if self._begun:
            self.assembly.reconnected(from_cursor=cursor is not None)
        self._decoder = SSEDecoder(self._settings.max_event_bytes, last_event_id=cursor or "")
        self._request = self._call.request
        return self._request

    def accepts(self, head: ResponseHead) -> bool:
        """Say whether this is a response that can be read: a stream, or a body of JSON."""
        self._head = head
        self._body = None
        fetching = not self._present.operation.streams
        if head.status != 200:
            return False
        if head.content_type != "text/event-stream" or fetching:
            if not fetching and not head.content_type.endswith("json"):
                return False
            self._body = bytearray()
            size = head.headers.get("content-length", "")
            plain = "content-encoding" not in head.headers and size.isascii() and size.isdigit()
            self._body_size = int(size[:18]) if plain else None
        self._reading = True
        return True

    def refused(self, head: ResponseHead, body: bytes) -> None:
        """Follow a redirect, count a loss, or raise what the response means.

        Raises:
            A2AError: the server refuses, or this was one loss too many.
        """
        call = self._present
        if is_redirect(head) and self._follow(head):
            return
        error = call.refusal(head, body)
        if head.status == 200:
            kind = head.content_type or "unknown"
            words = f"{call.request.method} {shown(call.request.url)} was answered with type {kind}"
            error = A2AHTTPError(words, status=200, headers=head.headers, body=body)
        if self._route.answered(call, error) or call.asks_otherwise(head, error):
            self._settled = True
            return
        passing = head.status == 200 or head.status in RETRIED_STATUSES
        if type(error) is not A2AHTTPError:
            self._take_error(error)
        elif passing and self._resume and (self._begun or self._subscribes):
            self._lose(str(error), wish=retry_after(head.headers, self._now), error=error)
        else:
            raise self._marked(error)

    def lost(self, failure: TransportFailure | None) -> Iterator[Event]:
        """Take note that the connection is gone; hand out the news that a clean end completes.

        Raises:
            A2AError: the stream cannot go on.
        """
        call = self._call
        if failure is not None and failure.kind in FINAL_FAILURES and call is not None:
            raise self._marked(connection_error(call.request, failure, self._failures + 1))
        if self._settled or call is None:
            return
        if failure is not None and unreached(failure) and self._route.skip(call, self._skipped):
            self._skipped += 1
            self._settled = True
            return
        if failure is None and self._body is not None:
            yield from self._read_body()
            if self._settled:
                return
        if failure is not None and unreached(failure) and not self._begun and not self._subscribes:
            raise self._marked(connection_error(call.request, failure, self._attempts))
        words = "the response ended before the task" if failure is None else str(failure)
        self._lose(words, error=failure)

    # Events

    def receive(self, chunk: bytes) -> Iterator[Event]:
        """Take bytes and hand out the news in them, one at a time.

        Raises:
            A2AError: the agent's error, or what cannot be read.
        """
        if self._body is not None:
            yield from self._receive_body(chunk)
            return
        take = self.assembly.take
        events, too_large = self._decode(chunk)
        read = self._present.event
        for sse in events:
            try:
                news = take(read(sse.data_bytes))
            except Gap:
                self._fetch("what came does not join what was told before")
                return
            except A2AError as error:
                self._take_error(error)
                return
            self._last_event_id = sse.id_bytes
            if news:
                self._heard()
                yield from news
            elif not self._begun or self._failures:
                self._heard_nothing_new()
        if too_large is not None:
            raise self._marked(A2ASSEParseError(str(too_large), chunk)) from too_large
        self._look_for_end()

    def _heard(self) -> None:
        if not self._begun:
            self._begin()
        self._failures = self._losses = 0

    def _heard_nothing_new(self) -> None:
        """A snapshot without news still shows that the task is running."""
        self._begin()
        self._failures = 0

    def _begin(self) -> None:
        self._begun = True
        self._route.answered(self._present)

    def _look_for_end(self) -> None:
        assembly = self.assembly
        if assembly.final or assembly.status.is_terminal:
            self._finish()

    def _decode(self, chunk: bytes) -> tuple[list[ServerSentEvent], SSEEventTooLarge | None]:
        try:
            return self._decoder.feed(chunk), None
        except SSEEventTooLarge as error:
            return error.events, error

    # Bodies that are no stream

    def _receive_body(self, chunk: bytes) -> Iterator[Event]:
        assert self._body is not None  # noqa: S101 - the caller looked
        self._body += chunk
        limit = self._settings.max_body_bytes
        if len(self._body) > limit:
            words = f"an answer is larger than {limit} bytes"
            raise self._marked(A2AResponseTooLargeError(words, status=200))
        if self._body_size is not None and len(self._body) >= self._body_size:
            yield from self._read_body()

    def _read_body(self) -> Sequence[Event]:
        body, self._body = bytes(self._body or b""), None
        call = self._present
        try:
            value = call.answer(body)
        except A2AError as error:
            self._take_error(error)
            return ()
        assembly = self.assembly
        news = assembly.take(value) if call.operation.streams else assembly.settle(value)
        if news:
            self._heard()
        self._reading = False
        if self.assembly.over:
            self._finish()
        elif not call.operation.streams:
            self._failures = 0
            self._wait_to_fetch()
        return news

    # Errors and losses

    def _take_error(self, error: A2AError) -> None:
        """Change the dialect or the operation where the error asks for it, else raise it."""
        self._settle()
        call = self._present
        if not self._begun and self._route.answered(call, error):
            return
        subscribing = call.operation.name == "resubscribe"
        if subscribing and self._resume and isinstance(error, _CANNOT_SUBSCRIBE):
            self._fetch(str(error))
            return
        raise self._marked(error)

    def _fetch(self, why: str) -> None:
        """Ask for the task itself from now on."""
        self._settle()
        self._begun = True
        why = self.redact(why)
        logger.info("task %s is asked for instead of subscribed to: %s", self._task_id, why)
        self._operation = ("get_task", {"id": self._task_id})
        self._last_event_id = b""

    def _wait_to_fetch(self) -> None:
        self._settle()
        self._losses += 1
        delay = self._settings.backoff.delay(self._losses, None, self._jitter)
        self._wait = Wait(delay or 0.0)

    def _lose(
        self, cause: str, *, wish: float | None = None, error: Exception | None = None
    ) -> None:
        """Plan the next connection, finish when all was told, or raise when that is it."""
        self._settle()
        if self.assembly.over:
            self._finish()
            return
        known = self._task_id and (self._begun or self._subscribes)
        if not known or not self._resume:
            raise self._closed(cause, error)
        self._failures += 1
        self._losses += 1
        self._skipped = 0
        wish = max(filter(None, (wish, (self._decoder.retry_ms or 0) / 1000)), default=None)
        delay = self._settings.backoff.delay(self._losses, wish, self._jitter)
        if self._failures > self._settings.max_retries or delay is None:
            raise self._closed(cause, error, wish)
        cause = self.redact(cause)
        logger.warning(
            "stream of task %s lost (%s); resubscribing in %.2f s", self._task_id, cause, delay
        )
        self._wait = Wait(delay)
        if self._operation[0] != "get_task":
            self._operation = ("resubscribe", {"id": self._task_id})

    def _closed(self, cause: str, error: Exception | None, wish: float | None = None) -> A2AError:
        words = f"the stream closed before its task ended: {cause}"
        if self._failures > 1:
            words = f"{words} ({self._failures} connections in a row brought nothing)"
        fields: dict[str, Any] = {"retry_after": wish}
        if isinstance(error, A2AError):
            fields |= {"status": error.status, "headers": error.headers, "body": error.body}
        closed = A2AStreamClosedError(words, **fields)
        closed.__cause__ = error if error is None else error.__cause__ or error
        return self._marked(closed)

    def _marked(self, error: A2AError) -> A2AError:
        """Note in an error how far the stream had come."""
        self._settle()
        error.task_id = self._task_id
        error.task = self.assembly.task
        return error

    def _settle(self) -> None:
        self._settled = True
        self._reading = False

    def _finish(self) -> None:
        self._settle()
        self._finished = True

    # Requests

    @property
    def _present(self) -> Call:
        assert self._call is not None  # noqa: S101 - a response follows a request
        return self._call

    @property
    def _task_id(self) -> str | None:
        return self.assembly.task_id

    def _cursor(self) -> str | None:
        """Return the Last-Event-ID of a resubscribe, None where a header cannot carry it."""
        cursor = self._last_event_id.decode("utf-8", "replace")
        fits = cursor and cursor == cursor.strip() and cursor.isprintable()
        return cursor if fits else None

    def _follow(self, head: ResponseHead) -> bool:
        self._redirects += 1
        if self._redirects > MOST_REDIRECTS:
            return False
        try:
            self._redirected = redirected(self._request, head.headers["location"])
        except ValueError:
            return False
        self._settle()
        return True
