"""Log lines and metrics of deliveries."""

from uuid import UUID

import pytest

from coreason_client.server.a2a._push._progress import DeliveryObserver, DeliveryProgress
from coreason_client.server.log.deliveries import Delivery
from coreason_client.server.observe._metrics import Metrics, PrometheusMetrics

DELIVERY = Delivery(UUID(int=1), "config", b"secret", b"", None)


class Counted(Metrics):
    def __init__(self) -> None:
        self.sent: list[str] = []

    def push_sent(self, outcome: str) -> None:
        self.sent.append(outcome)


def test_failures_are_counted_and_logged_at_a_limited_rate(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Counted()
    observer = DeliveryObserver(metrics)
    for failures in range(1, 6):
        progress = DeliveryProgress(failures=failures)
        observer.failed(DELIVERY, "example.org", progress, "it answered with 500", 2.0)
    observer.delivered()
    assert metrics.sent == ["failed"] * 5 + ["delivered"]
    [record] = caplog.records
    assert record.getMessage() == (
        f"push notification of task {UUID(int=1)} to example.org failed (1 in a row), next attempt"
        " in 2 s: it answered with 500"
    )
    assert record.__dict__["event"] == "push_failed"
    assert record.__dict__["config_id"] == "config"


def test_the_end_is_always_logged(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Counted()
    observer = DeliveryObserver(metrics)
    for _ in range(2):
        observer.disabled(DELIVERY, "example.org", "it answered with 410")
    assert metrics.sent == ["disabled", "disabled"]
    line = f"push notifications of task {UUID(int=1)} to example.org are disabled: "
    assert [record.getMessage() for record in caplog.records] == [f"{line}it answered with 410"] * 2


def test_the_metric() -> None:
    metrics = PrometheusMetrics()
    observer = DeliveryObserver(metrics)
    observer.delivered()
    observer.delivered()
    observer.disabled(DELIVERY, "h", "r")
    text = metrics.exposition()[0].decode()
    assert 'coreason_push_notifications_total{outcome="delivered"} 2.0' in text
    assert 'coreason_push_notifications_total{outcome="failed"} 0.0' in text
    assert 'coreason_push_notifications_total{outcome="disabled"} 1.0' in text
