"""Artifacts of an agent service, one line for each part."""

from typing import Any

import pytest

from coreason_client.cli.chat._packets import artifact_lines


@pytest.mark.parametrize(
    ("part", "line"),
    [
        ({"text": "Hello"}, "report: Hello"),
        ({"data": {"a": "ü"}}, 'report: {"a": "ü"}'),
        ({"url": "https://x.example/a.png", "mediaType": "image/png"}, "report: https://x.exam"),
        ({"raw": "aGVsbG8=", "filename": "a.txt", "mediaType": "text/plain"}, "report: file a.txt"),
        ({"raw": "aGVsbG8="}, "report: file"),
    ],
)
def test_each_part_is_a_line(part: dict[str, Any], line: str) -> None:
    event = {"type": "ARTIFACT", "data": {"name": "report", "parts": [part]}}
    [shown] = artifact_lines(event) or []
    assert shown.startswith(line)
    assert "aGVsbG8" not in shown


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"type": "USAGE", "data": {"parts": []}},
        {"type": "ARTIFACT"},
        {"type": "ARTIFACT", "data": []},
        {"type": "ARTIFACT", "data": {"parts": "text"}},
    ],
)
def test_other_events_are_no_artifacts(event: dict[str, Any]) -> None:
    assert artifact_lines(event) is None


def test_what_is_not_a_part_is_left_out() -> None:
    event = {"type": "ARTIFACT", "data": {"name": 7, "parts": ["text", {"text": "a"}]}}
    assert artifact_lines(event) == ["artifact: a"]
