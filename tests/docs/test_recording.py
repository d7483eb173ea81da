"""The recording on the first page shows what the program prints today, at each moment."""

import re
from xml.etree import ElementTree as ET

import pytest

from scripts.record_chat import (
    _CELL,
    _FIRST,
    _LEFT,
    _LINE,
    _TOP,
    COLUMNS,
    COMMAND,
    LONGEST,
    PICTURE,
    ROWS,
    Frame,
    draw,
    record,
)

# How many cuts and kills come before the last word depends on the time that a restart takes.
COUNTED = re.compile(r"\d+ (cut|kill)s?\b")
TEXT = "{http://www.w3.org/2000/svg}text"


def shown(picture: str, moment: float) -> tuple[str, ...]:
    """Return the rows that the picture shows at a moment; below them is nothing."""
    rows = [[" "] * COLUMNS for _ in range(ROWS)]
    for text in ET.fromstring(picture).iter(TEXT):
        times = re.findall(r"([\d.]+)s", text.get("style", ""))
        lasts, *delay = map(float, times) if times else (0.0,)
        begin, end = (delay[0], delay[0] + lasts) if delay else (lasts, float("inf"))
        row = (int(text.attrib["y"]) - _TOP) // _LINE
        if row >= 0 and begin <= moment < end:
            column = (int(text.attrib["x"]) - _LEFT) // _CELL
            for number, sign in enumerate(text.text or "", column):
                rows[row][number] = sign
    return tuple("".join(row).rstrip() for row in rows)


def words(picture: str) -> str:
    return COUNTED.sub(r"N \1s", " ".join(" ".join(shown(picture, 1e6)).split()))


@pytest.mark.timeout(120)  # the agent is started three times
def test_the_picture_is_that_of_a_run() -> None:
    frames, picture = record(), PICTURE.read_text(encoding="utf-8")
    again = draw(frames)
    assert words(picture) == words(again), "run `make picture`"
    assert re.fullmatch(
        r"Hello! .* nothing lost or duplicated: (\d+) .*, \1 logged\.", words(again)
    )
    assert f"$ {' '.join(COMMAND)}<" in picture
    assert len(picture.encode()) < 40_000
    assert shown(picture, 1e6) == shown(picture, _FIRST + LONGEST)
    for frame, following in zip(frames, [*frames[1:], None], strict=True):
        end = following.begin if following else frame.begin + 1
        if end - frame.begin > 0.02:  # the times in the picture are rounded
            assert shown(again, (frame.begin + end) / 2) == frame.rows


def test_a_row_that_changes_is_drawn_in_its_pieces() -> None:
    screens = [("", "ab cd"), ("ab", "ab xd"), ("ab", "ab xd e")]
    blank = ("",) * (ROWS - 2)
    frames = [Frame(1.0 + number, (*rows, *blank)) for number, rows in enumerate(screens)]
    picture = draw(frames)
    for frame in frames:
        assert shown(picture, frame.begin + 0.5) == frame.rows
    assert not any(shown(picture, 0.5))
    assert picture.count(">ab<") == 2
    assert '1.00s;animation-delay:1.00s">c<' in picture
