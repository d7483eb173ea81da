"""The editor of the prompt on a real terminal: pastes, lines, history and completion."""

import re
import signal
import stat
from pathlib import Path

import pytest

from .conftest import Service
from .session import Session


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path)}


def test_several_lines_are_one_message(service: Service, env: dict[str, str]) -> None:
    with Session("chat", "--url", service.url, env=env) as talk:
        talk.at_prompt()
        talk.send("\x1b[200~one\r\ntwo\rthree\n\x1b[201~")
        talk.sees("> one\n  two\n  three")  # and nothing is sent
        talk.send("four\r")
        talk.sees("Now: one")
        talk.at_prompt()
        talk.send("a \\\rb\x0ac\x1b\rd\r")
        talk.sees("Now: a")
        talk.say("/multi")
        talk.sees("Alt-Enter (or Esc, then Enter) sends")
        talk.at_prompt()
        talk.send("e\rf\x1b\r")
        talk.sees("Now: e")
        talk.say("/multi")
        talk.sees("Enter sends the message")
        talk.say("//end")
        talk.sees("Now: /end")
        talk.at_prompt()
        talk.send("\x04")
        assert talk.end() == 0
    asked = r"['one\ntwo\nthree\nfour', 'a \nb\nc\nd', 'e\nf']"
    assert asked in re.sub(r"\n", "", talk.emulator.text.replace("\\n\n", "\\n"))


def test_lines_of_earlier_conversations_are_found_again(
    service: Service, env: dict[str, str], tmp_path: Path
) -> None:
    with Session("chat", "--url", service.url, env=env) as talk:
        talk.say("a needle")
        talk.sees("Now: a needle.")
        talk.say("/exit")
        assert talk.end() == 0
    history = tmp_path / "coreason" / "chat_history"
    assert history.read_text() == '"a needle"\n"/exit"\n'
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    with Session("chat", "--url", service.url, env={**env, "NO_COLOR": "1"}) as talk:
        talk.at_prompt()
        talk.send("\x1b[A\x1b[A\r")
        talk.sees("Now: a needle.")
        talk.at_prompt()
        talk.send("\x12needle\r\r")  # searches for it, takes it, sends it
        talk.sees("> a needle\nBefore: ['a needle']. Now: a needle.")
        talk.at_prompt()
        talk.send("\x04")
        assert talk.end() == 0
        assert not re.search(r"\x1b\[(?:[0-9]+;)*(?:3|4|9|10)[0-9](?:;[0-9]+)*m", talk.text)


def test_history_can_be_turned_off(service: Service, env: dict[str, str], tmp_path: Path) -> None:
    env |= {"COREASON_NO_HISTORY": "1"}
    with Session("chat", "--url", service.url, env=env) as talk:
        talk.say("a secret")
        talk.sees("Now: a secret.")
        talk.say("/exit")
        assert talk.end() == 0
    assert list(tmp_path.iterdir()) == []


def test_tab_completes_commands_and_files(
    service: Service, env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "a long name.txt").write_text("inside")
    (tmp_path / "folder").mkdir()
    with Session("chat", "--url", service.url, env=env, cwd=tmp_path, size=(60, 24)) as talk:
        talk.at_prompt()
        talk.send("/at\ta lo\t\r")
        talk.sees("The next message has attached: a long name.txt")
        talk.say("What is it?")
        talk.sees("inside")
        talk.at_prompt()
        talk.send("/\t")
        talk.sees("/multi")
        talk.at_prompt()  # the line is drawn again, below the list
        talk.send("\x03")
        talk.at_prompt()
        talk.send("/save fold\tx.md\r")
        talk.sees("Saved 1 message to folder/x.md")
        talk.say("/save folder/x.md")
        talk.say("n")
        talk.sees("Overwrite it? [y/N] n")
        talk.sees("was not changed")
        talk.at_prompt()
        talk.send("\x04")
        assert talk.end() == 0
    assert "What is it?" in (tmp_path / "folder" / "x.md").read_text()


def test_wide_characters_are_shown_once_on_a_narrow_terminal(
    service: Service, env: dict[str, str]
) -> None:
    text = "漢字を" * 12 + " 🙂 end"
    with Session("chat", "--url", service.url, env=env, size=(40, 24)) as talk:
        talk.at_prompt()
        talk.send(text)
        talk.sees("end")
        seen = re.sub(r"\s", "", talk.emulator.text.partition(">")[2])
        assert seen == re.sub(r"\s", "", text)
        talk.send("\r")
        talk.sees("Now:")
        talk.at_prompt()
        talk.send("\x04")
        assert talk.end() == 0


def test_an_external_interrupt_is_a_ctrl_c(service: Service, env: dict[str, str]) -> None:
    with Session("chat", "--url", service.url, env=env) as talk:
        talk.at_prompt()
        talk.signal(signal.SIGINT)
        talk.sees("Press Ctrl-C again")
        talk.at_prompt()
        talk.signal(signal.SIGINT)
        assert talk.end() == 130
