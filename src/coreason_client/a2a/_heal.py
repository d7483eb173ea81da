"""The resubscribe machine: how a stream of a task is read over as many connections as it takes.

It knows no socket, thread or event loop, and no clock but those it is given. What of an event is
new is decided in `_assemble`; here is what happens to connections. The rules, by the names of
`docs/decisions.md`:

* End. What `_assemble` calls `ended` ends the stream at once, whatever follows in the same chunk.
  An end of body or a break after AUTH_REQUIRED or a message ends it too. Any other is a loss.
* Loss. With a task known: resubscribe, with the common back-off; the last SSE id goes along as a
  cursor (25). Before the first event there is no task to go on with: `A2AStreamClosedError`, or
  the next interface when nothing was sent. A subscription itself may be asked for again.
  `resume=False`: `A2AStreamClosedError` at any loss.
* 0.3 (40). Servers of that generation store an event once for every subscriber, so that subscribing
  doubles content: the task is fetched instead, after a loss and for `resubscribe` alike.
* Budget (24). `max_retries` losses in a row. New content or a new state refills it, and so does a
  snapshot that shows the task still running; the delays go on growing until there is something
  new. Messages and events that are not known do neither.
* Fetching. An agent that refuses to subscribe, whatever its error, is asked for the task, and so
  is one whose subscription leaves a gap or ends without a snapshot. A busy server (429, 502, 503,
  504) is asked to subscribe once more before that. The rest is delivered from the answer; while
  the task is still running it is asked for again, at growing delays.
* Silence. Keep-alives do not count: after `stream_timeout` without an event the task is asked for
  while the connection stays open. If it is over the rest is delivered; if it has more than was
  delivered, the connection is a loss; else reading goes on.
* Agents that do not stream. The message is sent as a unary call, and the task is fetched.
* Answers that are no stream. A JSON body is an error, or the one event there is. 307 and 308 are
  followed.
* Dialect and interface (20) as for unary calls: they may change before the first event.
* Errors in the stream, and what is not an event, are raised and not retried.
"""

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .._drive import Flow, SideCall, Wait
from .._http._checks import shown
from .._http._redirect import Redirects
from .._http._types import FINAL_FAILURES, Request, ResponseHead, TransportFailure
from .._retry import RETRIED_STATUSES, retry_after
from ..sse import ServerSentEvent, SSEDecoder, SSEEventTooLarge
from ._assemble import Assembly, Gap
from ._call import (
    Call,
    connection_error,
    unreached,
)
from ._route import Route
from ._silence import Silence, is_keep_alive
from ._unary import Body, asked_once
from .errors import (
    A2AError,
    A2AHTTPError,
    A2AJSONError,
    A2AResponseTooLargeError,
    A2ASSEParseError,
    A2AStreamClosedError,
    MethodNotFoundError,
    UnsupportedOperationError,
)
from .types import Event, Message, Task, UnknownEvent

__all__ = ["HealMachine"]

logger = logging.getLogger("coreason_client.a2a")

_CANNOT_SUBSCRIBE = (UnsupportedOperationError, MethodNotFoundError)
_BUSY = RETRIED_STATUSES - {500}
_NOT_ALLOWED = frozenset({401, 403, 407})


