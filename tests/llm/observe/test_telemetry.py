"""The options of telemetry."""

import pytest

from coreason_client.errors import ArgumentError
from coreason_client.llm import Telemetry


def test_the_defaults_report_no_content_and_send_no_headers() -> None:
    options = Telemetry()
    assert (options.metric_names, options.record_content) == ("released", False)
    assert options.send_trace_headers is False
    assert (options.tracer_provider, options.meter_provider) == (None, None)


def test_unknown_names_of_metrics_are_rejected() -> None:
    with pytest.raises(ArgumentError, match='metric_names must be "released", "latest" or "both"'):
        Telemetry(metric_names="newest")  # type: ignore[arg-type]
