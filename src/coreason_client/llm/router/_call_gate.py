"""The gate of one call: it selects a deployment, reserves money and capacity, and settles. No I/O.

The rules:

* Every attempt is reserved before it is sent, and settled exactly once: with the usage, with
  nothing if the provider answered with an error status or was not reached, and with the reservation
  if its usage is not known, as after a timeout or a cancellation.
* A failing deployment cools down, and the call goes on at once with a deployment that it has not
  tried. Only when all were tried, a failure counts as a retry. A wrong request, one that is too
  long, and a withheld answer are not the deployment's fault.
* If no deployment is available, a fallback is used at once. Without one, the call waits for the
  first that becomes available.
* A budget with `wait` is asked again, at growing intervals, while the request would fit without the
  reservations of other calls.
* Budgets need the state: if it cannot be reached, the call fails. Without a budget the state of
  this process replaces it.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from ..._drive import Action, Wait
from ..._http._types import ResponseHead
from .._classify import FailedAttempt
from .._cost import DeferredPrice, PricesAction, cost, prices_loaded
from .._plan import RequestPlan
from .._route import ModelRoute
from ..errors import (
    LLMAuthenticationError,
    LLMBudgetError,
    LLMError,
    LLMNotFoundError,
    LLMPermissionError,
    LLMQuotaError,
    LLMRateLimitError,
    LLMServerError,
    LLMStateError,
)
from ..types import Usage
from ._reservation import Bound, bound_of, learned_limits, price_of, reserve_amount, settled_amount
from ._rules import (
    NANODOLLARS,
    Account,
    Acquire,
    Acquired,
    Candidate,
    Delayed,
    Granted,
    Refused,
    Settle,
)
from ._state import Command, RouterState, StateAction
from .budgets import Budget
from .deployments import Deployment, Fallbacks

logger = logging.getLogger("coreason_client.llm")

_LONG = 10  # a wrong key, a missing model or an exhausted quota cools down so much longer
_LASTING = (LLMAuthenticationError, LLMNotFoundError, LLMPermissionError, LLMQuotaError)
_MAX_WAIT = 120.0  # seconds; a call does not wait longer for a deployment
_FIRST_POLL, _LONGEST_POLL = 0.05, 1.0  # seconds between two questions to a budget
_EXPIRY_ALLOWANCE = 30.0  # seconds after the deadline of the call


PlanT = TypeVar("PlanT", bound=RequestPlan)


@dataclass(slots=True)
class Option(Generic[PlanT]):
    """A deployment, or a model without one, that may get the request."""

    deployment: Deployment | None
    route: ModelRoute
    make_plan: Callable[[], PlanT]
    id: str = ""  # the name in the state
    plan: PlanT | None = None


@dataclass(slots=True)
class Stage(Generic[PlanT]):
    """A model of the call, or a name with its deployments in the order of preference.

    `first` is the option that is written first in the router; it does not depend on chance.
    """

    name: str
    options: Sequence[Option[PlanT]]
    first: Option[PlanT]
    tried: set[str] = field(default_factory=set)
    excluded: set[str] = field(default_factory=set)

    @property
    def routed(self) -> bool:
        """True if the options are deployments."""
        return self.options[0].deployment is not None

    def candidates(self) -> list[Option[PlanT]]:
        """Return the options that may still be used, those that were not tried first."""
        usable = [option for option in self.options if option.id not in self.excluded]
        return sorted(usable, key=lambda option: option.id in self.tried)


@dataclass(frozen=True, slots=True)
class Terms:
    """The settings of a call, which do not change."""

    state: RouterState
    budgets: Sequence[Budget] = ()
    key: str | None = None
    cooldown: float = 30.0
    wall: Callable[[], float] = time.time


@dataclass(slots=True)
class _RoutedAttempt(Generic[PlanT]):
    """An attempt that was reserved; `sent` is True once its request is sent."""

    id: str
    option: Option[PlanT]
    candidate: Candidate
    accounts: Sequence[Account]
    state: RouterState
    sent: bool = False
    head: ResponseHead | None = None
    usage: Usage | None = None


class CallGate(Generic[PlanT]):
    """The gate of one call."""

    def __init__(
        self,
        first: str,
        open_stage: Callable[[str], Stage[PlanT]],
        fallbacks: Fallbacks,
        terms: Terms,
    ) -> None:
        self.fallbacks = fallbacks
        self._open_stage = open_stage
        self._terms = terms
        self._stage = open_stage(first)
        self.plan = _plan(self._stage.options[0])
        self._bound: Bound = bound_of(self.plan)
        self._option = self._stage.options[0]  # of the last attempt
        self._attempt: _RoutedAttempt[PlanT] | None = None
        self._options: Sequence[Option[PlanT]] = ()  # the candidates of the command in `_acquire`
        self._acquire: Acquire | None = None
        self._action: StateAction | None = None
        self._unsettled: list[Settle] = []
        self._error: LLMError | None = None  # the last one of this stage
        self._poll = _FIRST_POLL  # the next wait for a budget

    @property
    def routed(self) -> bool:
        """True if a router selects the deployments of the current model."""
        return self._stage.routed

    def cache_plan(self) -> tuple[str, PlanT, list[ModelRoute]]:
        """Return the name of the first model, the request that its cached answer belongs to, and
        the routes that may be used for it."""
        routes = [option.route for option in self._stage.options]
        return self._stage.name, _plan(self._stage.first), routes

    def before(self, seconds_left: float) -> Action | Wait | LLMError | None:
        """Return the next step before the attempt, None if it may be sent now."""
        if self._attempt is not None:  # reserved, but the key had to be fetched
            return None
        if not prices_loaded():
            return PricesAction()
        while self._unsettled:
            if (action := self._run(self._unsettled[0])) is not None:
                return action
            self._result()
            self._unsettled.pop(0)
        if self._acquire is None:
            try:
                self._acquire = self._new_acquire(seconds_left)
            except LLMBudgetError as error:
                return error
        if (action := self._run(self._acquire)) is not None:
            return action
        acquire, self._acquire = self._acquire, None
        return self._decide(acquire, self._result(), seconds_left)

    def sending(self) -> None:
        """Record that the request is sent now."""
        if self._attempt is not None:
            self._attempt.sent = True

    def release(self) -> None:
        """Settle an attempt that cost nothing and is repeated, such as one with an old key."""
        if self._attempt is not None:
            self._settle(self._attempt, None, nothing=True)

    def received(self, head: ResponseHead) -> None:
        """Record the headers of a response."""
        if self._attempt is not None:
            self._attempt.head = head

    def failed(self, failure: FailedAttempt) -> Literal["next", "retry"] | None:
        """Record a failed attempt, and return what follows."""
        attempt, stage, error = self._attempt, self._stage, failure.error
        self._error = error
        if attempt is None:
            return None
        cooling = failure.retryable or isinstance(error, (*_LASTING, LLMServerError))
        nothing = failure.unsent or (error.status is not None and error.status != 200)
        self._settle(attempt, failure if cooling else None, nothing=nothing)
        if not cooling or not stage.routed:
            return None
        first_failure = attempt.option.id not in stage.tried
        stage.tried.add(attempt.option.id)
        if not failure.retryable:
            stage.excluded.add(attempt.option.id)
        candidates = stage.candidates()
        if first_failure and any(option.id not in stage.tried for option in candidates):
            return "next"
        return "retry" if candidates else None

    def succeeded(self, usage: Usage) -> None:
        """Record an answer."""
        if self._attempt is not None:
            self._attempt.usage = usage
            self._settle(self._attempt, None, success=True)

    def used(self, usage: Usage) -> None:
        """Record what the current attempt has used, before `failed` or `close`."""
        if self._attempt is not None:
            self._attempt.usage = usage

    def keep(self, plan: PlanT, *, alone: bool = False) -> None:
        """Send this request next, to the deployment of the last attempt.

        `alone`: no fallback may follow, since it would not continue the same answer.
        """
        option, name = self._option, self._stage.name
        option.plan = self.plan = plan
        self._stage, self._error = Stage(name, [option], option), None
        if alone:
            self.fallbacks = Fallbacks(name, None, ())
        self._bound = bound_of(plan)

    def fall_back(self, error: LLMError) -> PlanT | None:
        """Return the request of the next model after this error, None if there is none."""
        if isinstance(error, LLMBudgetError | LLMStateError):
            return None
        name = self.fallbacks.next(error)
        if name is None:
            return None
        self._stage, self._error = self._open_stage(name), None
        self.plan = _plan(self._stage.options[0])
        return self.plan

    def close(self) -> Action | None:
        """Settle what is unsettled at the end of the call; perform the action that is returned."""
        if self._acquire is not None:  # the reply was lost, so it may have been granted
            candidate, accounts = self._acquire.candidates[0], self._acquire.accounts
            nothing = (0,) * len(accounts)
            self._unsettled.append(Settle(self._acquire.id, candidate, accounts, nothing, 0))
            self._acquire = None
        if self._attempt is not None:
            self._settle(self._attempt, None, nothing=not self._attempt.sent)
        commands, self._unsettled = self._unsettled, []
        state = self._terms.state
        if not state.immediate:
            return _Settlements(state, commands) if commands else None
        for command in commands:
            state.run(command)
        return None

    def _run(self, command: Command) -> Action | None:
        """Return the action that runs a command, None if it has been run."""
        state = self._terms.state
        if self._action is not None and self._action.command is command:
            return None  # it was performed
        self._action = StateAction(state, command)
        if not state.immediate:
            return self._action
        self._action.perform()
        return None

    def _result(self) -> Acquired | LLMStateError | None:
        action, self._action = self._action, None
        if action is None:
            return None
        if action.error is not None and isinstance(action.command, Settle):
            logger.warning("an attempt was not settled and counts as reserved: %s", action.error)
        return action.result if action.error is None else action.error

    def _new_acquire(self, seconds_left: float) -> Acquire:
        """Return the command that reserves the next attempt.

        Raises:
            LLMBudgetError: a budget does not allow a request without a known price or bound.
        """
        terms, bound = self._terms, self._bound
        now = terms.wall()
        accounts = tuple(budget.account(terms.key, now) for budget in terms.budgets)
        options: list[Option[PlanT]] = []
        candidates: list[Candidate] = []
        for option in self._stage.candidates():
            price = price_of(option.route, bound) if terms.budgets else None
            amounts = [reserve_amount(budget, price, bound) for budget in terms.budgets]
            known = tuple(amount for amount in amounts if amount is not None)
            if len(known) == len(amounts):
                options.append(option)
                candidates.append(_candidate(option, bound, known))
        if not candidates:
            raise self._unpriced_error(accounts)
        self._options = options
        ms = int((seconds_left + _EXPIRY_ALLOWANCE) * 1000)
        return Acquire(os.urandom(16).hex(), candidates, accounts, ms)

    def _decide(
        self, acquire: Acquire, result: Acquired | LLMStateError | None, seconds_left: float
    ) -> Wait | LLMError | None:
        state = self._terms.state
        if isinstance(result, LLMStateError):
            if acquire.accounts:
                return result
            logger.warning("routing by the state of this process alone: %s", result)
            state = state.fallback
            result = state.run(acquire)
        if isinstance(result, Granted):
            option, candidate = self._options[result.index], acquire.candidates[result.index]
            self._attempt = _RoutedAttempt(acquire.id, option, candidate, acquire.accounts, state)
            self._option, self.plan = option, _priced_plan(option)
            self._poll = _FIRST_POLL
            return None
        if isinstance(result, Delayed):
            seconds = result.ms / 1000
            error = self._error or _unavailable_error(self._stage.name, seconds)
            if seconds >= min(seconds_left, _MAX_WAIT) or self.fallbacks.exist(error):
                return error
            return Wait(seconds)
        if result is None:
            return LLMStateError("the state gave no reply")
        return self._wait_for_budget(acquire, result, seconds_left)

    def _wait_for_budget(
        self, acquire: Acquire, refused: Refused, seconds_left: float
    ) -> Wait | LLMBudgetError:
        """Return the wait before a budget is asked again, or the error if it cannot help."""
        budget, account = self._terms.budgets[refused.account], acquire.accounts[refused.account]
        amount = min(one.amounts[refused.account] for one in acquire.candidates)
        fits = refused.reserved > 0 and refused.spent + amount <= account.limit
        if budget.wait and fits and self._poll < seconds_left:
            seconds, self._poll = self._poll, min(2 * self._poll, _LONGEST_POLL)
            return Wait(seconds)
        requested, spent = amount / NANODOLLARS, refused.spent / NANODOLLARS
        reserved = refused.reserved / NANODOLLARS
        message = (
            f"the request may cost {requested:.6f} dollars, but of the budget of "
            f"{budget.limit:g} dollars {spent:.6f} are spent and {reserved:.6f} reserved"
        )
        return budget.error(
            message,
            account,
            self._terms.key,
            used=spent,
            reserved=reserved,
            requested=requested,
            model=self._stage.name,
        )

    def _settle(
        self,
        attempt: _RoutedAttempt[PlanT],
        failure: FailedAttempt | None,
        *,
        success: bool = False,
        nothing: bool = False,
    ) -> None:
        """Queue the command that settles an attempt; it is run before the next one, or at close."""
        self._attempt = None
        budgets, deployment, usage = self._terms.budgets, attempt.option.deployment, attempt.usage
        amounts: tuple[int | None, ...] | None = None
        tokens: int | None = None
        if usage is not None:
            amounts = tuple(settled_amount(budget, usage) for budget in budgets)
            tokens = usage["total_tokens"]
        elif nothing:
            amounts, tokens = (0,) * len(budgets), 0
        if not budgets and deployment is None:
            return
        learned = () if attempt.head is None else learned_limits(attempt.head.headers)
        outcome: Literal["success", "failure", "neutral"] = "success" if success else "neutral"
        cooldown: int | None = None
        if failure is not None and deployment is not None:
            outcome, cooldown = "failure", _cooldown(self._terms, failure.error)
        command = Settle(
            attempt.id,
            attempt.candidate,
            attempt.accounts,
            amounts,
            tokens,
            outcome,
            cooldown,
            int(self._terms.cooldown * 1000),
            learned if deployment is not None else (),
        )
        if attempt.state is self._terms.state:
            self._unsettled.append(command)
        else:
            attempt.state.run(command)

    def _unpriced_error(self, accounts: Sequence[Account]) -> LLMBudgetError:
        budgets = self._terms.budgets
        place = next(i for i, budget in enumerate(budgets) if budget.token_price is None)
        if self._bound.output is None:
            reason = "max_tokens is None, so the request has no highest price: pass max_tokens"
        else:
            reason = f"the price of model {self.plan.route.model} is not known"
        message = f"{reason}; Budget(unpriced=…) can allow it"
        return budgets[place].error(
            message, accounts[place], self._terms.key, model=self._stage.name
        )


class _Settlements(Action):
    """Settles the attempts of a call that has ended; a failure is logged.

    A call that is cancelled meanwhile waits for it: its reservation would count as spent.
    """

    __slots__ = ("_commands", "_state")

    def __init__(self, state: RouterState, commands: Sequence[Settle]) -> None:
        self._state = state
        self._commands = commands

    def perform(self) -> None:
        """Run the commands."""
        try:
            for command in self._commands:
                self._state.run(command)
        except LLMStateError as error:
            self._log(error)

    async def perform_async(self) -> None:
        """Run the commands without blocking the event loop."""
        settling = asyncio.ensure_future(self._settle())
        try:
            await asyncio.shield(settling)
        except asyncio.CancelledError:
            await asyncio.wait({settling})
            raise

    async def _settle(self) -> None:
        try:
            for command in self._commands:
                await self._state.run_async(command)
        except LLMStateError as error:
            self._log(error)

    def _log(self, error: LLMStateError) -> None:
        logger.warning("an attempt was not settled and counts as reserved: %s", error)


def _cooldown(terms: Terms, error: LLMError) -> int | None:
    """Return the milliseconds of a cooldown, None if it doubles with each failure."""
    if isinstance(error, _LASTING):
        return int(terms.cooldown * _LONG * 1000)
    return None if error.retry_after is None else int(error.retry_after * 1000)


def _unavailable_error(name: str, seconds: float) -> LLMError:
    return LLMRateLimitError(
        f"no deployment of {name!r} is available: each one failed or is at its limit; the first "
        f"one is available in {seconds:.1f} s",
        model=name,
        retry_after=seconds,
    )


def _plan(option: Option[PlanT]) -> PlanT:
    if option.plan is None:
        option.plan = option.make_plan()
    return option.plan


def _priced_plan(option: Option[PlanT]) -> PlanT:
    """Return the request of an option; the price table is loaded by now."""
    plan = _plan(option)
    if isinstance(plan.pricing, DeferredPrice):
        plan.pricing = cost
    return plan


def _candidate(option: Option[Any], bound: Bound, amounts: tuple[int, ...]) -> Candidate:
    deployment = option.deployment
    if deployment is None:
        return Candidate("", bound.total, amounts)
    return Candidate(
        option.id,
        bound.total,
        amounts,
        deployment.requests_per_minute,
        deployment.tokens_per_minute,
    )
