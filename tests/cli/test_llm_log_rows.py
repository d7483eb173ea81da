"""Saved conversations as rows and as text."""

import json
from typing import Any

import pytest

from coreason_client.cli.llm._logs import (
    heading,
    matches,
    message_lines,
    summary_json,
    summary_row,
    turn_json,
)
from coreason_client.cli.llm._turns import SavedTurn, Summary

ONE = Summary("c1", "2026-01-31T20:00:01Z", "gpt-4o", 1, "Why\nso?")
USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "cost_estimate": 0.5}


def turn(*messages: dict[str, Any], **fields: Any) -> SavedTurn:
    return SavedTurn(conversation="c1", time="t", model="gpt-4o", messages=messages, **fields)


def test_a_conversation_is_a_row_or_an_object() -> None:
    row = summary_row(ONE, local_time=False)
    assert row == ("c1", "2026-01-31T20:00:01Z", "gpt-4o", "1 turn", "Why so?")
    two = Summary("c1", "soon", "gpt-4o", 2, "")
    assert summary_row(two, local_time=True)[1:4] == ("soon", "gpt-4o", "2 turns")
    assert json.loads(summary_json(ONE))["question"] == "Why\nso?"


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"usage": USAGE}, "t  gpt-4o: 1 + 2 tokens, $0.500000"),
        ({"usage": USAGE, "complete": False}, "t  gpt-4o: 1 + 2 tokens, $0.500000, incomplete"),
        ({}, "t  gpt-4o"),
    ],
)
def test_a_turn_has_a_heading(fields: dict[str, Any], line: str) -> None:
    assert heading(turn(**fields), local_time=False) == line


def test_a_turn_is_an_object() -> None:
    found = json.loads(turn_json(turn({"role": "user", "content": "é"}, usage=USAGE)))
    assert found["messages"] == [{"role": "user", "content": "é"}]
    assert found["usage"] == USAGE


def test_a_text_is_found_in_both_cases() -> None:
    asked = turn({"role": "user", "content": "Ärger?"}, {"role": "assistant", "content": "No."})
    assert matches(asked, "äR")
    assert matches(asked, "no.")
    assert matches(asked, "")
    assert not matches(asked, "yes")


@pytest.mark.parametrize(
    ("message", "lines"),
    [
        ({"role": "user", "content": "a\nb"}, ["> a", "> b"]),
        (
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                    {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}},
                    {"type": "file", "file": {"file_data": "data:…", "filename": "a.pdf"}},
                    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                    {"type": "other"},
                    {"type": "text", "text": "What?"},
                ],
            },
            [
                "> [image/png]",
                "> [https://x.example/a.png]",
                "> [a.pdf]",
                "> [wav]",
                "> [other]",
                "> What?",
            ],
        ),
        ({"role": "assistant", "content": "So."}, []),
        (
            {"role": "assistant", "tool_calls": [{"name": "f", "arguments": {"a": 1}}]},
            ['→ f {"a": 1}'],
        ),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
            ["→ f {}"],
        ),
        ({"role": "tool", "content": "a\nb"}, ["← a b"]),
    ],
)
def test_a_message_has_lines_except_for_the_answer(
    message: dict[str, Any], lines: list[str]
) -> None:
    assert list(message_lines(message)) == lines
