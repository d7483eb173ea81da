"""The static files of the page, read once from the installed package or a source checkout."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from ..http._etag import etag_of

__all__ = ["INDEX", "PageFile", "load_files"]

INDEX: Final = "index.html"
_CLIENT: Final = "coreason.js"
# Files of other types are not served.
_MEDIA_TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_CHECKOUT = Path(__file__).parents[4]


@dataclass(frozen=True, slots=True)
class PageFile:
    """One static file."""

    body: bytes
    media_type: str
    etag: str


@cache
def load_files() -> Mapping[str, PageFile]:
    """Return the files by name."""
    return {name: _read(name, source) for name, source in _sources() if _suffix(name)}


def _sources() -> Iterator[tuple[str, Traversable]]:
    # An editable install has no copy of the JavaScript client; it is read from the checkout.
    client = _CHECKOUT / "js" / _CLIENT
    if client.is_file():
        yield _CLIENT, client
    for entry in (files(__package__) / "static").iterdir():
        yield entry.name, entry


def _read(name: str, source: Traversable) -> PageFile:
    body = source.read_bytes()
    return PageFile(body, _MEDIA_TYPES[_suffix(name)], etag_of(body))


def _suffix(name: str) -> str:
    """Return the suffix of a file that is served, "" for any other."""
    suffix = Path(name).suffix
    return suffix if suffix in _MEDIA_TYPES else ""
