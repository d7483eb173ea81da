"""One call, from its first request to its answer: every rule of retrying is here. No I/O.

* Attempts (27). `max_retries` retries make one attempt more, for each model. Retry n waits 2^n
  seconds with jitter, or what the provider asks for when that is longer; a delay beyond the cap is
  not waited for, and the error says how long it was.
* What is retried: 429, 5xx, broken and timed out connections, a success whose body is empty or a
  web page, a stream without an answer in it, and an error with a transient code inside a success.
  Not a bad key, a wrong request or a used up quota (29).
* Deadline. One for the whole call, all attempts, waits and models included. Of a stream it covers
  the time up to the first piece; from then on only silence ends it.
* Unsupported parameters. When a provider names one, it is dropped or renamed and the request goes
  out again, once, without a wait.
* Fallbacks. When a model is given up, the next one is asked.
* Nothing is retried once a piece of an answer was handed out. All events that came complete are
  handed out before an error.
* A complete JSON answer to a request for a stream is a stream of one piece.
"""

import json
import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from .._drive import Flow, Reply, Wait
from .._http._types import FailureKind, Headers, Request, ResponseHead, Timeouts, TransportFailure
from .._retry import Backoff
from ..sse import ServerSentEvent
from ._assemble import assemble, partial
from ._classify import Failure, connection_failure, http_failure, malformed, withheld
from ._cost import cost
from ._frames import Frames, TooLarge
from ._json import parse
from ._limits import Limits, Reservation
from ._reader import Reader
from ._route import Route
from ._terms import Answer, Call, Faulted, Malformed, Tokens
from .errors import (
    LLMAuthenticationError,
    LLMError,
    LLMPermissionError,
    LLMRequestError,
    LLMTimeoutError,
)
from .types import (
    Delta,
    Finish,
    ReasoningDelta,
    Response,
    ResponseData,
    TextDelta,
    ToolCallDelta,
    UsageDelta,
)

__all__ = ["BACKOFF", "AnswerMachine", "Plan", "Policy", "Trying", "generate_flow"]

logger = logging.getLogger("coreason_client.llm")

_CONNECT_SECONDS = 10.0
# A parameter that one generation of models refuses and the next one demands.
_RENAMED = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_NEEDED = frozenset({"model", "messages", "contents", "stream"})
_KEY_ERRORS = (LLMAuthenticationError, LLMPermissionError)
_NO_HEAD = ResponseHead(0, Headers())


BACKOFF = Backoff(first=1.0, longest=60.0, longest_wish=120.0)


# Not frozen: that would double the cost of making one, and every call does.
@dataclass(slots=True)
class Policy:
    """How long and how often a client tries; `jitter` and `clock` are for tests to replace."""

    timeout: float = 60.0
    max_retries: int = 3
    deadline: float = 300.0
    backoff: Backoff = BACKOFF
    limits: Limits | None = None
    jitter: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic


@dataclass(slots=True)
class Plan:
    """One model to ask, by the name that the caller gave it: call, way, and what is sent."""

    call: Call
    route: Route
    asked: str = ""
    pricing: Callable[[str | None, str, Tokens], float | None] = cost
    body: dict[str, Any] = field(init=False)
    content: bytes = field(init=False)
    url: str = field(init=False)

    def __post_init__(self) -> None:
        adapter = self.route.adapter
        self.body = _laid_over(adapter.body(self.call, self.route.profile), self.call.extra)
        url = adapter.url(self.route.base, self.call)
        query = self.route.query
        self.url = f"{url}{'&' if '?' in url else '?'}{query}" if query else url
        self.encode()

    def encode(self) -> None:
        """Write the body as JSON.

        Raises:
            LLMRequestError: something in it cannot be written.
        """
        try:
            self.content = to_json(self.body)
            if b"NaN" in self.content or b"Infinity" in self.content:  # perhaps within a text
                json.dumps(self.body, allow_nan=False, default=str)
        except (PydanticSerializationError, ValueError) as error:
            raise LLMRequestError(
                f"the request cannot be written as JSON: {error}", model=self.call.model
            ) from None

    def without(self, parameter: str) -> bool:
        """Drop a parameter that the provider does not take; say whether that can be done."""
        name = parameter.partition(".")[0].partition("[")[0]
        if name not in self.body or name in _NEEDED:
            return False
        value = self.body.pop(name)
        renamed = _RENAMED.get(name)
        if renamed is not None and renamed not in self.body:
            self.body[renamed] = value
        self.encode()
        return True

    def price(self, tokens: Tokens) -> float | None:
        """Return what tokens cost."""
        return self.pricing(self.route.profile.prices, self.route.model, tokens)


