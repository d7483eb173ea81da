"""Loads the documentation from the installed package, or from a source checkout."""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from ._sections import Page

__all__ = ["load_pages"]

_CHECKOUT = Path(__file__).parents[3]


@cache
def load_pages() -> tuple[Page, ...]:
    """Return the pages, the README first; empty if no documentation is found."""
    packaged = files(__package__) / "_docs"
    # An editable install has no copy of the pages; they are read from the checkout.
    if packaged.is_dir():
        found = _pages(packaged / "README.md", packaged)
    else:
        found = _pages(_CHECKOUT / "README.md", _CHECKOUT / "docs")
    return tuple(found)


def _pages(readme: Traversable, docs: Traversable) -> Iterator[Page]:
    if readme.is_file():
        yield Page("README.md", readme.read_text(encoding="utf-8"))
    entries = docs.iterdir() if docs.is_dir() else ()
    for entry in sorted(entries, key=lambda entry: entry.name):
        if entry.name.endswith(".md") and entry.name != "README.md":
            yield Page(f"docs/{entry.name}", entry.read_text(encoding="utf-8"))
