"""Plain text: what is written to stdout, what to stderr, and where lines and paragraphs end."""

import io
from contextlib import redirect_stdout

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.cli.output._base import PlainOutput, Source
from coreason_manifest.definitions.presentation import ProgressUpdate

SOURCES = [Source(1, "A", "a.md"), Source(2, "B", "b.md")]
LISTED = "Sources:\n[1] A: a.md\n[2] B: b.md\n"


class Terminal(io.StringIO):
    """A file that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def plain(
    *calls: tuple[object, ...], file: io.StringIO | None = None, sources: list[Source] | None = None
) -> str:
    """Call methods, by name and arguments, within an answer; then list the sources."""
    out = io.StringIO() if file is None else file
    with redirect_stdout(out):
        output = PlainOutput()
    with output:
        for name, *arguments in calls:
            getattr(output, str(name))(*arguments)
    if sources:
        output.sources(sources)
    return out.getvalue()


@pytest.mark.parametrize(
    ("calls", "written"),
    [
        ([], ""),
        ([("write", "")], ""),
        ([("write", "a")], "a\n"),
        ([("write", "a\n")], "a\n"),
        ([("write", "a"), ("write", "b")], "ab\n"),
        ([("write", "a"), ("end_text",), ("write", "b")], "a\nb\n"),
        ([("write", "a"), ("block", "b")], "a\n\nb\n"),
        ([("write", "a\n\n"), ("block", "b")], "a\n\nb\n"),
        ([("write", "a\n"), ("write", "\n"), ("block", "b")], "a\n\nb\n"),
        ([("block", "b"), ("write", "c")], "b\nc\n"),
        ([("block", "a"), ("block", "b")], "a\nb\n"),
        ([("write", "a"), ("line", "b"), ("line", "c")], "a\nb\nc\n"),
        ([("write", "a"), ("lines", ["b", "c"]), ("write", "d")], "a\n\nb\nc\nd\n"),
        ([("lines", ["b"])], "b\n"),
        ([("write", "a"), ("report", "r")], "a\n\nr\n"),
    ],
)
def test_lines_and_paragraphs_end(calls: list[tuple[object, ...]], written: str) -> None:
    assert plain(*calls) == written


@pytest.mark.parametrize(
    ("calls", "before"),
    [
        ([], ""),
        ([("write", "a")], "a\n\n"),
        ([("write", "a\n\n")], "a\n\n"),
        ([("block", "a")], "a\n\n"),
    ],
)
def test_the_sources_are_a_paragraph_below_the_answer(
    calls: list[tuple[object, ...]], before: str
) -> None:
    assert plain(*calls, sources=SOURCES) == before + LISTED


def test_thoughts_progress_and_details_are_left_out() -> None:
    step = ProgressUpdate(label="Searching", status="running", progress_percent=1)
    assert plain(("thought", "hm"), ("progress", step), ("detail", "d")) == ""


def test_information_and_warnings_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        plain(("write", "a"), ("info", "i\x1b[2J"), ("warning", "w\x07"), ("write", "b")) == "ab\n"
    )
    assert capsys.readouterr().err == "i\nw\n"


def test_in_a_terminal_information_does_not_continue_a_line_of_text() -> None:
    """Both streams are shown on the same screen."""
    assert plain(("write", "a"), ("info", "i"), ("write", "b"), file=Terminal()) == "a\nb\n"


def test_a_closed_pipe_is_not_written_to_again() -> None:
    out = io.StringIO()
    with redirect_stdout(out):
        output = PlainOutput()
    with pytest.raises(BrokenPipeError), output:
        output.write("half")
        raise BrokenPipeError
    assert out.getvalue() == "half"
    with pytest.raises(KeyboardInterrupt), output:
        raise KeyboardInterrupt
    assert out.getvalue() == "half\n"


@given(st.lists(st.text("ab\n\x1b[m", max_size=4), max_size=6))
def test_text_in_pieces_is_written_like_text_in_one_piece(pieces: list[str]) -> None:
    assert plain(*(("write", piece) for piece in pieces)) == plain(("write", "".join(pieces)))
