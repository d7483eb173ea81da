"""The finished parts that can be removed from a screen: those that have not scrolled away."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from coreason_client.cli.output._screen import DrawnRows, Screen, row_count
from tests.fuzz.strategies import examples

from .terminal import Emulator, EmulatorFile

COLUMNS = 20


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", 0),
        ("\n", 1),
        ("a\nb\n", 2),
        (f"{'x' * COLUMNS}\n", 1),
        (f"\x1b[1;31m{'x' * COLUMNS}\x1b[0m\n", 1),
        (f"{'x' * (COLUMNS + 1)}\n", None),
        (f"{'é' * COLUMNS}\n", 1),
        (f"{'漢' * (COLUMNS // 2)}\n", 1),
        (f"{'━' * COLUMNS}\n", 1),
        (f"{'x' * (COLUMNS - 2)}🎉\n", 1),
        # Terminals disagree about the width of these.
        (f"{'x' * (COLUMNS - 1)}☺\n", None),
        (f"{'x' * (COLUMNS - 1)}❤\ufe0f\n", None),
        ("x☺\n", 1),
    ],
)
def test_the_number_of_rows_is_certain_if_no_terminal_wraps_a_line(
    text: str, rows: int | None
) -> None:
    assert row_count(text, COLUMNS) == rows


def test_parts_after_a_row_that_is_on_the_screen_are_removed() -> None:
    drawn = DrawnRows()
    for rows in (2, 3, 1):
        drawn.add(rows)
    drawn.reach(0)
    assert drawn.remove(3, 10) == 0
    assert drawn.remove(1, 10) == 4
    drawn.add(1)
    assert drawn.remove(1, 10) == 1
    assert drawn.remove(0, 10) == 2


def test_rows_that_scrolled_away_for_rows_that_are_gone_now_do_not_come_back() -> None:
    drawn = DrawnRows()
    drawn.add(1)
    drawn.reach(10)  # many live rows
    drawn.reach(0)
    assert drawn.remove(0, 10) is None
    assert drawn.remove(0, 11) == 1


def test_what_is_above_an_uncertain_part_stays() -> None:
    drawn = DrawnRows()
    for rows in (1, None, 1):
        drawn.add(rows)
    drawn.reach(1)
    assert [drawn.remove(part, 100) for part in (0, 1, 2)] == [None, None, 1]
    drawn.forget()
    assert [drawn.remove(part, 100) for part in (0, 1, 2)] == [None, None, 0]


DRAWINGS = st.lists(
    st.tuples(st.lists(st.integers(1, 3), max_size=4), st.integers(0, 6)), min_size=1, max_size=5
)


@examples(300)
@given(st.integers(4, 12), st.integers(0, 12), DRAWINGS, st.integers(0, 20))
def test_a_screen_removes_parts_if_and_only_if_all_of_them_are_on_it(
    height: int, start: int, drawings: list[tuple[list[int], int]], part: int
) -> None:
    emulator = Emulator(COLUMNS, height)
    emulator.feed("prompt\r\n" * min(start, height - 1))
    before = emulator.lines
    console = Console(
        file=EmulatorFile(emulator), force_terminal=True, width=COLUMNS, height=height
    )
    screen = Screen(console)
    parts: list[list[str]] = []
    for sizes, live in drawings:
        new = [[f"{len(parts) + n}.{row}" for row in range(size)] for n, size in enumerate(sizes)]
        parts += new
        screen.draw([Text("\n".join(lines)) for lines in new], [Text("live")] * live)
    part %= len(parts) + 1
    scrolled = {
        "".join(line[column].data for column in range(COLUMNS)).strip()
        for line in emulator._screen.history.top
    }
    is_on_screen = part == len(parts) or parts[part][0] not in scrolled
    assert screen.remove_from(part) is is_on_screen
    if is_on_screen:
        screen.draw([Text("new")], [])
        kept = [line for lines in parts[:part] for line in lines]
        assert emulator.lines == [*before, *kept, "new"]


def test_nothing_is_removed_after_a_resize() -> None:
    emulator = Emulator(COLUMNS, 10)
    console = Console(file=EmulatorFile(emulator), force_terminal=True, width=COLUMNS, height=10)
    screen = Screen(console)
    screen.draw([Text("one"), Text("two")], [])
    console.size = (COLUMNS - 1, 10)
    assert not screen.remove_from(0)
    assert screen.remove_from(2)
