"""`coreason chat` without a message: in a terminal, and its commands in this process."""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from coreason_client.cli._attached import Attached, AttachFailure
from coreason_client.cli._conversation import PromptConversation
from coreason_client.cli.exits import Failure
from coreason_client.cli.prompt import LineCleared, ReadInterrupted

from .command import Process, coreason_here, shown
from .conftest import Service
from .session import Session

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def talk(service: Service, tmp_path: Path) -> Session:
    return Session("chat", "--url", service.url, cwd=tmp_path)


def test_a_conversation_knows_what_was_said_before(talk: Session) -> None:
    with talk:
        talk.say("one")
        talk.sees("Now: one.")
        talk.say("two")
        talk.sees("Before: ['one']. Now: two.")
        talk.say("/new")
        talk.say("three")
        talk.sees("Before: []. Now: three.")
        talk.say("/exit")
        assert talk.end() == 0


def test_ctrl_c_stops_an_answer_and_then_leaves(talk: Session, service: Service) -> None:
    with talk:
        talk.say("wait")
        talk.sees("begun")
        talk.send("\x03")
        talk.sees("stopped")
        talk.say("fail")
        talk.sees("error: model_down: The model is down.")
        talk.say("still there?")
        talk.sees("Now: still there?.")
        talk.at_prompt()
        talk.send("half a li\x03")
        talk.sees("Press Ctrl-C again or Ctrl-D to leave.")
        talk.at_prompt()
        talk.send("and a ha\x03")  # not the second in a row on an empty line
        talk.at_prompt()
        talk.send("and on?\r")
        talk.sees("Now: and on?.")
        talk.at_prompt()
        talk.send("\x03")
        talk.at_prompt()
        talk.send("\x03")
        assert talk.end() == 130
    assert "Traceback" not in talk.emulator.text
    [command] = re.findall(r"To continue this conversation: (.*)", shown(talk.text))
    assert command.startswith(f"coreason chat --url {service.url} --conversation ")


def test_a_conversation_is_continued_with_what_was_printed(talk: Session) -> None:
    with talk:
        talk.say("one")
        talk.sees("Now: one.")
        talk.at_prompt()
        talk.send("\x04")
        assert talk.end() == 0
        [words] = re.findall(r"To continue this conversation: coreason (chat .*)", shown(talk.text))
    done = coreason_here(*shlex.split(words), "two")
    assert done.stdout == "Before: ['one']. Now: two.\n"


def test_what_cannot_be_continued_is_not_offered(service: Service) -> None:
    """Nothing was answered here, and the built-in agent ends with the command."""
    for arguments, question, seen in (
        (["--url", service.url], "fail", "The model is down."),
        ([], "What is a position?", "Sources"),
    ):
        with Session("chat", *arguments) as talk:
            talk.say(question)
            talk.sees(seen)
            talk.at_prompt()
            talk.send("\x04")
            assert talk.end() == 0
        assert "To continue this conversation" not in talk.emulator.text


def test_a_terminal_without_an_editor_has_the_same_conversation(service: Service) -> None:
    """With --json, or on a terminal that cannot be redrawn, lines are read as they come."""
    for options, env in (["--json"], {}), ([], {"TERM": "dumb"}):
        with Process("chat", "--url", service.url, *options, terminal=True, env=env) as talk:
            talk.expect("> ")
            talk.send("one\n")
            talk.expect("Now: one.")
            talk.expect("> ")
            talk.send("/multi\n")
            talk.expect("Each line is a message here")
            talk.expect("> ")
            talk.press("\x03", "Press Ctrl-C again or Ctrl-D to leave.")
            talk.expect("> ")
            talk.send("\x04")
            assert talk.end() == 0
            assert "To continue this conversation" in talk.text


# In this process


class Script:
    """A reader whose lines are given, and who answers yes or no."""

    editing = True
    typed = ""

    def __init__(self, *lines: str | type[BaseException] | BaseException, yes: bool = True) -> None:
        self._lines: Iterator[str | type[BaseException] | BaseException] = iter(lines)
        self._yes = yes
        self.asked: list[bool] = []

    def read(self, gives_way: Callable[[], bool] = bool, *, asked: bool = False) -> str:
        self.asked.append(asked)
        line = next(self._lines, EOFError)
        if isinstance(line, str):
            return line
        raise line

    def interrupt(self) -> None:
        pass

    def typing(self, say: Callable[[str], object]) -> str:
        return ""

    def switch_mode(self) -> str:
        return "switched"

    def confirm(self, question: str) -> bool:
        return self._yes


class Echo:
    """A partner that answers with the question."""

    says = True
    others = None

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []
        self.answer = ""
        self.conversations = 1

    def check(self, attached: Attached) -> None:
        if attached.content == b"":
            raise AttachFailure(attached.name, "the file is empty")

    def ask(self, text: str, attached: Sequence[Attached], reader: object) -> bool:
        self.asked.append((text, [one.filename for one in attached]))
        self.answer = f"You said {text}"
        if text == "stop":
            raise KeyboardInterrupt
        if text == "break":
            raise Failure("it broke")
        return text == "ask"

    def start_over(self) -> None:
        self.conversations += 1

    def conversation_id(self) -> str:
        return f"c{self.conversations}"

    def continue_command(self) -> str | None:
        return "coreason chat --conversation c1" if self.asked else None


