"""The resubscribe machine: reads the stream of a task over as many connections as needed.

It does no I/O and uses no threads and no event loop. `_assemble` decides what is new in an event;
rules that do not depend on the protocol are in `_connections`. The rules, by their numbers in
`docs/decisions-a2a.md`:

* End. If `_assemble` reports `ended`, the stream ends at once, even if the chunk contains more. An
  end of the body or a broken connection after AUTH_REQUIRED or a message is also an end. In all
  other cases it is a loss.
* Loss. If the task is known: resubscribe, with the common back-off; the last SSE id is sent as the
  cursor (25). Before the first event there is no task to resume: `A2AStreamClosedError`, or the
  next interface if nothing was sent. A subscription itself may be repeated. With `resume=False`
  any loss raises `A2AStreamClosedError`.
* 0.3 (40). Its servers store an event once for every subscriber, so subscribing duplicates content:
  the task is fetched instead, after a loss and for `resubscribe`.
* Budget (24). `max_retries` losses in a row. Only progress refills it (`_assemble`). The retries
  are restored, while the delays continue to grow, by a fetched task, and by a connection that shows
  the task still running and stays open (`ConnectionRecord`). Messages and unknown events do
  neither.
* Cursor (25). A connection with a cursor that brings only repetitions is followed by one without:
  the agent then sends the whole task, which is progress even if connections end after one event.
* Fetching. The task is fetched if the agent rejects a subscription, with any error, and if a
  subscription leaves a gap, ends without a snapshot, or ends properly without any event. After
  429, 502, 503 or 504 the subscription is tried once more first. What is new in the fetched task is
  delivered; while the task is still running it is polled, at growing delays.
* Silence. Keep-alives do not count: after `stream_timeout` without an event the task is fetched
  while the connection stays open. If the task has stopped, the rest is delivered; if it has more
  content than was delivered, the connection counts as lost; else reading continues.
* Agents that do not stream. The message is sent as a unary call, and the task is polled.
* Responses that are not streams. A JSON body is an error or the only event. 307 and 308 are
  followed.
* Dialect and interface (20) as for unary calls: they may change before the first event.
* Errors in the stream, and data that is not an event, are raised and not retried.
"""

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .._clock import monotonic
from .._connections import Connections, RetryBudget, State
from .._drive import Flow, SideCall, Wait
from .._http._checks import shown
from .._http._types import FINAL_FAILURES, Request, ResponseHead, TransportFailure
from .._retry import RETRIED_STATUSES, retry_after
from ..sse import ServerSentEvent, SSEEventTooLarge
from ._assemble import Assembly, Gap
from ._call import ChannelCall, connection_error, stream_closed, was_never_sent
from ._route import AgentRoute
from ._stream_state import (
    ConnectionRecord,
    Silence,
    StreamOperation,
    UnaryBody,
    fetch_task_once,
    is_keep_alive,
)
from .errors import (
    A2AError,
    A2AHTTPError,
    A2AJSONError,
    A2AResponseTooLargeError,
    A2ASSEParseError,
    MethodNotFoundError,
    UnsupportedOperationError,
)
from .types import Event, Task

logger = logging.getLogger("coreason_client.a2a")

_CANNOT_SUBSCRIBE = (UnsupportedOperationError, MethodNotFoundError)
_UNAUTHORIZED = frozenset({401, 403, 407})
_READING = State.READING
_GAP = "the subscription does not continue what was delivered before"


