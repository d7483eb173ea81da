"""The usage of all attempts of a call, including those that broke. Pure.

A provider bills an answer that broke, or that the caller left. So the tokens of such an attempt
count as spent: as the provider reported them, or else estimated from the request and from what was
received. An attempt of which nothing was received counts as nothing: nobody knows if it is billed.
"""

from ._answer import Tokens
from ._cost import cost
from ._price_table import prices_loaded
from ._request_plan import RequestPlan
from ._usage_sum import add_usages
from .types import Measured, Usage

__all__ = ["Spent"]


class Spent:
    """The usage of the attempts of a call that did not lead to its answer."""

    __slots__ = ("_attempts",)

    def __init__(self) -> None:
        self._attempts: list[tuple[RequestPlan, Usage]] = []

    def __bool__(self) -> bool:
        return bool(self._attempts)

    def add(self, plan: RequestPlan, usage: Usage) -> None:
        """Add the usage of an attempt that received a part of an answer."""
        self._attempts.append((plan, usage))

    def set(self, response: Measured) -> None:
        """Set the usage of all attempts in a response, if there were others than the last one."""
        spent = self.total(response["usage"])
        if spent is not None:
            response["spent"] = spent

    def total(self, usage: Usage | None = None) -> Usage | None:
        """Return the sum with the usage of the answer; None if there was no other attempt.

        The cost is None as long as the price table is not loaded.
        """
        if not self._attempts:
            return None
        for plan, spent in self._attempts:
            _set_cost(plan, spent)
        usages = [spent for _, spent in self._attempts]
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
