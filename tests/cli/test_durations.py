"""Durations on the command line."""

import pytest
import typer

from coreason_client.cli._options import parse_duration
from tests.each import each


@each(
    ("text", "seconds"),
    [("0", 0), ("90", 90), ("1.5", 1.5), ("90s", 90), ("15m", 900), ("0.5h", 1800), ("7d", 604800)],
)
def test_a_duration_is_a_number_with_or_without_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@each(
    "text", ["", "-1", "+1", "1e3", "nan", "inf", "1_0", "1 m", "m", "5w", "1h30m", "٣", "9" * 10]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="such as 90, 15m or 7d; got"):
        parse_duration(text)
