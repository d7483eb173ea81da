"""Answers of the Responses API and their streams, as strategies."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

__all__ = ["ANYTHING", "EVENTS", "OBJECTS", "Accent", "accents", "outputs", "stream_of"]

TYPES = (
    "message", "reasoning", "function_call", "image_generation_call", "output_text", "refusal",
    "summary_text", "error", "response.created", "response.in_progress", "response.queued",
    "response.output_item.added", "response.output_item.done", "response.output_text.delta",
    "response.output_text.done", "response.refusal.delta", "response.refusal.done",
    "response.reasoning_text.delta", "response.reasoning_summary_text.delta",
    "response.function_call_arguments.delta", "response.function_call_arguments.done",
    "response.completed", "response.incomplete", "response.failed", "response.future",
)  # fmt: skip
KEYS = st.sampled_from(
    [
        "type", "response", "output", "item", "content", "summary", "text", "refusal", "delta",
        "arguments", "call_id", "id", "item_id", "output_index", "summary_index", "content_index",
        "name", "encrypted_content", "result", "output_format", "status", "incomplete_details",
        "reason", "usage", "input_tokens", "output_tokens", "input_tokens_details",
        "cached_tokens", "error", "code", "message", "param", "sequence_number", "phase",
    ]
)  # fmt: skip
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from([*TYPES, "completed", "incomplete", "failed", "max_output_tokens", "{}"])
)  # fmt: skip
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=6)
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, ANYTHING, max_size=6)
EVENTS = st.builds(lambda kind, rest: {**rest, "type": kind}, st.sampled_from(TYPES), OBJECTS)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10)
ARGUMENTS = st.dictionaries(
    st.text(max_size=4), st.none() | st.integers() | st.text(max_size=4), max_size=3
).map(json.dumps)


def _message(number: int, texts: list[str], *, refused: bool) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"type": "output_text", "text": text} for text in texts]
    if refused:
        parts[-1] = {"type": "refusal", "refusal": texts[-1]}
    return {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": parts}


@st.composite
def outputs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """The items of an answer; texts differ, so that none is the repetition of another."""
    found: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["message", "reasoning", "function_call"]))
        texts = [f"{number}{text}" for text in draw(st.lists(TEXTS, min_size=1, max_size=2))]
        if kind == "message":
            found.append(_message(number, texts, refused=draw(st.booleans())))
        elif kind == "reasoning":
            kept = texts if draw(st.booleans()) else []
            summary = [{"type": "summary_text", "text": text} for text in kept]
            item = {"type": "reasoning", "id": f"rs_{number}", "summary": summary}
            found.append({**item, "encrypted_content": f"secret {number}"})
        else:
            item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}"}
            found.append({**item, "name": f"tool_{number}", "arguments": draw(ARGUMENTS)})
    return found


@dataclass(frozen=True)
class Accent:
    """The form of a server's stream. At least one of `deltas`, `done` and `output` is true."""

    index: str  # "counted", "always 0" or "missing"
    ids: str  # "stable", "changing" or "missing": the ids of items in events
    deltas: bool  # texts and arguments arrive in pieces
    done: bool  # complete items are sent
    output: bool  # the end contains the complete output
    numbered: bool


@st.composite
def accents(draw: st.DrawFn) -> Accent:
    index, ids = draw(
        st.sampled_from(
            [
                ("counted", "stable"),
                ("counted", "changing"),
                ("counted", "missing"),
                ("always 0", "stable"),
                ("missing", "stable"),
            ]
        )
    )
    deltas, done = draw(st.sampled_from([(True, True), (True, False), (False, True)]))
    return Accent(index, ids, deltas, done, draw(st.booleans()), draw(st.booleans()))


def _pieces(draw: st.DrawFn, text: str) -> list[str]:
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=2)))
    return [text[start:end] for start, end in pairwise([0, *places, len(text)])]


def _deltas(draw: st.DrawFn, item: dict[str, Any]) -> list[dict[str, Any]]:
    if item["type"] == "function_call":
        kind = "response.function_call_arguments.delta"
        return [{"type": kind, "delta": piece} for piece in _pieces(draw, item["arguments"])]
    written: list[dict[str, Any]] = []
    name = "summary" if item["type"] == "reasoning" else "content"
    kinds = {
        "summary_text": "reasoning_summary_text",
        "output_text": "output_text",
        "refusal": "refusal",
    }
    for number, part in enumerate(item[name]):
        kind = f"response.{kinds[part['type']]}.delta"
        text = part.get("text") or part["refusal"]
        place = {f"{name}_index": number}
        written += [{"type": kind, "delta": piece, **place} for piece in _pieces(draw, text)]
    return written


def stream_of(
    draw: st.DrawFn, output: Sequence[dict[str, Any]], accent: Accent, end: dict[str, Any]
) -> list[dict[str, Any]]:
    """The events of a stream with these items, which ends with the response `end`."""
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "resp_1"}}]
    for position, item in enumerate(output):
        empty = {"content": [], "summary": [], "arguments": ""}
        begun = {key: empty.get(key, value) for key, value in item.items()}
        of_item: list[dict[str, Any]] = [{"type": "response.output_item.added", "item": begun}]
        if accent.deltas:
            of_item += [{**delta, "item_id": item["id"]} for delta in _deltas(draw, item)]
        if accent.done:
            of_item.append({"type": "response.output_item.done", "item": item})
        index = {"counted": position, "always 0": 0}.get(accent.index)
        events += of_item if index is None else [{**e, "output_index": index} for e in of_item]
    for number, event in enumerate(events):
        if "item_id" in event and accent.ids != "stable":
            event["item_id"] = f"x{number}" if accent.ids == "changing" else None
    final = {**end, "output": list(output)} if accent.output else end
    kind = "completed" if end.get("status") != "incomplete" else "incomplete"
    events.append({"type": f"response.{kind}", "response": final})
    if accent.numbered:
        for number, event in enumerate(events):
            event["sequence_number"] = number
    return events
