"""The span that reports nothing."""

import pytest

from coreason_client.llm.observe._work_span import NO_SPAN


def test_it_does_nothing() -> None:
    with NO_SPAN as span, span.current():
        span.set_result("r")
        span.set_error("timeout")


def test_it_does_not_swallow_an_error() -> None:
    with pytest.raises(KeyError), NO_SPAN:
        raise KeyError
