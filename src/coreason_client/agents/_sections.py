"""Splits Markdown pages into sections, one per heading, each with its URI."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Page", "Section", "split_page"]

_HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*\s*")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_NOT_QUOTED = re.compile(r"!\[[^\]]*\]\([^)]*\)|\s*<!--.*-->")
_NOT_IN_ANCHOR = re.compile(r"[^\w\- ]")
_MARKS = re.compile(r"[`*]|\[([^\]]*)\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Page:
    """A document: its path relative to the root of the project, and its Markdown."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and the text under it, up to the next heading of any level."""

    page: str
    page_title: str
    title: str
    anchor: str
    text: str

    @property
    def uri(self) -> str:
        """The path of the page and the anchor of the section."""
        return f"{self.page}#{self.anchor}"

    @property
    def full_title(self) -> str:
        """The title of the page and of the section; only one if they are equal."""
        same = self.title == self.page_title
        return self.title if same else f"{self.page_title}: {self.title}"

    @property
    def paragraphs(self) -> list[str]:
        """The paragraphs, lists, tables and code blocks of the text."""
        return list(_paragraphs(self.text))

    @property
    def is_links(self) -> bool:
        """True if the section is only a list of links."""
        return all(re.match(r"[*-] \[", paragraph) for paragraph in self.paragraphs)

    @property
    def summary(self) -> str:
        """The first paragraph of prose, as plain text in one line."""
        for paragraph in self.paragraphs:
            if not paragraph.startswith(("|", "```", "~~~")):
                return plain(" ".join(paragraph.split()))
        return self.full_title


def split_page(page: Page) -> list[Section]:
    """Split a page at its headings; headings without text are left out."""
    sections = []
    page_title = ""
    seen: Counter[str] = Counter()
    for heading, text in _parts(page.text):
        title = plain(heading) or page.path
        page_title = page_title or title
        slug = _anchor(title)
        # Like GitHub: the anchor of the second heading with the same text ends in -1.
        anchor = f"{slug}-{seen[slug]}" if seen[slug] else slug
        seen[slug] += 1
        if text:
            sections.append(Section(page.path, page_title, title, anchor, text))
    return sections


def plain(text: str) -> str:
    """Remove Markdown markup from a line."""
    return _MARKS.sub(lambda match: match[1] or "", text).strip()


def _parts(text: str) -> Iterator[tuple[str, str]]:
    heading, lines = "", list[str]()
    for line, in_code in _lines(text):
        match = None if in_code else _HEADING.fullmatch(line)
        if match is None:
            # The text is quoted where its pictures are not, and comments are for the tests.
            if in_code or not _NOT_QUOTED.fullmatch(line):
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
    """Yield each line, and True if it is in a code block, where `#` and blank lines are text."""
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
