"""Text of arguments and of lists."""

import time
from collections.abc import Iterator

import pytest

from coreason_client.cli._text import as_local_time, encodable, shortened


@pytest.fixture
def _tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_tokyo")
def test_a_time_is_local_and_what_is_not_a_time_is_unchanged() -> None:
    assert as_local_time("2026-01-31T20:00:01Z") == "2026-02-01 05:00:01"
    assert as_local_time("yesterday") == "yesterday"


def test_bytes_that_are_not_utf_8_can_be_encoded() -> None:
    assert encodable("é\udcff").encode() == "é?".encode()


def test_a_long_text_is_one_short_line() -> None:
    assert shortened(" a\n\tb ") == "a b"
    assert shortened("x" * 200) == "x" * 200
    assert shortened("x" * 201) == "x" * 199 + "…"
