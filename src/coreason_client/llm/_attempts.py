"""The retry rules of one call, what its attempts have spent, and who observes them. No I/O.

* Attempts (27). `max_retries` retries make one attempt more, for each model. Retry n waits 2^n
  seconds with jitter, or as long as the provider asks for if that is longer. If that exceeds the
  cap, the call fails at once and the error has the delay in `retry_after`.
* Retried: 429, 5xx, broken and timed out connections, a success whose body is empty or a web page,
  a stream without an answer, and an error with a transient code inside a success. Not retried: a
  bad key, a wrong request, an exhausted quota (29).
* Deadline. One for the whole call, including all attempts, waits and models. For a stream it
  covers the time up to the first delta; after that, only the read timeout applies.
* Keys. A key that a callable returned and the provider rejects is fetched again, once.
* Unsupported parameters. If a provider names one, it is dropped or renamed and the request is
  repeated once, without a wait.
* Answers that do not match `response_format` are sent back once, with the reason.
* Fallbacks. After the last attempt with a model, the next model is tried.
* Once a delta was delivered, nothing is retried unless the caller chose it (`_recovery.py`). The
  deadline then begins again.
* A 429 holds back the other calls of the client to the same deployment too (`_pacing.py`), unless
  a router selects the deployments, or the client does not retry.
* A router and budgets are behind a `AttemptGate`, which is asked before each attempt and learns
  of its outcome. With a router, the gate selects the deployments and decides how long to wait.
"""

import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar

from .._clock import monotonic
from .._drive import Action, Step, Wait
from .._http._types import Request, ResponseHead, Timeouts
from .._retry import Backoff
from ..sse import ServerSentEvent
from ._answer import Tokens, add_usages
from ._classify import FailedAttempt
from ._cost import cost, prices_loaded
from ._limits import AttemptGate, CallLimits, PlanT, RateLimits
from ._pacing import CallPace, Paces
from ._plan import RequestPlan
from .errors import (
    LLMAuthenticationError,
    LLMError,
    LLMPermissionError,
    LLMRateLimitError,
    LLMTimeoutError,
)
from .types import Measured, OnBreak, Usage

AnyResponse = TypeVar("AnyResponse", bound=Measured)

logger = logging.getLogger("coreason_client.llm")

_CONNECT_SECONDS = 10.0
_UNSUPPORTED = "%s does not support %s for model %s; retrying without it"
_KEY_ERRORS = (LLMAuthenticationError, LLMPermissionError)

# The jitter is added: the specification of the AI client names the least delays.
BACKOFF = Backoff(first=1.0, longest=60.0, max_server_delay=120.0, spread=0.25)


@dataclass(frozen=True, slots=True)
class Policy:
    """Timeouts, retries and limits of a client; tests replace `jitter` and `clock`."""

    timeout: float = 60.0
    max_retries: int = 3
    deadline: float = 300.0
    backoff: Backoff = BACKOFF
    limits: RateLimits | None = None
    on_break: OnBreak = "error"
    reask: bool = True
    paces: Paces | None = None
    jitter: Callable[[], float] = random.random
    clock: Callable[[], float] = monotonic


