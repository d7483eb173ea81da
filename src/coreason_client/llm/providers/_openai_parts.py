"""Files and audio in messages of OpenAI's chat completions. Pure.

Providers differ in the form of files and audio; `Profile.file_form` and `Profile.audio_form` have
the differences.
"""

from collections.abc import Mapping
from typing import Any

from .._parts import data_of
from .._profile import Profile

__all__ = ["part_problem", "sent_content"]

_PDF = "application/pdf"
_RESPONSES = 'or use the Responses API with wire="responses"'


def part_problem(part: Mapping[str, Any], profile: Profile) -> str | None:
    """Return why a part cannot be sent and what to do instead, None if it can be sent."""
    name = profile.name
    if part["type"] == "input_audio" and profile.audio_form is None:
        return f"which {name} does not accept: send a transcript as a text part"
    if part["type"] != "file":
        return None
    file = part["file"]
    if profile.file_form is None:
        return f"which {name} does not accept: send the text of the file as a text part"
    if profile.file_form == "url" and "file_id" in file:
        return f"but {name} stores no files with a file_id: pass file_data or file_url"
    return _pdf_problem(file, name) if profile.file_form == "pdf" else None


def _pdf_problem(file: Mapping[str, Any], name: str) -> str | None:
    if "file_url" in file:
        return (
            f"but chat completions of {name} do not fetch a file_url: load the file and pass "
            f"file_data, {_RESPONSES}"
        )
    found = data_of(file.get("file_data", ""))
    if found is None or found[0] == _PDF:
        return None
    return (
        f"but chat completions of {name} accept only PDF files, got {found[0]}: send its text as a "
        f"text part, {_RESPONSES}"
    )


def sent_content(content: Any, profile: Profile) -> Any:
    """Return the content of a message in the form of the provider."""
    if not isinstance(content, list):
        return content
    return [_sent_part(part, profile) for part in content]


def _sent_part(part: Mapping[str, Any], profile: Profile) -> Mapping[str, Any]:
    if part["type"] == "input_audio" and profile.audio_form == "text":
        return {"type": "input_audio", "input_audio": part["input_audio"]["data"]}
    if part["type"] != "file":
        return part
    file = part["file"]
    if profile.file_form == "document_url":
        return _document(file)
    if profile.file_form == "url" and "file_url" in file:
        named = {"filename": file["filename"]} if "filename" in file else {}
        return {"type": "file", "file": {"file_data": file["file_url"], **named}}
    return part


def _document(file: Mapping[str, Any]) -> Mapping[str, Any]:
    if "file_id" in file:
        return {"type": "file", "file_id": file["file_id"]}
    named = {"document_name": file["filename"]} if "filename" in file else {}
    url = file.get("file_data") or file["file_url"]
    return {"type": "document_url", "document_url": url, **named}
