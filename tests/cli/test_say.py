"""`/say`: messages to an agent while it answers, typed on a real terminal."""

import json
import re
import shlex
import termios
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from coreason_client import CAPClient, CAPRuntimeError
from coreason_client.cli.chat._service import connect
from coreason_client.server import AgentApp, running
from coreason_client.testing import ChaosProxy, ConnectionPlan
from tests.server.test_inbox import talking

from .command import Process, coreason_here
from .conftest import Service
from .session import Session

AGENT = textwrap.dedent(
    """
    import asyncio
    from pathlib import Path

    async def agent(request, stream):
        asked = request.payload.messages[-1].text
        if asked == "wait":
            await stream.write("begun ")
            while not Path("go").exists():
                await asyncio.sleep(0.02)
            await stream.write("and ended")
        elif asked == "permission":
            await stream.write("begun ")
            while not Path("asks").exists():
                await asyncio.sleep(0.02)
            call = await stream.tool_call("delete", {"path": "x"})
            await stream.ask("May I call delete?", call_id=call)
        elif asked == "deaf":
            await stream.write("begun ")
            while not await stream.inbox._store.messages():  # they have arrived, and stay unread
                await asyncio.sleep(0.02)
            await stream.write("and ended")
        elif asked == "hangs":
            await stream.write("begun ")
            while not await stream.inbox._store.messages():
                await asyncio.sleep(0.02)
            await stream.write("has mail ")
            await asyncio.sleep(60)
        elif asked == "fails":
            await stream.write("begun ")
            while not await stream.inbox._store.messages():
                await asyncio.sleep(0.02)
            raise RuntimeError("as told")
        elif asked == "ask":
            call = await stream.tool_call("delete", {"path": "x"})
            await stream.ask("May I call delete?", call_id=call)
        elif asked == "talk":
            await stream.write("begun ")
            async for message in stream.inbox:
                await stream.write(f"\\n\\nHeard {message.text}.\\n\\n")
                if message.text == "stop":
                    return
        else:
            answered = await stream.answered_question()
            said = "" if answered is None else f"{answered.approved}, {answered.reason}"
            await stream.write(f"You asked {asked}: {said}.")
    """
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("saying")


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    (folder / "saying.py").write_text(AGENT)
    with Process("serve", "saying:agent", "--inbox", "--port", "0", cwd=folder) as process:
        [found] = re.findall(r"at (http://127\.0\.0\.1:\d+)", process.expect("}'\n"))
        yield found


def test_what_the_agent_did_not_read_is_answered_next(tmp_path: Path) -> None:
    (tmp_path / "deaf.py").write_text(AGENT)
    options = ("--inbox", "--on-busy", "wait", "--port", "0")
    with Process("serve", "deaf:agent", *options, cwd=tmp_path) as process:
        [url] = re.findall(r"at (http://127\.0\.0\.1:\d+)", process.expect("}'\n"))
        with Session("chat", "--url", url) as talk:
            talk.say("deaf")
            talk.sees("begun")
            talk.send("/say are you there?\r")
            talk.sees("The agent did not read your message in time. It answers it now.")
            talk.sees("You asked are you there?")
            talk.say("fails")
            talk.sees("fails\nbegun")
            talk.send("/say talk\r")
            talk.sees("error: ")
            talk.sees("> talk\n\nbegun")
            talk.send("/say stop\r")  # to the answer that followed
            talk.sees("Heard stop.")
            talk.say(f"/save {tmp_path / 'turns.json'}")
            talk.sees("Saved 2 messages")
            talk.at_prompt()
            talk.send("\x04")
    saved = json.loads((tmp_path / "turns.json").read_text())["turns"]
    assert [(one["question"], one["answer"]) for one in saved] == [
        ("deaf", "begun and ended\n\nYou asked are you there?: ."),
        ("fails", "begun\n\nbegun \n\nHeard stop."),
    ]


def test_what_a_stopped_agent_did_not_read_is_answered_and_can_be_stopped_too(
    tmp_path: Path,
) -> None:
    (tmp_path / "deaf.py").write_text(AGENT)
    options = ("--inbox", "--on-busy", "wait", "--port", "0")
    with Process("serve", "deaf:agent", *options, cwd=tmp_path) as process:
        [url] = re.findall(r"at (http://127\.0\.0\.1:\d+)", process.expect("}'\n"))
        with Session("chat", "--url", url) as talk:
            talk.say("hangs")
            talk.sees("begun")
            talk.send("/say wait\r")
            talk.sees("has mail")
            talk.send("forget this\r")
            talk.sees("> forget this")
            talk.send("\x03")
            talk.sees("stopped\nThe agent did not read your message in time. It answers it now.")
            talk.sees("\n> wait\n\nbegun")
            talk.send("\x03")
            talk.sees("begun\nstopped")
            talk.say("next")
            talk.sees("> next\nYou asked next")  # which waits for nothing
            talk.at_prompt()
            talk.send("\x04")
            assert talk.end() == 0


def test_a_message_goes_to_the_running_agent_and_other_lines_wait(url: str) -> None:
    with Session("chat", "--url", url) as talk:
        talk.say("talk")
        talk.sees("begun")
        talk.send("/say all\x15/say also in Fö\x7frenchx\x7f")
        talk.sees("> /say also in French")
        talk.send("\r")
        talk.sees("begun\n> also in French\n\nHeard also in French.")
        talk.send("the next question\r")
        talk.sees("Heard also in French.\n> the next question")  # it waits, and is shown
        talk.send("/say \x1b[A  stop \r")
        talk.sees("> stop\n\nHeard stop.\n\n> the next question\nYou asked the next question")
        talk.at_prompt()  # which has sent the next question
        talk.say("/say late")
        talk.sees("No answer is being written: send the text without /say.")
        talk.say("/help")
        talk.sees("/say TEXT ")
        talk.at_prompt()
        talk.send("\x04")
        assert talk.end() == 0
        assert talk.comes_to_echo(True)
    assert "/say also" not in talk.emulator.text


def test_an_unfinished_line_is_at_the_prompt_after_the_answer(url: str) -> None:
    with Session("chat", "--url", url) as talk:
        talk.say("talk")
        talk.sees("begun")
        talk.send("/say stop\rhalf a li")
        talk.sees("Heard stop.\n\n> half a li")
        talk.at_prompt()
        talk.send("\x7fne\r")
        talk.sees("You asked half a lne")
        talk.at_prompt()
        talk.send("\x04")
        assert talk.end() == 0


def test_ctrl_c_discards_what_was_typed(url: str) -> None:
    with Session("chat", "--url", url) as talk:
        talk.say("talk")
        talk.sees("begun")
        talk.send("waits\rhalf a li")
        talk.sees("> half a li")
        talk.send("\x03")
        talk.sees("stopped")
        talk.say("one")
        talk.sees("> one\nYou asked one")
        talk.at_prompt()
        talk.send("\x04")
        assert talk.end() == 0


def test_an_agent_without_an_inbox_gets_nothing(service: Service) -> None:
    with Session("chat", "--url", service.url) as talk:
        talk.say("wait")
        talk.sees("begun")
        talk.send("/say hello\r")
        talk.sees("> hello\nNot sent: The agent takes no messages while it answers.")
        talk.send("\x03")
        talk.sees("stopped")
        talk.at_prompt()
        talk.send("\x04")
        assert talk.end() == 0


def test_a_message_after_the_end_says_why_it_was_not_sent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with (
        running(AgentApp(talking, inbox=True)) as server,
        connect(server.url, None, seed=None, timeout=20, max_retries=0, names={}) as service,
        service.client.chat("hi") as stream,
    ):
        next(stream)
        assert stream.stream_id is not None
        service.say(stream.stream_id, "stop")
        list(stream)
        service.say(stream.stream_id, "late")
    told = capsys.readouterr().err
    assert told == "> stop\n> late\nNot sent: The stream has ended: send a new request.\n"


def test_a_message_whose_response_is_lost_is_sent_again_and_heard_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with (
        running(AgentApp(talking, inbox=True)) as server,
        ChaosProxy(server.url, plan=[ConnectionPlan(), ConnectionPlan("reset", 10)]) as proxy,
        connect(proxy.url, None, seed=None, timeout=20, max_retries=None, names={}) as service,
        service.client.chat("hi") as stream,
    ):
        assert next(stream) == "ready "
        assert stream.stream_id is not None
        service.say(stream.stream_id, "once")
        service.say(stream.stream_id, "stop")
        assert "".join(stream) == "once stop "
    assert capsys.readouterr().err == "> once\n> stop\n"


def test_a_message_that_may_have_arrived_is_not_called_unsent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with connect(
        "http://127.0.0.1:9", None, seed=None, timeout=1, max_retries=0, names={}
    ) as service:
        service.say("0a0a0a0a-0000-4000-8000-00000000000a", "hello")
    assert "\nPerhaps not sent: no answer to POST " in capsys.readouterr().err


def test_a_message_that_a_gateway_does_not_confirm_may_have_arrived(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lost = CAPRuntimeError("POST was answered with HTTP 504: Too late.", status_code=504)
    with (
        patch.object(CAPClient, "send", side_effect=lost),
        connect("http://127.0.0.1:9", None, seed=None, timeout=1, max_retries=0, names={}) as one,
    ):
        one.say("0a0a0a0a-0000-4000-8000-00000000000a", "hello")
    assert capsys.readouterr().err == "> hello\nPerhaps not sent: Too late.\n"


def test_ctrl_z_gives_the_lines_back_to_the_shell(url: str) -> None:
    script = 'set -m; "$@"; echo suspended; read go; fg >/dev/null'
    with Session("chat", "--url", url, script=script) as talk:
        talk.say("talk")
        talk.sees("begun")
        talk.send("/say st")
        talk.sees("> /say st")
        assert not edits_lines(talk)
        talk.send("\x1a")
        talk.expect("suspended")
        assert talk.comes_to_echo(True)
        assert edits_lines(talk)
        talk.send("\n")
        talk.expect("> /say st")
        talk.send("op\r")
        talk.sees("Heard stop.")
        talk.at_prompt()
        talk.send("\x04")
        assert talk.end() == 0
        assert edits_lines(talk)


def test_an_answer_goes_on_in_the_background(url: str, folder: Path) -> None:
    script = 'set -m; "$@"; bg >/dev/null; echo in background; read go; fg >/dev/null'
    with Session("chat", "--url", url, script=script) as talk:
        talk.say("wait")
        talk.sees("begun")
        talk.send("\x1a")
        talk.expect("in background")
        talk.expect("begun")
        (folder / "go").touch()
        talk.expect("and ended")
        talk.send("\n")
        talk.at_prompt()
        talk.send("\x04")
        assert talk.end() == 0


def edits_lines(talk: Session) -> bool:
    """Return True if the terminal itself edits the line and gives it out at its end."""
    attributes: list[Any] = termios.tcgetattr(talk.fd)
    return bool(attributes[3] & termios.ICANON)


def test_a_question_for_a_permission_says_how_to_answer(url: str) -> None:
    with Session("chat", "--url", url) as talk:
        talk.say("ask")
        talk.sees("May I call delete?\nAnswer with yes, or with no, because …")
        talk.say("no, because it is mine")
        talk.sees("False, because it is mine.")
        talk.say("ask")
        talk.say("yes")
        talk.sees("You asked yes: True, .")
        talk.at_prompt()
        talk.send("\x04")
        assert talk.end() == 0


def test_a_yes_permits_only_the_call_that_was_shown(url: str) -> None:
    """Somebody else has answered meanwhile, and the agent asks for another call."""
    with (
        CAPClient(url, "k") as other,
        Session("chat", "--url", url, "--conversation", "shown") as talk,
    ):
        talk.say("ask")
        talk.sees("Answer with yes, or with no, because …")
        assert other.ask("no", "shown") == "You asked no: False, ."
        other.ask("ask", "shown")
        talk.say("yes")
        talk.sees("error: ")
        talk.sees("is not open")
        assert other.ask("no", "shown") == "You asked no: False, ."  # it is still open
        talk.say("other")
        talk.sees("You asked other: .")
        talk.say("ask")
        talk.say("/new")
        talk.say("no")
        talk.sees("You asked no: .")  # it is no answer there
        talk.at_prompt()
        talk.send("\x04")
        assert talk.end() == 0


def test_a_line_that_was_typed_before_a_question_does_not_answer_it(url: str, folder: Path) -> None:
    (folder / "asks").unlink(missing_ok=True)
    with Session("chat", "--url", url) as talk:
        talk.say("permission")
        talk.sees("begun")
        talk.send("ok\r")
        talk.sees("> ok")
        (folder / "asks").touch()
        talk.sees("Answer with yes, or with no, because …\n\n> ok")
        talk.at_prompt()
        talk.send(" then\r")  # the user sees the line, and changes it
        talk.sees("You asked ok then: ")
        talk.at_prompt()
        talk.send("\x04")
        assert talk.end() == 0


def test_a_line_that_was_typed_before_the_question_of_another_does_not_answer_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "shared.py").write_text(AGENT)
    options = ("--on-busy", "wait", "--port", "0")
    with Process("serve", "shared:agent", *options, cwd=tmp_path) as process:
        [url] = re.findall(r"at (http://127\.0\.0\.1:\d+)", process.expect("}'\n"))
        with (
            CAPClient(url, "k") as other,
            Session("chat", "--url", url, "--conversation", "one") as talk,
        ):
            talk.at_prompt()
            asked = other.chat("permission", "one")
            assert next(asked) == "begun "
            talk.sees("> permission\n\nbegun")
            talk.send("ok\r")
            talk.sees("\n> ok")
            (tmp_path / "asks").touch()
            assert "".join(asked)
            talk.sees("Answer with yes, or with no, because …\n\n> ok")
            talk.at_prompt()
            talk.send(" then\r")
            talk.sees("You asked ok then: ")
            talk.at_prompt()
            talk.send("\x04")
            assert talk.end() == 0


@pytest.mark.parametrize(("options", "env"), [(["--json"], {}), ([], {"TERM": "dumb"})])
def test_a_terminal_without_an_editor_drops_what_was_typed_before_a_question(
    url: str, folder: Path, options: list[str], env: dict[str, str]
) -> None:
    (folder / "asks").unlink(missing_ok=True)
    with Process("chat", "--url", url, *options, terminal=True, env=env) as talk:
        talk.expect("> ")
        talk.send("permission\n")
        talk.expect("begun")
        talk.send("ok\nand")
        talk.expect("and")
        (folder / "asks").touch()
        talk.expect("Not sent, because it was typed before the question: ok and")
        talk.expect("> ")
        talk.send("then\n")
        talk.expect("You asked then: ")
        talk.expect("> ")
        talk.send("\x04")
        assert talk.end() == 0


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_the_question_of_one_answer_can_be_answered_later(url: str, options: list[str]) -> None:
    done = coreason_here("chat", "--url", url, *options, "ask")
    [words] = re.findall(r"^To continue this conversation: coreason (.*)\n\Z", done.stderr)
    assert words.startswith(f"chat --url {url} --conversation ")
    done = coreason_here(*shlex.split(words), "yes")
    assert (done.stdout, done.stderr) == ("You asked yes: True, .\n", "")
