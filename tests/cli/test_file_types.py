"""The type of a file by its first bytes."""

import pytest

from coreason_client.cli._attached import text_in, type_of_content


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\nrest", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8", "image/webp"),
        (b"RIFF\0\0\0\0WAVEfmt", "audio/wav"),
        (b"RIFF\0\0\0\0AVI ", None),
        (b"ID3\x04", "audio/mpeg"),
        (b"\xff\xfb\x90", "audio/mpeg"),
        (b"\xff\xf3\x90", "audio/mpeg"),
        (b"fLaC", "audio/flac"),
        (b"OggS", "audio/ogg"),
        (b"\0\0\0\x20ftypM4A ", "audio/mp4"),
        (b"%PDF-1.7", "application/pdf"),
        (b"text", None),
        (b"", None),
        (b"PK\x03\x04", None),
    ],
)
def test_the_first_bytes_show_the_type(content: bytes, media_type: str | None) -> None:
    assert type_of_content(content) == media_type


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"a \xc3\xa9", "a \u00e9"),
        (b"\xef\xbb\xbfa", "a"),
        (b"", ""),
        (b"\xff", None),
        (b"a\0b", None),
    ],
)
def test_text_is_utf_8_without_null_characters(content: bytes, text: str | None) -> None:
    assert text_in(content) == text
