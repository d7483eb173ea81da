"""The life cycle of a stream that is read over several connections, one after the other. Pure.

Both stream machines own one `Connections`. The machines contain the rules of their protocol; this
module contains the rules that do not depend on the protocol:

* State. Between two connections the stream is IDLE, and the next step is planned: a wait, the
  request that follows a redirect, or else a new attempt. Sending a request changes the state to
  OPEN, accepting a response to READING, settling a connection to IDLE. FINISHED is final.
* Attempts. A redirect belongs to the attempt that received it; each attempt counts its redirects.
* Losses are counted by the `RetryBudget`. The delay is at least what the server asks for: in a
  header, in an error, or with the field `retry` of server-sent events. That field stays in effect
  for the following connections.
* Deadline. A time limit for the whole stream, which starts with the first request.
* Cursor. A Last-Event-ID is sent only if a header can carry it unchanged.

The retry budget says how often and how long a stream reconnects without progress:

* A stream reconnects up to `max_retries` times in a row without progress.
* A stream that has already begun also reconnects until `reconnect_for` seconds have passed since
  the first loss after the last progress, because a server may need that time to restart.
* A server that drains sends `retry:` and ends the response cleanly. Reconnecting then does not use
  a retry, but the number of drains in a row is limited too.
* The delays double with each loss or poll until there is progress. They are never shorter than what
  the server asks for.
"""

import random
from collections.abc import Callable
from enum import Enum, auto
from math import inf

from ._clock import monotonic
from ._drive import Wait
from ._http._redirect import Redirects
from ._http._types import Request, ResponseHead
from ._retry import Backoff
from .sse import SSEDecoder
from .sse._decode import DEFAULT_MAX_EVENT_BYTES

_MAX_DRAINS = 10