def _laid_over(body: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body with the caller's own fields: objects are joined, all else is replaced."""
    for name, value in extra.items():
        known = body.get(name)
        if isinstance(known, dict) and isinstance(value, dict):
            value = {**known, **value}
        body[name] = value
    return body


class Trying:
    """Which request goes out next, and when to give up."""

    def __init__(self, plans: Sequence[Plan], policy: Policy) -> None:
        self.plan = plans[0]
        self.fell_back = False
        self.timeout = policy.timeout  # of the present attempt
        self._plans = list(plans[1:])
        self._policy = policy
        self._end: float | None = None  # set when the first step is asked for
        self._attempts = 0
        self._failures = 0  # of this plan
        self._mended = False
        self._wait: Wait | None = None
        self._reservation: Reservation | None = None  # of the present attempt
        self._earlier: list[LLMError] = []

    def next_step(self) -> Request | Wait:
        """Return the next request, or the wait before it.

        Raises:
            LLMTimeoutError: the deadline has passed.
        """
        wait, self._wait = self._wait or self._own_limit(), None
        if wait is not None:
            return wait
        left = self.left()
        if left <= 0:
            raise self.out_of_time()
        self._attempts += 1
        self.timeout = min(self._policy.timeout, left)
        plan, timeouts = self.plan, _timeouts(self.timeout)
        return Request("POST", plan.url, plan.route.headers, plan.content, timeouts)

    def failed(self, failure: Failure) -> None:
        """Take note of an attempt that failed.

        Raises:
            LLMError: it was the last one.
        """
        error = failure.error
        error.attempts = self._attempts
        self._settle(0)
        if failure.unsupported is not None and not self._mended:
            self._mended = True
            if self.plan.without(failure.unsupported):
                logger.warning(
                    "%s does not take %s for model %s; it is sent again without it",
                    *(error.provider, failure.unsupported, error.model),
                )
                return
        self._failures += 1
        delay = self._delay(failure)
        if delay is None:
            self._give_up(error)
        else:
            logger.warning("attempt %d failed (%s); again in %.1f s", self._attempts, error, delay)
            self._wait = Wait(delay)

    def succeeded(self, response: Response) -> Response:
        """Take note of an answer."""
        self._settle(response["usage"]["total_tokens"])
        if self.fell_back:
            response["model"] = self.plan.asked
        return response

    def stop(self, error: LLMError) -> LLMError:
        """Return an error that ends the call, with what the whole call knows of it."""
        error.attempts = self._attempts
        if self._attempts > 1:
            error.args = (f"{error} (tried {self._attempts} times)",)
        if isinstance(error, _KEY_ERRORS):
            logger.error("%s", error)
        for earlier in self._earlier:
            error.add_note(f"before it, model {earlier.model} failed: {earlier}")
        return error

    def _delay(self, failure: Failure) -> float | None:
        """Return the seconds before the next attempt, None when there is none."""
        policy = self._policy
        if not failure.again or self._failures > policy.max_retries:
            return None
        delay = policy.backoff.delay(self._failures, failure.error.retry_after, policy.jitter)
        return None if delay is None or delay >= self.left() else delay

    def _give_up(self, error: LLMError) -> None:
        if not self._plans or self.left() <= 0:
            raise self.stop(error)
        level = logging.ERROR if isinstance(error, _KEY_ERRORS) else logging.WARNING
        logger.log(level, "model %s is given up for the next one: %s", error.model, error)
        self._earlier.append(error)
        self.plan = self._plans.pop(0)
        self.fell_back = True
        self._failures = 0
        self._mended = False

    def _own_limit(self) -> Wait | None:
        """Return the wait that the client's own limits ask for before a request."""
        limits = self._policy.limits
        if limits is None:
            return None
        now, left = self._policy.clock(), self.left()
        if self._reservation is None:
            tokens = len(self.plan.content) // 4 + self.plan.call.max_tokens
            self._reservation = limits.reserve(tokens, now, left)
            if self._reservation is None:
                raise self._over_limit()
        seconds = limits.wait(self._reservation, now)
        if seconds > 0 and seconds >= left:
            limits.cancel(self._reservation)
            raise self._over_limit()
        return Wait(seconds) if seconds > 0 else None

    def _settle(self, tokens: int) -> None:
        """Correct the reservation of an attempt that is over."""
        reservation, self._reservation = self._reservation, None
        if self._policy.limits is not None and reservation is not None:
            self._policy.limits.settle(reservation, tokens)

    def left(self) -> float:
        """Return the seconds up to the deadline, which begins to run when this is first asked."""
        now = self._policy.clock()
        if self._end is None:
            self._end = now + self._policy.deadline
        return self._end - now

    def out_of_time(self) -> LLMError:
        """Return the error for a deadline that passed."""
        route = self.plan.route
        return self._timed_out(f"no answer from {route.profile.name} for model {route.model}")

    def _over_limit(self) -> LLMError:
        """Return the error for a request that would wait for the client's own limits too long."""
        return self._timed_out(
            "the request was not sent: requests_per_minute or tokens_per_minute of this client "
            "leaves no room for it"
        )

    def _timed_out(self, reason: str) -> LLMError:
        route = self.plan.route
        error = LLMTimeoutError(
            f"{reason} within the deadline of {self._policy.deadline:g} s",
            provider=route.profile.name,
            model=route.model,
        )
        return self.stop(error)


@lru_cache(maxsize=64)  # nearly all attempts have the same time
def _timeouts(seconds: float) -> Timeouts:
    return Timeouts(min(_CONNECT_SECONDS, seconds), seconds, seconds, seconds)


def generate_flow(trying: Trying, parse_as: Any = None) -> Flow[Response]:
    """Ask until there is an answer, and return the response object.

    Raises:
        LLMError: there is none.
    """
    while True:
        step = trying.next_step()
        result = yield step
        if isinstance(step, Wait):
            continue
        outcome = _outcome(trying.plan, result, parse_as, trying.timeout)
        if not isinstance(outcome, Failure):
            return trying.succeeded(outcome)
        trying.failed(outcome)


def _outcome(
    plan: Plan, result: Reply | TransportFailure | None, parse_as: Any, seconds: float
) -> Response | Failure:
    if not isinstance(result, Reply):
        failure = result or TransportFailure(FailureKind.BROKEN, "nothing came")
        return connection_failure(plan.route, failure, seconds)
    route, head, body = plan.route, result.head, result.body
    reply = _json(body)
    fault = route.adapter.fault(reply)
    if head.status != 200 or fault is not None:
        return http_failure(route, head, fault, body)
    if not isinstance(reply, dict):
        return malformed(route, head, _what_it_is(head, body), body, again=True)
    try:
        answer = route.adapter.answer(reply)
    except Malformed as error:
        return malformed(route, head, error, body)
    return _assembled(plan, head, answer, parse_as)


def _assembled(plan: Plan, head: ResponseHead, answer: Answer, parse_as: Any) -> Response | Failure:
    try:
        return assemble(answer, plan.call, plan.price, parse_as)
    except LLMError as error:
        if not answer.is_empty or answer.reasoning:
            error.partial = partial(answer, plan.call, plan.price)
        return withheld(plan.route, head, error)


def _json(body: bytes) -> Any:
    try:
        return parse(body)
    except ValueError:
        return None


def _deltas_of(data: ResponseData) -> Iterator[Delta]:
    """Return an answer that came whole as the deltas of a stream."""
    if reasoning := data.get("reasoning"):
        yield ReasoningDelta(reasoning)
    if content := data["content"]:
        yield TextDelta(content)
    for index, call in enumerate(data["tool_calls"]):
        arguments = to_json(call["arguments"], inf_nan_mode="constants").decode()
        yield ToolCallDelta(index, call["id"], call["name"], arguments)


def _what_it_is(head: ResponseHead, body: bytes) -> str:
    if not body.strip():
        return "the body is empty"
    if head.content_type == "text/html" or body.lstrip()[:1] == b"<":
        return "the body is a web page; is base_url right?"
    return "the body is not a JSON object"


class AnswerMachine:
    """Reads one streamed answer: a machine for the shells.

    Attributes:
        response: the response object, once the answer is complete.
    """

    def __init__(self, trying: Trying, parse_as: Any = None) -> None:
        self.response: Response | None = None
        self._trying = trying
        self._parse_as = parse_as
        self._head = _NO_HEAD
        self._settled = False  # this attempt has been accounted for
        self._done = False
        self._begin()

    def _begin(self) -> None:
        adapter = self._trying.plan.route.adapter
        self._reader: Reader = adapter.reader()
        self._frames = Frames(adapter.framing)
        self._settled = False

    def next_step(self) -> Request | Wait | None:
        """Return what to do next.

        Raises:
            LLMTimeoutError: the deadline has passed.
        """
        if self._done:
            return None
        step = self._trying.next_step()
        if isinstance(step, Request):
            self._begin()
        return step

    def accepts(self, head: ResponseHead) -> bool:
        """Return True if this is the response that carries the stream, or a whole answer."""
        self._head = head
        framing = self._trying.plan.route.adapter.framing
        self._frames = Frames(framing, claims_json=head.content_type == "application/json")
        return head.status == 200 and head.content_type != "text/html"

    def refused(self, head: ResponseHead, body: bytes) -> None:
        """Record a response that does not carry the stream.

        Raises:
            LLMError: there will be no other attempt.
        """
        route = self._trying.plan.route
        self._settled = True
        fault = route.adapter.fault(_json(body))
        if head.status != 200 or fault is not None:
            self._trying.failed(http_failure(route, head, fault, body))
        else:
            self._trying.failed(malformed(route, head, _what_it_is(head, body), body, again=True))

    def receive(self, chunk: bytes) -> Iterator[Delta]:
        """Take bytes and hand out the deltas in them.

        Raises:
            LLMError: the stream brought an error, or what is no stream.
        """
        try:
            return self._read(self._frames.feed(chunk))
        except TooLarge as error:
            return self._read(error.events, error)

    @property
    def reading(self) -> bool:
        """Whether more bytes of this response are wanted."""
        return not self._settled

    def lost(self, failure: TransportFailure | None) -> Iterator[Delta]:
        """Record that the connection is gone; a clean end may complete the answer.

        Raises:
            LLMError: the answer is incomplete, and there will be no other attempt.
        """
        if self._settled:
            return
        if failure is None:
            whole = self._frames.whole()
            yield from self._last_line() if whole is None else self._read_whole(whole)
            if self._settled:
                return
        if self._reader.end is not None and failure is None:
            yield from self._finish()
            return
        ended = TransportFailure(FailureKind.BROKEN, "the stream ended before the answer did")
        trying, partway = self._trying, self._reader.started
        self._fail(
            connection_failure(trying.plan.route, failure or ended, trying.timeout, partway=partway)
        )

    def _read_whole(self, body: bytes) -> Iterator[Delta]:
        """Hand out an answer that came as one JSON value instead of a stream."""
        trying, reply = self._trying, _json(body)
        if reply is None and body[:1] in (b"{", b"["):  # its end is missing
            return
        if isinstance(reply, list):  # as Gemini streams without SSE
            fault = trying.plan.route.adapter.fault(reply)
            if fault is None:
                yield from self._read([ServerSentEvent(body)])
            else:
                self._fail(http_failure(trying.plan.route, self._head, fault, body))
            return
        self._settled = True
        outcome = _outcome(trying.plan, Reply(self._head, body), self._parse_as, trying.timeout)
        if isinstance(outcome, Failure):
            trying.failed(outcome)
            return
        yield from _deltas_of(outcome["data"])
        yield from self._ended(outcome)

    def _read(
        self, events: Sequence[ServerSentEvent], broken: Exception | None = None
    ) -> Iterator[Delta]:
        """Hand out the deltas of events; `broken` is what has already gone wrong behind them.

        Raises:
            LLMError: one of them is an error, or `broken` is.
        """
        reader = self._reader
        try:
            for event in events:
                yield from reader.read(event.data_bytes, event.event_bytes)
        except (Faulted, Malformed) as error:
            broken = error
        # Outside of `except`, since its words may be what our error must not show.
        if reader.over:
            yield from self._finish()
        elif broken is not None:
            self._broken(broken)
        elif not reader.started and self._trying.left() <= 0:  # kept alive, and no answer
            raise self._trying.out_of_time()

    def _last_line(self) -> Iterator[Delta]:
        """Read a last line that has no end; half a line is none."""
        for line in self._frames.flush():
            if _json(line.data_bytes) is not None:
                yield from self._read([line])

    def _finish(self) -> Iterator[Delta]:
        self._settled = True
        plan, reader = self._trying.plan, self._reader
        yield from reader.rest()
        if not reader.has_answer:
            why = "the stream has no answer in it"
            self._fail(malformed(plan.route, self._head, why, b"", again=True))
            return
        outcome = _assembled(plan, self._head, reader.answer(), self._parse_as)
        if isinstance(outcome, Failure):
            self._fail(outcome)
        else:
            yield from self._ended(outcome)

    def _ended(self, response: Response) -> Iterator[Delta]:
        self._done = True
        self.response = self._trying.succeeded(response)
        yield UsageDelta(response["usage"])
        yield Finish(response["data"]["finish_reason"])

    def _broken(self, error: Exception) -> None:
        plan = self._trying.plan
        if isinstance(error, Faulted):
            self._fail(http_failure(plan.route, self._head, error.fault, b""))
        else:
            why = error if isinstance(error, Malformed) else str(error)
            self._fail(malformed(plan.route, self._head, why, b""))

    def _fail(self, failure: Failure) -> None:
        """End this attempt: with another one, or with an error that carries what had come."""
        self._settled = True
        reader, plan = self._reader, self._trying.plan
        if not reader.started:
            self._trying.failed(failure)
            return
        failure.error.partial = partial(reader.answer(), plan.call, plan.price)
        raise self._trying.stop(failure.error)
