"""A table of names and values: in a pipe one line for each row, in a terminal aligned."""

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout

import pytest

from coreason_client.cli.output import show_rows, show_table

from .command import shown

ROWS = [("name", "value " * 30 + "end"), ("other", "x")]


class Terminal(io.StringIO):
    """A file that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def table(description: str, rows: list[tuple[str, str]], file: io.StringIO) -> str:
    with redirect_stdout(file):
        show_table(" Title\x07 ", description, rows)
    return file.getvalue()


def test_in_a_pipe_a_row_is_one_line_of_any_length() -> None:
    assert table("About it.", ROWS, io.StringIO()).splitlines() == [
        "Title",
        "About it.",
        "name         " + ROWS[0][1],
        "other        x",
    ]


@pytest.mark.parametrize("description", ["", "  ", "\x1b[31m"])
def test_an_empty_description_takes_no_line(description: str) -> None:
    assert table(description, [], io.StringIO()) == "Title\n"
    assert len(table(description, [], Terminal()).splitlines()) == 1


def test_in_a_terminal_a_long_value_is_wrapped_within_its_column(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    title, description, *rows = shown(table("About it.", ROWS, Terminal())).splitlines()
    assert (title, description) == ("Title", "About it.")
    assert all(len(row) <= 60 for row in rows)
    *wrapped, last = rows
    assert len({len(row) - len(row.lstrip()) for row in wrapped[1:]}) == 1
    assert "".join(" ".join(wrapped).split()) == "name" + "value" * 30 + "end"
    assert last.split() == ["other", "x"]


# Rows


def rows(file: io.StringIO, *texts: tuple[str, ...]) -> str:
    with redirect_stdout(file):
        show_rows(iter(texts))
    return file.getvalue()


def test_in_a_pipe_the_texts_of_a_row_are_separated_by_tabs() -> None:
    found = rows(io.StringIO(), ("id", "", "a\tb\x1b[31m\nc " * 50), ("2", "x", ""))
    assert found == "id\t\t" + " ".join(["a b c"] * 50) + "\n2\tx\n"


@pytest.mark.parametrize("no_color", [False, True])
def test_in_a_terminal_a_long_last_text_has_one_line_of_its_own(
    monkeypatch: pytest.MonkeyPatch, no_color: bool
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "xterm")
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    found = rows(Terminal(), ("an-id-that-is-longer-than-a-line", "x", "", "word " * 9), ("2", ""))
    assert [line.rstrip() for line in shown(found).splitlines()] == [
        "an-id-that-is-longer-than-a-line  x",
        "  word word word wo…",
        "2",
    ]
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", found)


def test_rows_are_shown_as_they_arrive() -> None:
    file = io.StringIO()

    def arriving() -> Iterator[tuple[str, ...]]:
        yield ("1", "a")
        assert file.getvalue() == "1\ta\n"
        yield ("2", "b")

    with redirect_stdout(file):
        show_rows(arriving())
    assert file.getvalue() == "1\ta\n2\tb\n"
