"""A fallback is reported once."""

import logging

import pytest

from coreason_client._fallback import report_fallback


def test_a_fallback_is_logged_once_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    report_fallback.cache_clear()
    with caplog.at_level(logging.DEBUG, "coreason_client"):
        for _ in range(3):
            report_fallback("the pools of x are", "it is slower")
        report_fallback("the pools of y are", "it is slower")
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("DEBUG", "the pools of x are not as expected in the installed version: it is slower"),
        ("DEBUG", "the pools of y are not as expected in the installed version: it is slower"),
    ]
