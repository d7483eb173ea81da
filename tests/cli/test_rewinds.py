"""A REWIND event makes a part of an answer void: what a terminal, a pipe and a program get."""

import io
import json
import random
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from queue import SimpleQueue
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from coreason_client.cli.chat._packets import PacketPresenter
from coreason_client.cli.exits import ExitCode, Failure
from coreason_client.cli.output._base import JsonOutput, PlainOutput
from coreason_client.cli.output._live import LiveOutput
from coreason_client.server import AgentApp, AgentStream, running
from coreason_client.testing import virtual_clock
from coreason_manifest.definitions._base import utc_now
from coreason_manifest.definitions.presentation import (
    CitationBlock,
    CitationItem,
    Packet,
    PresentationEvent,
    PresentationEventType,
    ProgressUpdate,
    StreamPacket,
    parse_packet,
)
from coreason_manifest.definitions.service import ServiceRequest
from tests.cap.lost_packets import LostPackets

from .command import PATIENCE, coreason_here
from .session import Session
from .terminal import Emulator, EmulatorFile, squeezed

NOTICE = "The agent was restarted. The text above is void; the answer starts again:"
SIZES = [(60, 12), (40, 8), (100, 40)]
PARAGRAPHS = "".join(f"Paragraph {number} of the void text.\n\n" for number in range(4))


class Script:
    """The packets of an answer, numbered from 1, and those that are valid at its end."""

    def __init__(self) -> None:
        self.packets: list[Packet] = []
        self.valid: list[Packet] = []

    def add(self, op: str, p: object) -> "Script":
        seq = len(self.packets) + 1
        made = StreamPacket.model_validate(
            {"stream_id": UUID(int=7), "seq": seq, "op": op, "t": utc_now(), "p": p}
        )
        self.packets.append(parse_packet(made.to_json().encode()))
        self.valid.append(self.packets[-1])
        return self

    def text(self, *texts: str) -> "Script":
        for text in texts:
            self.add("DELTA", text)
        return self

    def event(self, kind: str, data: object) -> "Script":
        made = PresentationEvent.model_validate({"type": PresentationEventType(kind), "data": data})
        return self.add("EVENT", made.dump())

    def cite(self, uri: str) -> "Script":
        item = CitationItem(source_id=uri, uri=uri, title=f"About {uri}", confidence=1)
        return self.event("CITATION_BLOCK", CitationBlock(citations=[item]))

    def done(self, label: str) -> "Script":
        update = ProgressUpdate(label=label, status="complete", progress_percent=100)
        return self.event("PROGRESS_INDICATOR", update)

    def running(self, label: str) -> "Script":
        update = ProgressUpdate(label=label, status="running", progress_percent=50)
        return self.event("PROGRESS_INDICATOR", update)

    def rewind(self, to_seq: int) -> "Script":
        self.add("EVENT", {"type": "REWIND", "data": {"to_seq": to_seq, "step": "s", "attempt": 2}})
        self.valid = [packet for packet in self.valid if packet.seq <= to_seq]
        return self


