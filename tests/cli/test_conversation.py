"""`coreason chat` without a message, in a terminal."""

import pytest

from .command import Process, shown
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
        talk.send("\x03")
        assert talk.end(press="\x03") == 130
        assert "Traceback" not in talk.text


def test_commands_and_the_end_of_input(talk: Process) -> None:
    with talk:
        talk.expect("> ")
        talk.send("/nonsense\n")
        talk.expect("There is no command /nonsense")
        talk.expect("> ")
        talk.send("/help\n")
        talk.expect("/new")
        talk.expect("> ")
        talk.send("\x04")
        assert talk.end() == 0
