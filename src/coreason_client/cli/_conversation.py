"""A conversation at a prompt, until the user leaves it."""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from uuid import uuid4

from coreason_client import CAPError

from ._answer import ask
from ._chat_service import ChatService
from .exits import Failure, say_error
from .output import note, prompt

__all__ = ["converse"]

_PROMPT = "> "
_GREETING = "Talking to {}. /help lists the commands, Ctrl-D leaves."
_HELP = """\
/new    begin another conversation
/help   show this
/exit   leave, as Ctrl-D does
Ctrl-C  stops an answer, or clears the line; twice at the prompt it leaves"""


def converse(
    target: ChatService, session: str, name: str, *, as_json: bool, command: Sequence[str] | None
) -> None:
    """Ask until the user leaves; an answer that fails or is stopped is not the end.

    `command` continues the conversation later, with `--conversation`; None when nothing can.

    Raises:
        KeyboardInterrupt: the user left with Ctrl-C.
    """
    _use_readline()
    note(_GREETING.format(name))
    talk = _Conversation(target, session, as_json=as_json)
    try:
        while (line := _next_line()) is not None:
            talk.take(line)
    finally:
        if command is not None and talk.answered:
            words = shlex.join([*command, "--conversation", talk.session])
            with suppress(OSError):
                note(f"continue with: {words}")


class _Conversation:
    def __init__(self, target: ChatService, session: str, *, as_json: bool) -> None:
        self._target = target
        self._as_json = as_json
        self.session = session
        self.answered = False  # whether there is something to continue

    def take(self, line: str) -> None:
        """Obey a command, or ask a question."""
        if line == "/new":
            self.session, self.answered = str(uuid4()), False
            note("A new conversation.")
        elif line == "/help":
            note(_HELP)
        elif line.startswith("/") and "\n" not in line:
            note(f"There is no command {line}; /help lists them.")
        elif line:
            self._ask(line)

    def _ask(self, line: str) -> None:
        try:
            ask(self._target, line, self.session, as_json=self._as_json)
            self.answered = True
        except KeyboardInterrupt:
            pass  # the answer was stopped, the conversation goes on
        except (CAPError, Failure) as error:
            say_error(error)


def _next_line() -> str | None:
    """Read a line; None when the user wants to leave.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed twice.
    """
    try:
        return _read_line()
    except KeyboardInterrupt:
        note("\nCtrl-C again, or Ctrl-D, leaves.")
        return _read_line()


def _read_line() -> str | None:
    try:
        line = prompt(f"\n{_PROMPT}").strip()
    except EOFError:
        note("")
        return None
    return None if line in {"/exit", "/quit"} else line


def _use_readline() -> None:
    """Give the prompt line editing and a history, where Python was built with them."""
    with suppress(ImportError):
        import readline

        if "libedit" not in (readline.__doc__ or ""):
            # Several lines that are pasted are one question.
            readline.parse_and_bind("set enable-bracketed-paste on")
