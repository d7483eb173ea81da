"""Parts of a message in the form of `Call`, as the adapters read them. Pure."""

from base64 import b64decode
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from mimetypes import MimeTypes

__all__ = ["data_of", "extension_of", "is_text", "mime_type_of", "text_of"]

# Types of text besides text/…
_TEXT_TYPES = frozenset({"application/json", "application/xml", "application/javascript"})


def data_of(url: str) -> tuple[str, str] | None:
    """Return the MIME type and the base64 text of a `data:` URL, None for another URL."""
    head, comma, data = url.partition(";base64,")
    return (head.removeprefix("data:"), data) if comma and head.startswith("data:") else None


def is_text(mime_type: str) -> bool:
    """Return True if files of a MIME type are text."""
    return mime_type.startswith("text/") or mime_type in _TEXT_TYPES


def text_of(data: str) -> str | None:
    """Return the text that base64 contains, None if it is not UTF-8."""
    try:
        return b64decode(data).decode("utf-8-sig")
    except ValueError:
        return None


def mime_type_of(name: str) -> str | None:
    """Return the MIME type of a file by its name or URL, None if it is not known."""
    path = urlsplit(name).path if "://" in name else name
    return _types().guess_type(path, strict=False)[0]


def extension_of(url: str) -> str:
    """Return the file extension for a `data:` URL, empty if there is none."""
    found = data_of(url)
    return _types().guess_extension(found[0], strict=False) or "" if found else ""


@lru_cache(maxsize=1)
def _types() -> "MimeTypes":
    from mimetypes import MimeTypes  # not at import: few calls have files

    return MimeTypes()  # Python's own table, the same on every machine