class Attempts(Generic[PlanT]):
    """Decides which request is sent next, and when to give up.

    Attributes:
        policy: timeouts, retries and limits.
        observer: reports every attempt.
    """

    previous_errors: Sequence[LLMError] = ()
    _start: float | None = None
    _deadline: float | None = None  # set by the first call of `seconds_left`
    _sent = 0
    _failures = 0  # of the current plan
    _adjusted = False  # a parameter of the current plan was dropped or renamed
    _corrected = False  # an answer was sent back to be corrected
    _wait: Wait | None = None

    def __init__(
        self, plans: Sequence[PlanT], policy: Policy, gate: AttemptGate[PlanT] | None = None
    ) -> None:
        self.plan = plans[0]
        self.timeout = policy.timeout  # of the current attempt
        self.spent = Spent()  # by the attempts that did not lead to the answer
        self._fallbacks = plans[1:]
        self.policy = policy
        self.gate = gate
        self._held = _Held(policy, routed=gate is not None and gate.routed)
        self.observer: CallObserver = NOT_OBSERVED

    def next_step(self) -> Step:
        """Return the next request, or the wait or the action before it.

        Raises:
            LLMTimeoutError: the deadline has passed.
            LLMError: a budget, or the limits of all deployments, do not allow the request.
            Exception: whatever the hook `on_request` raises.
        """
        if (wait := self._wait) is not None:
            self._wait = None
        gate = None if self.plan.free else self.gate
        now = self.policy.clock()
        left = self.seconds_left(now)
        if wait is None and not self.plan.free:
            wait = self._held_wait(now, left)
        if wait is not None:
            return wait
        if left <= 0:
            raise self.deadline_error()
        if gate is not None and (step := self._gate_step(gate, left)) is not None:
            return step
        try:
            if (step := self.plan.key_step(left)) is not None:
                return step
            headers = self.plan.headers()
        except LLMError as error:  # there is no key for this model
            self.record_failure(FailedAttempt(error, retryable=False, unsent=True))
            return self.next_step()
        self.timeout = min(self.policy.timeout, left)
        plan, timeouts = self.plan, _timeouts(self.timeout)
        request = Request(plan.method, plan.url, headers, plan.content, timeouts)
        request = self.observer.attempt_started(plan, request)
        self._sent += 1  # not before: a hook may refuse the request
        if gate is not None:
            gate.sending()
        return request

    def record_failure(self, failure: FailedAttempt, *, counted: bool = False) -> None:
        """Record a failed attempt; `counted`: what it received is counted as spent already.

        Raises:
            LLMError: it was the last one.
        """
        error = failure.error
        error.attempts = self._sent
        usage = failure.usage if error.partial is None else error.partial["usage"]
        if usage is not None and not counted:
            self.add_spent(usage)
        self._held.settle()
        self.observer.attempt_failed(error)
        if self.plan.refresh_key(error):
            logger.warning("%s; fetching a new key", error)
            if self.gate is not None:
                self.gate.release()
            return
        verdict = None if self.gate is None else self.gate.failed(failure)
        if failure.invalid is not None and self._correct(failure.invalid, error):
            return
        if failure.unsupported is not None and not self._adjusted:
            self._adjusted = True
            if self.plan.drop_parameter(failure.unsupported):
                logger.warning(_UNSUPPORTED, error.provider, failure.unsupported, error.model)
                return
        if verdict == "next":
            logger.warning("attempt %d failed (%s); trying another one", self._sent, error)
            return
        self._failures += 1
        delay = self._delay(failure, paced=verdict == "retry")
        self._held.share_delay(failure, delay)
        if delay is None:
            self._fall_back(error)
        else:
            _log_retry(self._sent, error, delay)
            self._wait = Wait(delay) if delay > 0 else None

    def record_break(self, failure: FailedAttempt) -> None:
        """Record a failed attempt that is not retried, or only by another request."""
        self._held.settle()
        if self.gate is not None:
            self.gate.failed(failure)

    def close(self) -> Action | None:
        """End the call, whatever its state; return the action to perform, if there is one."""
        self._held.close()
        return None if self.gate is None else self.gate.close()

    def continue_with(self, plan: PlanT) -> None:
        """Send another request of the same call: its attempts begin anew, the deadline stays."""
        self._held.settle()  # the request before, if it had no usage
        self.plan = plan
        if self.gate is not None:
            self.gate.keep(plan)
        self._sent = 0
        self._failures = 0
        self._adjusted = False

    def record_success(self, response: AnyResponse) -> AnyResponse:
        """Record the answer, and set the time of the whole call in it."""
        self._held.settle(response["usage"]["total_tokens"])
        if self.gate is not None:
            self.gate.succeeded(response["usage"])
        response["seconds"] = self.seconds()
        if self.spent:
            self.spent.set(response)
        self.observer.attempt_succeeded(response)
        return response

    def add_spent(self, usage: Usage) -> None:
        """Count the usage of an attempt that did not lead to the answer."""
        self.spent.append((self.plan, usage))
        self._held.settle(usage["total_tokens"], answered=False)
        if self.gate is not None:
            self.gate.used(usage)

    def retry_with(self, plan: PlanT, failure: FailedAttempt) -> bool:
        """Plan another request to the same model after a failure; False if there is none left."""
        failure.error.attempts = self._sent
        if not plan.free:  # otherwise the answer goes on, and is settled at its end
            self.record_break(failure)
        self._failures += 1
        delay = self._delay(failure)
        if delay is None:
            return False
        self.plan = plan
        self.observer.attempt_failed(failure.error, continued=True)
        if self.gate is not None and not plan.free:
            self.gate.keep(plan, alone=True)
        _log_retry(self._sent, failure.error, delay)
        self._wait = Wait(delay)
        return True

    def restart_deadline(self, *, forget_failures: bool = False) -> None:
        """Begin the deadline again: it does not cover the time in which an answer arrives."""
        self._deadline = self.policy.clock() + self.policy.deadline
        if forget_failures:
            self._failures = 0

    def final_error(self, error: LLMError) -> LLMError:
        """Add the history of the whole call to the error that ends it, and return the error."""
        error.attempts = self._sent
        error.spent = self.spent.total()
        if self._sent > 1:
            error.args = (f"{error} (tried {self._sent} times)",)
        if isinstance(error, _KEY_ERRORS):
            logger.error("%s", error)
        for previous in self.previous_errors:
            error.add_note(f"model {previous.model} was tried before and failed: {previous}")
        return error

    def seconds(self) -> float:
        """Return the seconds since the beginning of the call."""
        return 0.0 if self._start is None else self.policy.clock() - self._start

    def seconds_left(self, now: float | None = None) -> float:
        """Return the seconds until the deadline; the first call starts the clock."""
        if now is None:
            now = self.policy.clock()
        if self._deadline is None:
            self._start, self._deadline = now, now + self.policy.deadline
        return self._deadline - now

    def deadline_error(self) -> LLMError:
        """Return the error for a deadline that has passed."""
        route = self.plan.route
        return self._timeout_error(f"no answer from {route.profile.name} for model {route.model}")

    def _gate_step(self, gate: AttemptGate[PlanT], left: float) -> Step | None:
        """Return the next step of the gate, None if the attempt may be sent."""
        while isinstance(step := gate.before(left), LLMError):
            self._fall_back(step)
        self.plan = gate.plan
        return step

    def _correct(self, answer: str, error: LLMError) -> bool:
        """Send an answer back to be corrected; False if that was done before."""
        if self._corrected or not self.policy.reask:
            return False
        self._corrected = True
        reason = error.invalid_because or ""
        plan = self.plan.corrected(answer, reason)
        if plan is None:
            return False
        logger.warning("the answer %s; asking the model to correct it", reason)
        self.plan = plan
        if self.gate is not None:
            self.gate.keep(plan)
        return True

    def _delay(self, failure: FailedAttempt, *, paced: bool = False) -> float | None:
        """Return the seconds before the next attempt, None if there is no next attempt.

        `paced`: the gate decides how long to wait, and another deployment may be used.
        """
        policy = self.policy
        if not (failure.retryable or paced) or self._failures > policy.max_retries:
            return None
        if paced:
            return 0.0 if self.seconds_left() > 0 else None
        delay = policy.backoff.retry_delay(self._failures, failure.error.retry_after, policy.jitter)
        return None if delay is None or delay >= self.seconds_left() else delay

    def _fall_back(self, error: LLMError) -> None:
        """Switch to the next model.

        Raises:
            LLMError: there is no other model, or the deadline has passed.
        """
        plan: PlanT | None = None
        if self.seconds_left() > 0:
            if self.gate is not None:
                plan = self.gate.fall_back(error)
            elif self._fallbacks:
                plan, *self._fallbacks = self._fallbacks
        if plan is None:
            raise self.final_error(error)
        level = logging.ERROR if isinstance(error, _KEY_ERRORS) else logging.WARNING
        logger.log(level, "model %s failed; trying the next model: %s", error.model, error)
        self.previous_errors = (*self.previous_errors, error)
        self.plan = plan
        self._failures = 0
        self._adjusted = self._corrected = False

    def _held_wait(self, now: float, left: float) -> Wait | None:
        """Return the wait that a rate limit requires before the next request.

        Raises:
            LLMError: it is longer than the deadline, and there is no other model.
        """
        held, route = self._held, self.plan.route
        seconds = held.wait(route, now)
        if seconds == 0.0:
            if held.limits is None:
                return None
            allowed = held.limits.wait(self.plan.estimated_tokens, now, left)
            if allowed is None:
                raise self._timeout_error(
                    "the request was not sent: requests_per_minute or tokens_per_minute of this "
                    "client does not allow it"
                )
            seconds = allowed
        elif 0 < left <= seconds:
            error = route.error(
                LLMRateLimitError,
                f"the request was not sent: {route.profile.name} rejects requests for model "
                f"{route.model}, and the deadline of the call is over before it admits more",
                retry_after=seconds,
            )
            self._fall_back(error)
            return self._held_wait(now, left)
        return Wait(seconds) if seconds > 0 and left > 0 else None

    def _timeout_error(self, reason: str) -> LLMError:
        message = f"{reason} within the deadline of {self.policy.deadline:g} s"
        return self.final_error(self.plan.route.error(LLMTimeoutError, message))


