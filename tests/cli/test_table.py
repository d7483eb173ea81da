"""A table of names and values: in a pipe one line for each row, in a terminal aligned."""

import io
from contextlib import redirect_stdout

import pytest

from coreason_client.cli.output import show_table

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
