"""The resubscribe machine: how a stream of a task is read over as many connections as it takes.

It does no I/O and knows no thread or event loop. What of an event is new is decided in `_assemble`,
and what does not depend on the protocol is in `_connections`. The rules, by their numbers in
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

from .._connections import Connections, State
from .._drive import Flow, SideCall, Wait
from .._http._checks import shown
from .._http._types import FINAL_FAILURES, Request, ResponseHead, TransportFailure
from .._retry import RETRIED_STATUSES, retry_after
from .._retry_budget import RetryBudget
from ..sse import ServerSentEvent, SSEEventTooLarge
from ._assemble import Assembly, Gap
from ._call import Call, connection_error, stream_closed, unreached
from ._route import Route
from ._silence import Silence, is_keep_alive
from ._stream_operation import StreamOperation
from ._unary import Body, asked_once
from .errors import (
    A2AError,
    A2AHTTPError,
    A2AJSONError,
    A2AResponseTooLargeError,
    A2ASSEParseError,
    MethodNotFoundError,
    UnsupportedOperationError,
)
from .types import Event, Message, Task, UnknownEvent

__all__ = ["ResubscribeMachine"]

logger = logging.getLogger("coreason_client.a2a")

_CANNOT_SUBSCRIBE = (UnsupportedOperationError, MethodNotFoundError)
_NOT_ALLOWED = frozenset({401, 403, 407})
_READING = State.READING
_GAP = "its subscription does not join what was delivered before"


class ResubscribeMachine:
    """Reads the stream of one task.

    `name` and `params` are the operation that begins it. `jitter` returns numbers from 0 to 1,
    `now` the seconds since 1970, `clock` seconds that only grow; tests replace them.
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
        self._call: Call  # of this connection; set with the first request
        self._received: type[Event] | None = None  # the first event on this connection
        self._silence = Silence(settings.stream.read, clock)
        self._checks_task = False  # because of silence
        self._body: Body | None = None  # of a response that is not a stream

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
        """Whether more bytes of this response are wanted."""
        return self._connections.state is _READING

    # Steps

    def next_step(self) -> Request | Wait | None:
        """Return what to do next; None when the stream is over."""
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
            self.assembly.reconnected()
        self._received = None
        self._silence.end()
        return connections.open(self._call.request, (cursor or "").encode())

    def accepts(self, head: ResponseHead) -> bool:
        """Return True if this response can be read: a stream, or a body of JSON."""
        self._connections.head = head
        self._body = None
        unary = not self._call.operation.streams
        if head.status != 200:
            return False
        if head.content_type != "text/event-stream" or unary:
            if not unary and not head.content_type.endswith("json"):
                return False
            self._body = Body(head, self._route.settings.max_body_bytes)
        self._connections.read()
        return True

    def refused(self, head: ResponseHead, body: bytes) -> None:
        """Follow a redirect, count a loss, fetch the task, or raise what the response means.

        Raises:
            A2AError: the server refuses, or this was one loss too many.
        """
        connections, call = self._connections, self._call
        if connections.is_redirect(head):
            try:
                connections.redirect(head)
            except ValueError:
                pass  # an error like any other status
            else:
                return
        error = call.refusal(head, body)
        if head.status == 200:
            kind = head.content_type or "unknown"
            words = f"{call.request.method} {shown(call.request.url)} was answered with type {kind}"
            error = A2AHTTPError(words, status=200, headers=head.headers, body=body)
        if self._route.answered(call, error) or call.asks_otherwise(head, error):
            connections.settle()
        elif type(error) is A2AHTTPError:
            self._take_refusal(head, error)
        else:
            self._take_error(error)

    def _take_refusal(self, head: ResponseHead, error: A2AHTTPError) -> None:
        """Fetch the task instead of subscribing, count a loss, or raise the error of a status."""
        operation, status = self._operation, head.status
        if self._resume and operation.subscribes and status not in _NOT_ALLOWED:
            operation.count_refusal()
            if operation.is_refused_for_good(status):
                self._fetch(str(error))
                return
        is_transient = status == 200 or status in RETRIED_STATUSES
        if not is_transient or not self._resume or not operation.can_resume:
            raise self._marked(error)
        self._lose(str(error), server_delay=retry_after(head.headers, self._now), error=error)

    def lost(self, failure: TransportFailure | None) -> Iterator[Event]:
        """Record that the connection is gone; hand out the news that a clean end completes.

        Raises:
            A2AError: the stream cannot go on.
        """
        connections = self._connections
        if failure is not None and failure.kind in FINAL_FAILURES:
            attempts = connections.budget.failures + 1
            raise self._marked(connection_error(self._call.request, failure, attempts))
        if connections.settled:
            return
        if failure is None:
            if self._body is not None:
                yield from self._take_body(self._body, b"", ended=True)
            if not connections.settled:
                self._lose("the response ended before the task")
            return
        if unreached(failure):
            if self._route.skip(self._call, self._skipped):
                self._skipped += 1
                connections.settle()
                return
            if not self._operation.can_resume:
                error = connection_error(self._call.request, failure, connections.attempts)
                raise self._marked(error)
        self._lose(str(failure), error=failure)

    # Events

    def receive(self, chunk: bytes) -> Iterator[Event]:
        """Take bytes and hand out the news in them, one at a time.

        Raises:
            A2AError: the agent's error, or what cannot be read.
        """
        if self._body is not None:
            yield from self._take_body(self._body, chunk)
            return
        assembly, operation, budget = self.assembly, self._operation, self._connections.budget
        take, read = assembly.take, self._call.event
        sse: ServerSentEvent | None = None
        silent = True
        try:
            for sse in self._connections.decoder.events(chunk):
                try:
                    event = read(sse.data_bytes)
                    news = take(event)
                except Gap:
                    self._fetch(_GAP)
                    return
                except A2AError as error:
                    if is_keep_alive(sse):
                        continue
                    self._take_error(error)
                    return
                silent = False
                operation.last_event_id = sse.id_bytes
                if self._received is None or budget.used:
                    self._note(event, news)
                yield from news
                if assembly.ended:
                    self._connections.finish()
                    return
        except SSEEventTooLarge as too_large:
            raise self._marked(A2ASSEParseError(str(too_large), chunk)) from too_large
        if silent:
            self._keep_waiting(chunk, keep_alives=sse is not None)
        else:
            self._silence.end()

    def _note(self, event: Event, news: Sequence[Event]) -> None:
        """Record that an event came, and refill the budget if it shows that the task goes on."""
        operation, budget = self._operation, self._connections.budget
        if self._received is None:
            self._received = type(event)
            if not operation.begun:
                operation.begun = True
                self._route.answered(self._call)
        if isinstance(event, Message | UnknownEvent):
            return
        operation.reset_refusals()
        if news:
            budget.refill()
        else:
            budget.restore_retries()

    # Silence

    def _keep_waiting(self, chunk: bytes, *, keep_alives: bool) -> None:
        """Stop reading to check the task if there was no event for too long."""
        if not self._silence.lasts_too_long(chunk, keep_alives=keep_alives):
            return
        if self.assembly.task_id and self._operation.can_resume:
            self._checks_task = True
            self._connections.pause()
        elif self.assembly.over:
            self._connections.finish()

    def side_call(self) -> SideCall[Event]:
        """Return the call to make when reading has stopped; it does nothing unless it is silence.

        If the agent does not answer it, reading goes on.
        """
        return self._check_task(), self._route.settings.max_body_bytes

    def _check_task(self) -> Flow[Iterable[Event]]:
        if not self._checks_task:
            return ()
        self._checks_task = False
        connections, assembly = self._connections, self.assembly
        task = yield from asked_once(self._route, assembly.task_id)
        if task is not None and (task.status.is_terminal or task.status.is_interrupted):
            news = assembly.settle(task)
            connections.finish()
            return news
        if task is None and assembly.over:
            connections.finish()
        elif task is not None and assembly.is_behind(task):
            self._lose("the stream is silent, though its task has gone on")
        else:
            connections.read()
        return ()

    # Bodies that are not a stream

    def _take_body(self, body: Body, chunk: bytes, *, ended: bool = False) -> Sequence[Event]:
        """Add bytes to a body; return the news in it once it is complete."""
        try:
            complete = body.add(chunk)
        except A2AResponseTooLargeError as error:
            raise self._marked(error) from None
        if not complete and not ended:
            return ()
        self._body = None
        take = self.assembly.take
        try:
            value = self._call.answer(body.content)
            news = _settled(self.assembly, value) if self._operation.fetches else take(value)
        except Gap:
            self._fetch(_GAP)
            return ()
        except A2AError as error:
            self._take_error(error)
            return ()
        self._received = None
        self._note(value, news)
        self._connections.pause()
        if self.assembly.over:
            self._connections.finish()
        elif not self._call.operation.streams:
            self._wait_to_fetch()
        return news

    # Errors and losses

    def _take_error(self, error: A2AError) -> None:
        """Change the dialect or the operation where the error asks for it, else raise it."""
        self._connections.settle()
        operation = self._operation
        if not operation.begun and self._route.answered(self._call, error):
            return
        refused = self._received is None or isinstance(error, _CANNOT_SUBSCRIBE)
        if operation.subscribes and self._resume and refused:
            self._fetch(str(error))
            return
        raise self._marked(error)

    def _fetch(self, why: str) -> None:
        """Ask for the task itself from now on."""
        self._connections.settle()
        self._operation.begun = True
        task_id = self.assembly.task_id
        logger.info("task %s is fetched instead of subscribed to: %s", task_id, self.redact(why))
        self._operation.fetch(task_id)

    def _wait_to_fetch(self) -> None:
        """Plan to ask for the task after a delay."""
        task_id = self.assembly.task_id
        if task_id is None:
            raise self._marked(stream_closed("the answer names no task"))
        self._connections.settle()
        self._operation.fetch(task_id)
        self._connections.wait(self._connections.budget.before_poll())

    def _lose(
        self, cause: str, *, server_delay: float | None = None, error: Exception | None = None
    ) -> None:
        """Plan the next connection, finish when all was delivered, or raise when that is it."""
        connections, operation = self._connections, self._operation
        task_id, failures = self.assembly.task_id, connections.budget.failures
        if self.assembly.over:
            connections.finish()
            return
        if not task_id or not operation.can_resume or not self._resume:
            raise self._marked(stream_closed(cause, error, failures))
        self._skipped = 0
        asked = connections.server_delay(server_delay)
        delay = connections.lose(asked)
        if delay is None:
            raise self._marked(stream_closed(cause, error, failures + 1, asked))
        connections.wait(delay)
        if not operation.fetches:
            without_snapshot = operation.subscribes and self._received not in (None, Task)
            operation.subscribe(task_id)
            if without_snapshot or not self._route.channel.dialect.subscribing_is_safe:
                operation.fetch(task_id)
        doing = "fetching the task" if operation.fetches else "resubscribing"
        logger.warning(
            "stream of task %s lost (%s); %s in %.2f s", task_id, self.redact(cause), doing, delay
        )

    def _marked(self, error: A2AError) -> A2AError:
        """Settle the connection, and record in an error how far the stream had come."""
        self._connections.settle()
        error.task_id = self.assembly.task_id
        error.task = self.assembly.task
        return error


def _settled(assembly: Assembly, task: Task) -> Sequence[Event]:
    """Return the news in the answer to `get_task`.

    Raises:
        A2AJSONError: it is another task.
    """
    if task.id and task.id != assembly.task_id:
        words = f"the agent was asked for task {assembly.task_id}, got {task.id:.200}"
        raise A2AJSONError(words)
    return assembly.settle(task)
