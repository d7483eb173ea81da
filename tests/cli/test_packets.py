"""Packets as JSON, as plain text, and as a terminal shows them."""

import io
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from typing import Any

import pytest
from rich.console import Console

from coreason_client.cli.chat._packets import PacketPresenter, text_of
from coreason_client.cli.output import Output, Source
from coreason_client.cli.output._base import JsonOutput, PlainOutput
from coreason_client.cli.output._live import LiveOutput
from coreason_manifest.definitions.presentation import (
    MediaCarousel,
    MediaItem,
    Packet,
    ProgressUpdate,
    parse_packet,
)
from tests.each import each

from .command import shown
from .packets import cited, event, media, packet, plain, progress, render, text, warning
from .terminal import Emulator, EmulatorFile


def everything() -> list[Packet]:
    return [
        event("THOUGHT_TRACE", {"content": "Let me see."}),
        progress("Searching", 10),
        text("# A **title**\n\nSome `code` and"),
        text(" more."),
        progress("Searching", 100, "complete"),
        event("MARKDOWN_BLOCK", {"content": "* an item"}),
        media(),
        cited("docs/a.md", "docs/b.md"),
        cited("docs/a.md"),
        packet("EVENT", {"custom": 1}),
        packet("CLOSE", {"reason": "complete"}),
    ]


def live(packets: list[Packet], *, no_color: bool = False, height: int = 30) -> str:
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=True, width=60, height=height, no_color=no_color, emoji=False
    )
    render(LiveOutput(console), packets)
    return out.getvalue()


def screen_of(packets: list[Packet]) -> list[str]:
    """Return the lines that a terminal has in the end."""
    emulator = Emulator(120, 40)
    console = Console(file=EmulatorFile(emulator), force_terminal=True, width=120, height=40)
    render(LiveOutput(console), packets)
    return emulator.lines


def test_a_question_is_shown_once_and_an_artifact_without_its_content() -> None:
    file = {"raw": "aGVsbG8=", "filename": "a.txt", "mediaType": "text/plain"}
    packets = [
        packet("EVENT", {"type": "ARTIFACT", "data": {"name": "report", "parts": [file]}}),
        packet("EVENT", {"type": "QUESTION", "data": {"question": "Where?"}}),
        text("Where?"),
        packet("CLOSE", {"reason": "input_required", "question": "Where?"}),
    ]
    assert plain(packets) == "report: file a.txt text/plain\nWhere?\n"
    screen = shown(live(packets))
    assert (screen.count("Where?"), "aGVsbG8" in screen) == (1, False)


ARGUMENTS = (
    '{"name":"__init__.py"}',
    '{"name":"~~old~~/x"}',
    r'{"say":"\"hi\" \\ \n"}',
    '{"run":"echo `id` * 2 * 3"}',
    '{"name":"a [b](http://evil.example) ![c](d) <!-- e --> &amp;"}',
    "# x\n\n    y\n* z\n```js\n1",
)


@each("arguments", ARGUMENTS)
def test_a_question_is_shown_as_it_is_written(arguments: str) -> None:
    """The user may permit what it says."""
    question = f"May I call delete with {arguments}?"
    packets = [
        text("I **will** tidy up.\n\n"),
        packet("EVENT", {"type": "QUESTION", "data": {"question": question, "call_id": "c"}}),
        *map(text, (question[:30], question[30:])),
        packet("CLOSE", {"reason": "input_required", "question": question}),
    ]
    rows = screen_of(packets)
    assert rows == [
        "I will tidy up.",
        "",
        *question.splitlines(),
        "Answer with yes, or with no, because …",
    ]


def test_text_after_a_void_question_is_markdown_again() -> None:
    packets = [
        packet("EVENT", {"type": "QUESTION", "data": {"question": "**a**", "call_id": "c"}}),
        text("**a**"),
    ]
    to = {"type": "REWIND", "data": {"to_seq": packets[0].seq - 1}}
    packets += [packet("EVENT", to), text("**b**"), packet("CLOSE", {"reason": "complete"})]
    assert screen_of(packets) == ["b"]


def test_json_lines_are_the_packets() -> None:
    out = io.StringIO()
    packets = everything()
    with redirect_stdout(out):
        render(JsonOutput(), packets)
    assert [parse_packet(line.encode()) for line in out.getvalue().splitlines()] == packets


def test_plain_text_is_the_answer_and_its_sources() -> None:
    assert plain(everything()) == (
        "# A **title**\n\nSome `code` and more.\n\n* an item\n"
        "A cat: https://example.com/cat.png\n\n"
        "Sources:\n[1] About docs/a.md: docs/a.md\n[2] About docs/b.md: docs/b.md\n"
    )


def test_the_usage_of_an_answer_is_shown_after_it_in_a_terminal_only() -> None:
    used = {"model": "m", "prompt_tokens": 1, "completion_tokens": 2, "cost_estimate": None}
    packets = [text("Blue."), packet("EVENT", {"type": "USAGE", "data": used})]
    drawn = shown(live(packets))
    assert drawn.rindex("Blue.") < drawn.rindex("m: 1 + 2 tokens")
    assert plain(packets) == "Blue.\n"