def held(*lines: str | type[BaseException] | BaseException, yes: bool = True) -> Echo:
    """Hold a conversation with these lines, and return the partner."""
    partner = Echo()
    conversation = PromptConversation(partner, "echo", Script(*lines, yes=yes))
    while (line := conversation.next_line()) is not None and conversation.handle(line):
        pass
    return partner


def test_messages_and_commands_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    partner = held("one", "", "/nope", "//two", " /three", "/new", "/multi", "/exit", "never")
    assert [text for text, _ in partner.asked] == ["one", "/two", "/three"]
    assert partner.conversations == 2
    told = capsys.readouterr().err
    assert "Unknown command /nope" in told
    assert "switched" in told


def test_a_second_ctrl_c_on_an_empty_line_leaves() -> None:
    assert held(LineCleared("half"), LineCleared("a line"), "one", LineCleared(""), "two").asked
    with pytest.raises(KeyboardInterrupt):
        held("one", LineCleared("half a line"), LineCleared(""))


def test_a_stopped_answer_discards_what_was_typed() -> None:
    reader = Script()
    conversation = PromptConversation(Echo(), "echo", reader)
    for line, left in (("one", "waits"), ("stop", "")):
        reader.typed = "waits"  # typed during the answer
        conversation.handle(line)
        assert reader.typed == left


def test_the_reader_knows_whether_the_last_answer_asked() -> None:
    reader = Script("ask", "/id", "one", "ask", "break", "ask", "stop")
    conversation = PromptConversation(Echo(), "echo", reader)
    while (line := conversation.next_line()) is not None:
        conversation.handle(line)
    assert reader.asked == [False, True, True, False, True, False, True, False]


class Others:
    """What others have asked: some answers in a row, each shown with one line."""

    question = answer = "more"

    def __init__(self, in_a_row: Sequence[int]) -> None:
        self._left = list(in_a_row)

    def begin(self, interrupt: Callable[[], None]) -> None:
        pass

    def waiting(self) -> bool:
        return bool(self._left and self._left[0])

    def show(self, reader: object) -> bool:
        print("from others")
        self._left[0] -= 1
        return False

    def arrive(self) -> None:
        """Let the next ones arrive."""
        self._left.pop(0)


class Interrupted(Script):
    """A reader whose prompt begins with an empty line and gives way to the next answers."""

    def __init__(self, others: Others) -> None:
        super().__init__(ReadInterrupted(), "/exit")
        self._others = others

    def read(self, gives_way: Callable[[], bool] = bool, *, asked: bool = False) -> str:
        print()
        self._others.arrive()
        return super().read(gives_way, asked=asked)


def test_answers_of_others_are_apart_also_without_a_prompt_between_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    partner, others = Echo(), Others([2, 2, 0])
    partner.others = others  # type: ignore[assignment]
    assert PromptConversation(partner, "echo", Interrupted(others)).next_line() == "/exit"
    assert capsys.readouterr().out == "\nfrom others\n" * 4 + "\n"


def test_the_id_is_shown_with_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    held("/id", "one", "/id")
    first, second = "c1\n", "c1\nTo continue it later: coreason chat --conversation c1\n"
    assert capsys.readouterr().err == first + second


def test_files_go_with_the_next_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a b.png").write_bytes(PNG)
    (tmp_path / "empty").touch()
    partner = held(
        "/attach 'a b.png'",
        "/attach ~/a b.png",
        "/attach https://x.example/c.pdf",
        "/attach missing",
        "/attach empty",
        "/attach -",
        "/attach https://user:secret@x.example/",
        "",
        "What?",
        "And?",
    )
    assert partner.asked == [("What?", ["a b.png", "a b.png", "c.pdf"]), ("And?", [])]
    told = capsys.readouterr().err
    assert "The next message has attached: a b.png, a b.png, c.pdf" in told
    for error in (
        "/attach missing: no such file",
        "/attach empty: the file is empty",
        "/attach -: stdin is the conversation",
        "error: /attach must",
    ):
        assert error in told
    assert "secret" not in told


def test_a_conversation_is_saved_and_a_file_is_overwritten_only_after_a_yes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, other = tmp_path / "talk.json", tmp_path / "talk.md"
    other.write_text("mine")
    commands = ("/save talk", f"/save {tmp_path}/none/x", "one", f"/save {other}")
    held(*commands, f"/save {tmp_path}", yes=False)
    assert other.read_text() == "mine"
    told = capsys.readouterr().err
    assert f"{other} exists and was not changed." in told
    assert f"error: /save {tmp_path}: is a directory" in told  # without a question
    held("one", "stop", "break", f"/save {file}", f"/save {other}", f"/save {tmp_path}")
    told = capsys.readouterr().err
    assert f"Saved 3 messages to {file}." in told
    assert f"error: /save {tmp_path}: is a directory" in told
    saved = json.loads(file.read_text())
    assert (saved["partner"], saved["conversation"]) == ("echo", "c1")
    assert [(turn["question"], turn["answer"], turn["problem"]) for turn in saved["turns"]] == [
        ("one", "You said one", None),
        ("stop", "You said stop", "stopped"),
        ("break", "You said break", "it broke"),
    ]
    assert other.read_text().startswith("# Conversation with echo\n")


def test_there_may_be_nothing_to_save(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    held("one", "/new", f"/save {tmp_path}/x.md")
    assert "There is nothing to save yet." in capsys.readouterr().err
    assert not (tmp_path / "x.md").exists()
