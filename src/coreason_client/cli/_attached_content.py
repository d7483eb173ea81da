"""The content of an attached file: text, or bytes with their media type. Pure.

The type of a file follows from its first bytes, otherwise from its name. A file that is UTF-8 text
is sent as text, with its name above it.
"""

from dataclasses import dataclass

from ._attached import Attached, AttachFailure, type_of_name
from ._file_types import text_in, type_of_content

__all__ = ["FileBytes", "FileText", "file_content"]


@dataclass(frozen=True, slots=True)
class FileText:
    """The text of a file, below its name."""

    text: str


@dataclass(frozen=True, slots=True)
class FileBytes:
    """The bytes of a file that is not text."""

    media_type: str
    content: bytes


def file_content(attached: Attached, content: bytes) -> FileText | FileBytes:
    """Return the content of a file with its type.

    Raises:
        AttachFailure: the file is empty, or its type is unknown.
    """
    if not content:
        raise AttachFailure(attached.name, "the file is empty")
    media_type = type_of_content(content)
    if media_type is None and (text := text_in(content)) is not None:
        return FileText(f"File {attached.filename}:\n\n{text}")
    media_type = media_type or type_of_name(attached.filename)
    if media_type is None or media_type.startswith("text/"):
        raise AttachFailure(
            attached.name,
            "the file is neither UTF-8 text nor of a known type; give it a name such as report.pdf",
        )
    return FileBytes(media_type, content)
