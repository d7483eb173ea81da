"""Rate limit for reports about a recurring job that keeps failing. Pure."""

_REPORT_EVERY = 60.0  # seconds


class Outage:
    """The failures of one recurring job.

    The first failure is reported, then one a minute, and finally the recovery. Times are seconds of
    a monotonic clock.
    """

    __slots__ = ("_reported_at", "since")

    def __init__(self) -> None:
        self.since: float | None = None
        self._reported_at = 0.0

    def failed(self, now: float) -> bool:
        """Record a failure; return True if it should be reported."""
        if self.since is None:
            self.since = now
        elif now - self._reported_at < _REPORT_EVERY:
            return False
        self._reported_at = now
        return True

    def worked(self, now: float) -> float | None:
        """Record a success; return how many seconds the job had failed, None if it had not."""
        since, self.since = self.since, None
        return None if since is None else now - since

    def lasted(self, now: float) -> float:
        """Return how many seconds the job has failed, 0 if it works."""
        return 0.0 if self.since is None else now - self.since
