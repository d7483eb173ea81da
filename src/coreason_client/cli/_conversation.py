"""A conversation at a prompt, until the user leaves, and the file that it can be saved to."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from shutil import get_terminal_size
from typing import Protocol

from coreason_client import ArgumentError, CoreasonError

from ._attached import Attached, AttachFailure, read_attached
from .exits import Failure, reason_of, report_error
from .output import clean, escaped_json, print_stderr, print_stdout
from .prompt import (
    Command,
    LineCleared,
    LineReader,
    Mistake,
    ReadInterrupted,
    command_help,
    leaves_after_ctrl_c,
    open_reader,
    parse_line,
)

# The file of /save


@dataclass(frozen=True, slots=True)
class TranscriptTurn:
    """A message of the user and its answer."""

    time: str
    """The time at which the message was sent, in UTC."""

    question: str
    attachments: Sequence[str]
    answer: str

    problem: str | None = None
    """The reason why the answer is missing or incomplete; None if it is complete."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """The turns of a conversation that were held at this prompt."""

    partner: str
    conversation: str | None
    turns: Sequence[TranscriptTurn]

    def as_json(self) -> str:
        """Return an object with the conversation and its turns."""
        return escaped_json(json.dumps(asdict(self), ensure_ascii=False, indent=2)) + "\n"

    def as_markdown(self) -> str:
        """Return a document with a heading for each message and each answer."""
        lines = [f"# Conversation with {self.partner}"]
        if self.conversation is not None:
            lines.append(f"ID: `{self.conversation}`")
        for turn in self.turns:
            lines += ["## Question", *_question(turn), "## Answer", *_answer(turn)]
        return clean("\n\n".join(lines)) + "\n"

    def for_file(self, name: str) -> str:
        """Return the content of a file with this name."""
        return self.as_json() if name.lower().endswith(".json") else self.as_markdown()


def _question(turn: TranscriptTurn) -> list[str]:
    attached = [f"Attached: {', '.join(turn.attachments)}"] if turn.attachments else []
    return [*([turn.question] if turn.question else []), *attached]


def _answer(turn: TranscriptTurn) -> list[str]:
    answer = [turn.answer.strip()] if turn.answer.strip() else []
    return answer if turn.problem is None else [*answer, f"*Incomplete: {turn.problem}*"]


_GREETING = "Talking to {}. Type /help for the commands, Ctrl-D to leave."
_STOPPED = "stopped"


class Others(Protocol):
    """The answers of a conversation that others have asked for."""

    question: str
    answer: str
    """The message and the text of the answer that was shown last."""

    def begin(self, interrupt: Callable[[], None]) -> None:
        """Begin to read them; `interrupt` is called in a thread when something has arrived."""

    def waiting(self) -> bool:
        """Return True if there is something to show."""

    def show(self, reader: LineReader) -> bool:
        """Show it as it arrives; returns and raises as `Partner.ask`."""


class Partner(Protocol):
    """The agent that a conversation is held with."""

    answer: str
    """The text of the latest answer, also if it is incomplete."""

    says: bool
    """True if the agent can get messages while it answers."""

    @property
    def others(self) -> Others | None:
        """The answers that others ask for in the conversation, None if they are not shown."""

    def check(self, attached: Attached) -> None:
        """Check that a file can be attached.

        Raises:
            AttachFailure: its type is unknown.
        """

    def ask(self, text: str, attached: Sequence[Attached], reader: LineReader) -> bool:
        """Ask, and show the answer; if the agent `says`, with what `reader` reads meanwhile.

        Returns True if the answer ends with a question.

        Raises:
            CoreasonError, Failure: there was no answer, or it is incomplete.
            KeyboardInterrupt: Ctrl-C was pressed; the agent has been asked to stop.
        """

    def start_over(self) -> None:
        """Start a new conversation."""

    def conversation_id(self) -> str | None:
        """Return the ID of the conversation, None if it has none yet."""

    def continue_command(self) -> str | None:
        """Return the command that continues the conversation, None if that is not possible."""


def converse(
    partner: Partner, name: str, *, as_json: bool, attached: Sequence[Attached] = ()
) -> None:
    """Ask until the user leaves; an answer that fails or is stopped does not end the conversation.

    `attached` is sent with the first message.

    Raises:
        KeyboardInterrupt: the user left with Ctrl-C.
    """
    print_stderr(_GREETING.format(name))
    try:
        with open_reader(as_json=as_json) as reader:
            conversation = PromptConversation(partner, name, reader, attached)
            if partner.others is not None:
                partner.others.begin(reader.interrupt)
            while (line := conversation.next_line()) is not None and conversation.handle(line):
                pass
    finally:
        print_continue_command(partner)


def print_continue_command(partner: Partner) -> None:
    """Print the command that continues the conversation on stderr, if there is one."""
    if (command := partner.continue_command()) is not None:
        with suppress(OSError):
            print_stderr(f"To continue this conversation: {command}")


class PromptConversation:
    """The state of a conversation: its turns, and the files for the next message."""

    def __init__(
        self, partner: Partner, name: str, reader: LineReader, attached: Sequence[Attached] = ()
    ) -> None:
        self._partner = partner
        self._name = name
        self._reader = reader
        self._attached = list(attached)
        self._turns: list[TranscriptTurn] = []
        self._asked = False  # True: the last answer ended with a question

    def next_line(self) -> str | None:
        """Read a line; return None if the user wants to leave.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed twice.
        """
        cleared_before = gave_way = False
        while True:
            others = self._partner.others
            if others is not None and others.waiting():
                if self._reader.editing and not gave_way:
                    print_stdout("")  # as the prompt would have done
                self._show_others(others)
                gave_way = False
                continue
            try:
                return self._reader.read(others.waiting if others else bool, asked=self._asked)
            except ReadInterrupted:
                gave_way = True
            except EOFError:
                return None
            except LineCleared as cleared:
                if leaves_after_ctrl_c(cleared.text, cleared_before=cleared_before):
                    raise
                cleared_before = True
                print_stderr("Press Ctrl-C again or Ctrl-D to leave.")

    def handle(self, line: str) -> bool:
        """Run a command, or send a message; return False if the user wants to leave."""
        parsed = parse_line(line)
        # A Ctrl-C just after the end of an answer was meant for the answer.
        with suppress(KeyboardInterrupt):
            match parsed:
                case Command() as command:
                    self._run(command)
                case Mistake(sentence):
                    print_stderr(sentence)
                case str(text) if text:
                    self._ask(text)
        return parsed != Command("exit")

    def _run(self, command: Command) -> None:
        match command.name:
            case "new":
                self._partner.start_over()
                self._attached, self._turns = [], []
                print_stderr("Started a new conversation.")
            case "help":
                columns, says = get_terminal_size().columns, self._partner.says
                print_stderr(command_help(columns, editing=self._reader.editing, says=says))
            case "say":
                print_stderr("No answer is being written: send the text without /say.")
            case "id":
                print_stderr(_about_id(self._partner))
            case "multi":
                print_stderr(self._reader.switch_mode())
            case "attach":
                self._attach(command.argument)
            case "save":
                self._save(command.argument)

    def _ask(self, text: str) -> None:
        attached, self._attached = self._attached, []
        names = [one.name for one in attached]
        self._take_turn(
            lambda: self._partner.ask(text, attached, self._reader),
            lambda: (text, names, self._partner.answer),
        )

    def _show_others(self, others: Others) -> None:
        self._take_turn(
            lambda: others.show(self._reader), lambda: (others.question, [], others.answer)
        )

    def _take_turn(
        self, show: Callable[[], bool], said: Callable[[], tuple[str, Sequence[str], str]]
    ) -> None:
        """Show an answer; `said` returns the message, the names of its files and the answer."""
        sent = datetime.now(UTC).isoformat(timespec="seconds")
        problem: str | None = None
        self._asked = False
        try:
            self._asked = show()
        except KeyboardInterrupt:
            problem = _STOPPED  # only the answer was stopped; the conversation continues
            self._reader.typed = ""
        except (CoreasonError, Failure) as error:
            report_error(error)
            problem = str(error)
        if any(spoken := said()):
            self._turns.append(TranscriptTurn(sent, *spoken, problem))

    def _attach(self, name: str) -> None:
        try:
            if name == "-":
                raise AttachFailure(name, "stdin is the conversation")
            [attached] = read_attached([_expanded(name)], self._attached)
            self._partner.check(attached)
        except AttachFailure as error:
            report_error(AttachFailure(error.name, error.reason, "/attach"))
        except ArgumentError as error:
            report_error(error.renamed("/attach"))
        else:
            self._attached.append(attached)
            names = ", ".join(one.filename or one.name for one in self._attached)
            print_stderr(f"The next message has attached: {names}")

    def _save(self, name: str) -> None:
        if not self._turns:
            print_stderr("There is nothing to save yet.")
            return
        transcript = Transcript(self._name, self._partner.conversation_id(), self._turns)
        try:
            path = Path(_expanded(name))
            exists = path.exists() and not path.is_dir()
            if exists and not self._reader.confirm(f"{path} exists. Overwrite it?"):
                print_stderr(f"{path} exists and was not changed.")
                return
            path.write_text(transcript.for_file(path.name), encoding="utf-8")
        except (OSError, ValueError) as error:
            report_error(Failure(f"/save {name}: {reason_of(error)}"))
        else:
            count = len(self._turns)
            print_stderr(f"Saved {count} message{'' if count == 1 else 's'} to {path}.")


def _expanded(name: str) -> str:
    """Return the name of a file without `~`; a URL is unchanged."""
    if not name.startswith("~"):
        return name
    with suppress(RuntimeError):  # there is no such user
        return str(Path(name).expanduser())
    return name


def _about_id(partner: Partner) -> str:
    """Return the lines of `/id`."""
    conversation = partner.conversation_id()
    if conversation is None:
        return "The conversation has no ID yet: the agent chooses it with the first answer."
    command = partner.continue_command()
    later = "" if command is None else f"\nTo continue it later: {command}"
    return f"{conversation}{later}"
