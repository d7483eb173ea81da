"""`coreason chat` without a message, in a terminal."""

import re

import pytest

from .command import Process, coreason_here, shown
from .conftest import Service


@pytest.fixture
def talk(service: Service) -> Process:
    return Process("chat", "--url", service.url, terminal=True)


def test_a_conversation_knows_what_was_said_before(talk: Process) -> None:
    with talk:
        talk.expect("> ")
        talk.send("one\n")
        talk.expect("Now: one.")
        talk.expect("> ")
        talk.send("two\n")
        assert "Before: ['one']" in shown(talk.expect("Now: two."))
        talk.expect("> ")
        talk.send("/new\n")
        talk.expect("> ")
        talk.send("three\n")
        assert "Before: []" in shown(talk.expect("Now: three."))
        talk.expect("> ")
        talk.send("/exit\n")
        assert talk.end() == 0


def test_ctrl_c_stops_an_answer_and_then_leaves(talk: Process, service: Service) -> None:
    with talk:
        talk.expect("> ")
        talk.send("wait\n")
        talk.expect("begun")
        talk.send("\x03")
        talk.expect("stopped")
        talk.expect("> ")
        talk.send("fail\n")
        talk.expect("error: model_down: The model is down.")
        talk.expect("> ")
        talk.send("still there?\n")
        talk.expect("Now: still there?.")
        talk.expect("> ")
        talk.send("half a li")
        talk.expect("half a li")
        talk.press("\x03", "Press Ctrl-C again or Ctrl-D to leave.")
        talk.expect("> ")
        talk.send("and on?\n")
        assert "half a li" not in shown(talk.expect("Now: and on?."))
        talk.expect("> ")
        assert talk.end(press="\x03") == 130
        assert "Traceback" not in talk.text
        assert re.search(
            rf"To continue this conversation: coreason chat --url {service.url} --conv", talk.text
        )


def test_commands_and_the_end_of_input(talk: Process) -> None:
    with talk:
        talk.expect("> ")
        talk.send("/nonsense\n")
        talk.expect("Unknown command /nonsense")
        talk.expect("> ")
        talk.send("/help\n")
        talk.expect("/new")
        talk.expect("> ")
        talk.send("\x04")
        assert talk.end() == 0


def test_a_conversation_is_continued_with_what_was_printed(talk: Process, service: Service) -> None:
    with talk:
        talk.expect("> ")
        talk.send("one\n")
        talk.expect("Now: one.")
        talk.expect("> ")
        talk.send("\x04")
        assert talk.end() == 0
    [words] = re.findall(r"To continue this conversation: coreason (chat .*)\r", talk.text)
    done = coreason_here(*words.split(), "two")
    assert done.stdout == "Before: ['one']. Now: two.\n"


def test_what_cannot_be_continued_is_not_offered(service: Service) -> None:
    """Nothing was answered here, and the built-in agent ends with the command."""
    with Process("chat", "--url", service.url, terminal=True) as talk:
        talk.expect("> ")
        talk.send("fail\n")
        talk.expect("The model is down.")
        talk.expect("> ")
        talk.send("\x04")
        assert talk.end() == 0
        assert "To continue this conversation" not in talk.text
    with Process("chat", terminal=True) as talk:
        talk.expect("> ")
        talk.send("What is a position?\n")
        talk.expect("Sources")
        talk.expect("> ")
        talk.send("\x04")
        assert talk.end() == 0
        assert "To continue this conversation" not in talk.text


def test_several_pasted_lines_are_one_question(talk: Process) -> None:
    readline = pytest.importorskip("readline")
    if "libedit" in readline.__doc__ or readline._READLINE_RUNTIME_VERSION < 0x700:
        pytest.skip("this readline does not know bracketed paste")
    with talk:
        talk.expect("\x1b[?2004h")
        talk.send("\x1b[200~one\ntwo\nthree\x1b[201~")
        talk.send("\n")
        assert "Before: []" in shown(talk.expect("three."))
        talk.expect("> ")
        talk.send("and?\n")
        answer = shown(talk.expect("Now: and?."))
        assert "one" in answer
        assert "three" in answer
        talk.expect("> ")
        talk.send("\x04")
        assert talk.end() == 0
