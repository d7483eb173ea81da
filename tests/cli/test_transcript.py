"""A conversation as Markdown and as JSON."""

import json

from coreason_client.cli._conversation import Transcript
from coreason_client.cli._conversation import TranscriptTurn as Turn

TURNS = [
    Turn("2026-01-01T00:00:00+00:00", "What is this?", ["a.png", "https://x.example"], "A cat.\n"),
    Turn("2026-01-01T00:01:00+00:00", "And\nthis?", [], "A d\x1b[31mog", "stopped"),
    Turn("2026-01-01T00:02:00+00:00", "Still?", [], "", "it broke"),
]


def test_markdown_has_a_heading_for_each_message() -> None:
    assert Transcript("https://a.example", "c1", TURNS).for_file("talk.md") == (
        "# Conversation with https://a.example\n\nID: `c1`\n\n"
        "## Question\n\nWhat is this?\n\nAttached: a.png, https://x.example\n\n"
        "## Answer\n\nA cat.\n\n"
        "## Question\n\nAnd\nthis?\n\n## Answer\n\nA dog\n\n*Incomplete: stopped*\n\n"
        "## Question\n\nStill?\n\n## Answer\n\n*Incomplete: it broke*\n"
    )
    assert "ID:" not in Transcript("a", None, TURNS).as_markdown()


def test_json_has_all_fields_and_no_control_characters() -> None:
    text = Transcript("a", None, TURNS).for_file("TALK.JSON")
    assert "\x1b" not in text
    saved = json.loads(text)
    assert (saved["partner"], saved["conversation"]) == ("a", None)
    assert saved["turns"][1] == {
        "time": "2026-01-01T00:01:00+00:00",
        "question": "And\nthis?",
        "attachments": [],
        "answer": "A d\x1b[31mog",
        "problem": "stopped",
    }
