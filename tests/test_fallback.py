"""A fallback is reported once: lost speed at DEBUG, a lost protection at WARNING."""

import logging
from typing import Any

import pytest

from coreason_client._fallback import report_fallback, report_lost_protection


@pytest.mark.parametrize(
    ("report", "level"), [(report_fallback, "DEBUG"), (report_lost_protection, "WARNING")]
)
def test_a_fallback_is_logged_once(
    report: Any, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    report.cache_clear()
    with caplog.at_level(logging.DEBUG, "coreason_client"):
        for _ in range(3):
            report("the pools of x are", "it is different")
        report("the pools of y are", "it is different")
    assert [(record.levelname, record.message) for record in caplog.records] == [
        (level, "the pools of x are not as expected in the installed version: it is different"),
        (level, "the pools of y are not as expected in the installed version: it is different"),
    ]
    report.cache_clear()
