"""A conversation at a prompt, until the user leaves."""

from contextlib import suppress
from typing import Protocol

from coreason_client import CoreasonError

from .exits import Failure, report_error
from .output import print_stderr, prompt

__all__ = ["Partner", "converse"]

_PROMPT = "> "
_GREETING = "Talking to {}. Type /help for the commands, Ctrl-D to leave."
_HELP = """\
/new    start a new conversation
/help   show this help
/exit   leave, like Ctrl-D
Ctrl-C  stop the answer or clear the line; twice at the prompt: leave"""


class Partner(Protocol):
    """The agent that a conversation is held with."""

    def ask(self, text: str) -> None:
        """Ask, and show the answer.

        Raises:
            CoreasonError, Failure: there was no answer, or it is incomplete.
            KeyboardInterrupt: Ctrl-C was pressed; the agent has been asked to stop.
        """

    def start_over(self) -> None:
        """Start a new conversation."""

    def continue_command(self) -> str | None:
        """Return the command that continues the conversation, None if that is not possible."""


def converse(partner: Partner, name: str) -> None:
    """Ask until the user leaves; an answer that fails or is stopped does not end the conversation.

    Raises:
        KeyboardInterrupt: the user left with Ctrl-C.
    """
    _use_readline()
    print_stderr(_GREETING.format(name))
    try:
        while (line := _next_line()) is not None:
            _handle(partner, line)
    finally:
        if (command := partner.continue_command()) is not None:
            with suppress(OSError):
                print_stderr(f"To continue this conversation: {command}")


def _handle(partner: Partner, line: str) -> None:
    """Run a command, or ask a question."""
    if line == "/new":
        partner.start_over()
        print_stderr("Started a new conversation.")
    elif line == "/help":
        print_stderr(_HELP)
    elif line.startswith("/") and "\n" not in line:
        print_stderr(f"Unknown command {line}. Type /help for the commands.")
    elif line:
        _ask(partner, line)


def _ask(partner: Partner, line: str) -> None:
    try:
        partner.ask(line)
    except KeyboardInterrupt:
        pass  # only the answer was stopped; the conversation continues
    except (CoreasonError, Failure) as error:
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
