"""Log lines and metrics of deliveries. Nothing here contains a secret, so no path of a URL."""

import logging

from ...log.deliveries import Delivery
from ...observe._log_lines import ThrottledLine
from ...observe._metrics import Metrics
from ._progress import Progress

__all__ = ["DeliveryObserver"]

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
        self, delivery: Delivery, host: str, progress: Progress, reason: str, seconds: float
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
