"""Refusals: sent as problem documents, counted and logged."""

import time
from collections.abc import Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ..observe import _log_lines
from ..observe._line_limit import LineLimit
from ..observe._metrics import Metrics
from ._problems import Problem, as_problem

__all__ = ["PRINCIPAL", "Refusals"]

PRINCIPAL: Final = "coreason.principal"
"""The key in the scope of a request for its principal, for the log line of a refusal."""

# Clients can cause any number of refusals, so the log lines of each kind are limited.
_LINES_PER_SECOND: Final = 10
_MAX_KINDS: Final = 100


class Refusals:
    """Handles the refusals of one application."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._clock = clock
        self._limits: dict[tuple[str, str], LineLimit] = {}

    async def handle(self, request: Request, error: Exception) -> Response:
        """Respond to a request that was refused, as an exception handler."""
        return self.respond(error, request.scope.get(PRINCIPAL))

    def respond(self, error: Exception, principal: str | None) -> Response:
        """Count and log a refusal, and return the response."""
        return self.record(error, principal).response()

    def record(self, error: Exception, principal: str | None) -> Problem:
        """Count and log a refusal, and return it as a problem."""
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
        return problem

    def _limit(self, problem: Problem) -> LineLimit:
        # Failures of the server are limited for each reason, so every reason is logged.
        kind = (problem.slug, problem.reason if problem.status >= 500 else "")
        limit = self._limits.get(kind)
        if limit is None:
            if len(self._limits) >= _MAX_KINDS:  # reasons may contain numbers that never repeat
                self._limits.clear()
            limit = self._limits[kind] = LineLimit(_LINES_PER_SECOND)
        return limit
