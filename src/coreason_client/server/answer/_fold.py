"""The fold of packets into the events of an answer. No I/O.

An answer has parts in a row: text, thoughts, tool calls. The fold says when a part of text or of
thoughts begins and ends, so a protocol that numbers its parts only counts. It checks the shape of
every event: an agent may use the name of one for its own, and then it is an `Other`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypeGuard

from coreason_manifest.definitions.reports import (
    Report,
    ToolCallReport,
    ToolResultReport,
    UsageReport,
    report_of,
)
from coreason_manifest.definitions.rewind import rewound_to

from .._names import ARTIFACT, AUTH_REQUIRED, INPUT_REQUIRED, QUESTION
from . import (
    AnswerEvent,
    Artifact,
    Began,
    Cited,
    Ended,
    Finished,
    Markdown,
    Media,
    Other,
    Part,
    Progress,
    Question,
    Rewound,
    Text,
    Thought,
    ToolCall,
    ToolResult,
    Warned,
)
from ._entries import as_packet, delta_json, valid_entries

_JSON: TypeAlias = dict[str, Any]
_COUNTS: Final = {
    *("prompt_tokens", "completion_tokens", "total_tokens"),
    *("cached_tokens", "cache_write_tokens", "reasoning_tokens"),
}
_LIMITS: Final[Mapping[str, Literal["length", "content_filter"]]] = {
    "length": "length",
    "content_filter": "content_filter",
}


class AnswerFold:
    """The state of an answer after the packets that were added."""

    def __init__(self) -> None:
        self.part: Part | None = None
        """The part that is open."""
        self.usage: dict[str, int] | None = None
        """The tokens of all USAGE events together, None if there was none."""
        self.question: Question | None = None
        """The latest question, None if there was none."""
        self._limit: Literal["length", "content_filter"] | None = None
        self._calls: dict[str, ToolCall] = {}

    def add_text(self, text: bytes) -> list[AnswerEvent]:
        """Add a piece of text, as JSON."""
        return [*self._begin(Part.TEXT), Text(text)]

    def add(self, packet: _JSON) -> list[AnswerEvent]:
        """Add any packet except a piece of text."""
        op, payload = packet["op"], packet["p"]
        if op == "EVENT":
            return self._add_event(payload)
        if op == "ERROR" and payload["severity"] != "FATAL":
            return [Warned(payload)]
        return self._finish(payload, failed=op == "ERROR")

    def begin_text(self) -> list[AnswerEvent]:
        """Begin a part of text if none is open."""
        return self._begin(Part.TEXT)

    def _begin(self, part: Part) -> list[AnswerEvent]:
        if self.part is part:
            return []
        events: list[AnswerEvent] = [*self._end(), Began(part)]
        self.part = part
        return events

    def _end(self) -> list[AnswerEvent]:
        ended, self.part = self.part, None
        return [] if ended is None else [Ended(ended)]

    def _add_event(self, event: _JSON) -> list[AnswerEvent]:
        if (to_seq := rewound_to(event)) is not None:
            return [Rewound(to_seq)]
        report = report_of(event)
        events = self._shown(event) if report is None else self._report(report)
        return [Other(event)] if events is None else events

    def _shown(self, event: _JSON) -> list[AnswerEvent] | None:
        kind, data = event.get("type"), event.get("data")
        add = _EVENTS.get(kind) if isinstance(kind, str) else None
        return add(self, data) if add is not None and isinstance(data, dict) else None

    # One method for each type of event; None if the data has another shape.

    def _thought(self, data: _JSON) -> list[AnswerEvent] | None:
        text = data.get("content")
        return [*self._begin(Part.THOUGHTS), Thought(text)] if isinstance(text, str) else None

    def _citations(self, data: _JSON) -> list[AnswerEvent] | None:
        cited = data.get("citations")
        return [Cited(cited)] if _are_objects(cited, "uri", "title") else None

    def _progress(self, data: _JSON) -> list[AnswerEvent] | None:
        return [Progress(data)] if isinstance(data.get("label"), str) else None

    def _media(self, data: _JSON) -> list[AnswerEvent] | None:
        items = data.get("items")
        return [Media(items)] if _are_objects(items, "url", "mime_type") else None

    def _markdown(self, data: _JSON) -> list[AnswerEvent] | None:
        text = data.get("content")
        return [Markdown(text)] if isinstance(text, str) else None

    def _artifact(self, data: _JSON) -> list[AnswerEvent] | None:
        return [Artifact(data)] if _are_objects(data.get("parts")) else None

    def _question(self, data: _JSON) -> list[AnswerEvent] | None:
        text, call_id = data.get("question"), data.get("call_id")
        if not isinstance(text, str):
            return None
        call = self._calls.get(call_id) if isinstance(call_id, str) else None
        self.question = Question(text, call)
        return [self.question]

    def _report(self, report: Report) -> list[AnswerEvent] | None:
        match report:
            case ToolCallReport():
                if report.call_id in self._calls:
                    return None
                call = ToolCall(report.call_id, report.name, report.arguments)
                self._calls[report.call_id] = call
                return [*self._end(), call]
            case ToolResultReport():
                ended = self._calls.pop(report.call_id, None)
                if ended is None:
                    return None
                return [*self._end(), ToolResult(ended, report.result, report.is_error)]
            case UsageReport():
                self._add_usage(report)
                return []

    def _add_usage(self, report: UsageReport) -> None:
        before = self.usage or {}
        given = report.model_dump(include=_COUNTS, exclude_none=True)
        given.setdefault("total_tokens", report.prompt_tokens + report.completion_tokens)
        names = before.keys() | given.keys()
        self.usage = {name: before.get(name, 0) + given.get(name, 0) for name in names}
        self._limit = _LIMITS.get(report.finish_reason or "")

    def _finish(self, payload: Any, *, failed: bool) -> list[AnswerEvent]:
        lost = [
            ToolResult(call, None, is_error=True, has_ended=False) for call in self._calls.values()
        ]
        self._calls.clear()
        reason = payload.get("reason") if isinstance(payload, dict) and not failed else None
        ended = Finished(
            error=payload if failed else None,
            asks=reason if reason in (INPUT_REQUIRED, AUTH_REQUIRED) else None,
            limit=None if failed else self._limit,
        )
        return [*self._end(), *lost, ended]


_EVENTS: Final[dict[str, Callable[[AnswerFold, _JSON], list[AnswerEvent] | None]]] = {
    "THOUGHT_TRACE": AnswerFold._thought,
    "CITATION_BLOCK": AnswerFold._citations,
    "PROGRESS_INDICATOR": AnswerFold._progress,
    "MEDIA_CAROUSEL": AnswerFold._media,
    "MARKDOWN_BLOCK": AnswerFold._markdown,
    ARTIFACT: AnswerFold._artifact,
    QUESTION: AnswerFold._question,
}


def _are_objects(values: Any, *names: str) -> TypeGuard[list[_JSON]]:
    """Return True for a list of objects, each of which has these members as text."""
    return isinstance(values, list) and all(
        isinstance(one, dict) and all(isinstance(one.get(name), str) for name in names)
        for one in values
    )


def asked_question(entries: Iterable[bytes]) -> Question | None:
    """Return the question with which an answer has ended, None if it ended in another way."""
    fold, asks = AnswerFold(), None
    for _, entry in valid_entries(entries):
        if delta_json(entry) is None:
            for event in fold.add(as_packet(entry)):
                asks = event.asks if isinstance(event, Finished) else None
    return fold.question if asks is not None else None
