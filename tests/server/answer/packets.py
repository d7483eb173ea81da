"""Packets of any shape that an agent may write, as entries of a log."""

from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from pydantic_core import from_json

from coreason_client.server.engine._packets import Frames
from coreason_manifest.definitions.presentation import StreamOpCode

__all__ = ["ANSWERS", "STREAM", "Packet", "entries_of", "packets_of"]

STREAM = UUID("0197a3c2-5be1-7d40-9f0e-6c1d2a8b4e57")
Packet = tuple[str, Any]

_SMALL = st.text(max_size=12)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | _SMALL,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_SMALL, inner, max_size=2),
    max_leaves=4,
)
_IDS = st.sampled_from(["c1", "c2", "c3"])
_KINDS = (
    *("THOUGHT_TRACE", "CITATION_BLOCK", "PROGRESS_INDICATOR", "MEDIA_CAROUSEL", "MARKDOWN_BLOCK"),
    *("ARTIFACT", "QUESTION", "TOOL_CALL", "TOOL_RESULT", "USAGE", "REWIND", "MY_OWN"),
)
_TOKENS = st.integers(0, 99)
_SOURCE = st.fixed_dictionaries(
    {"source_id": _IDS, "uri": _SMALL, "title": _SMALL, "confidence": st.just(1.0)}
)
_MEDIUM = st.fixed_dictionaries(
    {"url": _SMALL, "mime_type": st.sampled_from(["image/png", "text/plain"])}
)
_PART = st.one_of(
    st.fixed_dictionaries({"text": _SMALL}),
    st.fixed_dictionaries({"url": _SMALL}, optional={"filename": _SMALL}),
    st.fixed_dictionaries({"data": _JSON}),
    st.fixed_dictionaries({"raw": _SMALL}, optional={"filename": _SMALL}),
    st.dictionaries(_SMALL, _JSON, max_size=1),
)
_DATA: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "THOUGHT_TRACE": st.fixed_dictionaries({"content": _SMALL}),
    "CITATION_BLOCK": st.fixed_dictionaries({"citations": st.lists(_SOURCE, max_size=2)}),
    "PROGRESS_INDICATOR": st.fixed_dictionaries({"label": _SMALL, "status": st.just("running")}),
    "MEDIA_CAROUSEL": st.fixed_dictionaries({"items": st.lists(_MEDIUM, max_size=2)}),
    "MARKDOWN_BLOCK": st.fixed_dictionaries({"content": _SMALL}),
    "ARTIFACT": st.fixed_dictionaries(
        {"artifactId": _IDS, "parts": st.lists(_PART, max_size=2)},
        optional={"name": _SMALL, "append": st.booleans()},
    ),
    "QUESTION": st.fixed_dictionaries({"question": _SMALL}),
    "TOOL_CALL": st.fixed_dictionaries({"call_id": _IDS, "name": _SMALL, "arguments": _JSON}),
    "TOOL_RESULT": st.fixed_dictionaries(
        {"call_id": _IDS, "result": _JSON, "is_error": st.booleans()}
    ),
    "REWIND": st.fixed_dictionaries({"to_seq": st.integers(0, 3)}),
    "USAGE": st.fixed_dictionaries(
        {"prompt_tokens": _TOKENS, "completion_tokens": _TOKENS},
        optional={
            "total_tokens": _TOKENS,
            "cached_tokens": _TOKENS,
            "finish_reason": st.sampled_from(["stop", "length", "content_filter", "other"]),
        },
    ),
}


def _event(kind: str) -> st.SearchStrategy[Packet]:
    data = _DATA.get(kind, st.just({}))
    shaped = data.map(lambda value: ("EVENT", {"type": kind, "data": value}))
    # An agent may use any name for its own event.
    return shaped | _JSON.map(lambda value: ("EVENT", {"type": kind, "data": value}))


def _error(severity: str) -> st.SearchStrategy[Packet]:
    codes = st.sampled_from(["cancelled", "agent_error", "model_rate_limit", "rejected"])
    return st.builds(
        lambda code, text: ("ERROR", {"code": code, "message": text, "severity": severity}),
        codes,
        _SMALL,
    )


_TEXTS: st.SearchStrategy[Packet] = _SMALL.map(lambda text: ("DELTA", text))
_EVENTS = st.sampled_from(_KINDS).flatmap(_event)
_MIDDLE = st.one_of(_TEXTS, _TEXTS, _EVENTS, _EVENTS, _error("WARNING"))
_CLOSED: st.SearchStrategy[Packet] = st.sampled_from(
    ["complete", "input_required", "auth_required", "other"]
).map(lambda reason: ("CLOSE", {"reason": reason}))

ANSWERS: st.SearchStrategy[list[Packet]] = st.builds(
    lambda middle, end: [*middle, end],
    st.lists(_MIDDLE, max_size=14),
    _CLOSED | _error("FATAL"),
)
"""Whole answers, with every kind of packet in any order and any shape."""


def entries_of(packets: list[Packet]) -> list[bytes]:
    """Return packets as the server stores them."""
    frames = Frames(STREAM)
    return [
        frames.delta(seq, p) if op == "DELTA" else frames.packet(seq, StreamOpCode(op), p)[0]
        for seq, (op, p) in enumerate(packets, 1)
    ]


def packets_of(entries: list[bytes]) -> list[dict[str, Any]]:
    """Return the JSON objects of entries."""
    return [from_json(entry.partition(b"\ndata: ")[2]) for entry in entries]
