"""The documentation: its pages, their sections with a URI each, and full-text search in them."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

_CHECKOUT = Path(__file__).parents[3]
# They say again what other pages say, as an introduction, in pictures or as figures.
_FOR_THE_SITE = {"benchmarks.md", "how-it-works.md", "index.md", "quickstart.md"}

_HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*\s*")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_NOT_QUOTED = re.compile(r"!\[[^\]]*\]\([^)]*\)|\s*<!--.*-->")
_NOT_IN_ANCHOR = re.compile(r"[^\w\- ]")
_MARKS = re.compile(r"[`*]|\[([^\]]*)\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class DocumentPage:
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


@cache
def load_pages() -> tuple[DocumentPage, ...]:
    """Return the pages to answer from, the README first; empty if there is no documentation."""
    packaged = files(__package__) / "_docs"
    # An editable install has no copy of the pages; they are read from the checkout.
    if packaged.is_dir():
        found = _pages(packaged / "README.md", packaged)
    else:
        found = _pages(_CHECKOUT / "README.md", _CHECKOUT / "docs")
    return tuple(found)


def _pages(readme: Traversable, docs: Traversable) -> Iterator[DocumentPage]:
    if readme.is_file():
        yield DocumentPage("README.md", readme.read_text(encoding="utf-8"))
    entries = docs.iterdir() if docs.is_dir() else ()
    for entry in sorted(entries, key=lambda entry: entry.name):
        if entry.name.endswith(".md") and entry.name not in {"README.md", *_FOR_THE_SITE}:
            yield DocumentPage(f"docs/{entry.name}", entry.read_text(encoding="utf-8"))


def split_page(page: DocumentPage) -> list[Section]:
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


# Full-text search: BM25 on word stems, with more weight for titles.
#
# "resuming" and "resumed" count as one word, `CAPConnectionError` also counts as "connection" and
# "error", and rare words count more than common ones.

# The usual parameters of BM25: saturation of repeated words, and weight of the length.
_SATURATION = 1.2
_LENGTH = 0.75
_TITLE_WEIGHT = 4
_PAGE_TITLE_WEIGHT = 1

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]*")
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_ENDINGS = ("ations", "ation", "ings", "ing", "ions", "ion", "ers", "er", "ies", "ied", "es", "ed")
_SHORTEST_STEM = 4

_COMMON_WORDS = """
a about an and are as at be but by can could do does for from get give go has have hello help
hey hi how i if in into is it its make me mean means my need not of on one or our please say
set should show so some tell thank thanks that the their them then there these they this those
to us use used using want was way we were what when where which who why will with work works
would you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())


@dataclass(frozen=True, slots=True)
class Hit:
    """A matching section; `coverage` is the matched share of the question, from 0 to 1."""

    section: Section
    score: float
    coverage: float


def words(text: str) -> list[str]:
    """Return the stems of all words that are not common, in order."""
    return list(_words(text))


class Index:
    """A searchable index of sections."""

    def __init__(self, sections: Iterable[Section]) -> None:
        self._sections = tuple(sections)
        self._counts = [_counted(section) for section in self._sections]
        lengths = [sum(counts.values()) for counts in self._counts]
        mean = sum(lengths) / len(lengths) if lengths else 1.0
        self._norms = [1 - _LENGTH + _LENGTH * length / mean for length in lengths]
        self._section_counts = Counter(word for counts in self._counts for word in counts)

    def search(self, question: Mapping[str, float], limit: int = 4) -> Sequence[Hit]:
        """Return the best sections for weighted words, the best first."""
        # Words that occur in no section count too: a question that consists mostly of them has no
        # answer here, however well the rest matches.
        total = sum(weight * self._rarity(word) for word, weight in question.items())
        hits = (self._hit(number, question, total) for number in range(len(self._sections)))
        found = [hit for hit in hits if hit.score > 0]
        return sorted(found, key=lambda hit: hit.score, reverse=True)[:limit]

    def _hit(self, number: int, question: Mapping[str, float], total: float) -> Hit:
        counts, norm = self._counts[number], self._norms[number]
        score = covered = 0.0
        for word, weight in question.items():
            count = counts.get(word, 0)
            if count:
                rarity = weight * self._rarity(word)
                covered += rarity
                score += rarity * count * (_SATURATION + 1) / (count + _SATURATION * norm)
        coverage = covered / total if total else 0.0
        # One mention of each word is worth more than many mentions of one word.
        return Hit(self._sections[number], score * coverage, coverage)

    def _rarity(self, word: str) -> float:
        # A word in no section counts as much as a word in one section.
        total, having = len(self._sections), self._section_counts.get(word, 1)
        return math.log(1 + (total - having + 0.5) / (having + 0.5))


def _counted(section: Section) -> Counter[str]:
    counts = Counter(_words(section.text))
    for text, weight in (
        (section.title, _TITLE_WEIGHT),
        (section.page_title, _PAGE_TITLE_WEIGHT),
    ):
        for word in _words(text):
            counts[word] += weight
    return counts


def _words(text: str) -> Iterator[str]:
    for match in _WORD.findall(text):
        parts = {part.lower() for piece in match.split("_") for part in _CAMEL.findall(piece)}
        for word in sorted(parts | {match.lower()}):
            if word not in _COMMON and len(word) > 1:
                yield _stem(word)


def _stem(word: str) -> str:
    """Remove a common ending; the stem need not be a word, only the same for all forms."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word.removesuffix(ending)
    return word[:-1] if len(word) > _SHORTEST_STEM and word[-1] in "es" else word