class Drawing:
    """An answer that is being drawn on a terminal of the tests' own."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.emulator = Emulator(*size)
        self._drawings: SimpleQueue[None] = SimpleQueue()
        file = EmulatorFile(self.emulator)
        console = Console(
            file=file, force_terminal=True, width=size[0], height=size[1], emoji=False
        )
        self.output = LiveOutput(console, self._status)

    def _status(self) -> str:
        self._drawings.put(None)  # a drawing begins
        return ""

    def settle(self) -> None:
        """Wait until everything that was shown is on the screen."""
        performed = threading.Event()
        self.output._painter.do(performed.set)
        assert performed.wait(PATIENCE)
        while not self._drawings.empty():
            self._drawings.get()
        for _ in range(3):  # the first one may have begun before, the second one is complete
            self._drawings.get(timeout=PATIENCE)


@pytest.fixture(autouse=True)
def _frequent_drawings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coreason_client.cli.output._live._INTERVAL", 0.001)


def draw(
    packets: Sequence[Packet], size: tuple[int, int], settles: Callable[[], bool] = lambda: True
) -> Emulator:
    """Draw an answer; wait after a packet until it is on the screen, if `settles`."""
    drawing = Drawing(size)
    with PacketPresenter(drawing.output) as view:
        for packet in packets:
            view.show(packet)
            if settles():
                drawing.settle()
    return drawing.emulator


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_void_text_disappears_and_valid_text_stays(size: tuple[int, int]) -> None:
    script = Script().text("The valid text. ", "Some void", " words").rewind(1).text("The rest.")
    assert draw(script.packets, size).lines == ["The valid text. The rest."]


def test_finished_paragraphs_disappear_while_they_are_on_the_screen() -> None:
    script = Script().text("Valid.\n\n", PARAGRAPHS, "unfinished").rewind(1).text("The rest.")
    shown_lines = draw(script.packets, (60, 24)).lines
    assert shown_lines == ["Valid.", "", "The rest."]


def test_bars_thoughts_and_sources_disappear_too() -> None:
    script = (
        Script()
        .cite("docs/kept.md")
        .text("Valid.")
        .event("THOUGHT_TRACE", {"content": "a void thought"})
        .done("void step")
        .running("void running step")
        .cite("docs/void.md")
        .cite("docs/kept.md")
        .rewind(2)
        .text(" The rest.")
        .cite("docs/new.md")
    )
    lines = draw(script.packets, (60, 24)).lines
    assert lines == [
        "Valid. The rest.",
        "",
        "Sources",
        "[1] About docs/kept.md  docs/kept.md",
        "[2] About docs/new.md  docs/new.md",
    ]


def test_text_that_has_scrolled_away_stays_and_the_valid_text_is_shown_again() -> None:
    long = "".join(f"void {number}\n\n" for number in range(40))
    script = Script().text("The valid text.\n\n", long).rewind(1).text("The rest.")
    lines = draw(script.packets, (90, 12)).lines
    assert lines.count(NOTICE) == 1
    above, below = lines[: lines.index(NOTICE)], lines[lines.index(NOTICE) + 1 :]
    assert above[0] == "The valid text."
    assert "void 30" in above
    assert below == ["", "The valid text.", "", "The rest."]


def test_a_long_valid_text_is_not_shown_again() -> None:
    long = "".join(f"valid {number}\n\n" for number in range(40))
    script = Script().text(long, "The void", " text.\n\nmore").rewind(1).text("The rest.")
    lines = [line for line in draw(script.packets, (90, 12)).lines if line]
    assert lines == [*(f"valid {number}" for number in range(40)), "The rest."]


def test_each_restart_starts_the_answer_again_below_the_last_one() -> None:
    script = Script().text("The valid text.\n\n")
    for _ in range(2):
        script.text("".join(f"void {number}\n\n" for number in range(40))).rewind(1)
    lines = draw(script.text("The rest.").packets, (90, 12)).lines
    assert lines.count(NOTICE) == 2
    assert lines[-5:] == [NOTICE, "", "The valid text.", "", "The rest."]


def test_a_log_line_is_not_part_of_the_answer_and_stays() -> None:
    drawing = Drawing((60, 24))
    script = Script().text("Valid. ", "Void. ").rewind(1).text("The rest.")
    with PacketPresenter(drawing.output) as view:
        for packet in script.packets[:2]:
            view.show(packet)
        drawing.output._log_line("connection lost")
        drawing.settle()
        for packet in script.packets[2:]:
            view.show(packet)
    lines = [line for line in drawing.emulator.lines if line]
    assert lines == ["Valid.", "connection lost", "The rest."]


def test_text_from_before_a_pause_is_not_removed() -> None:
    """After Ctrl-Z the shell has written to the terminal."""
    drawing = Drawing((60, 24))
    script = Script().text("Valid.\n\n", "Void.\n\n", "more").rewind(1).text("The rest.")
    with PacketPresenter(drawing.output) as view:
        for packet in script.packets[:3]:
            view.show(packet)
        drawing.settle()
        drawing.output._painter.pause()
        drawing.emulator.feed("$ fg\r\n")
        drawing.output._painter.resume()
        for packet in script.packets[3:]:
            view.show(packet)
    before, _, after = squeezed(drawing.emulator.text).partition(squeezed(NOTICE))
    assert (before, after) == ("Valid.Void.$fg", "Valid.Therest.")


WORDS = st.text("ab é漢🎉\n*`", min_size=1, max_size=60)
ACTIONS = st.lists(
    st.one_of(
        WORDS.map(lambda words: ("text", words)),
        st.sampled_from(["paragraphs", "done", "running", "thought"]).map(lambda k: (k, "")),
        st.integers(0, 100).map(lambda at: ("rewind", str(at))),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(ACTIONS, st.sampled_from(SIZES), st.integers(0, 3))
def test_the_last_thing_on_any_screen_is_the_valid_answer_and_nothing_else(
    actions: list[tuple[str, str]], size: tuple[int, int], seed: int
) -> None:
    script = Script()
    for kind, argument in actions:
        match kind:
            case "text":
                script.text(argument)
            case "paragraphs":
                script.text(PARAGRAPHS)
            case "done":
                script.done("step")
            case "running":
                script.running("step")
            case "thought":
                script.event("THOUGHT_TRACE", {"content": "a thought"})
            case _:
                seqs = [0, *(packet.seq for packet in script.valid)]
                script.rewind(seqs[int(argument) % len(seqs)])
    chance = random.Random(seed)
    drawn = squeezed(draw(script.packets, size, lambda: chance.random() < 0.5).text)
    _, _, last = drawn.rpartition(squeezed(NOTICE))
    assert last == squeezed(draw(script.valid, size, lambda: False).text)


# A pipe and JSON


def test_json_has_every_packet_as_it_is() -> None:
    packets = Script().text("a", "b").rewind(1).text("c").packets
    out = io.StringIO()
    with redirect_stdout(out), PacketPresenter(JsonOutput()) as view:
        for packet in packets:
            view.show(packet)
    assert [parse_packet(line.encode()) for line in out.getvalue().splitlines()] == packets


def test_a_pipe_refuses_what_it_cannot_take_back() -> None:
    view = PacketPresenter(PlainOutput())
    with redirect_stdout(io.StringIO()), pytest.raises(Failure, match="REWIND") as caught, view:
        for packet in Script().text("a", "b").rewind(1).packets:
            view.show(packet)
    assert caught.value.code is ExitCode.PROTOCOL


async def rewinding(request: ServiceRequest, stream: AgentStream) -> None:
    """An agent that does what a restarted one does, for clients that understand it."""
    capabilities = request.payload.capabilities
    supported = [] if capabilities is None else [*capabilities.supported_events]
    before = [message.text for message in await stream.history()]
    await stream.write(f"Question {len(before) // 2 + 1}. ")
    if "REWIND" in supported:
        await stream.write("Void text. ")
        await stream.write_packet("EVENT", {"type": "REWIND", "data": {"to_seq": 1}})
    await stream.write(f"{len(supported)} events.")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running(AgentApp(rewinding)) as server:
        yield server.url


def test_a_pipe_does_not_ask_for_rewinds(url: str) -> None:
    done = coreason_here("chat", "--url", url, "Hello")
    assert (done.returncode, done.stdout) == (0, "Question 1. 0 events.\n")


def test_json_asks_for_rewinds_and_for_all_events(url: str) -> None:
    done = coreason_here("chat", "--json", "--url", url, "Hello")
    packets = [json.loads(line) for line in done.stdout.splitlines()]
    assert packets[2]["p"] == {"type": "REWIND", "data": {"to_seq": 1}}
    assert packets[3]["p"] == f"{len(PresentationEventType) + 1} events."


def test_chaos_compares_what_was_received_also_after_a_rewind(url: str) -> None:
    with virtual_clock():
        done = coreason_here("chat", "--json", "--chaos", "--seed", "1", "--url", url, "Hello")
    assert done.returncode == 0
    assert "nothing lost or duplicated: 5 packets received, 5 logged" in done.stderr


def test_json_shows_that_an_answer_is_read_again() -> None:
    with LostPackets().running() as server:
        done = coreason_here("chat", "--json", "--url", server.url, "Hello")
    packets = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert [packet["seq"] for packet in packets] == [1, 2, 3, 0, 1, 2, 3, 4, 5]
    assert packets[3]["p"] == {"type": "REWIND", "data": {"to_seq": 0}}


def test_a_pipe_keeps_the_text_and_the_error_of_an_answer_that_was_written_anew() -> None:
    with LostPackets().running() as server:
        done = coreason_here("chat", "--url", server.url, "Hello")
    assert (done.returncode, done.stdout) == (1, "one two three \n")
    assert "HTTP 410: The packets after this position are gone." in done.stderr


def test_a_terminal_draws_an_answer_again_that_was_written_anew() -> None:
    with LostPackets().running() as server, Session("chat", "--url", server.url) as session:
        session.say("Hello")
        session.sees("one zwei drei vier")
        session.say("/exit")
        assert session.end() == 0
    assert "three" not in session.emulator.text


def test_a_conversation_in_a_terminal_redraws_each_answer(url: str) -> None:
    with Session("chat", "--url", url) as session:
        for question in (1, 2):
            session.say("Hello")
            session.sees(f"Question {question}.")
        session.say("/exit")
        assert session.end() == 0
    emulator = session.emulator
    answers = [line for line in emulator.lines if re.match("Question", line)]
    total = len(PresentationEventType) + 1
    assert answers == [f"Question {number}. {total} events." for number in (1, 2)]
    assert "Void" not in emulator.text
