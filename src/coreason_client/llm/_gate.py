"""`Gate`: the decisions about attempts that a router and budgets make. `_attempts.py` calls it.

A client without a router and without a budget has no gate.
"""

from typing import Literal, Protocol, TypeVar

from .._drive import Action, Wait
from .._http._types import ResponseHead
from ._classify import Failure
from ._request_plan import RequestPlan
from ._route import Route
from .errors import LLMError
from .types import Usage

__all__ = ["Gate"]

PlanT = TypeVar("PlanT", bound=RequestPlan)


class Gate(Protocol[PlanT]):
    """Reserves each attempt before it is sent, and settles it afterwards, exactly once.

    Attributes:
        plan: the request of the current attempt.
    """

    plan: PlanT

    def cache_plan(self) -> tuple[str, PlanT, list[Route]]:
        """Return the name of the first model, the request that its cached answer belongs to, and
        the routes that may be used for it."""

    def before(self, seconds_left: float) -> Action | Wait | LLMError | None:
        """Return the next step before the attempt, None if it may be sent now.

        An error means that this model cannot be called; a fallback may be tried.
        """

    def sending(self) -> None:
        """Record that the request is sent now."""

    def release(self) -> None:
        """Settle an attempt that cost nothing and is repeated, such as one with an old key."""

    def received(self, head: ResponseHead) -> None:
        """Record the headers of a response."""

    def failed(self, failure: Failure) -> Literal["next", "retry"] | None:
        """Record a failed attempt, and return what follows.

        "next": another deployment is tried at once, and the failure does not count as a retry.
        "retry": the failure counts, but the gate decides how long to wait. None: the usual rules.
        """

    def succeeded(self, usage: Usage) -> None:
        """Record an answer."""

    def used(self, usage: Usage) -> None:
        """Record what the current attempt has used, before `failed` or `close`."""

    def keep(self, plan: PlanT, *, alone: bool = False) -> None:
        """Send this request next, to the deployment of the last attempt.

        `alone`: no fallback may follow, since it would not continue the same answer.
        """

    def fall_back(self, error: LLMError) -> PlanT | None:
        """Return the request of the next model after this error, None if there is none."""

    def close(self) -> Action | None:
        """Settle what is unsettled at the end of the call; perform the action that is returned."""
