"""Presents the packets of an agent service on an output."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple, Self

from coreason_manifest.definitions.presentation import (
    CitationBlock,
    CitationItem,
    ClosePacket,
    DeltaPacket,
    ErrorPacket,
    EventPacket,
    MediaCarousel,
    Packet,
    PresentationEvent,
    PresentationEventType,
    ProgressUpdate,
)
from coreason_manifest.definitions.reports import ToolCallReport, ToolResultReport, report_of
from coreason_manifest.definitions.rewind import rewound_to, valid_packets

from .._text import shortened, usage_event_line
from ..exits import ExitCode, Failure
from ..output import Output, Source

_ASKS = ("input_required", "auth_required")


class _Cited(NamedTuple):
    """A source, and the packet that cited it first."""

    seq: int
    item: CitationItem


class PacketPresenter:
    """Presents the packets of one answer: a context manager around it."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._cited: dict[str, _Cited] = {}  # by URI, in order of arrival
        self._tools: dict[str, str] = {}  # the name of the tool by the id of its call
        self._asks_call = False  # whether a tool may be called
        self.asks = False
        """True if the answer ended with a question."""
        self.asks_permission: str | None = None
        """The ID of its stream if it asks whether a tool may be called."""

    def __enter__(self) -> Self:
        self._output.__enter__()
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        self._output.__exit__(exc_type, exc, traceback)
        if exc_type is None and self.asks_permission:
            self._output.detail("Answer with yes, or with no, because …")
        if exc_type is None and self._cited:
            cited = enumerate(self._cited.values(), 1)
            self._output.sources(
                [Source(number, item.title, item.uri) for number, (_, item) in cited]
            )

    def show(self, packet: Packet) -> None:
        """Present a packet.

        Raises:
            Failure: text becomes void that this output cannot remove.
        """
        self._output.record(packet.to_json)
        self._output.begin_packet(packet.seq)
        if isinstance(packet, DeltaPacket):
            self._output.write(packet.p)
        elif isinstance(packet, EventPacket):
            self._show_event(packet.p, packet.seq)
        elif isinstance(packet, ClosePacket):
            self.asks = isinstance(packet.p, dict) and packet.p.get("reason") in _ASKS
            self.asks_permission = str(packet.stream_id) if self.asks and self._asks_call else None
        elif isinstance(packet, ErrorPacket):
            kind = "error" if packet.is_last else "warning"
            self._output.warning(f"{kind}: {packet.p.code}: {packet.p.message}")

    def report(self, text: str) -> None:
        """Present a sentence about the answer, below it."""
        self._output.report(text)

    def _rewind(self, to_seq: int) -> None:
        if not self._output.can_rewind:
            raise Failure(
                "the service declared a part of the answer void (a REWIND event), which the "
                "request did not allow",
                ExitCode.PROTOCOL,
            )
        self._cited = {uri: cited for uri, cited in self._cited.items() if cited.seq <= to_seq}
        self._output.rewind(to_seq)

    def _show_event(self, event: PresentationEvent | dict[str, Any], seq: int) -> None:
        if (to_seq := rewound_to(event)) is not None:
            self._rewind(to_seq)
            return
        if not isinstance(event, PresentationEvent):
            if not seq and (message := message_of(event)):
                self._output.line(f"> {message}".replace("\n", "\n  "))
            else:
                self._show_other(event)
            return
        data: Any = event.data
        match data:
            case ProgressUpdate():
                self._output.progress(data)
            case CitationBlock():
                self._cite(data.citations, seq)
            case MediaCarousel():
                items = data.items
                self._output.lines([f"{i.alt_text or i.mime_type}: {i.url}" for i in items])
            case _ if event.type is PresentationEventType.MARKDOWN_BLOCK:
                self._output.block(_text_of(data))
            case _ if event.type is PresentationEventType.THOUGHT_TRACE:
                self._output.thought(_text_of(data))
            case _:
                self._output.detail(_text_of(data))

    def _show_other(self, event: dict[str, Any]) -> None:
        if event.get("type") == "QUESTION":  # its text follows as a DELTA
            self._output.end_text(as_written=True)  # the user may permit what it says
            data = event.get("data")
            self._asks_call = isinstance(data, dict) and "call_id" in data
            return
        if (lines := artifact_lines(event)) is not None:
            self._output.lines(lines)
        else:
            line = self._tool_line(event) or usage_event_line(event)
            self._output.detail(line or _text_of(event))

    def _tool_line(self, event: dict[str, Any]) -> str | None:
        report = report_of(event)
        if isinstance(report, ToolCallReport):
            self._tools[report.call_id] = report.name
            return shortened(f"→ {report.name} {_as_text(report.arguments)}")
        if not isinstance(report, ToolResultReport):
            return None
        name = report.name or self._tools.get(report.call_id, "tool")
        failed = " failed" if report.is_error else ""
        return shortened(f"← {name}{failed}: {_as_text(report.result)}")

    def _cite(self, citations: Iterable[CitationItem], seq: int) -> None:
        for item in citations:
            self._cited.setdefault(item.uri, _Cited(seq, item))


def message_of(event: object) -> str:
    """Return the message of a user that packet 0 of an answer has, empty for any other event."""
    if not isinstance(event, dict) or event.get("type") != "USER_MESSAGE":
        return ""
    return _text_of(event.get("data"))


def text_of(packets: Iterable[Packet]) -> str:
    """Return the text of answers, without the parts that are void; a block is a paragraph."""
    answers = [valid_packets(one) for _, one in groupby(packets, lambda packet: packet.stream_id)]
    return "\n\n".join("".join(map(_piece_of, one)).strip() for one in answers)


def _piece_of(packet: Packet) -> str:
    if isinstance(packet, DeltaPacket):
        return packet.p
    event = packet.p
    if isinstance(event, PresentationEvent) and event.type is PresentationEventType.MARKDOWN_BLOCK:
        return f"\n\n{_text_of(event.data)}\n\n"
    return ""


def _text_of(data: object) -> str:
    """Return the text of a thought or a block, which agents send under different names."""
    if not isinstance(data, dict):
        return ""
    for name in ("content", "text", "markdown", "thought"):
        if isinstance(data.get(name), str):
            return str(data[name])
    return json.dumps(data, ensure_ascii=False)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def artifact_lines(event: Mapping[str, Any]) -> list[str] | None:
    """Return the lines for an artifact, None for any other event; content of files is left out."""
    data = event.get("data")
    if event.get("type") != "ARTIFACT" or not isinstance(data, dict):
        return None
    parts = data.get("parts")
    if not isinstance(parts, list):
        return None
    name = data.get("name")
    title = name if isinstance(name, str) and name else "artifact"
    return [f"{title}: {line}" for part in parts for line in _part_lines(part)]


def _part_lines(part: Any) -> Iterator[str]:
    if not isinstance(part, dict):
        return
    if isinstance(part.get("text"), str):
        yield part["text"]
    elif "data" in part:
        yield json.dumps(part["data"], ensure_ascii=False)
    elif isinstance(part.get("url"), str):
        yield part["url"]
    else:
        about = [part.get("filename"), part.get("mediaType")]
        yield " ".join(["file", *(text for text in about if isinstance(text, str))])