class _Held(CallPace):
    """What holds the attempts of a call back: the client's own limits, and what others learned."""

    def __init__(self, policy: Policy, *, routed: bool) -> None:
        super().__init__(policy.paces if policy.max_retries and not routed else None)
        self._policy = policy
        self.limits = None if policy.limits is None else CallLimits(policy.limits)

    def settle(self, tokens: int = 0, *, answered: bool = True) -> None:
        """Settle an attempt that used so many tokens."""
        if answered:
            self.answered()
        if self.limits is not None:
            self.limits.settle(tokens)

    def share_delay(self, failure: FailedAttempt, delay: float | None) -> None:
        """Hold back the other calls after a 429; `delay` is that of this call, None if it ends."""
        limited = isinstance(failure.error, LLMRateLimitError) and failure.retryable
        asked, backoff = failure.error.retry_after, self._policy.backoff
        if limited and (asked or 0.0) <= backoff.max_server_delay:
            seconds = asked or delay or backoff.first
            self.reject(seconds, self._policy.clock(), final=delay is None)

    def close(self) -> None:
        """Give back what an attempt that was not sent has reserved."""
        if self.limits is not None:
            self.limits.close()
        super().close()


@lru_cache(maxsize=64)  # nearly all attempts have the same timeout
def _timeouts(seconds: float) -> Timeouts:
    return Timeouts(min(_CONNECT_SECONDS, seconds), seconds, seconds, seconds)


