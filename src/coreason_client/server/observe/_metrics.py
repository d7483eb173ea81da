"""What an operator may know of a process, as numbers.

The classes without a library count nothing and are what everybody calls when metrics are off; the
ones with it take their place when they are on. So no caller ever asks whether anybody counts.

The values of labels are a closed list. An agent chooses the codes of its errors and a client the
names of everything else, and neither may fill the memory of whoever collects.
"""

from collections.abc import Callable, Sequence
from typing import Any

from coreason_manifest.definitions.presentation import StreamOpCode

from ...errors import MissingExtraError

__all__ = ["NOT_METERED", "NO_METRICS", "Metrics", "PrometheusMetrics", "StreamMeter"]

_OUTCOMES = (
    "complete",
    "cancelled",
    "abandoned",
    "server_stopped",
    "producer_lost",
    "agent_error",
)
_ANY_OTHER_OUTCOME = "failed"
# Seconds: a log in memory takes some 20 µs, one over a network some ms.
_APPEND_BUCKETS = (1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_FIRST_PACKET_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class StreamMeter:
    """Counts nothing of one stream."""

    __slots__ = ()

    def appended(
        self, first_seq: int, count: int, others: Sequence[StreamOpCode], began: float, now: float
    ) -> None:
        """Count a batch that is in the log; `others` are the ops of what is no DELTA in it."""

    def ended(self, outcome: str) -> None:
        """Count a stream whose last packet is in the log."""


NOT_METERED = StreamMeter()


class Metrics:
    """Counts nothing."""

    __slots__ = ()

    def watch(self, streams: Callable[[], int], readers: Callable[[], int]) -> None:
        """Take how many streams and readers are open from here, when somebody wants to know."""

    def started(self, accepted_at: float) -> StreamMeter:
        """Count a stream that starts; return what counts the rest of it."""
        return NOT_METERED

    def resumed(self) -> None:
        """Count a reader that continues where it was."""

    def taken_over(self) -> None:
        """Count a stream of a lost producer that was ended here."""

    def refused(self, slug: str) -> None:
        """Count a refusal by the name of its problem."""

    def exposition(self) -> tuple[bytes, str]:
        """Return all of it as a body and its content type."""
        return b"", "text/plain"


NO_METRICS = Metrics()


class PrometheusMetrics(Metrics):
    """Counts in a registry of its own, so that two applications in a process do not mix.

    Raises:
        MissingExtraError: prometheus-client is not installed.
    """

    __slots__ = (
        "_append_seconds",
        "_ended",
        "_expose",
        "_first_packet_seconds",
        "_packets",
        "_readers_open",
        "_refused",
        "_resumes",
        "_started",
        "_streams_open",
        "_takeovers",
    )

    def __init__(self) -> None:
        try:
            import prometheus_client as prometheus  # slow to import, and seldom wanted
        except ImportError:
            raise MissingExtraError("metrics", "metrics") from None
        registry = prometheus.CollectorRegistry()

        def counter(name: str, words: str, *labels: str) -> Any:
            return prometheus.Counter(f"coreason_{name}", words, labels, registry=registry)

        def gauge(name: str, words: str) -> Any:
            return prometheus.Gauge(f"coreason_{name}", words, registry=registry)

        def histogram(name: str, words: str, buckets: Sequence[float]) -> Any:
            return prometheus.Histogram(
                f"coreason_{name}", words, buckets=buckets, registry=registry
            )

        self._streams_open = gauge("streams_open", "Agents at work in this process.")
        self._readers_open = gauge("readers_open", "Responses that are being read.")
        self._started = counter("streams_started", "Streams that an agent was set to work on.")
        ended = counter("streams_ended", "Streams whose last packet is in the log.", "outcome")
        packets = counter("packets_appended", "Packets in the log.", "op")
        # Made once: a look-up by label costs more than the counting, and a series that is there
        # from the start shows its first increase.
        self._ended = {name: ended.labels(name) for name in (*_OUTCOMES, _ANY_OTHER_OUTCOME)}
        self._packets = {op: packets.labels(op.value) for op in StreamOpCode}
        self._resumes = counter("resumes", "Readers that continued where they were.")
        self._takeovers = counter("takeovers", "Streams of lost producers that were ended here.")
        self._refused = counter("requests_refused", "Problem documents sent.", "problem")
        self._append_seconds = histogram(
            "append_seconds", "How long the log took to keep a batch of packets.", _APPEND_BUCKETS
        )
        self._first_packet_seconds = histogram(
            "first_packet_seconds",
            "From the acceptance of a request to its first packet in the log.",
            _FIRST_PACKET_BUCKETS,
        )
        self._expose: Callable[[], tuple[bytes, str]] = lambda: (
            prometheus.generate_latest(registry),
            prometheus.CONTENT_TYPE_LATEST,
        )

    def watch(self, streams: Callable[[], int], readers: Callable[[], int]) -> None:
        self._streams_open.set_function(streams)
        self._readers_open.set_function(readers)

    def started(self, accepted_at: float) -> StreamMeter:
        self._started.inc()
        return _PrometheusMeter(self, accepted_at)

    def appended(self, count: int, others: Sequence[StreamOpCode], seconds: float) -> None:
        """Count a batch of some stream."""
        self._append_seconds.observe(seconds)
        if count > len(others):
            self._packets[StreamOpCode.DELTA].inc(count - len(others))
        for op in others:
            self._packets[op].inc()

    def first_packet(self, seconds: float) -> None:
        """Count the first packet of some stream."""
        self._first_packet_seconds.observe(seconds)

    def ended(self, outcome: str) -> None:
        """Count the end of some stream."""
        self._ended[outcome if outcome in _OUTCOMES else _ANY_OTHER_OUTCOME].inc()

    def resumed(self) -> None:
        self._resumes.inc()

    def taken_over(self) -> None:
        self._takeovers.inc()
        self._packets[StreamOpCode.ERROR].inc()
        self.ended("producer_lost")

    def refused(self, slug: str) -> None:
        self._refused.labels(slug).inc()

    def exposition(self) -> tuple[bytes, str]:
        return self._expose()


class _PrometheusMeter(StreamMeter):
    """Counts one stream."""

    __slots__ = ("_accepted_at", "_metrics")

    def __init__(self, metrics: PrometheusMetrics, accepted_at: float) -> None:
        self._metrics = metrics
        self._accepted_at = accepted_at

    def appended(
        self, first_seq: int, count: int, others: Sequence[StreamOpCode], began: float, now: float
    ) -> None:
        self._metrics.appended(count, others, now - began)
        if first_seq == 1:
            self._metrics.first_packet(now - self._accepted_at)

    def ended(self, outcome: str) -> None:
        self._metrics.ended(outcome)
