"""Where the documentation lies: inside the installed package, or in the checkout around it."""

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
    """Return the pages, the README first; none when there is no documentation to be found."""
    packed = files(__package__) / "_docs"
    # An editable install has no copy of the pages: they are still where they were written.
    if packed.is_dir():
        found = _pages(packed / "README.md", packed)
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
