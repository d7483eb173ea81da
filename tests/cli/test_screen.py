"""The screen: finished output is written once, live rows are redrawn below it."""

import io

import pytest
from rich.console import Console
from rich.text import Text

from coreason_client.cli.output._screen import Screen

from .terminal import Emulator, EmulatorFile


def texts(*lines: str) -> list[Text]:
    return [Text(line) for line in lines]


class Drawn:
    """A screen on an emulated terminal."""

    def __init__(self, columns: int = 20, rows: int = 6) -> None:
        self.emulator = Emulator(columns, rows)
        self.file = EmulatorFile(self.emulator)
        console = Console(file=self.file, force_terminal=True, width=columns, height=rows)
        self._screen = Screen(console)

    def draw(self, finished: list[str], live: list[str]) -> list[str]:
        self._screen.draw(texts(*finished), texts(*live))
        return self.emulator.lines


def test_finished_lines_stay_and_live_lines_are_replaced() -> None:
    drawn = Drawn()
    assert drawn.draw(["one"], ["live 1", "live 2"]) == ["one", "live 1", "live 2"]
    assert drawn.draw([], ["live 3"]) == ["one", "live 3"]
    assert drawn.draw(["two", "three"], ["live 4", "live 5"]) == [
        *("one", "two", "three"),
        *("live 4", "live 5"),
    ]
    assert drawn.draw(["four"], []) == ["one", "two", "three", "four"]


def test_nothing_is_written_if_nothing_changes() -> None:
    drawn = Drawn()
    drawn.draw(["one"], ["live"])
    writes = drawn.file.writes
    drawn.draw([], ["live"])
    assert drawn.file.writes == writes
    drawn.draw([], ["other"])
    assert drawn.file.writes == writes + 1


def test_the_last_live_rows_are_shown_and_two_rows_are_left_for_finished_output() -> None:
    drawn = Drawn(rows=6)
    lines = drawn.draw(["one", "two"], [f"live {number}" for number in range(9)])
    assert lines == ["one", "two", "live 5", "live 6", "live 7", "live 8"]


def test_a_tiny_screen_still_shows_one_live_row() -> None:
    assert Drawn(rows=2).draw([], ["live 1", "live 2"]) == ["live 2"]


def test_a_long_finished_line_scrolls_into_the_history_whole() -> None:
    drawn = Drawn(columns=10, rows=4)
    words = " ".join(f"w{number:02d}" for number in range(30))
    drawn.draw([], ["live"])
    lines = drawn.draw([words], ["live"])
    assert "".join("".join(lines[:-1]).split()) == "".join(words.split())
    assert lines[-1] == "live"


@pytest.mark.parametrize("live", [[], ["live"]])
def test_any_other_file_gets_only_the_finished_output(live: list[str]) -> None:
    out = io.StringIO()
    screen = Screen(Console(file=out, width=20))
    screen.draw(texts("one"), texts(*live))
    screen.draw(texts(), texts(*live))
    screen.draw(texts("two"), texts())
    assert out.getvalue() == "one\ntwo\n"
