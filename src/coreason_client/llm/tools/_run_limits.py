"""The limits of a run. No I/O.

They are checked before each request to the model, so the last turn may exceed them. Only `timeout`
also ends a turn that is under way.
"""

from dataclasses import dataclass, fields
from functools import cache
from typing import Any, NamedTuple, Self

from .._argument_errors import invalid
from ..types import CallOptions, Usage

__all__ = ["Exceeded", "RunLimits", "RunOptions"]


class RunOptions(CallOptions, total=False):
    """The optional arguments of a run, besides those of `CallOptions`.

    Attributes:
        max_turns: the maximum number of answers of the model, 10 by default.
        max_tokens_total: the tokens of all answers together.
        max_cost: the dollars of all answers together.
        timeout: the seconds of the whole run.
        max_tool_errors: the number of errors in a row of the same tool that ends the run, 3 by
            default.
        max_parallel_calls: the number of calls of one answer that are executed at a time, 8 by
            default.
        max_result_chars: the length at which a tool result is cut, 100,000 by default.
    """

    max_turns: int
    max_tokens_total: int | None
    max_cost: float | None
    timeout: float | None
    max_tool_errors: int
    max_parallel_calls: int
    max_result_chars: int


class Exceeded(NamedTuple):
    """A limit that is reached; `spent` is None if it cannot be determined."""

    limit: str
    maximum: float
    spent: float | None


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The limits of a run; None means that there is none.

    Raises:
        LLMRequestError: a limit is not a positive number.
    """

    max_turns: int = 10
    max_tokens_total: int | None = None
    max_cost: float | None = None
    timeout: float | None = None
    max_tool_errors: int = 3
    max_parallel_calls: int = 8
    max_result_chars: int = 100_000

    def __post_init__(self) -> None:
        for name in ("max_turns", "max_tool_errors", "max_parallel_calls", "max_result_chars"):
            _check_whole(name, getattr(self, name))
        if self.max_tokens_total is not None:
            _check_whole("max_tokens_total", self.max_tokens_total)
        for name, value in (("max_cost", self.max_cost), ("timeout", self.timeout)):
            if value is not None:
                _check_positive(name, value)

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> Self:
        """Return the limits among the options of a run, and remove them there."""
        if _NAMES.isdisjoint(options):
            return cls._default()
        return cls(**{name: options.pop(name) for name in options.keys() & _NAMES})

    @classmethod
    @cache
    def _default(cls) -> Self:
        return cls()

    def exceeded(self, turns: int, usage: Usage, seconds: float) -> Exceeded | None:
        """Return the limit that forbids another turn, None if there is none."""
        if turns >= self.max_turns:
            return Exceeded("max_turns", self.max_turns, turns)
        tokens, cost = usage["total_tokens"], usage["cost_estimate"]
        if self.max_tokens_total is not None and tokens >= self.max_tokens_total:
            return Exceeded("max_tokens_total", self.max_tokens_total, tokens)
        if self.max_cost is not None and (cost is None or cost >= self.max_cost):
            return Exceeded("max_cost", self.max_cost, cost)
        if self.timeout is not None and seconds >= self.timeout:
            return Exceeded("timeout", self.timeout, seconds)
        return None


_NAMES = frozenset(field.name for field in fields(RunLimits))


def _check_whole(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise invalid(name, "must be a whole number, 1 or more", value)


def _check_positive(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise invalid(name, "must be a number greater than 0", value)
