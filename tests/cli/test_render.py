"""What becomes of packets: JSON, plain text, and what a terminal is sent."""

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from itertools import count
from uuid import UUID

import pytest
from rich.console import Console

from coreason_client.cli._packets import PacketPresenter
from coreason_client.cli.output import Output
from coreason_client.cli.output._json import JsonOutput
from coreason_client.cli.output._live import LiveOutput
from coreason_client.cli.output._plain import PlainOutput
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

from .command import shown

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


def render(output: Output, packets: list[Packet]) -> None:
    with PacketPresenter(output) as presenter:
        for each in packets:
            presenter.show(each)


def plain(packets: list[Packet]) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        render(PlainOutput(), packets)
    return out.getvalue()


def live(packets: list[Packet], *, no_color: bool = False, height: int = 30) -> str:
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=True, width=60, height=height, no_color=no_color, emoji=False
    )
    render(LiveOutput(console), packets)
    return out.getvalue()


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


@pytest.mark.parametrize(
    ("packets", "expected"),
    [
        ([], ""),
        ([text("a")], "a\n"),
        ([text("a\n")], "a\n"),
        ([text("a\n\n"), event("MARKDOWN_BLOCK", {"content": "b"})], "a\n\nb\n"),
        ([event("MARKDOWN_BLOCK", {"text": "b"}), text("c")], "b\nc\n"),
        ([event("MARKDOWN_BLOCK", {"odd": 1})], '{"odd": 1}\n'),
    ],
)
def test_plain_text_ends_its_lines(packets: list[Packet], expected: str) -> None:
    assert plain(packets) == expected


def test_what_an_answer_used_is_told_after_it_where_somebody_watches() -> None:
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
def test_a_report_is_a_paragraph_of_its_own(make: Callable[[], Output]) -> None:
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


def test_an_agent_cannot_steer_the_terminal() -> None:
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


def test_an_agent_cannot_steer_what_reads_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_each_block_stays_once() -> None:
    words = "".join(f"paragraph {n} with words\n\n" for n in range(40))
    out = shown(live([text(piece) for piece in words.split(" ")], height=10))
    flat = out.replace(" ", "")
    assert all(f"paragraph{n}withwords" in flat for n in range(40))


def test_a_stopped_answer_says_so() -> None:
    out = io.StringIO()
    view = PacketPresenter(LiveOutput(Console(file=out, force_terminal=True, width=60)))
    with pytest.raises(KeyboardInterrupt), view:
        view.show(text("half an ans"))
        view.show(cited("docs/a.md"))
        raise KeyboardInterrupt
    assert "half an ans" in out.getvalue()
    assert "stopped" in out.getvalue()
    assert "Sources" not in out.getvalue()
