"""Files and audio of chat completions; the wire tables show what is sent."""

from typing import Any

import pytest

from coreason_client.llm._profile import ProviderProfile
from coreason_client.llm.providers._openai import part_problem, sent_content

PDF = {"file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a.pdf"}
CSV = {"file_data": "data:text/csv;base64,YSxi", "filename": "a.csv"}
URL = {"file_url": "https://a.example/b.pdf"}
ID = {"file_id": "file-1"}
AUDIO = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}


def problem(form: Any, file: Any) -> str | None:
    return part_problem(
        {"type": "file", "file": file}, ProviderProfile(name="acme", file_form=form)
    )


@pytest.mark.parametrize(
    ("form", "file"),
    [
        *(("file", file) for file in (PDF, CSV, URL, ID)),
        *(("document_url", file) for file in (PDF, CSV, URL, ID)),
        *(("url", file) for file in (PDF, CSV, URL)),
        *(("pdf", file) for file in (PDF, ID)),
    ],
)
def test_a_file_that_the_provider_takes(form: Any, file: Any) -> None:
    assert problem(form, file) is None


@pytest.mark.parametrize(
    ("form", "file", "words"),
    [
        (None, PDF, "which acme does not accept: send the text of the file as a text part"),
        ("url", ID, "but acme stores no files with a file_id: pass file_data or file_url"),
        ("pdf", URL, "but chat completions of acme do not fetch a file_url: load the file and"),
        ("pdf", CSV, "but chat completions of acme accept only PDF files, got text/csv: send its"),
    ],
)
def test_the_reason_for_a_file_that_it_does_not_take(form: Any, file: Any, words: str) -> None:
    assert (problem(form, file) or "").startswith(words)


def test_audio() -> None:
    assert part_problem(AUDIO, ProviderProfile(name="acme")) is None
    assert part_problem(AUDIO, ProviderProfile(name="acme", audio_form=None)) == (
        "which acme does not accept: send a transcript as a text part"
    )


def test_other_content_is_sent_as_it_is() -> None:
    parts = [{"type": "text", "text": "Hi"}, AUDIO, {"type": "file", "file": PDF}]
    assert sent_content(parts, ProviderProfile(name="acme")) == parts
    assert sent_content("Hi", ProviderProfile(name="acme")) == "Hi"
