"""Checks a built site: every link leads somewhere, and no page fetches anything from elsewhere."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["broken_links", "fetched_elsewhere", "read_page"]

# What a browser loads by itself, by tag; `a` is followed by people only.
_LOADED = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "image": "href",
    "img": "src",
    "input": "src",
    "object": "data",
    "script": "src",
    "source": "src",
    "track": "src",
    "use": "href",
    "video": "src",
}
# Links of a head that are not loaded.
_NOT_LOADED = {"alternate", "canonical", "edit", "next", "prev", "search"}
_ELSEWHERE = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
_CSS_URL = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])((?:https?:)?//[^"')\s]+)""")
# The theme's script loads more for diagrams, for code that runs in the page, for pictures that can
# be enlarged and for the numbers of a repository. A page without these loads nothing.
_TRIGGERS = re.compile(
    r"""class="[^"]*\b(mermaid|glightbox|pyodide)\b|data-md-component="source\""""
)


@dataclass
class Page:
    """The links of a page of the site, and the anchors in it that others can link to."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self, page: Page) -> None:
        super().__init__()
        self._page = page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self._page.ids.update(values[name] for name in ("id", "name") if values.get(name))
        if tag == "a" and "href" in values:
            self._page.links.append(values["href"])
        elif tag == "link" and not _NOT_LOADED & set(values.get("rel", "").split()):
            self._page.loaded.append(values.get("href", ""))
        elif values.get(_LOADED.get(tag, "")):
            self._page.loaded.append(values[_LOADED[tag]])


def read_page(html: str) -> Page:
    """Return what a page has and refers to."""
    page = Page()
    _Reader(page).feed(html)
    return page


def broken_links(site: Path) -> Iterator[str]:
    """Yield a sentence for each link that leads to no file, or to no place in its file."""

    @cache
    def page_of(file: Path) -> Page:
        return read_page(file.read_text(encoding="utf-8"))

    site = site.resolve()  # a page has one path, and is read once
    for file in sorted(site.rglob("*.html")):
        page = page_of(file)
        for link in dict.fromkeys([*page.links, *page.loaded]):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            path = unquote(parts.path)
            target = site / path.lstrip("/") if path.startswith("/") else file.parent / path
            target = file if not path else target / "index.html" if path.endswith("/") else target
            name = file.relative_to(site)
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                yield f"{name}: {link} leads to no file"
            elif parts.fragment and target.suffix == ".html":
                anchor = unquote(parts.fragment)
                if anchor not in page_of(target.resolve()).ids and not anchor.startswith("__"):
                    yield f"{name}: {link} leads to no place in {target.name}"


def fetched_elsewhere(site: Path) -> Iterator[str]:
    """Yield a sentence for each thing that a browser would load from another machine."""
    for file in sorted(site.rglob("*")):
        name = file.relative_to(site)
        if file.suffix == ".html":
            html = file.read_text(encoding="utf-8")
            for url in read_page(html).loaded:
                if _ELSEWHERE.match(url):
                    yield f"{name} loads {url}"
            if found := _TRIGGERS.search(html):
                yield f"{name} has {found[0]!r}, for which the theme loads a script from elsewhere"
        if file.suffix in (".html", ".css", ".svg"):
            for url in _CSS_URL.findall(file.read_text(encoding="utf-8")):
                yield f"{name} loads {url}"
