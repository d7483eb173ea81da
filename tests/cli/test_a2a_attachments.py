"""The parts for files, URLs and stdin, and what cannot be attached."""

import io
import os
from pathlib import Path

import pytest

from coreason_client import ArgumentError
from coreason_client.a2a import Part
from coreason_client.cli.a2a._files import attached_parts
from coreason_client.cli.exits import Failure


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("a.png", "image/png"),
        ("a.txt", "text/plain"),
        ("a.tar.gz", "application/gzip"),
        ("a.unknown-type", "application/octet-stream"),
        ("noext", "application/octet-stream"),
    ],
)
def test_a_file_has_its_bytes_its_name_and_its_type(
    tmp_path: Path, name: str, media_type: str
) -> None:
    (tmp_path / name).write_bytes(b"\0\xff")
    [part] = attached_parts([str(tmp_path / name)])
    assert (part.content, part.filename, part.media_type) == (b"\0\xff", name, media_type)


@pytest.mark.parametrize(
    ("url", "filename", "media_type"),
    [
        ("https://x.example/a/b%20c.pdf?sig=1", "b c.pdf", "application/pdf"),
        ("HTTP://x.example", None, None),
        ("https://x.example/a/", None, None),
    ],
)
def test_a_url_is_sent_as_it_is(url: str, filename: str | None, media_type: str | None) -> None:
    assert attached_parts([url]) == [Part(url=url, filename=filename, media_type=media_type)]


@pytest.mark.parametrize(
    "url", ["https://", "http://user:pass@x.example/", "https://x.example/a b"]
)
def test_a_wrong_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ArgumentError, match=r"^--attach must") as caught:
        attached_parts([url])
    assert "pass@" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b"text \xc3\xa9", "text/plain"),
        (b"", "text/plain"),
        (b"\x89PNG\xff", "application/octet-stream"),
        (b"a\0b", "application/octet-stream"),
    ],
)
def test_stdin_is_a_file_of_text_or_of_bytes(
    content: bytes, media_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    [part] = attached_parts(["-"])
    assert (part.content, part.filename, part.media_type) == (content, "stdin", media_type)
    with pytest.raises(Failure, match="--attach - can be given once"):
        attached_parts(["-", "-"])


def test_a_name_that_is_not_utf_8_can_be_sent(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt")
    Path(path).write_text("x")
    [part] = attached_parts([path])
    assert part.filename == "?.txt"
    part.to_json()
