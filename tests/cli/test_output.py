"""The output alone writes, and what it writes cannot control a terminal, in any mode."""

import ast
import io
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import coreason_client.cli
from coreason_client.a2a import (
    AgentCard,
    AgentSkill,
    Artifact,
    Event,
    Message,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from coreason_client.a2a.types import Role, UnknownEvent
from coreason_client.cli import output
from coreason_client.cli.a2a._events import EventPresenter, show_card
from coreason_client.cli.chat._packets import PacketPresenter
from coreason_client.cli.output import Output
from coreason_client.cli.output._base import JsonOutput, PlainOutput
from coreason_client.cli.output._live import LiveOutput
from coreason_manifest.definitions.presentation import MediaCarousel, MediaItem, Packet

from .packets import cited, event, packet, progress, text

CLI = Path(coreason_client.cli.__file__).parent
EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[31mhello\r\x9b31m\x00\x7f\x85\u202e\u2066"
# What an answer must never contain: controls, and characters that change the direction of text.
CONTROL = re.compile("[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# What a live output writes itself: colours, erasing, moving up, wrapping.
OWN = re.compile(r"\x1b\[(?:[0-9;]*m|[CJK]|[0-9]*A|\?7[hl])|\r")


# The parent of an agent writes to a pipe, the others to files.
NO_OUTPUT = (
    "chat/_agent_process.py",
    "a2a/_files.py",
    "prompt/_history_file.py",
)


# Who writes


def sources(*, inside: bool) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(CLI.rglob("*.py")):
        if (path.parent.name == "output") is inside:
            yield path.relative_to(CLI).as_posix(), ast.parse(path.read_text())


def writes(tree: ast.AST) -> Iterator[str]:
    """Find what writes to a stream, and who cleans text."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="print" | "input" as name)):
                yield name
            case ast.Call(
                func=ast.Attribute(attr="write" | "writelines" | "echo" | "secho" as name)
            ):
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr="write")):
                yield "os.write"
            case ast.ImportFrom(module=str(module)) if module.endswith("_lines"):
                yield "clean"
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                if any(alias.name.startswith("rich") for alias in names):
                    yield "rich"
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rich"):
                    yield "rich"


def test_nothing_but_the_output_writes_or_cleans() -> None:
    found = {name: set(writes(tree)) for name, tree in sources(inside=False)}
    for name in NO_OUTPUT:
        assert found.pop(name) == {"write"}
    # Text of an answer is written to an `Output`; so the receiver is looked at.
    assert {name: kinds for name, kinds in found.items() if kinds} == {
        "a2a/_events.py": {"write"},
        "chat/_packets.py": {"write"},
        "llm/_exchange.py": {"write"},
    }


def receivers(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "write":
            yield ast.unparse(node.value)


def test_presenters_write_to_an_output_only() -> None:
    found = {
        receiver
        for name, tree in sources(inside=False)
        if name not in NO_OUTPUT
        for receiver in receivers(tree)
    }
    assert found == {"self._output", "output"}


def test_the_rule_finds_what_it_forbids() -> None:
    program = (
        "import sys, os, rich\nfrom .output._lines import clean\nfrom rich.text import Text\n"
        "print('a')\ninput('b')\nsys.stdout.write('c')\nos.write(1, b'd')\ntyper.echo('e')\n"
    )
    assert set(writes(ast.parse(program))) == {"rich", "clean", "print", "input", "write", "echo"}
    assert any("write" in set(writes(tree)) for _, tree in sources(inside=True))


# What is written


def packets(words: str) -> list[Packet]:
    """A packet of each kind, with the words in each text that an agent can choose."""
    item = MediaItem(url=f"https://example.com/{words}", mime_type=words, alt_text=words)
    bare = MediaItem(url="https://example.com", mime_type=words)
    used = {"model": words, "prompt_tokens": 1, "completion_tokens": 2, "cost_estimate": 0.5}
    return [
        text(words),
        event("THOUGHT_TRACE", {"content": words}),
        progress(words, 10),
        text(f"{words} and more\n\n```{words}\n{words}\n```\n"),
        progress(words, 100, "complete"),
        progress(words, None, "failed"),
        event("MARKDOWN_BLOCK", {"content": words}),
        event("MARKDOWN_BLOCK", {words: words}),
        event("MEDIA_CAROUSEL", MediaCarousel(items=[item, bare])),
        cited(words),
        packet("EVENT", {"text": words}),
        packet("EVENT", {words: [words]}),
        packet("EVENT", {"type": "USAGE", "data": used}),
        packet("ERROR", {"code": "slow", "message": words, "severity": "WARNING"}),
        packet("CLOSE", {"reason": words}),
    ]


def events(words: str) -> list[Event]:
    """An event of each kind, with the words in each text that an agent can choose."""
    parts = [
        Part(text=words),
        Part(url=words, filename=words, media_type=words),
        Part(raw="AAAA", filename=words, media_type=words),
        Part(data={words: words}),
    ]
    message = Message(message_id="1", role=Role.AGENT, parts=parts)
    working = TaskStatus(state=TaskState.WORKING, message=message)
    asking = TaskStatus(state=TaskState.INPUT_REQUIRED, message=message)
    failed = TaskStatus(state=TaskState.FAILED, message=message)
    artifact = Artifact(artifact_id=words, parts=parts)
    return [
        message,
        Task(id=words, context_id=words, status=working, artifacts=[artifact]),
        TaskArtifactUpdateEvent(task_id=words, context_id="c", artifact=artifact, append=True),
        TaskStatusUpdateEvent(task_id=words, context_id="c", status=working),
        TaskStatusUpdateEvent(task_id=words, context_id="c", status=asking),
        TaskStatusUpdateEvent(task_id=words, context_id="c", status=failed),
        UnknownEvent.model_validate({words: words}),
    ]


def card(words: str) -> AgentCard:
    skill = AgentSkill(id=words, name=words, description=words)
    return AgentCard(name=words, version=words, description=words, skills=[skill])


def live() -> Output:
    return LiveOutput(Console(force_terminal=True, width=60, height=30, emoji=False))


MODES: dict[str, Callable[[], Output]] = {"json": JsonOutput, "plain": PlainOutput, "live": live}


class Terminal(io.StringIO):
    """A file that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def written(show: Callable[[], None], to: type[io.StringIO] = io.StringIO) -> str:
    out = to()
    with redirect_stdout(out), redirect_stderr(out):
        show()
    return out.getvalue()


def present(mode: str, shown: Packet | Event, *, tracks_task: bool = True) -> str:
    def show() -> None:
        made = MODES[mode]()
        presenter: PacketPresenter | EventPresenter
        if isinstance(shown, Packet):
            presenter = PacketPresenter(made)
        else:
            presenter = EventPresenter(made, tracks_task=tracks_task)
        with presenter:
            presenter.show(shown)  # type: ignore[arg-type]
        made.report(EVIL)

    return written(show)


def assert_harmless(mode: str, found: str) -> None:
    if mode == "live":
        found = OWN.sub("", found)
    assert "\x1b" not in found
    assert not CONTROL.search(found)


ALL: list[Packet | Event] = [*packets(EVIL), *events(EVIL)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", range(len(ALL)), ids=lambda n: f"{type(ALL[n]).__name__}-{n}")
def test_hostile_text_is_harmless_in_every_mode(mode: str, number: int) -> None:
    found = present(mode, ALL[number])
    assert "hello" in found  # of the report, at least
    assert_harmless(mode, found)


def test_the_check_finds_hostile_text() -> None:
    for mode in MODES:
        for char in ("\x1b[2J", "\x9b", "\x07", "\u202e"):
            with pytest.raises(AssertionError):
                assert_harmless(mode, char)


@pytest.mark.parametrize("as_json", [True, False])
def test_a_hostile_card_is_harmless(as_json: bool) -> None:
    assert_harmless("plain", written(lambda: show_card(card(EVIL), as_json=as_json)))


def test_a_hostile_card_is_harmless_in_a_terminal() -> None:
    found = written(lambda: show_card(card(EVIL), as_json=False), to=Terminal)
    assert found.count("hello") == 5  # name, version, description; name and description of a skill
    assert_harmless("live", found)


@pytest.mark.parametrize(
    "write", [output.print_stdout, output.print_stderr, output.print_dimmed, output.print_error]
)
def test_hostile_lines_are_harmless(write: Callable[[str], None]) -> None:
    found = written(lambda: write(EVIL))
    assert "hello" in found
    assert_harmless("plain", found)


PIECES = st.lists(
    st.one_of(
        st.text(max_size=8),
        st.sampled_from(["\x1b", "[", "]0;", "\x07", "31m", "\x9b", "\x1b[", "2J", "\u202e", "a"]),
    ),
    max_size=8,
)


@given(pieces=PIECES, mode=st.sampled_from(["json", "plain", "live"]))
def test_sequences_that_are_cut_anywhere_are_harmless(pieces: list[str], mode: str) -> None:
    def show() -> None:
        with PacketPresenter(MODES[mode]()) as presenter:
            for piece in pieces:
                encodable = piece.encode("utf-8", "replace").decode()
                presenter.show(text(encodable))

    assert_harmless(mode, written(show))
