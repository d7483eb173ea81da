"""The input and the output of an encoder. Pure; each wire format is a `Wire` in its own file."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

from ...llm.types import Citation
from ._turns import Break, FinishReason, ModelFailure, ModelToolCall, ModelTurn

CREATED = 1_700_000_000
"""The time of every answer, in seconds since 1970, so that answers are the same in every run."""


class TurnUsage(NamedTuple):
    """The usage of a turn."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class WireTurn:
    """A turn with everything that an encoder needs; `asked` is the body of the request."""

    id: str
    model: str
    reasoning: tuple[str, ...]
    text: tuple[str, ...]
    calls: tuple[ModelToolCall, ...]
    usage: TurnUsage | None
    finish: FinishReason
    asked: Mapping[str, Any]
    citations: tuple[Citation, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of a stream: how many pieces it has, and True if it belongs to the end."""

    data: bytes
    pieces: int = 0
    is_end: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: the messages and tools in the form of chat completions, for every wire."""

    model: str
    stream: bool
    messages: list[dict[str, Any]] = field(default_factory=list)
    tools: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Wire:
    """A wire format: how a request is read, and how a turn and an error are sent."""

    name: str
    content_type: str
    read: Callable[[str, Mapping[str, Any]], Asked]
    stream: Callable[[WireTurn], Iterable[Chunk]]
    body: Callable[[WireTurn], Mapping[str, Any]]
    error: Callable[[ModelFailure], Mapping[str, Any]]
    error_event: Callable[[ModelFailure], bytes]
    error_headers: Callable[[ModelFailure], Mapping[str, str]] = lambda _: {}


def script_of(
    turn: ModelTurn, asked: Mapping[str, Any], model: str, number: int, first_call: int
) -> WireTurn:
    """Return the script of a turn: the answer `number`, with calls numbered from `first_call`."""
    calls = enumerate(turn.calls, first_call)
    return WireTurn(
        id=f"fake-{number}",
        model=model,
        reasoning=turn.reasoning_pieces,
        text=turn.text_pieces,
        calls=tuple(replace(call, id=call.id or f"call_{at}") for at, call in calls),
        usage=None if turn.usage is None else TurnUsage(**turn.usage),
        finish=turn.finish_reason,
        asked=asked,
        citations=tuple(turn.citations),
    )


def range_of(citation: Citation, script: WireTurn) -> tuple[int, int]:
    """Return the range of the text that a citation supports, by default the whole text."""
    return citation.get("start", 0), citation.get("end", len("".join(script.text)))


@dataclass(frozen=True, slots=True)
class CitedSpan:
    """A part of the text with the same citations; each piece has the number that it counts."""

    pieces: list[tuple[str, int]]
    citations: list[Citation]

    @property
    def text(self) -> str:
        """The text of the span."""
        return "".join(piece for piece, _ in self.pieces)


def cited_spans(script: WireTurn) -> list[CitedSpan]:
    """Return the spans of a text, for providers that put citations beside the text they support."""
    ranges = [(range_of(citation, script), citation) for citation in script.citations]
    length = len("".join(script.text))
    cuts = sorted({0, length, *(at for (start, end), _ in ranges for at in (start, end))})
    return [
        CitedSpan(
            [*_pieces_in(script.text, first, last)],
            [one for (start, end), one in ranges if start <= first and last <= end],
        )
        for first, last in pairwise(cuts)
    ]


def _pieces_in(pieces: Iterable[str], first: int, last: int) -> Iterator[tuple[str, int]]:
    """Yield the parts of pieces in a range; the last part of a piece counts as the piece."""
    at = 0
    for piece in pieces:
        if part := piece[max(first - at, 0) : max(last - at, 0)]:
            yield part, int(first < at + len(piece) <= last)
        at += len(piece)


def before_break(chunks: Iterable[Chunk], after: Break) -> Iterator[Chunk]:
    """Yield the chunks that are sent before an answer breaks off."""
    received = 0
    for chunk in chunks:
        if chunk.is_end or (after != "content" and _is_beyond(chunk, received, after)):
            return
        yield chunk
        received += chunk.pieces


def _is_beyond(chunk: Chunk, received: int, after: int) -> bool:
    """Return True if a chunk comes after the last piece; chunks before the first one do not."""
    return received + chunk.pieces > after or (received == after and after > 0)


def dumped(value: Any) -> bytes:
    """Return a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )


def sse(value: Any, event: str = "") -> bytes:
    """Return a server-sent event with JSON."""
    name = f"event: {event}\n".encode() if event else b""
    return b"%bdata: %b\n\n" % (name, dumped(value))


def joined_text(content: Any) -> Any:
    """Return the text of a list of blocks; any other content, with other blocks too, as it is."""
    if isinstance(content, list) and all(isinstance(b, Mapping) and "text" in b for b in content):
        return "".join(block["text"] for block in content)
    return content


def asked_tool(tool: Mapping[str, Any], parameters: Any) -> dict[str, Any]:
    """Return a tool in the form of `ModelRequest`."""
    named = {key: tool[key] for key in ("name", "description") if key in tool}
    return {**named, "parameters": parameters}


def tool_message(call_id: str, content: Any) -> dict[str, Any]:
    """Return the result of a tool as a message."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def with_calls(
    role: str, content: Any, calls: Sequence[tuple[object, object, object]]
) -> dict[str, Any]:
    """Return a message with its calls, each given as its id, its name and its arguments."""
    message = {"role": role, "content": content}
    return {**message, "tool_calls": [_asked_call(*call) for call in calls]} if calls else message


def _asked_call(call_id: object, name: object, arguments: object) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": call_id, "type": "function", "function": function}