def _log_retry(attempt: int, error: LLMError, delay: float) -> None:
    logger.warning("attempt %d failed (%s); retrying in %.1f s", attempt, error, delay)


class Spent(list[tuple[RequestPlan, Usage]]):
    """The usage of the attempts of a call that did not lead to its answer.

    A provider bills an answer that broke, or that the caller left. So the tokens of such an attempt
    count as spent: as the provider reported them, or else estimated from the request and from what
    was received. An attempt of which nothing was received counts as nothing: nobody knows if it is
    billed.
    """

    __slots__ = ()

    def set(self, response: Measured) -> None:
        """Set the usage of all attempts in a response, if there were others than the last one."""
        spent = self.total(response["usage"])
        if spent is not None:
            response["spent"] = spent

    def total(self, usage: Usage | None = None) -> Usage | None:
        """Return the sum with the usage of the answer; None if there was no other attempt.

        The cost is None as long as the price table is not loaded.
        """
        if not self:
            return None
        for plan, spent in self:
            _set_cost(plan, spent)
        usages = [spent for _, spent in self]
        return add_usages(usages if usage is None else [*usages, usage])


def _set_cost(plan: RequestPlan, usage: Usage) -> None:
    """Set the cost of an attempt that ended before the price table was loaded."""
    if usage["cost_estimate"] is None and prices_loaded():
        tokens = Tokens(
            usage["prompt_tokens"],
            usage["completion_tokens"],
            usage.get("cached_tokens", 0),
            usage.get("cache_write_tokens", 0),
        )
        usage["cost_estimate"] = cost(plan.route.profile.prices, plan.route.model, tokens)


class CallObserver:
    """A context manager around a call, called for each attempt; this class reports nothing."""

    __slots__ = ()

    def __enter__(self) -> None:
        """Record the beginning of the call."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Record the end of the call."""

    def attempt_started(self, plan: Any, request: Request) -> Request:
        """Record a request that is about to be sent, and return the request to send.

        Raises:
            Exception: whatever a hook raises; the request must not be sent.
        """
        return request

    def head_received(self, head: ResponseHead) -> None:
        """Record the status and the headers of a response."""

    def body_received(self, body: bytes) -> None:
        """Record the complete body of a response."""

    def watched(self, events: Iterable[ServerSentEvent]) -> Iterable[ServerSentEvent]:
        """Return the events of a stream; iterating over them measures their times."""
        return events

    def attempt_failed(self, error: LLMError, *, continued: bool = False) -> None:
        """Record that the current attempt failed; the second time, nothing happens.

        `continued`: the next attempt continues its answer.
        """

    def attempt_succeeded(self, response: Mapping[str, Any]) -> None:
        """Record the answer of the current attempt."""

    def answered(self, response: Mapping[str, Any]) -> None:
        """Record the answer of a call that has several requests."""

    def set_spent(self, spent: Callable[[], Usage | None]) -> None:
        """Set the function that returns the usage so far of all attempts of a stream."""


NOT_OBSERVED = CallObserver()
