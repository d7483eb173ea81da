"""The recovery of a stream that breaks in the middle of its answer. No I/O.

A background response (`resume=True`) continues without a connection. Its stream is read again after
the last event that was received, as often as it takes; that is invisible to the caller. Only if it
cannot be resumed does `on_break` decide, which the caller chooses, because every way but the error
costs something:

* "continue": the model continues its text, if it can. A continuation that fails is repeated by the
  same model, never by another one, which would continue another answer.
* "restart": the call is repeated, also by fallbacks, and `Restarted` precedes the new answer.
* "error", and after the last attempt: the error has the received part of the answer.

A failure before the first delta is an ordinary failure (`_attempts.py`). What an attempt received
is counted as spent, and so is the prompt of an answer that had begun, before its first word.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from .._clock import monotonic
from .._drive import Flow
from .._http._types import Timeouts
from ._adapter import AnswerReader
from ._attempts import Attempts
from ._classify import FailedAttempt
from ._continuation import RESUMABLE_SECONDS, Continuation, continued
from ._plan import CallPlan
from ._reply import partial
from .errors import LLMError
from .types import Delta, PartialResponse, Restarted

_CANCEL_TIMEOUTS = Timeouts(3.0, 3.0, 3.0, 3.0)


class Recovery:
    """The history of one streamed answer.

    Attributes:
        before: the text of earlier attempts, which the current attempt continues.
        restarted: the reason of a restart that was not announced yet.
        resuming: True if the next response continues what the reader has.
    """

    def __init__(
        self, attempts: Attempts[CallPlan], clock: Callable[[], float] = monotonic
    ) -> None:
        self.before = ""
        self.restarted: str | None = None
        self.resuming = False
        self._attempts = attempts
        self._clock = clock
        self._whole_plan = attempts.plan  # of the answer that is continued or resumed
        self._partial: PartialResponse | None = None  # of the last attempt with a delta
        self._break: FailedAttempt | None = None  # the one because of which the stream is resumed
        self._began: float | None = None  # when the background response was created, at the latest
        self._resumed_after: int | None = None  # the event

    def fail(
        self, failure: FailedAttempt, reader: AnswerReader, continuation: Continuation | None
    ) -> None:
        """End an attempt; `reader` and `continuation` have what it received.

        Raises:
            LLMError: there will be no other attempt.
        """
        attempts = self._attempts
        self._whole_plan = self._answered_plan()
        if self._resume(failure, reader):
            return
        if self.resuming:  # it cannot be resumed: the break decides, not the failure to resume
            failure, self._break, self.resuming = self._break or failure, None, False
            attempts.plan = self._whole_plan
        if reader.billed:
            received = self.received(reader)
            attempts.add_spent(received["usage"])
            if reader.started:
                self._partial = received
                attempts.restart_deadline()
        if self._partial is None:  # nothing was delivered
            attempts.record_failure(failure, counted=reader.billed)
            return
        failure.error.partial = self._partial
        if attempts.policy.on_break == "continue" and self._continue(failure, reader, continuation):
            return
        attempts.observer.attempt_failed(failure.error)
        if attempts.policy.on_break != "restart":
            attempts.record_break(failure)
            raise attempts.final_error(failure.error)
        attempts.record_failure(failure, counted=True)
        self.restarted = str(failure.error)

    def accepted(self) -> None:
        """Record that the current attempt has a response."""
        if self._began is None or not self.resuming:
            self._began = self._clock()

    def cancel_flow(self, reader: AnswerReader) -> Flow[None]:
        """Cancel a background response that nobody will read: it would be billed to its end."""
        plan, response_id = self._answered_plan(), reader.response_id
        if plan.background and response_id is not None:
            yield plan.cancel_request(response_id, _CANCEL_TIMEOUTS)

    def received(self, reader: AnswerReader) -> PartialResponse:
        """Return what was received of the answer, including the text that is continued."""
        plan = self._attempts.plan
        answer = continued(reader.answer(), plan.prefix, plan.route.profile)
        received = partial(answer, plan.call, plan.price)
        if self.before:
            received["data"]["content"] = self.before + (answer.content or "")
        return received

    def with_partial(self, error: LLMError) -> LLMError:
        """Return the error with the part of the answer that was delivered before it."""
        error.partial = self._partial
        return error

    def left(self, reader: AnswerReader) -> None:
        """Record that the caller has left the stream: what was received counts as spent."""
        received = self.received(reader)
        self._attempts.add_spent(received["usage"])
        if reader.started:
            self._partial = received

    def announced(self, deltas: Iterator[Delta]) -> Iterator[Delta]:
        """Yield deltas, and `Restarted` before the first one of a new answer."""
        for delta in deltas:
            if self.restarted is not None:
                reason, self.restarted = self.restarted, None
                yield Restarted(self._attempts.plan.requested_model, reason)
            yield delta

    def _answered_plan(self) -> CallPlan:
        """Return the plan whose answer is read, not that of a request which reads on in it."""
        continues = self.before or self.resuming
        return self._whole_plan if continues else self._attempts.plan

    def _resume(self, failure: FailedAttempt, reader: AnswerReader) -> bool:
        """Read the stream of a background response again; return False if that cannot be done."""
        plan, response_id, attempts = self._whole_plan, reader.response_id, self._attempts
        if not plan.background or response_id is None or not failure.retryable:
            return False
        if self._began is None or self._clock() - self._began > RESUMABLE_SECONDS:
            return False
        if reader.started:
            attempts.restart_deadline(forget_failures=reader.sequence != self._resumed_after)
        if not attempts.retry_with(plan.resumed(response_id, reader.sequence), failure):
            return False
        self._break = self._break or failure
        self.resuming, self._resumed_after = True, reader.sequence
        return True

    def _continue(
        self, failure: FailedAttempt, reader: AnswerReader, continued_by: Continuation | None
    ) -> bool:
        """Let the model continue its answer; return False if it cannot."""
        answer, text = reader.answer(), self.before
        if reader.started:  # exactly what was delivered: nothing that was held back
            text += continued_by.text if continued_by is not None else answer.content or ""
        complete = replace(answer, content=text)
        if not failure.retryable or not self._whole_plan.can_continue(complete):
            return False
        if not self._attempts.retry_with(self._whole_plan.continued(text), failure):
            return False
        self.before = text
        return True
