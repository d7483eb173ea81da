"""The effect of a key at the prompt, which depends on the text that has been typed. Pure.

* Enter sends the text. After a backslash at the end it starts a new line instead.
* After `/multi`, Enter starts a new line and Alt-Enter sends; a command is still run with Enter.
* Ctrl-J always starts a new line, and Alt-Enter does so before `/multi`.
* A line that was typed while an answer was shown, and ended with Enter, is sent after the answer.
  Several lines wait at the prompt: they are probably a paste, and one message.
* Ctrl-C clears the line. A second one in a row, on an empty line, leaves.
"""

from enum import Enum, auto

from ._slash import Command, parse_line

__all__ = ["Edit", "after_alt_enter", "after_enter", "after_typed_ahead", "leaves_after_ctrl_c"]


class Edit(Enum):
    """A change of the text, or its sending."""

    SEND = auto()
    NEW_LINE = auto()
    REPLACE_BACKSLASH = auto()
    """The backslash before the cursor becomes a new line."""


def after_enter(text: str, cursor: int, *, multi: bool) -> Edit:
    """Return what Enter does; `cursor` is the position in the text."""
    if multi:
        return Edit.SEND if isinstance(parse_line(text), Command) else Edit.NEW_LINE
    at_end = cursor == len(text)
    backslashes = len(text) - len(text.rstrip("\\"))
    return Edit.REPLACE_BACKSLASH if at_end and backslashes % 2 else Edit.SEND


def after_alt_enter(*, multi: bool) -> Edit:
    """Return what Alt-Enter does."""
    return Edit.SEND if multi else Edit.NEW_LINE


def after_typed_ahead(typed: str, *, multi: bool) -> tuple[str, bool]:
    """Return the text that the prompt begins with, and True if it is sent at once."""
    line, enter, rest = typed.partition("\n")
    is_one_line = bool(line.strip() and enter) and not rest
    sends = is_one_line and after_enter(line, len(line), multi=multi) is Edit.SEND
    return (line, True) if sends else (typed.lstrip("\n"), False)


def leaves_after_ctrl_c(text: str, *, cleared_before: bool) -> bool:
    """Return True if Ctrl-C ends the conversation; otherwise it clears the line."""
    return cleared_before and not text.strip()
