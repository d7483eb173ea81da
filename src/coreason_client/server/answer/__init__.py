"""The answer of an agent as events that every protocol needs. No I/O.

`_fold.py` makes them of packets, and `_writer.py` is the base of what writes them.
"""

from enum import Enum
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic_core import to_json

__all__ = [
    "AnswerEvent",
    "Artifact",
    "Began",
    "Cited",
    "Ended",
    "Finished",
    "Markdown",
    "Media",
    "Other",
    "Part",
    "Progress",
    "Question",
    "Rewound",
    "Text",
    "Thought",
    "ToolCall",
    "ToolResult",
    "Warned",
    "as_markdown",
]


class Part(Enum):
    """A part of an answer that has several pieces."""

    TEXT = "text"
    THOUGHTS = "thoughts"


class Began(NamedTuple):
    """A part begins; only one is open at a time."""

    part: Part


class Ended(NamedTuple):
    """The open part has ended."""

    part: Part


class Text(NamedTuple):
    """A piece of text, as JSON."""

    json: bytes


class Thought(NamedTuple):
    """A thought, which is not a part of the answer."""

    text: str


class ToolCall(NamedTuple):
    """A tool of the agent is called."""

    call_id: str
    name: str
    arguments: Any


class ToolResult(NamedTuple):
    """The result of a call; `has_ended` is False if the answer ended before the call did."""

    call: ToolCall
    value: Any
    is_error: bool
    has_ended: bool = True


class Cited(NamedTuple):
    """Sources: `CitationItem` objects."""

    citations: list[dict[str, Any]]


class Markdown(NamedTuple):
    """A block of Markdown."""

    text: str


class Media(NamedTuple):
    """Images and the like: `MediaItem` objects."""

    items: list[dict[str, Any]]


class Artifact(NamedTuple):
    """A result beside the text, or a piece of one: the data of an ARTIFACT event."""

    data: dict[str, Any]


class Question(NamedTuple):
    """The agent asks the user; the text that follows is the question.

    `call` is the tool call that the question is about: it waits for the user's permission.
    """

    text: str
    call: ToolCall | None = None


class Progress(NamedTuple):
    """The progress of a step: a `ProgressUpdate` object."""

    data: dict[str, Any]


class Warned(NamedTuple):
    """An error after which the answer goes on: a `StreamError` object."""

    error: dict[str, Any]


class Other(NamedTuple):
    """An event that only the agent and its own clients know."""

    event: dict[str, Any]


class Rewound(NamedTuple):
    """All packets after this one are void."""

    to_seq: int


class Finished(NamedTuple):
    """The answer has ended.

    `asks` is the reason if the agent waits for the user. `error` is the `StreamError` object that
    ended it. `limit` says why the model stopped before it was done, if it did.
    """

    error: dict[str, Any] | None = None
    asks: str | None = None
    limit: Literal["length", "content_filter"] | None = None


AnswerEvent: TypeAlias = (
    Began
    | Ended
    | Text
    | Thought
    | ToolCall
    | ToolResult
    | Cited
    | Markdown
    | Media
    | Artifact
    | Question
    | Progress
    | Warned
    | Other
    | Rewound
    | Finished
)


# Content other than text, as Markdown, for protocols that have no place for it.


def as_markdown(event: Markdown | Media | Artifact) -> str:
    """Return Markdown for content that is not text, an empty string if it has none.

    A file whose bytes are in the packet is named, without its bytes.
    """
    match event:
        case Markdown(text):
            return text
        case Media(items):
            return "\n\n".join(_link(i["url"], i["mime_type"], i.get("alt_text")) for i in items)
        case Artifact(data):
            parts = [shown for part in data["parts"] if (shown := _part(part))]
            title = [] if data.get("append") else [f"**{_escaped(data.get('name') or 'Result')}**"]
            return "\n\n".join([*title, *parts])


def _part(part: dict[str, Any]) -> str:
    name, media_type = part.get("filename"), part.get("mediaType") or ""
    if isinstance(text := part.get("text"), str):
        return text
    if isinstance(url := part.get("url"), str):
        return _link(url, media_type, name)
    if "data" in part:
        return f"```json\n{to_json(part['data'], indent=2).decode()}\n```"
    return f"*{_escaped(name or 'file')}*" if "raw" in part else ""


def _link(url: str, media_type: str, name: str | None) -> str:
    target = url.replace(" ", "%20").replace("(", "%28").replace(")", "%29").replace("\n", "")
    is_image = media_type.startswith("image/")
    return f"{'!' if is_image else ''}[{_escaped(name or url)}]({target})"


def _escaped(name: str) -> str:
    return " ".join(name.replace("[", "(").replace("]", ")").replace("*", "").split())
