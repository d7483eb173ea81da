"""A conversation that several terminals and programs follow, on a real server."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from coreason_client import CAPClient, CAPRuntimeError

from .command import Process, coreason_here
from .session import Session
from .test_say import AGENT


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("following")


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    (folder / "shared.py").write_text(AGENT)
    options = ("--inbox", "--on-busy", "wait", "--port", "0")
    with Process("serve", "shared:agent", *options, cwd=folder) as process:
        [found] = re.findall(r"at (http://127\.0\.0\.1:\d+)", process.expect("}'\n"))
        yield found


def test_what_others_ask_appears_at_the_prompt(url: str, folder: Path) -> None:
    (folder / "go").unlink(missing_ok=True)
    with (
        CAPClient(url, "k") as other,
        Session("chat", "--url", url, "--conversation", "one") as talk,
    ):
        talk.at_prompt()
        talk.send("half a li")
        talk.sees("> half a li")
        asked = other.chat("wait", "one")
        assert next(asked) == "begun "
        talk.sees("> wait\n\nbegun\n> half a li")  # as it arrives, with the unfinished line below
        talk.send("ne")
        talk.sees("begun\n> half a line")
        (folder / "go").touch()
        assert "".join(asked) == "and ended"
        talk.sees("> wait\n\nbegun and ended\n\n> half a line")
        talk.at_prompt()
        talk.send("\r")
        talk.sees("You asked half a line")
        talk.at_prompt()
        talk.send(f"/save {folder / 'turns.json'}\r")
        talk.sees("Saved 2 messages")
        talk.at_prompt()
        talk.send("\x04")
        assert talk.end() == 0
    assert talk.emulator.text.count("You asked half a line") == 1  # and not as that of others
    saved = json.loads((folder / "turns.json").read_text())["turns"]
    assert [(one["question"], one["answer"]) for one in saved] == [
        ("wait", "begun and ended"),
        ("half a line", "You asked half a line: ."),
    ]


def test_others_can_be_answered_and_told_something(url: str) -> None:
    with (
        CAPClient(url, "k") as other,
        Session("chat", "--url", url, "--conversation", "two") as talk,
    ):
        talk.at_prompt()
        asked = other.chat("talk", "two")
        assert next(asked) == "begun "
        talk.sees("> talk\n\nbegun")
        talk.send("/say stop\r")
        assert "Heard stop." in "".join(asked)
        talk.sees("Heard stop.")
        assert str(other.ask("ask", "two")) == "May I call delete?"
        talk.sees("Heard stop.\n\n> ask\n→ delete")
        talk.sees("Answer with yes, or with no, because …\n\n>")
        talk.send("no, because of me\r")
        talk.sees("You asked no, because of me: False, because of me.\n\n>")
        running = other.chat("talk", "two")
        assert next(running) == "begun "
        talk.sees("because of me.\n\n> talk\n\nbegun")
        talk.send("\x03")
        with pytest.raises(CAPRuntimeError, match="cancelled"):
            list(running)
        talk.sees("begun\nstopped\n\n>")
        talk.send("\x04")
        assert talk.end(press="\x04") == 0


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_pipe_gets_all_turns_until_ctrl_c(url: str, options: tuple[str, ...]) -> None:
    name = f"pipe{len(options)}"
    command = ("chat", "--url", url, "--conversation", name, "--follow", *options)
    with CAPClient(url, "k") as other, Process(*command) as process:
        running = other.chat("talk", name)
        assert next(running) == "begun "
        text = process.expect("begun ")
        assert running.stream_id is not None
        other.send(running.stream_id, "stop")
        assert "".join(running)
        other.ask("one\ntwo", name)
        text += process.expect("You asked one")
        process.signal(signal.SIGINT)
        assert process.end() == 0
        text += process.text
    if options:
        packets = [json.loads(line) for line in text.splitlines()]
        asked = [one["p"]["data"]["text"] for one in packets if not one["seq"]]
        assert asked == ["talk", "one\ntwo"]
    else:
        lines = [line for line in text.splitlines() if line.strip()]
        assert lines[:5] == ["> talk", "begun ", "Heard stop.", "> one", "  two"]


def test_an_agent_without_an_order_cannot_be_followed(folder: Path) -> None:
    (folder / "shared.py").write_text(AGENT)
    with Process("serve", "shared:agent", "--port", "0", cwd=folder) as process:
        [url] = re.findall(r"at (http://127\.0\.0\.1:\d+)", process.expect("}'\n"))
        result = coreason_here("chat", "--url", url, "--conversation", "c", "--follow")
        with Session("chat", "--url", url, "--conversation", "c") as talk:
            talk.say("x")
            talk.sees("You asked x")  # the prompt works as before
            talk.at_prompt()
            talk.send("\x04")
            assert talk.end() == 0
    assert (result.returncode, "start it with on_busy" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--follow"], "--follow needs --conversation"),
        (["--follow", "--conversation", "c", "a text"], "--follow asks nothing"),
        (["--follow", "--conversation", "c", "--chaos"], "--follow and --chaos cannot be used"),
        (["--follow", "--conversation", "c", "-a", "f"], "--follow and --attach cannot be used"),
    ],
)
def test_wrong_usage_is_explained(arguments: list[str], reason: str) -> None:
    result = coreason_here("chat", "--url", "http://127.0.0.1:9", *arguments)
    assert (result.returncode, reason in result.stderr) == (2, True)


def test_the_prompt_goes_on_after_the_server_was_killed(tmp_path: Path) -> None:
    (tmp_path / "shared.py").write_text(AGENT)
    options = ("--inbox", "--on-busy", "wait", "--store", "sqlite:log.db", "--port")
    with Process("serve", "shared:agent", *options, "0", cwd=tmp_path) as process:
        [url] = re.findall(r"at (http://127\.0\.0\.1:\d+)", process.expect("}'\n"))
        with Session("chat", "--url", url, "--conversation", "c") as talk:
            talk.at_prompt()
            _talk_until_seen(talk, url, "")
            process.signal(signal.SIGKILL)
            process.wait()
            port = url.rpartition(":")[2]
            with Process("serve", "shared:agent", *options, port, cwd=tmp_path) as again:
                again.expect("}'\n")
                _talk_until_seen(talk, url, "Heard stop.\n\n")
            talk.send("\x04")
            assert talk.end(press="\x04") == 0
    assert talk.emulator.text.count("begun") == 2


def test_the_prompt_goes_on_after_the_server_has_lost_its_answers(tmp_path: Path) -> None:
    """The default store is in memory, so the last position is gone after a restart."""
    (tmp_path / "shared.py").write_text(AGENT)
    options = ("--inbox", "--on-busy", "wait", "--port")
    with Process("serve", "shared:agent", *options, "0", cwd=tmp_path) as process:
        [url] = re.findall(r"at (http://127\.0\.0\.1:\d+)", process.expect("}'\n"))
        with Session("chat", "--url", url, "--conversation", "c") as talk:
            talk.at_prompt()
            _talk_until_seen(talk, url, "")
            with CAPClient(url, "k") as other:
                next(other.chat("wait", "c"))
                talk.sees("> wait\n\nbegun")
            process.signal(signal.SIGKILL)
            process.wait()
            port = url.rpartition(":")[2]
            with Process("serve", "shared:agent", *options, port, cwd=tmp_path) as again:
                again.expect("}'\n")
                talk.sees("error: GET")  # the rest of an answer is gone
                _talk_until_seen(talk, url, ")\n\n")
            talk.send("\x04")
            assert talk.end(press="\x04") == 0
    assert "no longer shown" not in talk.emulator.text


def _talk_until_seen(talk: Session, url: str, before: str) -> None:
    """Ask in a program, and wait until the terminal shows all of it."""
    with CAPClient(url, "k") as other:
        asked = other.chat("talk", "c")
        assert next(asked) == "begun "
        talk.sees(f"{before}> talk\n\nbegun")
        assert asked.stream_id is not None
        other.send(asked.stream_id, "stop")
        assert "".join(asked)
        talk.sees(f"{before}> talk\n\nbegun\n\nHeard stop.\n\n>")
