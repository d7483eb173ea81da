"""Metrics of a process.

`Metrics` and `StreamMeter` count nothing and are used while metrics are off; their Prometheus
subclasses replace them while metrics are on. So callers need not check whether metrics are on.

The values of labels are a closed list. Agents choose the codes of their errors and clients choose
other names, and neither must fill the memory of the system that collects the metrics.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

from coreason_manifest.definitions.presentation import StreamOpCode

from ...errors import MissingExtraError

Gauge: TypeAlias = Literal["streams_open", "readers_open", "log_degraded", "leases_held"]
Limit: TypeAlias = Literal["streams", "readers", "connections"]

_OUTCOMES = (
    "complete",
    "cancelled",
    "abandoned",
    "server_stopped",
    "producer_lost",
    "agent_error",
    "replay_diverged",
    "step_uncertain",
)
_ANY_OTHER_OUTCOME = "failed"
# Causes of restarts.
_LOST, _HANDED_OVER = "producer_lost", "handed_over"
_PUSH_OUTCOMES = ("delivered", "failed", "disabled")
# A series that exists from the start shows its first increase, which alerts need.
_SERIOUS_REFUSALS = ("log-unavailable", "busy", "too-many-streams", "too-many-readers")
_GAUGES: Mapping[Gauge, str] = {
    "streams_open": "Running agents in this process.",
    "readers_open": "Open responses in this process.",
    "log_degraded": "1 if part of the upkeep of the log fails.",
    "leases_held": "Streams that this process holds in the log.",
}
_COUNTERS = {
    "streams_started": "Streams for which an agent was started.",
    "resumes": "Requests that resumed a stream.",
    "takeovers": "Orphaned streams that this process ended.",
    "packets_replayed": "Packets in the log at restarts.",
    "streams_handed_over": "Durable streams that this process left to another one.",
    "leases_lost": "Running streams that another process has taken over.",
    "store_changes": "Restarts and failovers of the store that were noticed.",
}
# With the limits of their buckets in seconds. An append takes about 20 µs in memory and a few ms
# over a network.
_HISTOGRAMS = {
    "append_seconds": (
        "Time to append a batch of packets to the log.",
        (1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0),
    ),
    "first_packet_seconds": (
        "Time from accepting a request to its first packet in the log.",
        (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
    ),
    "event_loop_delay_seconds": (
        "Time that a callback waited for the event loop.",
        (1e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
    ),
}


class StreamMeter:
    """The meter of one stream; this class counts nothing."""

    __slots__ = ()

    def appended(
        self,
        first_seq: int,
        count: int,
        other_ops: Sequence[StreamOpCode],
        began: float,
        now: float,
    ) -> None:
        """Count a batch that is in the log; `other_ops` are the ops that are not DELTA."""

    def ended(self, outcome: str) -> None:
        """Count a stream whose last packet is in the log."""

    def handed_over(self) -> None:
        """Count a durable stream that another process continues."""

    def lease_lost(self) -> None:
        """Count a running stream that another process has taken over."""


NOT_METERED = StreamMeter()


class Metrics:
    """The metrics of one application; this class counts nothing."""

    __slots__ = ()

    def watch(self, gauges: Mapping[Gauge, Callable[[], float]]) -> None:
        """Set the functions that return the current values of gauges."""

    def watch_limit(self, limit: Limit, used: Callable[[], int], maximum: int | None) -> None:
        """Set the function that returns how much of a limit is used, and the limit."""

    def loop_delayed(self, seconds: float) -> None:
        """Count a callback that waited so long for the event loop."""

    def store_changed(self) -> None:
        """Count that the store of the log was restarted or replaced, as by a failover."""

    def started(self, accepted_at: float) -> StreamMeter:
        """Count a new stream and return its meter."""
        return NOT_METERED

    def resumed(self) -> None:
        """Count a reader that resumes a stream."""

    def taken_over(self) -> None:
        """Count an orphaned stream that this process ended."""

    def cancelled_orphan(self) -> None:
        """Count an orphaned stream that this process ended, because it was to be cancelled."""

    def continued(self) -> StreamMeter:
        """Return the meter of a stream that was counted when its agent was first started."""
        return NOT_METERED

    def restarted(self, replayed: int, *, handed_over: bool) -> None:
        """Count a durable agent that this process started again, and the packets it replays."""

    def refused(self, slug: str) -> None:
        """Count a refusal under the slug of its problem."""

    def push_sent(self, outcome: str) -> None:
        """Count a push notification of A2A: delivered, failed, or disabled for good."""

    def exposition(self) -> tuple[bytes, str]:
        """Return all metrics as a body and its content type."""
        return b"", "text/plain"


NO_METRICS = Metrics()


class PrometheusMetrics(Metrics):
    """Counts in its own registry, so the metrics of two applications in a process do not mix.

    Raises:
        MissingExtraError: prometheus-client is not installed.
    """

    __slots__ = (
        "_counters",
        "_ended",
        "_expose",
        "_gauges",
        "_histograms",
        "_limits",
        "_packets",
        "_push",
        "_refused",
        "_restarts",
        "registry",
    )

    def __init__(self) -> None:
        try:
            import prometheus_client as prometheus  # slow to import and rarely needed
        except ImportError:
            raise MissingExtraError("metrics", "metrics") from None
        registry = self.registry = prometheus.CollectorRegistry()

        def made(kind: Any, name: str, text: str, *labels: str, **options: Any) -> Any:
            return kind(f"coreason_{name}", text, labels, registry=registry, **options)

        counter, gauge = partial(made, prometheus.Counter), partial(made, prometheus.Gauge)
        self._gauges = {name: gauge(name, text) for name, text in _GAUGES.items()}
        self._counters = {name: counter(name, text) for name, text in _COUNTERS.items()}
        self._histograms = {
            name: made(prometheus.Histogram, name, text, buckets=buckets)
            for name, (text, buckets) in _HISTOGRAMS.items()
        }
        self._limits = (
            gauge("limit_used", "Units in use, those of the busiest principal.", "limit"),
            gauge("limit_maximum", "Units of a limit.", "limit"),
        )
        ended = counter("streams_ended", "Streams whose last packet is in the log.", "outcome")
        packets = counter("packets_appended", "Packets in the log.", "op")
        # Created once: looking up a label costs more than counting, and a series that exists from
        # the start shows its first increase.
        self._ended = {name: ended.labels(name) for name in (*_OUTCOMES, _ANY_OTHER_OUTCOME)}
        self._packets = {op: packets.labels(op.value) for op in StreamOpCode}
        restarts = counter("restarts", "Durable agents that were started again.", "cause")
        self._restarts = {cause: restarts.labels(cause) for cause in (_LOST, _HANDED_OVER)}
        self._refused = counter("requests_refused", "Problem documents sent.", "problem")
        for slug in _SERIOUS_REFUSALS:
            self._refused.labels(slug)
        push = counter("push_notifications", "Push notifications of A2A.", "outcome")
        self._push = {outcome: push.labels(outcome) for outcome in _PUSH_OUTCOMES}
        self._expose: Callable[[], tuple[bytes, str]] = lambda: (
            prometheus.generate_latest(registry),
            prometheus.CONTENT_TYPE_LATEST,
        )

    def watch(self, gauges: Mapping[Gauge, Callable[[], float]]) -> None:
        for name, value in gauges.items():
            self._gauges[name].set_function(value)

    def watch_limit(self, limit: Limit, used: Callable[[], int], maximum: int | None) -> None:
        limit_used, limit_maximum = self._limits
        limit_used.labels(limit).set_function(used)
        if maximum is not None:
            limit_maximum.labels(limit).set(maximum)

    def loop_delayed(self, seconds: float) -> None:
        self._histograms["event_loop_delay_seconds"].observe(seconds)

    def store_changed(self) -> None:
        self._counters["store_changes"].inc()

    def started(self, accepted_at: float) -> StreamMeter:
        self._counters["streams_started"].inc()
        return _PrometheusMeter(self, accepted_at)

    def appended(self, count: int, other_ops: Sequence[StreamOpCode], seconds: float) -> None:
        """Count a batch of any stream."""
        self._histograms["append_seconds"].observe(seconds)
        if count > len(other_ops):
            self._packets[StreamOpCode.DELTA].inc(count - len(other_ops))
        for op in other_ops:
            self._packets[op].inc()

    def first_packet(self, seconds: float) -> None:
        """Count the first packet of any stream."""
        self._histograms["first_packet_seconds"].observe(seconds)

    def ended(self, outcome: str) -> None:
        """Count the end of any stream."""
        self._ended[outcome if outcome in _OUTCOMES else _ANY_OTHER_OUTCOME].inc()

    def resumed(self) -> None:
        self._counters["resumes"].inc()

    def taken_over(self) -> None:
        self._counters["takeovers"].inc()
        self._packets[StreamOpCode.ERROR].inc()
        self.ended(_LOST)

    def cancelled_orphan(self) -> None:
        self._packets[StreamOpCode.ERROR].inc()
        self.ended("cancelled")

    def continued(self) -> StreamMeter:
        return _PrometheusMeter(self, None)

    def restarted(self, replayed: int, *, handed_over: bool) -> None:
        self._restarts[_HANDED_OVER if handed_over else _LOST].inc()
        self._counters["packets_replayed"].inc(replayed)

    def handed_over(self) -> None:
        """Count a hand-over of any stream."""
        self._counters["streams_handed_over"].inc()

    def lease_lost(self) -> None:
        """Count a lost lease of any stream."""
        self._counters["leases_lost"].inc()

    def refused(self, slug: str) -> None:
        self._refused.labels(slug).inc()

    def push_sent(self, outcome: str) -> None:
        self._push[outcome].inc()

    def exposition(self) -> tuple[bytes, str]:
        return self._expose()


class MergedMetrics(Metrics):
    """The metrics of several applications together; a label names the agent of each."""

    __slots__ = ("_registries",)

    def __init__(self, metrics: Mapping[str, Metrics]) -> None:
        self._registries = {
            agent_id: one.registry
            for agent_id, one in metrics.items()
            if isinstance(one, PrometheusMetrics)
        }

    def collect(self) -> Iterable[Any]:
        """Return the metrics with their samples, as a registry does."""
        families: dict[str, Any] = {}
        for agent_id, registry in self._registries.items():
            for family in registry.collect():
                for index, sample in enumerate(family.samples):
                    labels = {"agent": agent_id, **sample.labels}
                    family.samples[index] = sample._replace(labels=labels)
                if family.name in families:
                    families[family.name].samples += family.samples
                else:
                    families[family.name] = family
        return families.values()

    def exposition(self) -> tuple[bytes, str]:
        import prometheus_client as prometheus

        return prometheus.generate_latest(self), prometheus.CONTENT_TYPE_LATEST


class _PrometheusMeter(StreamMeter):
    """The meter of one stream."""

    __slots__ = ("_accepted_at", "_metrics")

    def __init__(self, metrics: PrometheusMetrics, accepted_at: float | None) -> None:
        self._metrics = metrics
        self._accepted_at = accepted_at

    def appended(
        self,
        first_seq: int,
        count: int,
        other_ops: Sequence[StreamOpCode],
        began: float,
        now: float,
    ) -> None:
        self._metrics.appended(count, other_ops, now - began)
        if first_seq == 1 and self._accepted_at is not None:
            self._metrics.first_packet(now - self._accepted_at)

    def ended(self, outcome: str) -> None:
        self._metrics.ended(outcome)

    def handed_over(self) -> None:
        self._metrics.handed_over()

    def lease_lost(self) -> None:
        self._metrics.lease_lost()
