"""Images and documents in requests to Bedrock."""

from typing import Any

import pytest

from coreason_client.llm._check_messages import check_part
from coreason_client.llm._profile import ProviderProfile
from coreason_client.llm.providers.bedrock import content_blocks, part_problem

BEDROCK = ProviderProfile(name="bedrock", wire="bedrock")


def file(kind: str, name: str | None = None, data: str = "AAAA") -> dict[str, Any]:
    described = {"file_data": f"data:{kind};base64,{data}", "filename": name}
    return check_part("part", {"type": "file", "file": described})


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


@pytest.mark.parametrize(
    ("kind", "name", "form", "sent"),
    [
        ("application/pdf", "Report (2026).final.pdf", "pdf", "Report (2026) final"),
        ("text/plain", None, "txt", "file"),
        ("text/plain;charset=utf-8", "notes", "txt", "notes"),
        ("text/csv", "../ä_ö.csv", "csv", "document"),
        ("TEXT/MARKDOWN", "a" * 300, "md", "a" * 200),
        (
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            *("x.docx", "docx", "x"),
        ),
    ],
)
def test_a_file_is_a_document(kind: str, name: str | None, form: str, sent: str) -> None:
    part = file(kind, name)
    assert part_problem(part, BEDROCK) is None
    document = {"format": form, "name": sent, "source": {"bytes": "AAAA"}}
    assert content_blocks([part]) == [{"document": document}]


@pytest.mark.parametrize("part", [file("image/png"), image("data:image/png;base64,AAAA")])
def test_an_image_may_be_a_file(part: Any) -> None:
    assert part_problem(part, BEDROCK) is None
    assert content_blocks([part]) == [{"image": {"format": "png", "source": {"bytes": "AAAA"}}}]


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (
            file("application/zip"),
            "but bedrock accepts only csv, doc, docx, html, md, pdf, txt, xls",
        ),
        (
            {"type": "file", "file": {"file_url": "https://a.example"}},
            "but bedrock fetches nothing",
        ),
        ({"type": "file", "file": {"file_id": "f-1"}}, "but bedrock fetches nothing: load it"),
        (
            image("https://a.example/b.png"),
            "but bedrock fetches nothing: load it and pass its data",
        ),
        (image("data:image/tiff;base64,AAAA"), "but bedrock accepts only GIF, JPEG, PNG and WebP"),
        ({"type": "input_audio", "input_audio": {}}, "which bedrock does not accept: send a tran"),
    ],
)
def test_the_reason_for_a_part_that_is_not_taken(part: Any, words: str) -> None:
    assert (part_problem(part, BEDROCK) or "").startswith(words)


def test_blank_text_is_left_out() -> None:
    assert content_blocks([{"type": "text", "text": " "}, {"type": "text", "text": "a"}]) == [
        {"text": "a"}
    ]
    assert content_blocks(" ") == content_blocks(None) == []
