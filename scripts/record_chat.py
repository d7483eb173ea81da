"""Record `coreason chat --chaos --kill` in a terminal, and draw it as `docs/images/chat.svg`.

`make picture` runs it. The run is real, and so is its speed, except for the time in which Python
starts. The picture plays once, for less than five seconds, and then shows the end of the run.
"""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import pyte

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "chat.svg"
COMMAND = ("coreason", "chat", "--chaos", "--kill", "--seed", "6", "Hello")
COLUMNS, ROWS = 50, 10
SECONDS = 60.0  # without output, after which the command counts as stuck
LONGEST = 5.0  # seconds in which something moves; what moves for longer needs a button to stop it
_FIRST = 2.0  # when the first output is shown: a reader has found the command by then

_CELL, _LINE, _LEFT, _TOP = 9, 22, 20, 78  # pixels
_STYLE = """
.chat text{fill:#e6e9f0;font-size:15px;white-space:pre}
.chat text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.chat .command{fill:#93a4ff}.chat .status{fill:#ffcb6b}.chat .result{fill:#7ee2a8}
.chat .later{animation:chat-later step-end}
.chat .once{animation:chat-once step-end;visibility:hidden}
.chat:active text{animation:none}
@keyframes chat-later{from{visibility:hidden}}
@keyframes chat-once{from{visibility:visible}}
@media(prefers-reduced-motion:reduce){.chat text{animation:none!important}}
"""


@dataclass(frozen=True)
class Frame:
    """The rows of the screen from a time on, in seconds."""

    begin: float
    rows: tuple[str, ...]


@dataclass(frozen=True)
class Span:
    """A piece of a row that appears in a frame; `end` is the first frame without it, if any."""

    row: int
    column: int
    text: str
    kind: str
    begin: int
    end: int | None


def record(command: Sequence[str] = COMMAND) -> list[Frame]:
    """Run the command in a terminal, and return what the screen shows from when on.

    Raises:
        SystemExit: the command failed, or printed nothing for too long.
    """
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    frames: list[Frame] = []
    for seconds, data in _printed(command):
        stream.feed(data)
        rows = tuple(row.rstrip() for row in screen.display)
        # A lone sign turns until the first word arrives.
        if len("".join(rows)) > 1 and (not frames or rows != frames[-1].rows):
            frames.append(Frame(seconds, rows))
    return [Frame(frame.begin - frames[0].begin + _FIRST, frame.rows) for frame in frames]


def _printed(command: Sequence[str]) -> Iterator[tuple[float, bytes]]:
    """Yield what the command writes to its terminal, each with its time."""
    terminal, its_end = pty.openpty()
    fcntl.ioctl(its_end, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    program = str(Path(sys.executable).with_name(command[0]))
    with tempfile.TemporaryDirectory() as home, os.fdopen(terminal, "rb", 0) as output:
        environment = {"HOME": home, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        process = subprocess.Popen(  # noqa: S603 - our own command
            [program, *command[1:]],
            env={**environment, "PATH": os.environ["PATH"]},
            stdin=its_end,
            stdout=its_end,
            stderr=its_end,
            start_new_session=True,
        )
        os.close(its_end)
        while select.select([output], [], [], SECONDS)[0]:
            try:
                data = output.read(65536)
            except OSError:  # Linux reports the end of a terminal so
                break
            yield time.monotonic(), data
        else:
            process.kill()
        if process.wait(SECONDS):
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")


def spans(frames: Sequence[Frame]) -> Iterator[Span]:
    """Yield the pieces of all rows, each with the frames in which it is there."""
    for row in range(ROWS):
        shown = [frame.rows[row].ljust(COLUMNS) for frame in frames]
        kinds = [_kind(frame.rows, row) for frame in frames]
        found: dict[tuple[int, int | None], list[int]] = {}
        for column in range(COLUMNS):
            for begin, end in _intervals(
                [(shown[i][column], kinds[i]) for i in range(len(frames))]
            ):
                found.setdefault((begin, end), []).append(column)
        for (begin, end), columns in found.items():
            for first, last in _runs(columns, shown[begin]):
                yield Span(row, first, shown[begin][first : last + 1], kinds[begin], begin, end)


def _kind(rows: Sequence[str], row: int) -> str:
    """Return what a row is: the paragraph that it is in begins with it."""
    for above in reversed(rows[: row + 1]):
        if not above:
            break
        if found := re.match(r"(connection cuts|kills of)|(Resumed)", above):
            return "status" if found[1] else "result"
    return "answer"


def _intervals(values: Sequence[tuple[str, str]]) -> Iterator[tuple[int, int | None]]:
    """Yield the first frame of each sign that a cell shows, and the first one without it."""
    begin = 0
    for number in range(1, len(values) + 1):
        if number == len(values) or values[number] != values[begin]:
            if values[begin][0] != " ":
                yield begin, number if number < len(values) else None
            begin = number


def _runs(columns: Sequence[int], shown: str) -> Iterator[tuple[int, int]]:
    """Yield the first and the last column of neighbours; blanks between them do not count."""
    first = last = columns[0]
    for column in columns[1:]:
        if shown[last + 1 : column].strip():
            yield first, last
            first = column
        last = column
    yield first, last


def draw(frames: Sequence[Frame]) -> str:
    """Return the animated picture of a run."""
    width = 2 * _LEFT + _CELL * COLUMNS
    height = _TOP + _LINE * (1 + max(i for i, row in enumerate(frames[-1].rows) if row)) + 4
    told = " ".join(" ".join(frames[-1].rows).split())
    label = escape(f"A terminal. The command {' '.join(COMMAND)} prints: {told}")
    dots = "".join(f'<circle cx="{x}" cy="22" r="5.5" fill="#4a5466"/>' for x in (22, 40, 58))
    prompt = _text(Span(-1, 0, f"$ {' '.join(COMMAND)}", "command", 0, None), "")
    texts = "\n".join(_drawn(span, frames) for span in spans(frames))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chat" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="{label}">\n'
        f"<title>A click plays it again</title>\n<style>{_STYLE}</style>\n"
        f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="10" fill="#14171f" '
        f'stroke="#3a4252"/>{dots}\n{prompt}\n{texts}\n</svg>\n'
    )


def _drawn(span: Span, frames: Sequence[Frame]) -> str:
    begin = frames[span.begin].begin
    if span.end is None:
        return _text(span, f' style="animation-duration:{begin:.2f}s"', "later")
    lasts = frames[span.end].begin - begin
    style = f' style="animation-duration:{lasts:.2f}s;animation-delay:{begin:.2f}s"'
    return _text(span, style, "once")


def _text(span: Span, style: str, when: str = "") -> str:
    x, y = _LEFT + _CELL * span.column, _TOP + _LINE * span.row
    classes = f"{span.kind} {when}".strip()
    place = f'x="{x}" y="{y}" textLength="{_CELL * len(span.text)}"'
    return f'<text class="{classes}" {place}{style}>{escape(span.text)}</text>'


def main() -> None:
    frames = record()
    if (took := frames[-1].begin - frames[0].begin) > LONGEST:
        raise SystemExit(f"the answer took {took:.1f} s: try again when the machine is less busy")
    PICTURE.write_text(draw(frames), encoding="utf-8")


if __name__ == "__main__":
    main()