class HealMachine:
    """Reads the stream of one task.

    `name` and `params` are the operation that begins it. `jitter` gives numbers from 0 to 1,
    `now` the seconds since 1970, `clock` seconds that never go back; all are for tests to replace.
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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._route = route
        self._settings = route.settings
        self._resume = resume
        self._jitter = jitter
        self._now = now
        self._operation: tuple[str, dict[str, Any]] = (name, params)
        self._attaches = name in ("resubscribe", "get_task")
        known = params.get("id") if self._attaches else params.get("message", {}).get("taskId")
        self.assembly = Assembly(known, attached=self._attaches)
        self.redact: Callable[[str], str] = str  # for log lines; the transport sets it

        # Where we are.
        self._begun = False  # the first response was accepted
        self._failures = 0
        self._losses = 0  # since the last news
        self._refusals = 0  # of subscriptions, in a row
        self._skipped = 0
        self._wait: Wait | None = None
        self._call: Call | None = None
        self._request: Request = Request("", "", {})
        self._redirected: Request | None = None
        self._redirects = Redirects()
        self._attempts = 0
        self._last_event_id = b""
        self._decoder = SSEDecoder(self._settings.max_event_bytes)
        self._received: type[Event] | None = None  # the first event on this connection
        self._silence = Silence(self._settings.stream.read, clock)
        self._asking = False  # for the task, because of silence
        self._body: Body | None = None  # of an answer that is no stream
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
        """Return what to do next; None when the stream is over."""
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
        self._redirects = Redirects()
        self._avoid_subscribing()
        name, params = self._operation
        cursor = self._cursor()
        self._call = self._route.call(name, params, cursor)
        if self._begun:
            self.assembly.reconnected()
        self._received = None
        self._silence.end()
        self._decoder = SSEDecoder(self._settings.max_event_bytes, last_event_id=cursor or "")
        self._request = self._call.request
        return self._request

    def _avoid_subscribing(self, *, always: bool = False) -> None:
        """Fetch the task instead where subscribing does harm, unless no healing is wanted."""
        harms = always or not self._route.channel.dialect.subscribing_is_safe
        if self._subscribing and self._resume and harms:
            self._ask_for_task()

    def accepts(self, head: ResponseHead) -> bool:
        """Return True if this response can be read: a stream, or a body of JSON."""
        self._head = head
        self._body = None
        unary = not self._present.operation.streams
        if head.status != 200:
            return False
        if head.content_type != "text/event-stream" or unary:
            if not unary and not head.content_type.endswith("json"):
                return False
            self._body = Body(head, self._settings.max_body_bytes)
        self._reading = True
        return True

    def refused(self, head: ResponseHead, body: bytes) -> None:
        """Follow a redirect, count a loss, fetch the task, or raise what the response means.

        Raises:
            A2AError: the server refuses, or this was one loss too many.
        """
        call = self._present
        if self._redirects.includes(head) and self._follow(head):
            return
        error = call.refusal(head, body)
        if head.status == 200:
            kind = head.content_type or "unknown"
            words = f"{call.request.method} {shown(call.request.url)} was answered with type {kind}"
            error = A2AHTTPError(words, status=200, headers=head.headers, body=body)
        if self._route.answered(call, error) or call.asks_otherwise(head, error):
            self._settled = True
            return
        if type(error) is not A2AHTTPError:
            self._take_error(error)
        elif self._refetches(head):
            self._fetch(str(error))
        elif self._is_passing(head):
            self._lose(str(error), wish=retry_after(head.headers, self._now), error=error)
        else:
            raise self._marked(error)

    def _refetches(self, head: ResponseHead) -> bool:
        """Return True if a refused subscription is given up in favour of fetching the task."""
        if not self._subscribing or not self._resume or head.status in _NOT_ALLOWED:
            return False
        self._refusals += 1
        return head.status not in _BUSY or self._refusals > 1

    def _is_passing(self, head: ResponseHead) -> bool:
        passing = head.status == 200 or head.status in RETRIED_STATUSES
        return passing and self._resume and (self._begun or self._attaches)

    def lost(self, failure: TransportFailure | None) -> Iterator[Event]:
        """Record that the connection is gone; hand out the news that a clean end completes.

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
            yield from self._read_body(self._body)
            if self._settled:
                return
        if failure is not None and unreached(failure) and not self._begun and not self._attaches:
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
            yield from self._receive_body(self._body, chunk)
            return
        assembly = self.assembly
        take = assembly.take
        events, too_large = self._decode(chunk)
        read = self._present.event
        silent = True
        for sse in events:
            try:
                event = read(sse.data_bytes)
                news = take(event)
            except Gap:
                self._fetch("its subscription does not join what was delivered before")
                return
            except A2AError as error:
                if is_keep_alive(sse):
                    continue
                self._take_error(error)
                return
            silent = False
            self._last_event_id = sse.id_bytes
            if self._received is None or self._losses or self._failures:
                self._note(event, news)
            yield from news
            if assembly.ended:
                self._finish()
                return
        if too_large is not None:
            raise self._marked(A2ASSEParseError(str(too_large), chunk)) from too_large
        if silent:
            self._keep_waiting(chunk, keep_alives=bool(events))
        else:
            self._silence.end()

    def _note(self, event: Event, news: Sequence[Event]) -> None:
        """Record that an event came, and refill the budget if it shows that the task goes on."""
        if self._received is None:
            self._received = type(event)
            self._begin()
        if isinstance(event, Message | UnknownEvent):
            return
        self._failures = self._refusals = 0
        if news:
            self._losses = 0

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._route.answered(self._present)

    def _decode(self, chunk: bytes) -> tuple[list[ServerSentEvent], SSEEventTooLarge | None]:
        try:
            return self._decoder.feed(chunk), None
        except SSEEventTooLarge as error:
            return error.events, error

    # Silence

    def _keep_waiting(self, chunk: bytes, *, keep_alives: bool) -> None:
        if not self._silence.lasts_too_long(chunk, keep_alives=keep_alives):
            return
        if self._task_id and (self._begun or self._attaches):
            self._asking = True
            self._reading = False
        elif self.assembly.over:
            self._finish()

    def side_call(self) -> SideCall[Event]:
        """Return the call to make when reading has stopped; it does nothing unless it is silence.

        An agent that does not answer it is waited for.
        """
        return self._check_task(), self._settings.max_body_bytes

    def _check_task(self) -> Flow[Iterable[Event]]:
        if not self._asking:
            return ()
        self._asking = False
        task = yield from asked_once(self._route, self._task_id)
        assembly = self.assembly
        if task is None:
            if assembly.over:
                self._finish()
            else:
                self._reading = True
        elif task.status.is_terminal or task.status.is_interrupted:
            news = assembly.settle(task)
            self._finish()
            return news
        elif assembly.is_behind(task):
            self._lose("the stream is silent, though its task has gone on")
        else:
            self._reading = True
        return ()

    # Bodies that are no stream

    def _receive_body(self, body: Body, chunk: bytes) -> Sequence[Event]:
        try:
            complete = body.add(chunk)
        except A2AResponseTooLargeError as error:
            raise self._marked(error) from None
        return self._read_body(body) if complete else ()

    def _read_body(self, received: Body) -> Sequence[Event]:
        body, self._body = received.content, None
        call = self._present
        try:
            value = call.answer(body)
            news = self._settle_with(value) if self._fetching else self.assembly.take(value)
        except Gap:
            self._fetch("its subscription does not join what was delivered before")
            return ()
        except A2AError as error:
            self._take_error(error)
            return ()
        self._received = None
        self._note(value, news)
        self._reading = False
        if self.assembly.over:
            self._finish()
        elif not call.operation.streams:
            self._wait_to_fetch()
        return news

    def _settle_with(self, task: Task) -> Sequence[Event]:
        if task.id and task.id != self._task_id:
            raise A2AJSONError(f"the agent was asked for task {self._task_id}, got {task.id:.200}")
        return self.assembly.settle(task)

    # Errors and losses

    def _take_error(self, error: A2AError) -> None:
        """Change the dialect or the operation where the error asks for it, else raise it."""
        self._settle()
        call = self._present
        if not self._begun and self._route.answered(call, error):
            return
        refused = self._received is None or isinstance(error, _CANNOT_SUBSCRIBE)
        if self._subscribing and self._resume and refused:
            self._fetch(str(error))
            return
        raise self._marked(error)

    def _fetch(self, why: str) -> None:
        """Ask for the task itself from now on."""
        self._settle()
        self._begun = True
        why = self.redact(why)
        logger.info("task %s is fetched instead of subscribed to: %s", self._task_id, why)
        self._ask_for_task()

    def _ask_for_task(self) -> None:
        self._operation = ("get_task", {"id": self._task_id})
        self._last_event_id = b""

    def _wait_to_fetch(self) -> None:
        if self._task_id is None:
            raise self._closed("the answer names no task", None)
        self._settle()
        self._ask_for_task()
        self._losses += 1
        delay = self._settings.backoff.delay(self._losses, self._jitter)
        self._wait = Wait(delay)

    def _lose(
        self, cause: str, *, wish: float | None = None, error: Exception | None = None
    ) -> None:
        """Plan the next connection, finish when all was delivered, or raise when that is it."""
        self._settle()
        if self.assembly.over:
            self._finish()
            return
        known = self._task_id and (self._begun or self._attaches)
        if not known or not self._resume:
            raise self._closed(cause, error)
        self._failures += 1
        self._losses += 1
        self._skipped = 0
        wish = max(filter(None, (wish, (self._decoder.retry_ms or 0) / 1000)), default=None)
        delay = self._settings.backoff.retry_delay(self._losses, wish, self._jitter)
        if self._failures > self._settings.max_retries or delay is None:
            raise self._closed(cause, error, wish)
        cause = self.redact(cause)
        self._wait = Wait(delay)
        if not self._fetching:
            without_snapshot = self._subscribing and self._received not in (None, Task)
            self._operation = ("resubscribe", {"id": self._task_id})
            self._avoid_subscribing(always=without_snapshot)
        doing = "fetching the task" if self._fetching else "resubscribing"
        logger.warning(
            "stream of task %s lost (%s); %s in %.2f s", self._task_id, cause, doing, delay
        )

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
        """Record in an error how far the stream had come."""
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
    def _fetching(self) -> bool:
        return self._operation[0] == "get_task"

    @property
    def _subscribing(self) -> bool:
        return self._operation[0] == "resubscribe"

    @property
    def _task_id(self) -> str | None:
        return self.assembly.task_id

    def _cursor(self) -> str | None:
        """Return the Last-Event-ID of a resubscribe, None where a header cannot carry it."""
        cursor = self._last_event_id.decode("utf-8", "replace")
        fits = cursor and cursor == cursor.strip() and cursor.isprintable()
        return cursor if fits else None

    def _follow(self, head: ResponseHead) -> bool:
        try:
            self._redirected = self._redirects.follow(self._request, head)
        except ValueError:
            return False
        self._settle()
        return True
