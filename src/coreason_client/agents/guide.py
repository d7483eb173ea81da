"""An agent that answers questions about this package from its own documentation, offline.

It searches for sections and quotes them. It writes nothing itself, so every answer is in the
pages that it cites.
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

from ._documentation import Hit, Index, Section, load_pages, plain, split_page, words

if TYPE_CHECKING:
    from ..server import AgentStream

__all__ = ["documents", "guide", "paced"]

# If a section matches less than this share of the question, it is about something else.
_MIN_COVERAGE = 0.4
# A second section is quoted if its score is at least this share of the best one.
_SECOND_QUOTE_SHARE = 0.75
_MAX_QUOTES = 2
_MAX_QUOTE_CHARS = 1400
_MAX_SNIPPET_CHARS = 160
_FEW_WORDS = 2
_EARLIER_WEIGHT = 0.5
_FOLLOW_UP = re.compile(r"\s*(and|or|but|also|then|what about|how about|why)\b", re.IGNORECASE)
_GREETING = re.compile(
    r"\s*(hello|hi|hey|good (morning|afternoon|evening)|thanks|thank you)\b\W*(there\W*)?",
    re.IGNORECASE,
)
_WELCOME = (
    "Hello! I answer questions about this package from its documentation, offline. Ask me for "
    "example: How do I resume a stream? How do I serve an agent? How do I call a model?"
)
_PIECES = re.compile(r"\s*\S+|\s+\Z")
_LINK = re.compile(r"\]\((?!https?:|#)([^)]+)\)")


async def guide(request: ServiceRequest, stream: "AgentStream") -> None:
    """Answer a question about this package from its documentation, offline and without pauses."""
    await _answer(request, stream, 0.0)


def paced(seconds: float) -> "Callable[[ServiceRequest, AgentStream], Coroutine[Any, Any, None]]":
    """Return the guide with a pause of some `seconds` after each word, for demonstrations."""

    async def guide(request: ServiceRequest, stream: "AgentStream") -> None:
        await _answer(request, stream, seconds)

    return guide


def documents() -> dict[str, str]:
    """Return the documents that the guide cites, by path."""
    return {page.path: page.text for page in load_pages()}


async def _answer(request: ServiceRequest, stream: "AgentStream", pause: float) -> None:
    label = "Searching the documentation"
    question, earlier = _questions(request, await stream.history())
    if _GREETING.fullmatch(question):
        await stream.step("write", _write, stream, _WELCOME, pause, on_restart="resume")
        return
    await stream.progress(label, 0)
    weights = _weights(question, earlier)
    await stream.thought(_thought(question, weights))
    await stream.progress(label, 50)
    hits = [hit for hit in _index().search(weights) if hit.coverage >= _MIN_COVERAGE]
    await stream.progress(label, 100, status="complete")
    quoted, others = _chosen(hits)
    text = "\n\n".join(_quoted(hit.section) for hit in quoted) or _overview(question)
    await stream.step("write", _write, stream, text, pause, on_restart="resume")
    await stream.markdown(_read_on(quoted, others))
    if citations := _citations(quoted):
        await stream.cite(*citations)


async def _write(stream: "AgentStream", text: str, pause: float) -> None:
    """Write a text word by word; after a restart, write the rest of it."""
    written = 0 if stream.resumed is None else len(stream.resumed.text)
    for piece in _PIECES.findall(text[written:]):
        await stream.write(piece)
        await asyncio.sleep(pause)


# The question


def _questions(request: ServiceRequest, history: Sequence[ChatMessage]) -> tuple[str, str]:
    """Return the current question and the one before it."""
    messages = chain(history, request.payload.messages or ())
    questions = ["", *(message.text for message in messages if message.role is Role.USER)]
    return questions[-1], questions[-2] if len(questions) > 1 else ""


def _weights(question: str, earlier: str) -> dict[str, float]:
    """Weight the words of a question; a follow-up includes the question before it."""
    own = dict.fromkeys(words(question), 1.0)
    is_follow_up = _FOLLOW_UP.match(question) or 0 < len(own) <= _FEW_WORDS
    return {**dict.fromkeys(words(earlier), _EARLIER_WEIGHT), **own} if is_follow_up else own


def _thought(question: str, weights: dict[str, float]) -> str:
    if not weights:
        return "The question has no word to search for."
    earlier = "" if min(weights.values()) == 1.0 else ", together with the previous question"
    return f"Looking for “{_shortened(question, _MAX_SNIPPET_CHARS)}”{earlier}."


# The answer


def _chosen(hits: Sequence[Hit]) -> tuple[Sequence[Hit], Sequence[Hit]]:
    """Return the sections to quote, and those to mention."""
    good = [hit for hit in hits[:_MAX_QUOTES] if hit.score >= hits[0].score * _SECOND_QUOTE_SHARE]
    return good, hits[len(good) :]


def _quoted(section: Section) -> str:
    """Return a section unchanged, or cut between paragraphs if it is long."""
    kept, length = list[str](), 0
    for paragraph in section.paragraphs:
        if kept and length + len(paragraph) > _MAX_QUOTE_CHARS:
            kept.append("…")
            break
        kept.append(paragraph)
        length += len(paragraph)
    # Links are relative to their page; make them relative to the root.
    folder = section.page.rpartition("/")[0]
    text = "\n\n".join(kept)
    if folder:
        text = _LINK.sub(lambda match: f"]({folder}/{match[1]})", text)
    return f"**{section.full_title}**\n\n{text}"


def _overview(question: str) -> str:
    if not load_pages():
        return (
            "I answer from the documentation of this package, but it is not installed: reinstall "
            "coreason-client, or read the documentation of the project."
        )
    about = plain(" ".join(question.split()))
    nothing = f"I found nothing about “{_shortened(about, 80)}” in the documentation. "
    topics = "Ask me about this package, coreason-client. These are the topics:"
    return nothing + topics if about else topics


def _read_on(quoted: Sequence[Hit], others: Sequence[Hit]) -> str:
    """Return a list of related sections as Markdown, or of all pages if nothing is quoted."""
    if not quoted:
        return "\n".join(_page_line(sections) for sections in _pages()) or "There are no pages."
    lines = [f"* {hit.section.full_title} ({hit.section.uri})" for hit in others]
    if not lines:
        page = quoted[0].section.page
        lines = [_page_line(sections) for sections in _pages() if sections[0].page == page]
    return "\n".join(["**Read on**", "", *lines])


def _page_line(sections: Sequence[Section]) -> str:
    """Return a line with the title, the path and the headings of a page."""
    first = sections[0]
    titles = [section.title for section in sections if section.title != first.page_title]
    named = ", ".join(titles[:6]) + (", …" if len(titles) > 6 else "")
    return f"* **{first.page_title}** ({first.page}): {named or first.summary}"


def _citations(hits: Sequence[Hit]) -> list[CitationItem]:
    if hits:
        return [_citation(hit.section, hit.section.uri, hit.coverage) for hit in hits]
    # Nothing was quoted: the pages are only suggestions.
    return [_citation(sections[0], sections[0].page, 0.0) for sections in _pages()]


def _citation(section: Section, uri: str, confidence: float) -> CitationItem:
    return CitationItem(
        source_id=uri,
        uri=uri,
        title=section.full_title if "#" in uri else section.page_title,
        snippet=_shortened(section.summary, _MAX_SNIPPET_CHARS),
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
    # A list of links is not an answer; the sections that it links to are.
    return Index(section for section in sections if not section.is_links)
