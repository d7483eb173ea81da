"""`ModelAnswer`: a provider's answer in a provider-neutral form, its errors and its usage. Pure."""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from uuid import uuid4

from ._json import text
from .types import Citation, Media, ProviderToolResult, Usage

End: TypeAlias = Literal["stop", "length", "tool_calls", "filtered", "paused"]
"""The reason why an answer ended."""


@dataclass(slots=True)
class Tokens:
    """Token counts of a provider; None if it sent none.

    `prompt` includes tokens read from and written to a cache, `completion` includes reasoning.
    `cache_write_1h` is the part of `cache_write` that is cached for an hour.
    """

    prompt: int | None = None
    completion: int | None = None
    cached: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    reasoning: int = 0
    billing: "Billing | None" = field(default=None, compare=False)


@dataclass(slots=True)
class Billing:
    """Everything in a reply that affects its price, besides the tokens.

    `model` is the model that answered, `tier` its service tier, `dollars` the amount billed.
    `parts` are runs of a model that are priced separately: the model if it differs, and the tokens
    of the run. Together they contain all tokens.
    """

    model: str = ""
    tier: str = ""
    dollars: float | None = None
    parts: Sequence[tuple[str, Tokens]] = ()


@dataclass(slots=True)
class RawToolCall:
    """A tool call as received: the id may be missing, the arguments are text or an object.

    `signature` must be sent back to the provider with the call. The arguments of a `custom` tool
    are `{"input": text}`.
    """

    id: str | None
    name: str
    arguments: str | dict[str, Any] | None
    signature: str | None = None
    custom: bool = False


@dataclass(slots=True)
class ModelAnswer:
    """The answer of a provider.

    `items` are the provider's own parts of the answer that it needs back in the next request.
    """

    content: str | None = None
    calls: list[RawToolCall] = field(default_factory=list)
    end: End = "stop"
    reasoning: str = ""
    tokens: Tokens | None = None
    media: list[Media] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)
    citations: list[Citation] = field(default_factory=list)
    tool_results: list[ProviderToolResult] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """True if there is neither content, nor tool calls, nor media."""
        return not (self.content or self.calls or self.media)


def new_call_id() -> str:
    """Return an id for a tool call that was received without one."""
    return f"call_{uuid4().hex}"


# Errors, as adapters report them before they are classified.


@dataclass(frozen=True, slots=True)
class ProviderFault:
    """An error as the provider describes it.

    `codes` are all error codes that the provider sent, the most specific first. `status` is the
    HTTP status given in the body, `param` the parameter that is wrong. `request_id` is used if no
    header has one.
    """

    message: str
    codes: tuple[str, ...] = ()
    status: int | None = None
    param: str | None = None
    retry_after: float | None = None
    request_id: str | None = None


class FaultReceived(Exception):
    """A stream delivered an error instead of the rest of the answer."""

    def __init__(self, fault: ProviderFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Malformed(Exception):
    """The data received does not follow the wire format; `code` is an error code, if any."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


class EventsLost(Exception):
    """Events of a stream are missing, which is the same as a lost connection."""


# Sums of usage.

NO_USAGE: Usage = {
    "prompt_tokens": 0,
    "completion_tokens": 0,
    "total_tokens": 0,
    "cost_estimate": 0.0,
}

_Count = Literal["cached_tokens", "cache_write_tokens", "reasoning_tokens"]
_OPTIONAL: tuple[_Count, ...] = ("cached_tokens", "cache_write_tokens", "reasoning_tokens")


def add_usages(usages: Sequence[Usage]) -> Usage:
    """Return the sum of usages; its cost is None if one of them has no known cost."""
    first, *others = usages or [NO_USAGE]
    total = first.copy()
    for usage in others:
        total["prompt_tokens"] += usage["prompt_tokens"]
        total["completion_tokens"] += usage["completion_tokens"]
        total["total_tokens"] += usage["total_tokens"]
        cost, more = total["cost_estimate"], usage["cost_estimate"]
        total["cost_estimate"] = None if cost is None or more is None else cost + more
        if len(usage) > len(NO_USAGE):  # most have only what every usage has
            _add_optional(total, usage)
    return total


def _add_optional(total: Usage, usage: Usage) -> None:
    for name in _OPTIONAL:
        if count := usage.get(name):
            total[name] = total.get(name, 0) + count
    if usage.get("estimated"):
        total["estimated"] = True


# Estimates of tokens that no provider has counted.

_BYTES_PER_TOKEN = 4  # English prose; for most other texts, the error is below a third
_TOKENS_PER_MESSAGE = 4


def estimate(texts: Iterable[str]) -> int:
    """Estimate the number of tokens in texts, each of which is one message."""
    lengths = [len(text.encode("utf-8", "replace")) for text in texts]
    return estimate_bytes(sum(lengths)) + _TOKENS_PER_MESSAGE * len(lengths)


def estimate_text(text: str) -> int:
    """Estimate the number of tokens in a text."""
    return estimate_bytes(len(text.encode("utf-8", "replace")))


def estimate_bytes(length: int) -> int:
    """Estimate the number of tokens in so many bytes of text."""
    return -(-length // _BYTES_PER_TOKEN)


# Images and audio, in the same form for every provider.

_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^,]*?)?;base64,", re.ASCII)


def media_of(mime_type: str, *, data: str = "", url: str = "") -> Media:
    """Return a media item; its type follows from the MIME type."""
    media: Media = {"type": _kind(mime_type)}
    if mime_type:
        media["mime_type"] = mime_type
    if data:
        media["data"] = data
    if url:
        media["url"] = url
    return media


def image_at(url: str) -> Media:
    """Return the image at a URL, or inside a `data:` URL."""
    match = _DATA_URL.match(url)
    if match is None:
        return {"type": "image", "url": url}
    media: Media = {"type": "image", "data": url[match.end() :]}
    if match[1]:
        media["mime_type"] = match[1]
    return media


def audio_of(audio: Mapping[str, Any]) -> list[Media]:
    """Return the audio of a message of OpenAI; empty without data and transcript."""
    return joined_audio([audio])


def joined_audio(pieces: Sequence[Mapping[str, Any]]) -> list[Media]:
    """Join the pieces of audio in a stream of OpenAI."""
    data = _joined([text(piece.get("data")) for piece in pieces])
    transcript = "".join(text(piece.get("transcript")) for piece in pieces)
    if not data and not transcript:
        return []
    media: Media = {"type": "audio"}
    if data:
        media["data"] = data
    if transcript:
        media["transcript"] = transcript
    if id_ := next(filter(None, (text(piece.get("id")) for piece in pieces)), ""):
        media["id"] = id_
    return [media]


def _joined(pieces: Sequence[str]) -> str:
    """Join base64 texts, each of which may be padded."""
    if not any("=" in piece for piece in pieces[:-1]):
        return "".join(pieces)
    try:
        return b64encode(b"".join(map(b64decode, pieces))).decode()
    except ValueError:
        return "".join(pieces)


def _kind(mime_type: str) -> Literal["image", "audio", "video", "file"]:
    match mime_type.partition("/")[0].lower():
        case "image":
            return "image"
        case "audio":
            return "audio"
        case "video":
            return "video"
        case _:
            return "file"
