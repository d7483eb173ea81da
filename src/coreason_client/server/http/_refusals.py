"""Refusals: answered with a problem document, counted and written to the log."""

import time
from collections.abc import Callable
from typing import Final

from starlette.responses import Response

from ..observe import _log_lines
from ..observe._line_limit import LineLimit
from ..observe._metrics import Metrics
from ._problems import Problem, as_problem

__all__ = ["Refusals"]

# Clients decide how often they are refused, so lines are limited for each kind of refusal.
_LINES_PER_SECOND: Final = 10
_MOST_KINDS: Final = 100


class Refusals:
    """What is done about every refusal of one application."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._clock = clock
        self._limits: dict[tuple[str, str], LineLimit] = {}

    def respond(self, error: Exception, principal: str | None) -> Response:
        """Return the answer to a request that was refused, after writing down why."""
        problem = as_problem(error)
        self._metrics.refused(problem.slug)
        suppressed = self._limit(problem).allow(self._clock())
        if suppressed is not None:
            _log_lines.refused(
                problem.status,
                problem.slug,
                problem.detail,
                principal,
                problem.reason,
                suppressed,
            )
        return problem.response()

    def _limit(self, problem: Problem) -> LineLimit:
        # A failure of the server has its own limit for each reason, so that every reason is shown.
        kind = (problem.slug, problem.reason if problem.status >= 500 else "")
        limit = self._limits.get(kind)
        if limit is None:
            if len(self._limits) >= _MOST_KINDS:  # reasons may hold numbers that never repeat
                self._limits.clear()
            limit = self._limits[kind] = LineLimit(_LINES_PER_SECOND)
        return limit
