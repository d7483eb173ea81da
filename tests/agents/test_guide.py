"""The built-in agent, asked over real HTTP."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from coreason_client import CAPClient, ServiceRequest
from coreason_client.agents.guide import _PIECES, _write, guide, paced
from coreason_client.server import AgentApp, Resumed, running
from coreason_client.server.engine import _appender
from coreason_manifest.definitions.message import ChatMessage
from coreason_manifest.definitions.presentation import (
    CitationBlock,
    ClosePacket,
    DeltaPacket,
    EventPacket,
    Packet,
    PresentationEvent,
    PresentationEventType,
    ProgressUpdate,
)
from coreason_manifest.definitions.request import AgentRequest
from coreason_manifest.definitions.session import SessionContext

from . import durable

ROOT = Path(__file__).parents[2]
sessions = itertools.count()


@pytest.fixture(scope="module")
def client() -> Iterator[CAPClient]:
    app = AgentApp(guide, drain_timeout=0.1)
    with running(app) as server, CAPClient(server.url, "key") as client:
        yield client


def ask(client: CAPClient, *questions: str) -> list[Packet]:
    """Ask one after the other in one conversation; return the packets of the last answer."""
    session = f"session-{next(sessions)}"
    packets: list[Packet] = []
    for question in questions:
        request = ServiceRequest(
            context=SessionContext(session_id=session, user_id="me"),
            payload=AgentRequest(messages=[ChatMessage.user(question)]),
        )
        with client.assist(request) as stream:
            packets = list(stream)
    return packets


def text(packets: list[Packet]) -> str:
    return "".join(packet.p for packet in packets if isinstance(packet, DeltaPacket))


def events(packets: list[Packet]) -> list[PresentationEvent]:
    return [
        packet.p
        for packet in packets
        if isinstance(packet, EventPacket) and isinstance(packet.p, PresentationEvent)
    ]


def cited(packets: list[Packet]) -> list[str]:
    blocks = [event.data for event in events(packets) if isinstance(event.data, CitationBlock)]
    return [item.uri for block in blocks for item in block.citations]


def test_every_kind_of_packet_is_seen(client: CAPClient) -> None:
    packets = ask(client, "How do I resume a stream?")
    assert isinstance(packets[-1], ClosePacket)
    assert "Last-Event-ID" in text(packets)
    assert {event.type for event in events(packets)} == set(PresentationEventType) - {
        PresentationEventType.MEDIA_CAROUSEL
    }
    steps = [event.data for event in events(packets) if isinstance(event.data, ProgressUpdate)]
    assert [(step.status, step.progress_percent) for step in steps] == [
        ("running", 0),
        ("running", 50),
        ("complete", 100),
    ]


def test_it_writes_word_by_word_and_cites_what_it_quotes(client: CAPClient) -> None:
    packets = ask(client, "How do I resume a stream?")
    pieces = [packet.p for packet in packets if isinstance(packet, DeltaPacket)]
    assert len(pieces) > 50
    assert all(len(piece.split()) == 1 for piece in pieces)
    assert "docs/cap.md#resume-in-another-process" in cited(packets)
    for uri in cited(packets):
        assert (ROOT / uri.partition("#")[0]).is_file()


def test_links_lead_from_the_root_of_the_project(client: CAPClient) -> None:
    assert "](docs/decisions.md)" in text(ask(client, "How do I resume a stream?"))


def test_a_follow_up_means_what_it_follows(client: CAPClient) -> None:
    alone = cited(ask(client, "and in another process?"))
    after = cited(ask(client, "How do I resume a stream?", "and in another process?"))
    assert after[0] == "docs/cap.md#resume-in-another-process"
    assert "previous question" in str(
        events(ask(client, "What is a position?", "and why?"))[1].data
    )
    assert alone


@pytest.mark.parametrize("question", ["", "   ", "Which bird sings at night?", "🦜"])
def test_it_always_has_something_to_say(client: CAPClient, question: str) -> None:
    packets = ask(client, question)
    assert "These are the topics" in text(packets)
    pages = cited(packets)
    assert "README.md" in pages
    assert "docs/cap.md" in pages
    assert isinstance(packets[-1], ClosePacket)


@pytest.mark.parametrize("greeting", ["Hello", "hi!", "Good morning.", "Hello there", "Thanks"])
def test_a_greeting_is_answered_with_two_sentences(client: CAPClient, greeting: str) -> None:
    packets = ask(client, greeting)
    assert text(packets).startswith("Hello! I answer questions about this package")
    assert len(text(packets)) < 200
    assert cited(packets) == []


def test_a_request_without_messages_is_answered_too(client: CAPClient) -> None:
    request = ServiceRequest(
        context=SessionContext(session_id="s", user_id="me"), payload=AgentRequest(payload={})
    )
    with client.assist(request) as packets:
        assert text(list(packets))


def test_it_can_be_slowed_down() -> None:
    with running(AgentApp(paced(0.0001))) as server, CAPClient(server.url, "key") as client:
        assert text(ask(client, "What is a position?"))


class Restarted:
    """A stream of a restarted agent, which has written a part of its text before."""

    def __init__(self, text: str) -> None:
        self.resumed = Resumed(text, (), None)
        self.pieces: list[str] = []

    async def write(self, text: str) -> None:
        self.pieces.append(text)


def test_a_restarted_guide_writes_the_rest_of_its_text_in_the_same_pieces() -> None:
    text = "One two\n\n three  four.\n"
    pieces = _PIECES.findall(text)
    for written in range(len(pieces) + 1):
        stream = Restarted("".join(pieces[:written]))
        asyncio.run(_write(stream, text, 0))  # type: ignore[arg-type]
        assert stream.pieces == pieces[written:]


# A durable application


@pytest.mark.parametrize(
    ("question", "every"), [("Is the moon made of cheese?", 1), ("How do I resume a stream?", 13)]
)
def test_the_guide_survives_a_death_at_every_packet(
    question: str, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_appender, "FLUSH_BYTES", 1)  # one packet in each append

    async def scene() -> None:
        asked = durable.request(question)
        expected, appends = await durable.undisturbed(guide, asked)
        assert expected.outcome == "complete"
        assert appends > len(expected.packets)
        for at in range(0, appends, every):
            for stored in (False, True):
                got = await durable.run(guide, asked, [(at, stored)])
                assert durable.shown(got) == durable.shown(expected)
                assert len(got.packets) == len(expected.packets)

    asyncio.run(scene())
