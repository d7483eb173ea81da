"""Log lines that strangers cause are limited."""

import logging

import pytest

from coreason_client.server.observe._log_lines import ThrottledLine, throttled_http_lines


def test_a_limited_line_counts_what_it_left_out() -> None:
    now = 100.0
    line = ThrottledLine(lambda: now)
    assert line.suffix() == ""
    now = 109.9
    assert [line.suffix() for _ in range(3)] == [None, None, None]
    now = 110.0
    assert line.suffix() == " (3 more like this were not logged)"
    now = 200.0
    assert line.suffix() == ""


def test_the_lines_about_malformed_requests_are_limited_and_no_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger, line = logging.getLogger("uvicorn.error"), "Invalid HTTP request received."
    with caplog.at_level(logging.INFO, "uvicorn.error"):
        with throttled_http_lines():
            for _ in range(5):
                logger.warning(line)
                logger.info("another line")
        logger.warning(line)
    assert caplog.messages.count(line) == 2  # the first one, and the one after the block
    assert caplog.messages.count("another line") == 5