def test_plain_text_ends_its_line_when_an_answer_breaks_off() -> None:
    out = io.StringIO()
    with redirect_stdout(out):
        view = PacketPresenter(PlainOutput())
    with pytest.raises(KeyboardInterrupt), view:
        view.show(text("half an ans"))
        view.show(cited("docs/a.md"))
        raise KeyboardInterrupt
    assert out.getvalue() == "half an ans\n"


@pytest.mark.parametrize("make", [PlainOutput, lambda: LiveOutput(Console())])
def test_a_report_is_a_separate_paragraph(make: Callable[[], Output]) -> None:
    out = io.StringIO()
    with redirect_stdout(out):
        made = make()
    with redirect_stdout(out), PacketPresenter(made) as view:
        view.show(text("a"))
    with redirect_stdout(out):
        view.report("All is well.")
    assert [line.rstrip() for line in out.getvalue().splitlines()] == ["a", "", "All is well."]


def test_warnings_go_to_stderr_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert plain([text("a"), warning()]) == "a\n"
    assert capsys.readouterr().err == "warning: slow_model: It takes a while.\n"


def test_a_terminal_shows_everything() -> None:
    lines = [line.rstrip() for line in shown(live(everything())).splitlines()]
    joined = "\n".join(lines)
    for part in (
        "Let me see.",
        "A title",
        "Some code and more.",
        "100 % ✓",
        "• an item",
        "A cat: https://example.com/cat.png",
        '{"custom": 1}',
        "Sources",
        "[1] About docs/a.md  docs/a.md",
        "[2] About docs/b.md  docs/b.md",
    ):
        assert part in joined
    assert "[3]" not in joined
    assert "━" in joined


def test_thoughts_are_dimmed_and_warnings_yellow() -> None:
    assert "\x1b[2;3mLet me see." in live([event("THOUGHT_TRACE", {"content": "Let me see."})])
    assert "\x1b[33mwarning: slow_model" in live([warning()])


def test_a_failed_step_is_marked() -> None:
    out = shown(live([progress("Asking", None), progress("Asking", None, "failed")]))
    assert "Asking" in out
    assert "✗" in out


