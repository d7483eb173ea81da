"""Loads the documentation from the installed package, or from a source checkout."""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from ._sections import Page

__all__ = ["load_pages"]

_CHECKOUT = Path(__file__).parents[3]
# They say again what other pages say, as an introduction, in pictures or as figures.
_FOR_THE_SITE = {"benchmarks.md", "how-it-works.md", "index.md", "quickstart.md"}


@cache
def load_pages() -> tuple[Page, ...]:
    """Return the pages to answer from, the README first; empty if there is no documentation."""
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
        if entry.name.endswith(".md") and entry.name not in {"README.md", *_FOR_THE_SITE}:
            yield Page(f"docs/{entry.name}", entry.read_text(encoding="utf-8"))
