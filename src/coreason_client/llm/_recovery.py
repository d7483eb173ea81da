"""What happens if a stream breaks in the middle of its answer. No I/O.

The caller chooses it by `on_break`, because every way but the error costs something:

* "continue": the model continues its text, if it can (`_follow_up.py`). A continuation that fails
  is repeated by the same model, never by another one, which would continue another answer.
* "restart": the call is repeated, also by fallbacks, and `Restarted` precedes the new answer.
* "error", and after the last attempt: the error has the received part of the answer.

A failure before the first delta is an ordinary failure (`_attempts.py`). What an attempt received
is counted as spent.
"""

from collections.abc import Iterator
from dataclasses import replace

from ._assemble import partial
from ._attempts import Attempts
from ._classify import Failure
from ._continuation import Continuation, continued
from ._plan import Plan
from ._reader import Reader
from .errors import LLMError
from .types import Delta, PartialResponse, Restarted

__all__ = ["Recovery"]


class Recovery:
    """The history of one streamed answer.

    Attributes:
        before: the text of earlier attempts, which the current attempt continues.
        restarted: the reason of a restart that was not announced yet.
    """

    def __init__(self, attempts: Attempts[Plan]) -> None:
        self.before = ""
        self.restarted: str | None = None
        self._attempts = attempts
        self._whole_plan = attempts.plan  # of the answer that is continued
        self._partial: PartialResponse | None = None  # of the last attempt with a delta

    def fail(self, failure: Failure, reader: Reader, continuation: Continuation | None) -> None:
        """End an attempt; `reader` and `continuation` have what it received.

        Raises:
            LLMError: there will be no other attempt.
        """
        attempts = self._attempts
        if reader.started:
            self._partial = self.received(reader)
            attempts.add_spent(self._partial["usage"])
            attempts.restart_deadline()
        if self._partial is None:  # nothing was delivered
            attempts.record_failure(failure)
            return
        failure.error.partial = self._partial
        if attempts.on_break == "continue" and self._continue(failure, reader, continuation):
            return
        if attempts.on_break != "restart":
            raise attempts.final_error(failure.error)
        attempts.record_failure(failure, counted=True)
        self.restarted = str(failure.error)

    def received(self, reader: Reader) -> PartialResponse:
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

    def announced(self, deltas: Iterator[Delta]) -> Iterator[Delta]:
        """Yield deltas, and `Restarted` before the first one of a new answer."""
        for delta in deltas:
            if self.restarted is not None:
                reason, self.restarted = self.restarted, None
                yield Restarted(self._attempts.plan.requested_model, reason)
            yield delta

    def _continue(
        self, failure: Failure, reader: Reader, continued_by: Continuation | None
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