def test_an_agent_cannot_control_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\x1b[2Jhello\r\x9b31m"
    packets = [
        text(evil),
        event("THOUGHT_TRACE", {"content": evil}),
        progress(evil, 1, "complete"),
        cited(evil),
        packet("EVENT", {"text": evil}),
    ]
    out = live(packets, no_color=True)
    assert "hello" in out
    assert "\x1b]" not in out
    assert "\x1b[2J" not in out
    assert "\x9b" not in out
    assert "\x07" not in out


def test_an_agent_cannot_control_the_reader_of_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;owned\x07\x1b[2Jhello\r\x9b31m"
    error = {"code": "slow", "message": evil, "severity": "WARNING"}
    item = MediaItem(url="https://example.com", mime_type="image/png", alt_text=evil)
    packets = [
        text("\x1b"),
        text("[31"),
        text("mred\x1b]0;own"),
        text("ed\x07 text\x1b"),
        event("MARKDOWN_BLOCK", {"content": evil}),
        event("MEDIA_CAROUSEL", MediaCarousel(items=[item])),
        packet("ERROR", error),
        cited(evil),
    ]
    out = plain(packets)
    assert out == (
        "red text\n\nhello\nhello: https://example.com\n\nSources:\n[1] About hello: hello\n"
    )
    assert capsys.readouterr().err == "warning: slow: hello\n"


def test_markup_of_rich_is_only_text() -> None:
    assert "[red]not red[/red] :smile:" in shown(live([text("[red]not red[/red] :smile:")]))


def test_each_block_is_shown_once() -> None:
    words = "".join(f"paragraph {n} with words\n\n" for n in range(40))
    out = shown(live([text(piece) for piece in words.split(" ")], height=10))
    flat = out.replace(" ", "")
    assert all(f"paragraph{n}withwords" in flat for n in range(40))


def test_an_answer_that_was_stopped_is_marked() -> None:
    out = io.StringIO()
    view = PacketPresenter(LiveOutput(Console(file=out, force_terminal=True, width=60)))
    with pytest.raises(KeyboardInterrupt), view:
        view.show(text("half an ans"))
        view.show(cited("docs/a.md"))
        raise KeyboardInterrupt
    assert "half an ans" in out.getvalue()
    assert "stopped" in out.getvalue()
    assert "Sources" not in out.getvalue()


class Recorder(Output):
    """Records the calls of its methods."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []

    def write(self, text: str) -> None:
        self.calls.append(("write", text))

    def block(self, text: str) -> None:
        self.calls.append(("block", text))

    def lines(self, texts: Sequence[str]) -> None:
        self.calls.append(("lines", list(texts)))

    def thought(self, text: str) -> None:
        self.calls.append(("thought", text))

    def progress(self, update: ProgressUpdate) -> None:
        self.calls.append(("progress", update.label))

    def detail(self, text: str) -> None:
        self.calls.append(("detail", text))

    def warning(self, text: str) -> None:
        self.calls.append(("warning", text))

    def sources(self, sources: Sequence[Source]) -> None:
        self.calls.append(("sources", [tuple(source) for source in sources]))


USED = {"model": "m", "prompt_tokens": 1, "completion_tokens": 2}
CALL = {"call_id": "a", "name": "find", "arguments": {"city": "Zürich", "date": None}}


def called(**data: Any) -> Packet:
    return packet("EVENT", {"type": "TOOL_CALL", "data": {**CALL, **data}})


def returned(result: Any, **data: Any) -> Packet:
    return packet(
        "EVENT", {"type": "TOOL_RESULT", "data": {"call_id": "a", "result": result, **data}}
    )


@pytest.mark.parametrize(
    ("shown_packet", "call"),
    [
        (text("a"), ("write", "a")),
        (event("MARKDOWN_BLOCK", {"markdown": "b"}), ("block", "b")),
        (event("MARKDOWN_BLOCK", {"text": "b", "content": "a"}), ("block", "a")),
        (event("THOUGHT_TRACE", {"thought": "hm"}), ("thought", "hm")),
        (event("THOUGHT_TRACE", {"content": 5, "text": "hm"}), ("thought", "hm")),
        (event("THOUGHT_TRACE", {"odd": "ü"}), ("thought", '{"odd": "ü"}')),
        (progress("Searching", 10), ("progress", "Searching")),
        (media(), ("lines", ["A cat: https://example.com/cat.png"])),
        (warning(), ("warning", "warning: slow_model: It takes a while.")),
        (packet("EVENT", {"custom": 1}), ("detail", '{"custom": 1}')),
        (packet("EVENT", {"type": "USAGE", "data": USED}), ("detail", "m: 1 + 2 tokens")),
        (packet("EVENT", {"type": "USAGE", "data": 5}), ("detail", '{"type": "USAGE", "data": 5}')),
        (called(turn=1), ("detail", '→ find {"city": "Zürich", "date": null}')),
        (called(arguments="now"), ("detail", "→ find now")),
        (returned("blue", name="sky", turn=1, seconds=0.2), ("detail", "← sky: blue")),
        (returned({"id": 7}), ("detail", '← tool: {"id": 7}')),
        (returned("no answer", is_error=True), ("detail", "← tool failed: no answer")),
        (
            packet("EVENT", {"type": "TOOL_CALL", "data": {"name": "mine"}}),
            ("detail", '{"type": "TOOL_CALL", "data": {"name": "mine"}}'),
        ),
    ],
)
def test_each_kind_of_packet_has_its_method_of_the_output(
    shown_packet: Packet, call: tuple[str, object]
) -> None:
    recorder = Recorder()
    render(recorder, [shown_packet])
    assert recorder.calls == [call]


def test_a_result_has_the_name_of_its_call() -> None:
    recorder = Recorder()
    render(recorder, [called(), called(call_id="b", name="track"), returned("blue")])
    assert recorder.calls[-1] == ("detail", "← find: blue")


def test_a_long_result_is_short_in_a_terminal_and_whole_in_json() -> None:
    packets = [returned("word \n" * 20_000)]
    recorder = Recorder()
    render(recorder, packets)
    [(_, line)] = recorder.calls
    assert isinstance(line, str)
    assert (len(line), line[:16], line[-1]) == (200, "← tool: word wor", "…")
    out = io.StringIO()
    with redirect_stdout(out):
        render(JsonOutput(), packets)
    assert parse_packet(out.getvalue().encode()) == packets[0]


def test_the_end_of_a_stream_is_not_shown() -> None:
    recorder = Recorder()
    render(recorder, [packet("CLOSE", {"reason": "complete"})])
    assert recorder.calls == []


def test_a_media_item_without_a_description_is_named_by_its_type() -> None:
    item = MediaItem(url="https://example.com/x", mime_type="image/png")
    recorder = Recorder()
    render(recorder, [event("MEDIA_CAROUSEL", MediaCarousel(items=[item]))])
    assert recorder.calls == [("lines", ["image/png: https://example.com/x"])]


def test_a_source_is_listed_once_under_its_first_number() -> None:
    recorder = Recorder()
    render(recorder, [cited("b", "a"), cited("a", "c"), cited("b")])
    sources = [(1, "About b", "b"), (2, "About a", "a"), (3, "About c", "c")]
    assert recorder.calls == [("sources", sources)]


def test_the_text_of_an_answer_has_its_blocks_and_nothing_void() -> None:
    first = text("Hello ")
    rewind = packet("EVENT", {"type": "REWIND", "data": {"to_seq": first.seq}})
    block = event("MARKDOWN_BLOCK", {"content": "# Title"})
    packets = [first, text("void"), cited("a"), rewind, text("Ann."), block, text("Bye.\n")]
    assert text_of(packets) == "Hello Ann.\n\n# Title\n\nBye."
    assert text_of([]) == ""
