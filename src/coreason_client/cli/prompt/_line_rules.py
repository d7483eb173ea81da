"""The rules of a line at the prompt: the commands that begin with a slash, and the keys. Pure.

A command is one line. A message that begins with a slash has two slashes or a blank before
it; several lines are always a message. The effect of a key depends on the text that has been typed:

* Enter sends the text. After a backslash at the end it starts a new line instead.
* After `/multi`, Enter starts a new line and Alt-Enter sends; a command is still run with Enter.
* Ctrl-J always starts a new line, and Alt-Enter does so before `/multi`.
* A line that was typed while an answer was shown, and ended with Enter, is sent after the answer.
  It waits at the prompt if the answer ends with a question: it cannot permit what nobody had seen.
  Several lines wait at the prompt: they are probably a paste, and one message. The text of a
  `/say` line does not wait: the agent that is answering gets it.
* Ctrl-C clears the line. A second one in a row, on an empty line, leaves.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from textwrap import fill


@dataclass(frozen=True, slots=True)
class Command:
    """A command with its argument, which is empty if it takes none."""

    name: str
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A line that looks like a command and is none; `sentence` says what to do."""

    sentence: str


# Name, argument, help. The order is that of the help.
_COMMANDS = (
    ("help", "", "show this help"),
    ("id", "", "show the ID of the conversation"),
    ("say", "TEXT", "while an answer is shown: send a message to its agent"),
    ("new", "", "start a new conversation"),
    ("attach", "FILE", "send a file or a URL with the next message"),
    ("save", "FILE", "save the conversation as Markdown, or as JSON if FILE ends in .json"),
    ("multi", "", "switch between sending with Enter and with Alt-Enter"),
    ("exit", "", "leave, like Ctrl-D"),
)
SAY_LINE = re.compile(r"^/say[ \t]+(.*\S)[ \t]*\n", re.MULTILINE)
"""Is a `/say` that was ended with Enter, with its text."""

_MIN_TEXT = 20  # columns
_ARGUMENTS = {name: argument for name, argument, _ in _COMMANDS}
_ALIASES = {"quit": "exit", "?": "help"}
_KEYS = (
    ("Alt-Enter", "new line, like Ctrl-J or a \\ at the end of a line; after /multi: send"),
    ("Tab, Up", "complete a command; show earlier messages"),
)
_CTRL_C = ("Ctrl-C", "stop the answer or clear the line; twice at the prompt: leave")
_SLASH = ("//", "a message that begins with a slash, as in //etc is full")


def command_help(columns: int, *, editing: bool, says: bool = False) -> str:
    """Return the help in so many columns; with `editing`, also the keys that edit a line.

    `says` is True if the agent can get messages while it answers.
    """
    hidden = {"multi": not editing, "say": not (editing and says)}
    rows = [
        (f"/{name} {argument}".rstrip(), text)
        for name, argument, text in _COMMANDS
        if not hidden.get(name)
    ]
    rows += [*(_KEYS if editing else ()), _CTRL_C, _SLASH]
    width = max(len(name) for name, _ in rows) + 2
    return "\n".join(
        fill(
            text,
            max(columns, width + _MIN_TEXT),
            initial_indent=name.ljust(width),
            subsequent_indent=" " * width,
        )
        for name, text in rows
    )


def parse_line(line: str) -> Command | Mistake | str:
    """Return the command, or the message, which is empty if there is nothing to send."""
    text = line.strip()
    if line.startswith("//"):
        return text[1:]
    if not line.startswith("/") or "\n" in text:
        return text
    word, _, argument = text[1:].partition(" ")
    name = _ALIASES.get(word, word)
    if name not in _ARGUMENTS:
        return Mistake(
            f"Unknown command /{word}. Type /help for the commands,"
            " or a second slash to send this as a message."
        )
    if argument and not _ARGUMENTS[name]:
        return Mistake(f"/{word} takes nothing after it.")
    if not argument and (missing := _ARGUMENTS[name]):
        what = "the name of a file" if missing == "FILE" else "a text"
        return Mistake(f"/{word} needs {what}: /{word} {missing}")
    argument = argument.strip()
    return Command(name, _unquoted(argument) if _ARGUMENTS[name] == "FILE" else argument)


def completed_words(before_cursor: str) -> Sequence[str]:
    """Return the commands that a beginning of a line can become."""
    if not before_cursor.startswith("/") or before_cursor.split() != [before_cursor]:
        return ()
    words = (f"/{name} " if argument else f"/{name}" for name, argument, _ in _COMMANDS)
    return [word for word in words if word.startswith(before_cursor)]


def file_prefix(before_cursor: str) -> str | None:
    """Return the beginning of the file name in a command that takes one, otherwise None."""
    word, blank, argument = before_cursor.partition(" ")
    takes_file = bool(blank) and "\n" not in before_cursor and _ARGUMENTS.get(word[1:]) == "FILE"
    return argument.lstrip() if takes_file and word.startswith("/") else None


def _unquoted(name: str) -> str:
    """Return a name without the quotes that a shell would need."""
    quoted = len(name) > 1 and name[0] == name[-1] and name[0] in "'\""
    return name[1:-1] if quoted else name


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


def after_typed_ahead(typed: str, *, multi: bool, asked: bool = False) -> tuple[str, bool]:
    """Return the text that the prompt begins with, and True if it is sent at once."""
    line, enter, rest = typed.partition("\n")
    is_one_line = bool(line.strip() and enter) and not rest
    sends = is_one_line and after_enter(line, len(line), multi=multi) is Edit.SEND
    return (line, not asked) if sends else (typed.lstrip("\n"), False)


def after_keys(typed: str) -> str:
    """Return the text of keys: Backspace removes a character, and Ctrl-U a line."""
    text = re.sub(r"[^\n]*\x15", "", typed.replace("\b", "\x7f"))
    while "\x7f" in text:
        text = re.sub(r"[^\n\x7f]?\x7f", "", text, count=1)
    return text


def leaves_after_ctrl_c(text: str, *, cleared_before: bool) -> bool:
    """Return True if Ctrl-C ends the conversation; otherwise it clears the line."""
    return cleared_before and not text.strip()
