"""Full-text search in sections: BM25 on word stems, with more weight for titles. Pure.

"resuming" and "resumed" count as one word, `CAPConnectionError` also counts as "connection" and
"error", and rare words count more than common ones.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ._sections import Section

__all__ = ["Hit", "Index", "words"]

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
