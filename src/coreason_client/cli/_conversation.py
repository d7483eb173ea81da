"""A conversation at a prompt, until the user leaves."""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from uuid import uuid4

from coreason_client import CAPError

from ._answer import ask
from ._chat_service import ChatService
from .exits import Failure, report_error
from .output import print_stderr, prompt

__all__ = ["converse"]

_PROMPT = "> "
_GREETING = "Talking to {}. Type /help for the commands, Ctrl-D to leave."
_HELP = """\
/new    start a new conversation
/help   show this help
/exit   leave, like Ctrl-D
Ctrl-C  stop the answer or clear the line; twice at the prompt: leave"""


def converse(
    service: ChatService, session: str, name: str, *, as_json: bool, command: Sequence[str] | None
) -> None:
    """Ask until the user leaves; an answer that fails or is stopped does not end the conversation.

    `command` with `--conversation` continues it later; None if that is not possible.

    Raises:
        KeyboardInterrupt: the user left with Ctrl-C.
    """
    _use_readline()
    print_stderr(_GREETING.format(name))
    conversation = _Conversation(service, session, as_json=as_json)
    try:
        while (line := _next_line()) is not None:
            conversation.handle(line)
    finally:
        if command is not None and conversation.answered:
            line = shlex.join([*command, "--conversation", conversation.session])
            with suppress(OSError):
                print_stderr(f"To continue this conversation: {line}")


class _Conversation:
    def __init__(self, service: ChatService, session: str, *, as_json: bool) -> None:
        self._service = service
        self._as_json = as_json
        self.session = session
        self.answered = False  # True: there is something to continue

    def handle(self, line: str) -> None:
        """Run a command, or ask a question."""
        if line == "/new":
            self.session, self.answered = str(uuid4()), False
            print_stderr("Started a new conversation.")
        elif line == "/help":
            print_stderr(_HELP)
        elif line.startswith("/") and "\n" not in line:
            print_stderr(f"Unknown command {line}. Type /help for the commands.")
        elif line:
            self._ask(line)

    def _ask(self, line: str) -> None:
        try:
            ask(self._service, line, self.session, as_json=self._as_json)
            self.answered = True
        except KeyboardInterrupt:
            pass  # only the answer was stopped; the conversation continues
        except (CAPError, Failure) as error:
            report_error(error)


def _next_line() -> str | None:
    """Read a line; return None if the user wants to leave.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed twice.
    """
    try:
        return _read_line()
    except KeyboardInterrupt:
        print_stderr("\nPress Ctrl-C again or Ctrl-D to leave.")
        return _read_line()


def _read_line() -> str | None:
    try:
        line = prompt(f"\n{_PROMPT}").strip()
    except EOFError:
        print_stderr("")
        return None
    return None if line in {"/exit", "/quit"} else line


def _use_readline() -> None:
    """Enable line editing and history at the prompt if Python has readline."""
    with suppress(ImportError):
        import readline

        if "libedit" not in (readline.__doc__ or ""):
            # Several pasted lines become one question.
            readline.parse_and_bind("set enable-bracketed-paste on")
