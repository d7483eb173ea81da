"""The options of telemetry."""

from typing import Any

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


@pytest.mark.parametrize("name", ["record_content", "send_trace_headers"])
@pytest.mark.parametrize("value", ["x", 1, None])
def test_a_flag_is_true_or_false(name: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=f"{name} must be True or False"):
        Telemetry(**{name: value})
