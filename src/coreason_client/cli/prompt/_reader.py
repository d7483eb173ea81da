"""Reads the lines of a conversation as they come, without an editor."""

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from ..output import print_stderr, prompt, typed_ahead

PROMPT = "> "


class LineCleared(KeyboardInterrupt):
    """Ctrl-C was pressed at the prompt; `text` is what had been typed."""

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self.text = text


class ReadInterrupted(Exception):
    """Something is to be shown before the line is complete; what was typed is kept."""


class LineReader(Protocol):
    """Reads what the user types."""

    editing: bool
    """True if a line can be edited with the keys of `command_help`."""

    typed: str
    """The text of `typing` with which the next `read` begins."""

    def read(self, gives_way: Callable[[], bool] = bool, *, asked: bool = False) -> str:
        """Return the next line or lines.

        If the answer before `asked` something, what the user typed earlier does not answer it.
        `gives_way` is called at the beginning and after each `interrupt`; if it returns True, a
        reader that edits the line stops.

        Raises:
            EOFError: there are no more, or Ctrl-D was pressed.
            LineCleared: Ctrl-C was pressed.
            ReadInterrupted: `gives_way` has returned True.
        """

    def interrupt(self) -> None:
        """Make a `read` that waits call `gives_way`; from any thread."""

    def typing(self, say: Callable[[str], object]) -> str:
        """Return the last line that was typed while an answer is shown.

        `say` gets the texts of `/say`; all other lines are in `typed`.
        """

    def switch_mode(self) -> str:
        """Switch between sending with Enter and with Alt-Enter; return a sentence about it."""

    def confirm(self, question: str) -> bool:
        """Return True if the user answers yes; False also if nobody can be asked."""


def typed_row(reader: LineReader, say: Callable[[str], object]) -> str:
    """Return the row below an answer with the line that is typed meanwhile."""
    typed = reader.typing(say)
    return typed and f"{PROMPT}{typed}"


class PlainReader:
    """Reads lines from stdin, with readline if it is a terminal."""

    editing = False
    typed = ""

    def __init__(self) -> None:
        with suppress(ImportError):
            import readline

            if sys.platform != "win32" and "libedit" not in (readline.__doc__ or ""):
                # Several pasted lines become one question.
                readline.parse_and_bind("set enable-bracketed-paste on")

    def read(self, gives_way: Callable[[], bool] = bool, *, asked: bool = False) -> str:
        """Return the next line; nothing interrupts it."""
        if asked and sys.stdin.isatty() and (typed := typed_ahead(sys.stdin.fileno()).split()):
            print_stderr(f"Not sent, because it was typed before the question: {' '.join(typed)}")
        try:
            return prompt(f"\n{PROMPT}")
        except EOFError:
            print_stderr("")
            raise
        except KeyboardInterrupt:
            print_stderr("")
            raise LineCleared from None

    def interrupt(self) -> None:
        """Do nothing: a line is being read by the terminal."""

    def typing(self, say: Callable[[str], object]) -> str:
        """Return nothing: all lines wait for the next `read`."""
        return ""

    def switch_mode(self) -> str:
        """Return why the mode cannot be switched."""
        return "Each line is a message here: the input or the output is not a terminal."

    def confirm(self, question: str) -> bool:
        """Ask, if stdin is a terminal."""
        if not sys.stdin.isatty():
            return False
        try:
            return is_yes(prompt(f"{question} [y/N] "))
        except (EOFError, KeyboardInterrupt):
            print_stderr("")
            return False


def is_yes(answer: str) -> bool:
    """Return True if an answer is yes."""
    return answer.strip().lower() in {"y", "yes"}
