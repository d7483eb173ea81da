"""The items of a script, and what is refused."""

from typing import Any

import pytest

from coreason_client import CAPClient
from coreason_client.errors import ArgumentError
from coreason_client.testing import delay, fail, fake_agent
from coreason_client.testing._script import as_player
from coreason_manifest.definitions.presentation import (
    CitationBlock,
    CitationItem,
    DeltaPacket,
    MediaCarousel,
    MediaItem,
    PresentationEvent,
    ProgressUpdate,
    StreamError,
    StreamPacket,
)
from coreason_manifest.definitions.service import ServiceRequest

CITATION = CitationItem(source_id="a", uri="https://a.example", title="A", confidence=1.0)
MEDIA = MediaItem(url="https://a.example/b.png", mime_type="image/png")
SENT = DeltaPacket(
    stream_id="0d0d0d0d-0000-4000-8000-00000000000d",
    seq=9,
    op="DELTA",
    t="2025-01-01T00:00:00Z",
    p="sent ",
)


async def speak(request: ServiceRequest) -> str:
    return "spoken "


@pytest.mark.proves("KIT-agent-items")
def test_each_kind_of_item_is_written() -> None:
    script: list[Any] = [
        "text ",
        SENT,
        speak,
        delay(0),
        {"type": "own"},
        PresentationEvent(type="MARKDOWN_BLOCK", data={"content": "*"}),
        CITATION,
        CitationBlock(citations=[CITATION]),
        MEDIA,
        MediaCarousel(items=[MEDIA]),
        ProgressUpdate(label="half", status="running", progress_percent=50.0),
        StreamError(code="slow", message="it is slow", severity="WARNING"),
        fail("still slow", code="slow", severity="WARNING"),
    ]
    with fake_agent(script) as agent, CAPClient(agent.url, "key") as client:
        packets = list(client.assist(_request(client)))
    assert [(packet.seq, str(packet.op)) for packet in packets] == [
        *((number, "DELTA") for number in (1, 2, 3)),
        *((number, "EVENT") for number in range(4, 11)),
        *((11, "ERROR"), (12, "ERROR"), (13, "CLOSE")),
    ]
    assert "".join(packet.p for packet in packets if isinstance(packet, DeltaPacket)) == (
        "text sent spoken "
    )


def test_what_follows_the_end_is_not_played() -> None:
    close = StreamPacket(**{**SENT.model_dump(), "op": "CLOSE", "p": {"reason": "done"}})
    with fake_agent(["a", close, "b"]) as agent, CAPClient(agent.url, "key") as client:
        assert client.ask("?") == "a"


@pytest.mark.proves("KIT-agent-refused")
@pytest.mark.parametrize(
    ("script", "words"),
    [
        (7, "script 1 must be text, an event"),
        (["a", 7], "item 2 of script 1 must be text, an event"),
        ([None], "item 1 of script 1 must be text"),
        ([int], "is a class"),
    ],
)
def test_other_items_are_refused_at_once(script: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        as_player(script)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ArgumentError, match="seconds must not be negative, got -1"):
        delay(-1)
    with pytest.raises(ArgumentError, match="severity must be one of FATAL, TRANSIENT, WARNING"):
        fail(severity="BAD")
    with pytest.raises(TypeError, match="needs a script"):
        fake_agent()


def _request(client: CAPClient) -> ServiceRequest:
    return client.chat("Hi").request  # type: ignore[return-value]
