"""`Budget`: a limit on the dollars that calls may cost."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from ...errors import ArgumentError
from .._argument_errors import is_number
from ..errors import LLMBudgetError, LLMRequestError
from ._rules import NANODOLLARS, Account

__all__ = ["Budget", "check_budgets"]

_MAX_DOLLARS = 1_000_000


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit on the dollars that calls may cost in a period.

    Before each attempt the highest price of the request is reserved: its estimated input and its
    `max_tokens`, at the price of the model. After the attempt the real price replaces it. A request
    whose reservation exceeds the limit is not sent: `LLMBudgetError`. The sum can exceed the limit
    only by the error of the estimate of each call in flight.

    Args:
        limit: the limit in dollars.
        period: the length of a period in seconds; periods begin at multiples of it since 1970, so
            86400 is a day in UTC. None for a budget that never resets.
        per: "client" for one sum, or "key" for a sum of each `budget_key`, which calls must pass.
        unpriced: what happens with a model without a known price, and with a call without
            `max_tokens`. "refuse" raises an error. "allow" sends the request: an unknown price
            counts as 0, and for a call without `max_tokens` only the input is reserved. A number is
            used as the price of each token, in dollars, for models without a known price.
        name: keeps budgets of different programs apart that share a state.
        wait: True to let a call wait, until its deadline, for the reservations of other calls if
            its own would fit without them; False to refuse it.

    Raises:
        ValueError: an argument is invalid.
    """

    limit: float
    period: float | None = None
    per: Literal["client", "key"] = "client"
    unpriced: Literal["refuse", "allow"] | float = "refuse"
    name: str = ""
    wait: bool = False

    def __post_init__(self) -> None:
        if not is_number(self.limit) or not 0 <= self.limit <= _MAX_DOLLARS:
            raise ArgumentError(
                "limit", f"must be a number of dollars from 0 to {_MAX_DOLLARS}", self.limit
            )
        if self.period is not None and (not is_number(self.period) or not 1 <= self.period < 1e10):
            raise ArgumentError("period", "must be a number of seconds, 1 or more", self.period)
        if self.per not in ("client", "key"):
            raise ArgumentError("per", "must be 'client' or 'key'", self.per)
        known = self.unpriced in ("refuse", "allow")
        if not known and not (is_number(self.unpriced) and 0 <= float(self.unpriced) < 1):
            raise ArgumentError(
                "unpriced", "must be 'refuse', 'allow' or dollars per token", self.unpriced
            )
        if not isinstance(self.name, str):
            raise ArgumentError("name", "must be text", self.name)
        if not isinstance(self.wait, bool):
            raise ArgumentError("wait", "must be True or False", self.wait)

    @property
    def token_price(self) -> float | None:
        """The price of a token of a model without a known price, None if it is refused."""
        if isinstance(self.unpriced, str):
            return 0.0 if self.unpriced == "allow" else None
        return self.unpriced

    def account(self, key: str | None, now: float) -> Account:
        """Return the account of a call at a time, in seconds since 1970.

        Raises:
            LLMRequestError: the call has no `budget_key`, and the budget is per key.
        """
        parts = [self.name, self.per, "" if self.period is None else f"{self.period:g}"]
        if self.per == "key":
            if key is None:
                raise LLMRequestError("budget_key is required: the client has a budget per key")
            parts.append(sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32])
        limit = int(self.limit * NANODOLLARS + 0.5)
        if self.period is None:
            return Account(":".join(parts), limit)
        number = int(now // self.period)
        return Account(":".join((*parts, str(number))), limit, self._end(number))

    def error(
        self, message: str, account: Account, key: str | None, **fields: Any
    ) -> LLMBudgetError:
        """Return the error for a request that this budget does not allow."""
        return LLMBudgetError(
            message,
            limit=float(self.limit),
            key=key if self.per == "key" else None,
            resets_at=None if account.ends is None else account.ends / 1000,
            **fields,
        )

    def _end(self, number: int) -> int | None:
        return None if self.period is None else int((number + 1) * self.period * 1000)


def check_budgets(budgets: Any) -> tuple[Budget, ...]:
    """Return budgets as a tuple; a single one need not be in a list.

    Raises:
        ArgumentError: one is no `Budget`, or two would share a sum.
    """
    if budgets is None:
        return ()
    some = (budgets,) if isinstance(budgets, Budget) else budgets
    if not isinstance(some, list | tuple) or not all(isinstance(one, Budget) for one in some):
        raise ArgumentError("budgets", "must be a Budget or a list of them", budgets)
    if len({(one.name, one.per, one.period) for one in some}) < len(some):
        raise ArgumentError(
            "budgets", "must differ in period, per or name; otherwise they share one sum"
        )
    return tuple(some)
