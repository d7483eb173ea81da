"""Packets of each kind, and what an output makes of them."""

import io
from contextlib import redirect_stdout
from itertools import count
from uuid import UUID

from coreason_client.cli.chat._packets import PacketPresenter
from coreason_client.cli.output import Output
from coreason_client.cli.output._base import PlainOutput
from coreason_manifest.definitions._base import utc_now
from coreason_manifest.definitions.presentation import (
    CitationBlock,
    CitationItem,
    EventData,
    MediaCarousel,
    MediaItem,
    Packet,
    PresentationEvent,
    PresentationEventType,
    ProgressUpdate,
    StreamError,
    StreamPacket,
    parse_packet,
)

STREAM = UUID(int=7)
numbers = count(1)


def packet(op: str, p: object) -> Packet:
    made = StreamPacket.model_validate(
        {"stream_id": STREAM, "seq": next(numbers), "op": op, "t": utc_now(), "p": p}
    )
    return parse_packet(made.to_json().encode())


def text(words: str) -> Packet:
    return packet("DELTA", words)


def event(kind: str, data: EventData) -> Packet:
    return packet("EVENT", PresentationEvent(type=PresentationEventType(kind), data=data).dump())


def cited(*uris: str) -> Packet:
    items = [
        CitationItem(source_id=uri, uri=uri, title=f"About {uri}", confidence=1) for uri in uris
    ]
    return event("CITATION_BLOCK", CitationBlock(citations=items))


def progress(label: str, percent: float | None, status: str = "running") -> Packet:
    data = {"label": label, "status": status, "progress_percent": percent}
    return event("PROGRESS_INDICATOR", ProgressUpdate.model_validate(data))


def media() -> Packet:
    item = MediaItem(url="https://example.com/cat.png", mime_type="image/png", alt_text="A cat")
    return event("MEDIA_CAROUSEL", MediaCarousel(items=[item]))


def warning() -> Packet:
    error = StreamError.model_validate(
        {"code": "slow_model", "message": "It takes a while.", "severity": "WARNING"}
    )
    return packet("ERROR", error.dump())


def render(output: Output, packets: list[Packet]) -> None:
    with PacketPresenter(output) as presenter:
        for each in packets:
            presenter.show(each)


def plain(packets: list[Packet]) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        render(PlainOutput(), packets)
    return out.getvalue()
