"""Markdown pages as sections: one for each heading, with the address that a reader would open."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Page", "Section", "split_page"]

_HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*\s*")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_NOT_IN_ANCHOR = re.compile(r"[^\w\- ]")
_MARKS = re.compile(r"[`*]|\[([^\]]*)\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Page:
    """A document: where it lies, as seen from the root of the project, and its Markdown."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands under it, up to the next heading of any level."""

    page: str
    page_title: str
    title: str
    anchor: str
    text: str

    @property
    def uri(self) -> str:
        """Where to read it."""
        return f"{self.page}#{self.anchor}"

    @property
    def full_title(self) -> str:
        """The title, with that of the page where it does not say so itself."""
        same = self.title == self.page_title
        return self.title if same else f"{self.page_title}: {self.title}"

    @property
    def paragraphs(self) -> list[str]:
        """The text in pieces that can stand alone: paragraphs, lists, tables, blocks of code."""
        return list(_paragraphs(self.text))

    @property
    def is_links(self) -> bool:
        """Whether there is nothing in it but a list of links."""
        return all(re.match(r"[*-] \[", paragraph) for paragraph in self.paragraphs)

    @property
    def summary(self) -> str:
        """The first words of prose, as plain text in one line."""
        for paragraph in self.paragraphs:
            if not paragraph.startswith(("|", "```", "~~~")):
                return plain(" ".join(paragraph.split()))
        return self.full_title


def split_page(page: Page) -> list[Section]:
    """Split a page at its headings; one with nothing under it but other headings is left out."""
    sections = []
    page_title = ""
    seen: Counter[str] = Counter()
    for heading, text in _parts(page.text):
        title = plain(heading) or page.path
        page_title = page_title or title
        slug = _anchor(title)
        # As the common hosts do it: the second heading of the same words ends in -1.
        anchor = f"{slug}-{seen[slug]}" if seen[slug] else slug
        seen[slug] += 1
        if text:
            sections.append(Section(page.path, page_title, title, anchor, text))
    return sections


def plain(text: str) -> str:
    """Take the marks of Markdown out of a line."""
    return _MARKS.sub(lambda match: match[1] or "", text).strip()


def _parts(text: str) -> Iterator[tuple[str, str]]:
    heading, lines = "", list[str]()
    for line, in_code in _lines(text):
        match = None if in_code else _HEADING.fullmatch(line)
        if match is None:
            lines.append(line)
            continue
        if heading or any(lines):
            yield heading, "\n".join(lines).strip("\n")
        heading, lines = match[2], []
    yield heading, "\n".join(lines).strip("\n")


def _paragraphs(text: str) -> Iterator[str]:
    block = list[str]()
    for line, in_code in _lines(text):
        if line.strip() or in_code:
            block.append(line)
        elif block:
            yield "\n".join(block)
            block = []
    if block:
        yield "\n".join(block)


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it belongs to a block of code, where `#` and blank mean nothing."""
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence:
            yield line, True
            if mark is not None and mark[1].startswith(fence):
                fence = ""
        else:
            fence = "" if mark is None else mark[1]
            yield line, bool(fence)


def _anchor(title: str) -> str:
    return _NOT_IN_ANCHOR.sub("", title.lower()).strip().replace(" ", "-")
