"""The part that an attached file becomes; `test_llm_parts.py` has the types."""

import pytest

from coreason_client.cli._attached import Attached, AttachFailure, FileBytes, FileText, file_content

PNG = b"\x89PNG\r\n\x1a\n"


def content(name: str, data: bytes) -> FileText | FileBytes:
    return file_content(Attached(f"in/{name}", name, data), data)


def test_text_has_its_name_above_it_and_other_files_have_a_type() -> None:
    assert content("a.py", b"x = 1") == FileText("File a.py:\n\nx = 1")
    assert content("wrong.txt", PNG) == FileBytes("image/png", PNG)
    assert content("a.zip", b"PK\xff") == FileBytes("application/zip", b"PK\xff")


def test_an_unknown_file_is_named_with_its_reason() -> None:
    with pytest.raises(AttachFailure) as caught:
        content("a", b"")
    assert (caught.value.name, caught.value.reason) == ("in/a", "the file is empty")
    with pytest.raises(AttachFailure, match="neither UTF-8 text nor of a known type"):
        content("a.txt", b"\xff\0")
