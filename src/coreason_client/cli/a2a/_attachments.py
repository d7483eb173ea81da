"""The parts of a message for the files and URLs of `--attach`."""

from collections.abc import Sequence

from coreason_client.a2a import Part

from .._attached import Attached, read_attached, type_of_name

__all__ = ["attached_part", "attached_parts"]

_BINARY = "application/octet-stream"


def attached_parts(names: Sequence[str]) -> list[Part]:
    """Return the parts for files, URLs and `-`, which is stdin.

    Raises:
        Failure: a file cannot be read, or they are too large together.
        ArgumentError: a URL is invalid.
    """
    return [attached_part(attached) for attached in read_attached(names)]


def attached_part(attached: Attached) -> Part:
    """Return the part for a file or a URL."""
    filename, content = attached.filename, attached.content
    if content is None:
        return Part(url=attached.name, filename=filename or None, media_type=type_of_name(filename))
    if attached.name == "-":
        media_type = _type_of_content(content)
    else:
        media_type = type_of_name(filename) or _BINARY
    return Part.from_bytes(content, filename=filename, media_type=media_type)


def _type_of_content(content: bytes) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return _BINARY
    return _BINARY if "\0" in text else "text/plain"
