"""The progress of a delivery: when a failed notification is sent again, and what is reported.

No log line or metric contains a secret, so none has the path of a URL.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Self

from pydantic_core import from_json, to_json

from ...._retry import Backoff
from ...log.deliveries import Delivery
from ...observe._log_lines import ThrottledLine
from ...observe._metrics import Metrics
from .._reading import EventPosition
from ._notifications import Notification

GIVE_UP_SECONDS: Final = 24 * 3600.0
"""After so many seconds without a success, nothing is sent to a webhook any more."""
MAX_DELAY: Final = 300.0
"""The longest time between two attempts, unless the webhook asks for more."""
GONE: Final = 410
"""The status with which a webhook ends a delivery."""
_MAX_SERVER_DELAY: Final = 3600.0
_BACKOFF: Final = Backoff(first=1.0, longest=MAX_DELAY, max_server_delay=_MAX_SERVER_DELAY)


@dataclass(frozen=True, slots=True)
class DeliveryProgress:
    """The last event that a webhook has received, and the number of failures in a row.

    Without a position, the delivery begins with the task as it stands. Events of the packet after
    the position may have been received too: those up to `generation`. A delivery is `idle` while
    the task waits for the user. `sending` is the generation of the last notification for several
    events that was begun.
    """

    position: EventPosition | None = None
    generation: int = 0
    failures: int = 0
    failing_since: float | None = None
    idle: bool = False
    disabled: bool = False
    sending: int = 0

    @property
    def boundary(self) -> int:
        """The last generation of the notification that may have been received already.

        One for several events is stored before it is sent; any other is for the next event.
        """
        return self.sending if self.sending > self.generation else self.generation + 1

    def begun(self, notification: Notification) -> Self:
        """Return the progress before a notification for several events is sent."""
        return replace(self, sending=notification.generation)

    def delivered(self, notification: Notification) -> Self:
        """Return the progress after a success."""
        return replace(
            self,
            position=notification.position or self.position or EventPosition(0, 0),
            generation=max(notification.generation, self.generation),
            failures=0,
            failing_since=None,
        )

    def failed(self, now: float, status: int | None = None) -> Self:
        """Return the progress after a failure; it may be disabled by it."""
        since = now if self.failing_since is None else self.failing_since
        disabled = status == GONE or now - since >= GIVE_UP_SECONDS
        return replace(self, failures=self.failures + 1, failing_since=since, disabled=disabled)

    def paused(self, *, idle: bool) -> Self:
        """Return the progress of a delivery that begins or ends to wait for the user."""
        return replace(self, idle=idle)

    def started_over(self) -> Self:
        """Return the progress of a delivery that begins with the task as it stands.

        The generations of what was delivered say nothing about what the log has now.
        """
        return replace(self, position=None, generation=0, sending=0)

    def dump(self) -> bytes:
        """Return the progress as it is stored."""
        position = None if self.position is None else list(self.position)
        return to_json(
            [
                *(position, self.generation, self.failures, self.failing_since),
                *(self.idle, self.disabled, self.sending),
            ]
        )

    @classmethod
    def load(cls, stored: bytes) -> Self:
        """Return progress that was stored."""
        position, *rest = from_json(stored)
        return cls(None if position is None else EventPosition(*position), *rest)


def retry_delay(failures: int, asked: float | None, jitter: Callable[[], float]) -> float:
    """Return the seconds before the next attempt.

    They double from 1 to `MAX_DELAY`. A webhook may ask for more with `Retry-After`, up to an hour.
    `jitter` returns numbers from 0 to 1.
    """
    wanted = None if asked is None else min(asked, _MAX_SERVER_DELAY)
    delay = _BACKOFF.retry_delay(failures, wanted, jitter)
    return _MAX_SERVER_DELAY if delay is None else delay


# Log lines and metrics

logger = logging.getLogger("coreason_client.server")


class DeliveryObserver:
    """Reports what happens to the deliveries of one process."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._failures = ThrottledLine()

    def delivered(self) -> None:
        """Count a notification that a webhook has accepted."""
        self._metrics.push_sent("delivered")

    def failed(
        self, delivery: Delivery, host: str, progress: DeliveryProgress, reason: str, seconds: float
    ) -> None:
        """Report a failure; the next attempt is in so many seconds."""
        self._metrics.push_sent("failed")
        suffix = self._failures.suffix()
        if suffix is not None:
            logger.warning(
                "push notification of task %s to %s failed (%d in a row), next attempt in %.0f s:"
                " %s%s",
                *(delivery.task_id, host, progress.failures, seconds, reason, suffix),
                extra={
                    "event": "push_failed",
                    "failures": progress.failures,
                    "reason": reason,
                    **_fields(delivery, host),
                },
            )

    def disabled(self, delivery: Delivery, host: str, reason: str) -> None:
        """Report that nothing is sent to a webhook any more."""
        self._metrics.push_sent("disabled")
        logger.warning(
            "push notifications of task %s to %s are disabled: %s",
            *(delivery.task_id, host, reason),
            extra={"event": "push_disabled", "reason": reason, **_fields(delivery, host)},
        )


def _fields(delivery: Delivery, host: str) -> dict[str, str]:
    return {"task_id": str(delivery.task_id), "config_id": delivery.name, "host": host}
