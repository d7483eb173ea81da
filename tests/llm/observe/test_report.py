"""Failures of telemetry."""

import pytest

from coreason_client.llm.observe._instruments import report


def test_a_value_is_returned() -> None:
    assert report(int, "7") == 7


def test_an_error_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert report(int, "seven") is None
    assert caplog.messages == ["telemetry failed: ValueError"]


def test_an_exit_is_not_an_error() -> None:
    def leave() -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        report(leave)