class RetryBudget:
    """Counts losses and computes the delay before the next attempt.

    Attributes:
        failures: the consecutive losses that count against `max_retries`.
        used: whether anything was counted since the last `refill`.
    """

    __slots__ = (
        "_backoff",
        "_begun",
        "_clock",
        "_delays",
        "_drains",
        "_first_loss",
        "_jitter",
        "_max_retries",
        "_reconnect_for",
        "failures",
        "used",
    )

    def __init__(
        self,
        backoff: Backoff,
        max_retries: int,
        *,
        reconnect_for: float = 0.0,
        jitter: Callable[[], float] = random.random,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._backoff = backoff
        self._max_retries = max_retries
        self._reconnect_for = reconnect_for
        self._jitter = jitter
        self._clock = clock
        self._begun = False
        self.refill()

    @property
    def max_server_delay(self) -> float:
        """The longest delay that a server may ask for."""
        return self._backoff.max_server_delay

    def refill(self) -> None:
        """Reset all counters, because there was progress."""
        self.restore_retries()
        self._delays = 0  # since the last progress
        self._drains = 0
        self.used = False

    def restore_retries(self) -> None:
        """Allow all retries again although there was no progress; the delays continue to grow."""
        self._first_loss: float | None = None
        self.failures = 0

    def after_drain(self, server_delay: float | None) -> float | None:
        """Return the seconds to wait for a server that drains; None if it drained too often."""
        self.used = True
        self._drains += 1
        if self._max_retries == 0 or self._drains > _MAX_DRAINS:
            return None
        return self._backoff.retry_delay(1, server_delay, self._jitter)

    def after_loss(self, server_delay: float | None, *, begun: bool = True) -> float | None:
        """Count a loss; return the seconds to wait before the next attempt; None to give up."""
        self.used = True
        self.failures += 1
        self._delays += 1
        self._begun = begun
        now = self._clock()
        if self._first_loss is None:
            self._first_loss = now
        delay = self._backoff.retry_delay(self._delays, server_delay, self._jitter)
        if delay is None or self.failures <= self._max_retries:
            return delay
        left = self._reconnect_for - (now - self._first_loss)
        if not begun or left <= 0:
            return None
        return min(
            delay, max(left, server_delay or 0.0)
        )  # the last attempt is made when the time is up

    def before_poll(self) -> float:
        """Return the seconds to wait before polling; a poll does not use a retry."""
        self.used = True
        self._delays += 1
        return self._backoff.delay(self._delays, self._jitter)

    def describe(self) -> str:
        """Describe the next attempt for a log line."""
        if self.failures == 0:
            return "because the server is draining"
        if self.failures <= self._max_retries:
            more = "at least " if self._begun and self._reconnect_for else ""
            return f"attempt {self.failures} of {more}{self._max_retries}"
        return f"attempt {self.failures}, giving up after {self._reconnect_for:g} s"


_TIMER_SLACK = 0.01


class State(Enum):
    """State of the current connection."""

    IDLE = auto()  # no connection
    OPEN = auto()  # a request was sent; its response is not being read
    READING = auto()  # the response carries the stream and is being read
    FINISHED = auto()  # the stream is complete


class Connections:
    """The connections of one stream.

    `deadline` limits the whole stream, in seconds from the first request; `clock` is a monotonic
    clock in seconds.

    Attributes:
        state: see `State`.
        budget: counts consecutive losses.
        attempts: the number of connections that were attempted.
        request: the last request that was sent.
        head: the head of the last response.
        decoder: decodes the events of the current connection.
        deadline: the constructor argument.
    """

    __slots__ = (
        "_clock",
        "_expires",
        "_max_event_bytes",
        "_planned",
        "_redirects",
        "_retry_seconds",
        "attempts",
        "budget",
        "deadline",
        "decoder",
        "head",
        "request",
        "state",
    )

    def __init__(
        self,
        budget: RetryBudget,
        *,
        max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES,
        deadline: float | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.budget = budget
        self.deadline = deadline
        self.state = State.IDLE
        self.attempts = 0
        self.request: Request | None = None
        self.head: ResponseHead | None = None
        self.decoder = SSEDecoder(max_event_bytes)
        self._max_event_bytes = max_event_bytes
        self._clock = clock
        self._expires: float | None = None  # on the clock
        self._planned: Wait | Request | None = None
        self._redirects = Redirects()
        self._retry_seconds: float | None = None

    @property
    def reconnects(self) -> int:
        """The number of connections after the first."""
        return max(self.attempts - 1, 0)

    @property
    def reading(self) -> bool:
        """True if the current response is to be read further."""
        return self.state is State.READING

    @property
    def settled(self) -> bool:
        """True if no connection is open, or the stream is complete."""
        return self.state is State.IDLE or self.state is State.FINISHED

    @property
    def finished(self) -> bool:
        """True if the stream is complete."""
        return self.state is State.FINISHED

    # Steps

    def planned_step(self) -> Wait | Request | None:
        """Return the planned wait or redirected request; None means to start a new attempt."""
        step, self._planned = self._planned, None
        return self._record_request(step) if isinstance(step, Request) else step

    def open(self, request: Request, last_event_id: bytes = b"") -> Request:
        """Start a new attempt and return its request; `last_event_id` is the current event id."""
        self.attempts += 1
        self._redirects = Redirects()
        self._save_retry()
        self.decoder = SSEDecoder(
            self._max_event_bytes, last_event_id=last_event_id.decode("utf-8", "replace")
        )
        return self._record_request(request)

    def _record_request(self, request: Request) -> Request:
        """Apply the deadline to a request and record it as the one that is sent now."""
        if self.deadline is not None:
            now = self._clock()
            if self._expires is None:
                self._expires = now + self.deadline
            request = request.expiring(self._expires, now)
        self.request = request
        self.state = State.OPEN
        return request

    # State

    def read(self) -> None:
        """Start reading the current response, or continue after `pause`."""
        self.state = State.READING

    def pause(self) -> None:
        """Stop reading while the connection stays open."""
        self.state = State.OPEN

    def settle(self) -> None:
        """Leave the current connection, unless the stream is finished."""
        if self.state is not State.FINISHED:
            self.state = State.IDLE

    def finish(self) -> None:
        """Mark the stream as complete."""
        self.state = State.FINISHED

    # Redirects

    def is_redirect(self, head: ResponseHead) -> bool:
        """Return True if a response is a redirect to follow."""
        return self._redirects.includes(head)

    def redirect(self, head: ResponseHead) -> None:
        """Plan the request that follows a redirect.

        Raises:
            ValueError: there were too many redirects, or the location cannot be used.
        """
        assert self.request is not None  # noqa: S101 - a response follows a request
        self._planned = self._redirects.follow(self.request, head)
        self.settle()

    # Losses

    def server_delay(self, asked: float | None = None) -> float | None:
        """Return the longest delay that the server asked for; `asked` is from the last response."""
        self._save_retry()
        return max(filter(None, (asked, self._retry_seconds)), default=None)

    def lose(
        self, server_delay: float | None, *, begun: bool = True, drained: bool = False
    ) -> float | None:
        """Settle a lost connection; return the seconds before the next attempt, None to give up.

        `drained` means that the server ended the response cleanly and asked to reconnect.
        """
        self.settle()
        delay = self.budget.after_drain(server_delay) if drained else None
        return self.budget.after_loss(server_delay, begun=begun) if delay is None else delay

    def wait(self, seconds: float) -> None:
        """Plan a wait before the next attempt."""
        self._planned = Wait(seconds)

    def _save_retry(self) -> None:
        retry_ms = self.decoder.retry_ms
        if retry_ms is not None:
            self._retry_seconds = retry_ms / 1000

    # Deadline

    def time_left(self) -> float:
        """Return the seconds until the deadline."""
        return inf if self._expires is None else self._expires - self._clock()

    def expires_within(self, delay: float | None) -> bool:
        """Return True if an attempt after this delay would begin after the deadline."""
        # A timer may fire slightly early: an attempt this close to the deadline is too late.
        return self.time_left() <= (delay or _TIMER_SLACK)


def header_cursor(last_event_id: bytes) -> str | None:
    """Return the value of a Last-Event-ID header; None if a header cannot carry it unchanged."""
    cursor = last_event_id.decode("utf-8", "replace")
    return cursor if cursor and cursor == cursor.strip() and cursor.isprintable() else None
