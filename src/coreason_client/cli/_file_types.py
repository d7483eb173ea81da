"""The media type of a file by its content. Pure."""

__all__ = ["text_in", "type_of_content"]

# The first bytes of a file, the offset of further bytes, and these bytes.
_MAGIC: tuple[tuple[bytes, int, bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, b"", "image/png"),
    (b"\xff\xd8\xff", 0, b"", "image/jpeg"),
    (b"GIF87a", 0, b"", "image/gif"),
    (b"GIF89a", 0, b"", "image/gif"),
    (b"RIFF", 8, b"WEBP", "image/webp"),
    (b"RIFF", 8, b"WAVE", "audio/wav"),
    (b"ID3", 0, b"", "audio/mpeg"),
    (b"\xff\xfb", 0, b"", "audio/mpeg"),
    (b"\xff\xf3", 0, b"", "audio/mpeg"),
    (b"fLaC", 0, b"", "audio/flac"),
    (b"OggS", 0, b"", "audio/ogg"),
    (b"", 4, b"ftypM4A", "audio/mp4"),
    (b"%PDF-", 0, b"", "application/pdf"),
)


def type_of_content(content: bytes) -> str | None:
    """Return the media type that the first bytes show, None if they show none."""
    for start, offset, further, media_type in _MAGIC:
        if content.startswith(start) and content[offset : offset + len(further)] == further:
            return media_type
    return None


def text_in(content: bytes) -> str | None:
    """Return the text of a file, None if it is not UTF-8 or contains null characters."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
