"""An agent that answers questions about this package from its own documentation, offline.

It looks sections up and quotes them; it does not write prose of its own, so whatever it says is
in the pages that it cites.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from coreason_manifest.definitions.message import ChatMessage, Role
from coreason_manifest.definitions.presentation import CitationItem
from coreason_manifest.definitions.service import ServiceRequest

from ._pages import load_pages
from ._search import Hit, Index, words
from ._sections import Section, plain, split_page

if TYPE_CHECKING:
    from ..server import AgentStream

__all__ = ["guide", "paced"]

# Below this share of the question's words, the best section is about something else.
_LEAST_COVERAGE = 0.4
# A second section is quoted too when it is nearly as good as the first.
_NEARLY_AS_GOOD = 0.75
_MOST_QUOTES = 2
_LONGEST_QUOTE = 1400
_LONGEST_SNIPPET = 160
_FEW_WORDS = 2
_EARLIER_WEIGHT = 0.5
_FOLLOW_UP = re.compile(r"\s*(and|or|but|also|then|what about|how about|why)\b", re.IGNORECASE)
_PIECES = re.compile(r"\s*\S+|\s+\Z")
_LINK = re.compile(r"\]\((?!https?:|#)([^)]+)\)")


async def guide(request: ServiceRequest, stream: "AgentStream") -> None:
    """Answer a question about this package, as fast as it can be written."""
    await _answer(request, stream, 0.0)


def paced(seconds: float) -> "Callable[[ServiceRequest, AgentStream], Coroutine[Any, Any, None]]":
    """Return the same agent with a pause after each word, for people who watch."""

    async def guide(request: ServiceRequest, stream: "AgentStream") -> None:
        await _answer(request, stream, seconds)

    return guide


async def _answer(request: ServiceRequest, stream: "AgentStream", pause: float) -> None:
    label = "Searching the documentation"
    question, earlier = _questions(request, await stream.history())
    await stream.progress(label, 0)
    weights = _weights(question, earlier)
    await stream.thought(_thought(question, weights))
    await stream.progress(label, 50)
    hits = [hit for hit in _index().search(weights) if hit.coverage >= _LEAST_COVERAGE]
    await stream.progress(label, 100, status="complete")
    quoted, others = _chosen(hits)
    text = "\n\n".join(_quoted(hit.section) for hit in quoted) or _overview(question)
    for piece in _PIECES.findall(text):
        await stream.write(piece)
        await asyncio.sleep(pause)
    await stream.markdown(_read_on(quoted, others))
    if citations := _citations(quoted):
        await stream.cite(*citations)


# The question


def _questions(request: ServiceRequest, history: Sequence[ChatMessage]) -> tuple[str, str]:
    """Return what is asked now, and what was asked before it."""
    messages = chain(history, request.payload.messages or ())
    asked = ["", *(message.text for message in messages if message.role is Role.USER)]
    return asked[-1], asked[-2] if len(asked) > 1 else ""


def _weights(question: str, earlier: str) -> dict[str, float]:
    """Weigh the words of a question; a follow-up also means what it follows."""
    own = dict.fromkeys(words(question), 1.0)
    follows = _FOLLOW_UP.match(question) or 0 < len(own) <= _FEW_WORDS
    return {**dict.fromkeys(words(earlier), _EARLIER_WEIGHT), **own} if follows else own


def _thought(question: str, weights: dict[str, float]) -> str:
    if not weights:
        return "The question has no word that I could look up."
    earlier = "" if min(weights.values()) == 1.0 else ", with the question before it in mind"
    return f"Looking for “{_shortened(question, _LONGEST_SNIPPET)}”{earlier}."


# The answer


def _chosen(hits: Sequence[Hit]) -> tuple[Sequence[Hit], Sequence[Hit]]:
    """Return the sections to quote, and those that are only worth a mention."""
    good = [hit for hit in hits[:_MOST_QUOTES] if hit.score >= hits[0].score * _NEARLY_AS_GOOD]
    return good, hits[len(good) :]


def _quoted(section: Section) -> str:
    """A section as it stands, shortened between paragraphs if it is long."""
    kept, length = list[str](), 0
    for paragraph in section.paragraphs:
        if kept and length + len(paragraph) > _LONGEST_QUOTE:
            kept.append("…")
            break
        kept.append(paragraph)
        length += len(paragraph)
    # A link is relative to its page, and the reader is not there.
    folder = section.page.rpartition("/")[0]
    text = "\n\n".join(kept)
    if folder:
        text = _LINK.sub(lambda match: f"]({folder}/{match[1]})", text)
    return f"**{section.full_title}**\n\n{text}"


def _overview(question: str) -> str:
    if not load_pages():
        return (
            "I answer from the documentation of this package, and it is not installed with it: "
            "reinstall coreason-client, or read the project's pages."
        )
    about = plain(" ".join(question.split()))
    told = f"I found nothing about “{_shortened(about, 80)}” in the documentation. "
    asked = "Ask me about this package, coreason-client; this is what I can tell about:"
    return told + asked if about else asked


def _read_on(quoted: Sequence[Hit], others: Sequence[Hit]) -> str:
    """Where to look further, as Markdown: related sections, or else the pages that there are."""
    if not quoted:
        return "\n".join(_page_line(sections) for sections in _pages()) or "There are no pages."
    lines = [f"* {hit.section.full_title} ({hit.section.uri})" for hit in others]
    if not lines:
        page = quoted[0].section.page
        lines = [_page_line(sections) for sections in _pages() if sections[0].page == page]
    return "\n".join(["**Read on**", "", *lines])


def _page_line(sections: Sequence[Section]) -> str:
    """A page with the headings under which it can be asked about."""
    first = sections[0]
    titles = [section.title for section in sections if section.title != first.page_title]
    named = ", ".join(titles[:6]) + (", …" if len(titles) > 6 else "")
    return f"* **{first.page_title}** ({first.page}): {named or first.summary}"


def _citations(hits: Sequence[Hit]) -> list[CitationItem]:
    if hits:
        return [_citation(hit.section, hit.section.uri, hit.coverage) for hit in hits]
    # Pages that were only offered, not used.
    return [_citation(sections[0], sections[0].page, 0.0) for sections in _pages()]


def _citation(section: Section, uri: str, confidence: float) -> CitationItem:
    return CitationItem(
        source_id=uri,
        uri=uri,
        title=section.full_title if "#" in uri else section.page_title,
        snippet=_shortened(section.summary, _LONGEST_SNIPPET),
        confidence=round(confidence, 2),
    )


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[:longest].rsplit(" ", 1)[0] + " …"


@cache
def _pages() -> list[list[Section]]:
    return [sections for page in load_pages() if (sections := split_page(page))]


@cache
def _index() -> Index:
    sections = chain.from_iterable(_pages())
    # A list of links answers nothing; what it points to does.
    return Index(section for section in sections if not section.is_links)