class ResubscribeMachine:
    """Reads the stream of one task.

    `name` and `params` are the operation that begins it. `jitter` returns numbers from 0 to 1,
    `now` the Unix time, `clock` monotonic seconds; tests replace them.
    """

    def __init__(
        self,
        route: AgentRoute,
        name: str,
        params: dict[str, Any],
        *,
        resume: bool = True,
        jitter: Callable[[], float] = random.random,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        settings = route.settings
        budget = RetryBudget(settings.backoff, settings.max_retries, jitter=jitter, clock=clock)
        self._route = route
        self._resume = resume
        self._now = now
        self._connections = Connections(budget, max_event_bytes=settings.max_event_bytes)
        self._operation = StreamOperation(name, params)
        self.assembly = Assembly(self._operation.known_task, attached=self._operation.attaches)
        self.redact: Callable[[str], str] = str  # for log lines; the transport sets it
        self._skipped = 0  # interfaces in a row that could not be reached
        self._call: ChannelCall  # of this connection; set with the first request
        self._clock = clock
        self._record = ConnectionRecord(clock)  # of this connection
        self._silence = Silence(settings.stream.read, clock)
        self._must_check_task = False  # because the stream was silent
        self._body: UnaryBody | None = None  # of a response that is not a stream

    @property
    def reconnects(self) -> int:
        """The number of connections after the first."""
        return self._connections.reconnects

    @property
    def response_head(self) -> ResponseHead | None:
        """The head of the last response."""
        return self._connections.head

    @property
    def reading(self) -> bool:
        """True if more bytes of this response are wanted."""
        return self._connections.state is _READING

    # Steps

    def next_step(self) -> Request | Wait | None:
        """Return the next step; None if the stream is over."""
        connections, operation = self._connections, self._operation
        if connections.finished:
            return None
        step = connections.planned_step()
        if step is not None:
            return step
        is_safe = self._route.channel.dialect.subscribing_is_safe
        if self._resume and operation.subscribes and not is_safe:
            operation.fetch(self.assembly.task_id)
        cursor = operation.cursor
        self._call = self._route.call(operation.name, operation.params, cursor)
        if operation.begun:
            self.assembly.reconnected(with_cursor=cursor is not None)
        self._record = ConnectionRecord(self._clock)
        self._silence.reset()
        return connections.open(self._call.request, (cursor or "").encode())

    def accepts(self, head: ResponseHead) -> bool:
        """Return True if this response can be read: an event stream or a JSON body."""
        self._connections.head = head
        self._body = None
        unary = not self._call.operation.streams
        if head.status != 200:
            return False
        if head.content_type != "text/event-stream" or unary:
            if not unary and not head.content_type.endswith("json"):
                return False
            self._body = UnaryBody(head, self._route.settings.max_body_bytes)
        self._connections.read()
        return True

    def refused(self, head: ResponseHead, body: bytes) -> None:
        """Follow a redirect, count a loss, fetch the task, or raise the error of the response.

        Raises:
            A2AError: the server rejected the request, or the retry budget is exhausted.
        """
        connections, call = self._connections, self._call
        if connections.is_redirect(head):
            try:
                connections.redirect(head)
            except ValueError:
                pass  # not a usable redirect: an error like any other status
            else:
                return
        error = call.response_error(head, body)
        if head.status == 200:
            kind = head.content_type or "unknown"
            message = (
                f"{call.request.method} {shown(call.request.url)} was answered with type {kind}"
            )
            error = A2AHTTPError(message, status=200, headers=head.headers, body=body)
        if self._route.record_response(call, error) or call.try_other_verb(head, error):
            connections.settle()
        elif type(error) is A2AHTTPError:
            self._handle_http_error(head, error)
        else:
            self._handle_error(error)

    def _handle_http_error(self, head: ResponseHead, error: A2AHTTPError) -> None:
        """Fetch the task instead of subscribing, count a loss, or raise the error."""
        operation, status = self._operation, head.status
        if self._resume and operation.subscribes and status not in _UNAUTHORIZED:
            operation.count_rejection()
            if operation.is_rejected_for_good(status):
                self._fetch(str(error))
                return
        is_transient = status == 200 or status in RETRIED_STATUSES
        if not is_transient or not self._resume or not operation.can_resume:
            raise self._with_progress(error)
        self._count_loss(str(error), server_delay=retry_after(head.headers, self._now), error=error)

    def lost(self, failure: TransportFailure | None) -> Iterator[Event]:
        """Record that the connection has ended; yield the events that a clean end completes.

        Raises:
            A2AError: the stream cannot be continued.
        """
        connections = self._connections
        if failure is not None and failure.kind in FINAL_FAILURES:
            attempts = connections.budget.failures + 1
            raise self._with_progress(connection_error(self._call.request, failure, attempts))
        if connections.settled:
            return
        if failure is None:
            if self._body is not None:
                yield from self._handle_body(self._body, b"", ended=True)
            if connections.settled:
                return
            operation, nothing_came = self._operation, self._record.first_event_type is None
            if self._resume and operation.subscribes and nothing_came:
                self._fetch("the subscription ended without an event")
            else:
                self._count_loss("the response ended before the task")
            return
        if was_never_sent(failure):
            if self._route.skip(self._call, self._skipped):
                self._skipped += 1
                connections.settle()
                return
            if not self._operation.can_resume:
                error = connection_error(self._call.request, failure, connections.attempts)
                raise self._with_progress(error)
        self._count_loss(f"{failure}{failure.via}", error=failure)

    # Events

    def receive(self, chunk: bytes) -> Iterator[Event]:
        """Process bytes and yield the new events in them, one at a time.

        Raises:
            A2AError: the agent sent an error, or an event that cannot be parsed.
        """
        if self._body is not None:
            yield from self._handle_body(self._body, chunk)
            return
        assembly, operation, budget = self.assembly, self._operation, self._connections.budget
        apply, parse = assembly.apply, self._call.parse_event
        sse: ServerSentEvent | None = None
        silent = True
        try:
            for sse in self._connections.decoder.events(chunk):
                try:
                    event = parse(sse.data_bytes)
                    new_events = apply(event)
                except Gap:
                    self._fetch(_GAP)
                    return
                except A2AError as error:
                    if is_keep_alive(sse):
                        continue
                    self._handle_error(error)
                    return
                silent = False
                operation.last_event_id = sse.id_bytes
                assembly.generations.record_id(sse.id_bytes)
                if self._record.first_event_type is None or budget.used:
                    self._record_event(event, new_events)
                yield from new_events
                if assembly.ended:
                    self._connections.finish()
                    return
        except SSEEventTooLarge as too_large:
            raise self._with_progress(A2ASSEParseError(str(too_large), chunk)) from too_large
        if silent:
            self._check_silence(chunk, keep_alives=sse is not None)
        else:
            self._silence.reset()

    def _record_event(self, event: Event, new_events: Sequence[Event]) -> None:
        """Record an event, and refill the budget if it shows that the task makes progress."""
        operation, budget = self._operation, self._connections.budget
        if not operation.begun:
            operation.begun = True
            self._route.record_response(self._call)
        if not self._record.add(event):
            return
        operation.reset_rejections()
        if self.assembly.is_progress(new_events):
            self._record.progressed = True
            budget.refill()
        elif operation.fetches:
            budget.restore_retries()

    # Silence

    def _check_silence(self, chunk: bytes, *, keep_alives: bool) -> None:
        """Pause reading to check the task if there was no event for too long."""
        if not self._silence.lasts_too_long(chunk, keep_alives=keep_alives):
            return
        if self.assembly.task_id and self._operation.can_resume:
            self._must_check_task = True
            self._connections.pause()
        elif self.assembly.may_end:
            self._connections.finish()

    def side_call(self) -> SideCall[Event]:
        """Return the call to make while reading is paused; it checks the task after silence.

        If the agent does not respond to it, reading continues.
        """
        return self._check_task(), self._route.settings.max_body_bytes

    def _check_task(self) -> Flow[Iterable[Event]]:
        if not self._must_check_task:
            return ()
        self._must_check_task = False
        connections, assembly = self._connections, self.assembly
        task = yield from fetch_task_once(self._route, assembly.task_id)
        if task is not None and (task.status.is_terminal or task.status.is_interrupted):
            new_events = assembly.apply_fetched(task)
            connections.finish()
            return new_events
        if task is None and assembly.may_end:
            connections.finish()
        elif task is not None and assembly.is_behind(task):
            self._count_loss("the stream is silent, but its task has new content")
        else:
            connections.read()
        return ()

    # Bodies that are not a stream

    def _handle_body(
        self, body: UnaryBody, chunk: bytes, *, ended: bool = False
    ) -> Sequence[Event]:
        """Add bytes to a body; return the new events in it once it is complete."""
        try:
            complete = body.add(chunk)
        except A2AResponseTooLargeError as error:
            raise self._with_progress(error) from None
        if not complete and not ended:
            return ()
        self._body = None
        apply = self.assembly.apply
        try:
            value = self._call.parse_response(body.content)
            new_events = (
                _apply_fetched_task(self.assembly, value)
                if self._operation.fetches
                else apply(value)
            )
        except Gap:
            self._fetch(_GAP)
            return ()
        except A2AError as error:
            self._handle_error(error)
            return ()
        self._record_event(value, new_events)
        self._connections.pause()
        if self.assembly.may_end:
            self._connections.finish()
        elif not self._call.operation.streams:
            self._wait_to_fetch()
        return new_events

    # Errors and losses

    def _handle_error(self, error: A2AError) -> None:
        """Change the dialect or fetch the task if that may help, else raise the error."""
        self._connections.settle()
        operation = self._operation
        if not operation.begun and self._route.record_response(self._call, error):
            return
        rejected = self._record.first_event_type is None or isinstance(error, _CANNOT_SUBSCRIBE)
        if operation.subscribes and self._resume and rejected:
            self._fetch(str(error))
            return
        raise self._with_progress(error)

    def _fetch(self, why: str) -> None:
        """Fetch the task from now on, instead of subscribing."""
        self._connections.settle()
        self._operation.begun = True
        task_id = self.assembly.task_id
        logger.info("fetching task %s instead of subscribing to it: %s", task_id, self.redact(why))
        self._operation.fetch(task_id)

    def _wait_to_fetch(self) -> None:
        """Plan to fetch the task after a delay."""
        task_id = self.assembly.task_id
        if task_id is None:
            raise self._with_progress(stream_closed("the response contains no task id"))
        self._connections.settle()
        self._operation.fetch(task_id)
        self._connections.wait(self._connections.budget.before_poll())

    def _count_loss(
        self, cause: str, *, server_delay: float | None = None, error: Exception | None = None
    ) -> None:
        """Plan the next connection, finish if the stream may end, or raise."""
        connections, operation = self._connections, self._operation
        task_id, failures = self.assembly.task_id, connections.budget.failures
        if self.assembly.may_end:
            connections.finish()
            return
        if not task_id or not operation.can_resume or not self._resume:
            raise self._with_progress(stream_closed(cause, error, failures))
        if self._record.was_stable(error):
            connections.budget.restore_retries()
        elif self._record.only_repeated:
            operation.last_event_id = b""
        self._skipped = 0
        asked = connections.server_delay(server_delay)
        delay = connections.lose(asked)
        if delay is None:
            raise self._with_progress(stream_closed(cause, error, failures + 1, asked))
        connections.wait(delay)
        if not operation.fetches:
            first = self._record.first_event_type
            without_snapshot = operation.subscribes and first not in (None, Task)
            operation.subscribe(task_id)
            if without_snapshot or not self._route.channel.dialect.subscribing_is_safe:
                operation.fetch(task_id)
        doing = "fetching the task" if operation.fetches else "resubscribing"
        logger.warning(
            "stream of task %s lost (%s); %s in %.2f s", task_id, self.redact(cause), doing, delay
        )

    def _with_progress(self, error: A2AError) -> A2AError:
        """Settle the connection, and return the error with the task so far."""
        self._connections.settle()
        error.task_id = self.assembly.task_id
        error.task = self.assembly.task
        return error


def _apply_fetched_task(assembly: Assembly, task: Task) -> Sequence[Event]:
    """Apply a task from `get_task` and return the new events.

    Raises:
        A2AJSONError: it is another task.
    """
    if task.id and task.id != assembly.task_id:
        message = f"the response must be task {assembly.task_id}, got task {task.id:.200}"
        raise A2AJSONError(message)
    return assembly.apply_fetched(task)
