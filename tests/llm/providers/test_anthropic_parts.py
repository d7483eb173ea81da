"""Documents of Anthropic's messages; the wire tables show what is sent."""

from typing import Any

import pytest

from coreason_client.llm._profile import ProviderProfile
from coreason_client.llm.providers.anthropic import content_blocks, part_problem, text_block

PROFILE = ProviderProfile(name="acme")


def data(kind: str, content: str = "aGk=") -> dict[str, Any]:
    return {"file_data": f"data:{kind};base64,{content}", "filename": "a"}


@pytest.mark.parametrize(
    "file",
    [
        *map(data, ("application/pdf", "text/csv", "application/json", "image/png")),
        {"file_url": "https://a.example/b.docx"},
        {"file_id": "file_1"},
    ],
)
def test_a_file_that_is_taken(file: Any) -> None:
    assert part_problem({"type": "file", "file": file}, PROFILE) is None


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (
            {"type": "input_audio", "input_audio": {}},
            "which acme does not accept: send a transcript",
        ),
        (
            {"type": "file", "file": data("application/zip")},
            "but acme accepts only PDF, text and image files, got application/zip: convert the",
        ),
        (
            {"type": "file", "file": data("text/plain", "/w==")},
            "but acme accepts only text in UTF-8: convert the file",
        ),
    ],
)
def test_the_reason_for_a_part_that_is_not_taken(part: Any, words: str) -> None:
    assert (part_problem(part, PROFILE) or "").startswith(words)


def test_blank_text_is_left_out() -> None:
    assert content_blocks([{"type": "text", "text": " "}, {"type": "text", "text": "a"}]) == [
        text_block("a")
    ]
    assert content_blocks(" ") == content_blocks(None) == []
