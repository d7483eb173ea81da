"""`coreason a2a chat`: a conversation with an agent of the official SDK, and with faulty ones."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from coreason_client._retry import Backoff
from coreason_client.a2a import A2AClient, client
from coreason_client.cli.a2a._agent import AgentOptions
from coreason_client.cli.a2a._ids import MessageIds
from coreason_client.cli.a2a._show import AgentPartner
from tests.a2a.loopback import CUT, Agent, Answer, Seen, serve, stream_of
from tests.a2a.peer.facts import PICTURE

from .command import Process, coreason_here, run_a2a, shown
from .session import Session
from .test_say import AGENT


@pytest.mark.parametrize("face", ["jsonrpc-1.0", "jsonrpc-0.3"])
def test_a_conversation_in_a_terminal(peer: str, face: str, tmp_path: Path) -> None:
    url = f"{peer}/{face}"
    with Session("a2a", "chat", url, cwd=tmp_path) as talk:
        talk.sees("Talking to ")
        talk.say("/id")
        talk.sees("no ID yet")
        talk.say("ask")
        talk.sees("Which colour?")
        talk.say("blue")  # answers the task
        talk.sees("You said blue.")
        talk.say("hello Ann")  # the task is over, so this is a new question
        talk.sees("Hello, Ann!")
        talk.say("fail")
        talk.sees("error: the task failed: It broke.")
        talk.say("/save talk.md")
        talk.sees("Saved 4 messages")
        talk.say("ask")
        talk.at_prompt()
        talk.send("\x04")
        assert talk.end() == 0
        [line] = [line for line in shown(talk.text).split("\n") if "To continue" in line]
    saved = (tmp_path / "talk.md").read_text()
    assert "## Answer\n\nYou said blue.\n\n## Question\n\nhello Ann\n" in saved
    assert saved.endswith("*Incomplete: the task failed: It broke.*\n")
    command = shlex.split(line.partition(": coreason a2a ")[2])
    assert command[:3] == ["chat", url, "--task"]
    assert coreason_here("a2a", *command, stdin="green\n").stdout == "You said green.\n"


def test_ctrl_c_stops_the_answer_and_cancels_its_task_and_then_leaves(peer: str) -> None:
    url = f"{peer}/jsonrpc-1.0"
    with Session("a2a", "chat", url, "--context", "stopped") as talk:
        talk.say("hold 4")
        talk.sees("w2")
        talk.send("\x03")
        talk.sees("stopped")
        talk.at_prompt()
        row = run_a2a("list", url, "--context", "stopped")[1]
        assert row.split("\t")[1] == "canceled"
        talk.send("\x03")
        talk.sees("Press Ctrl-C again or Ctrl-D to leave.")
        talk.at_prompt()
        talk.send("\x03")
        assert talk.end() == 130
        assert "Traceback" not in talk.text
        assert f"To continue this conversation: coreason a2a chat {url} --context" in talk.text


def test_lines_of_a_pipe_are_the_messages(peer: str) -> None:
    url = f"{peer}/rest-1.0"
    done = coreason_here("a2a", "chat", url, stdin="ask\n\n blue \n/new\nhello Ann\n")
    assert (done.returncode, done.stdout) == (
        0,
        "Which colour?\nYou said blue.\nHello, Ann!\n",
    )
    assert "Started a new conversation." in done.stderr
    done = coreason_here("a2a", "chat", url, "--json", stdin="ask\nblue\n")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    tasks = {next(iter(event.values())).get("taskId") for event in events} - {None}
    assert len(tasks) == 1


def test_files_of_all_answers_are_saved(peer: str, tmp_path: Path) -> None:
    url = f"{peer}/jsonrpc-1.0"
    options = ["--save", str(tmp_path), "--force"]
    done = coreason_here("a2a", "chat", url, *options, stdin="parts\nparts\n")
    assert done.returncode == 0, done
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert found == {"picture.png": PICTURE, "picture-2.png": PICTURE}


def test_a_conversation_needs_an_agent_and_a_task_that_is_not_over(
    peer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "Backoff", lambda **_: Backoff(0.001, 0.001))
    done = coreason_here("a2a", "chat", "http://127.0.0.1:1", stdin="hi\n")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    url = f"{peer}/jsonrpc-1.0"
    task_id = json.loads(run_a2a("send", url, "count 1", "--json")[1])["task"]["id"]
    done = coreason_here("a2a", "chat", url, "--task", task_id, stdin="hi\n")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: the task is completed and takes no more messages")
    done = coreason_here("a2a", "chat", url, "--task", "none", stdin="hi\n")
    assert (done.returncode, done.stderr.count("error: the agent answered: ")) == (1, 1)


def test_a_reader_that_goes_away_ends_the_conversation(peer: str) -> None:
    script = 'printf "hello A\\nhello B\\nhello C\\n" | "$@"'
    with Process("a2a", "chat", f"{peer}/jsonrpc-1.0", script=script) as talk:
        talk.hang_up()
        assert talk.end() == 141
        assert "Traceback" not in talk.errors


# In this process


@pytest.fixture
def agent() -> Iterator[Agent]:
    with serve() as agent:
        yield agent


def partner(agent: Agent, client: A2AClient) -> AgentPartner:
    return AgentPartner(AgentOptions(agent.url), client, MessageIds(), as_json=False, files=None)


def sent(agent: Agent, method: str) -> list[dict[str, object]]:
    calls = [seen.json for seen in agent.seen if seen.body]
    return [call["params"] for call in calls if call["method"] == method]


def test_there_is_nothing_to_continue_before_an_answer(agent: Agent) -> None:
    with A2AClient(f"{agent.url}/rpc") as client:
        talk = partner(agent, client)
        assert talk.continue_command() is None
        talk.ask("say")
        assert talk.continue_command() == f"coreason a2a chat {agent.url} --context context-1"
        talk.start_over()
        assert talk.continue_command() is None


@pytest.mark.parametrize("known", [False, True])
def test_an_interrupt_cancels_the_task_as_soon_as_it_is_known(
    agent: Agent, known: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    agent.tasks["task-1"] = {"id": "task-1", "status": {"state": "TASK_STATE_WORKING"}}
    method = "_show_artifact" if known else "show"
    monkeypatch.setattr(f"coreason_client.cli.a2a._events.EventPresenter.{method}", interrupt)
    with A2AClient(f"{agent.url}/rpc") as client:
        talk = partner(agent, client)
        with pytest.raises(KeyboardInterrupt):
            talk.ask("count")
    command = f"coreason a2a chat {agent.url} --context context-1" if known else None
    assert talk.continue_command() == command  # without the task, which is over
    assert len(sent(agent, "CancelTask")) == int(known)
    assert ("may still be working" in capsys.readouterr().err) is not known


def test_a_task_whose_connection_is_lost_can_be_watched(
    agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    def cut(seen: Seen) -> Answer | None:
        call = seen.json if seen.body else {}
        if call.get("method") != "SendStreamingMessage":
            return Answer(503) if call else None
        task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
        return stream_of([{"jsonrpc": "2.0", "id": call["id"], "result": {"task": task}}, CUT])

    agent.rules.append(cut)
    with A2AClient(f"{agent.url}/rpc", max_retries=0) as client:
        talk = partner(agent, client)
        with pytest.raises(Exception, match=r"503|closed"):
            talk.ask("count")
        assert "to watch it: coreason a2a task watch" in capsys.readouterr().err
        agent.rules.clear()
        talk.ask("count")
    message = sent(agent, "SendStreamingMessage")[-1]["message"]
    assert isinstance(message, dict)
    assert (message.get("contextId"), message.get("taskId")) == ("c", None)


def test_a_task_that_cannot_be_cancelled_is_reported(
    agent: Agent, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(seen: Seen) -> Answer | None:
        call = seen.json if seen.body else {}
        if call.get("method") != "CancelTask":
            return None
        error = {"code": -32603, "message": "busy"}
        return Answer(
            200,
            {"content-type": "application/json"},
            json.dumps({"jsonrpc": "2.0", "id": call["id"], "error": error}).encode(),
        )

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    agent.rules.append(refuse)
    monkeypatch.setattr("coreason_client.cli.a2a._events.EventPresenter._show_artifact", interrupt)
    with A2AClient(f"{agent.url}/rpc") as client, pytest.raises(KeyboardInterrupt):
        partner(agent, client).ask("count")
    assert "was not canceled and may still be running: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (Answer(pieces=[CUT]), "Perhaps not sent: "),
        (Answer(502), "Perhaps not sent: "),  # of a gateway that did not wait
        (Answer(403), "Not sent: "),
    ],
)
def test_a_message_that_may_have_arrived_is_not_called_unsent(
    agent: Agent, capsys: pytest.CaptureFixture[str], answer: Answer, sentence: str
) -> None:
    agent.rules.append(lambda _: answer)
    with A2AClient(f"{agent.url}/rpc") as client:
        partner(agent, client)._say("hello", "c", "t")
    assert capsys.readouterr().err.startswith(f"> hello\n{sentence}")
    assert len(sent(agent, "SendMessage")) == 1  # an agent may not recognise it


def test_a_line_that_was_typed_before_a_question_does_not_answer_it(tmp_path: Path) -> None:
    (tmp_path / "asking.py").write_text(AGENT)
    command = ("serve", "asking:agent", "--a2a", "--port", "0")
    with Process(*command, cwd=tmp_path) as server:
        [url] = re.findall(r"at (http://127\.0\.0\.1:\d+)", server.expect("}'\n"))
        with Session("a2a", "chat", url) as talk:
            talk.say("permission")
            talk.sees("begun")
            talk.send("ok\r")
            talk.sees("> ok")
            (tmp_path / "asks").touch()
            talk.sees("input-required\n\n> ok")
            talk.at_prompt()
            talk.send(" then\r")  # the user sees the line, and changes it
            talk.sees("You asked ok then: ")
            talk.at_prompt()
            talk.send("\x04")
            assert talk.end() == 0


def test_a_message_goes_to_the_working_task(tmp_path: Path) -> None:
    (tmp_path / "talking.py").write_text(AGENT)
    for options in (("--inbox",), ()):
        command = ("serve", "talking:agent", "--a2a", "--port", "0", *options)
        with Process(*command, cwd=tmp_path) as server:
            [url] = re.findall(r"at (http://127\.0\.0\.1:\d+)", server.expect("}'\n"))
            with Session("a2a", "chat", url) as talk:
                talk.say("talk" if options else "wait")
                talk.sees("begun")
                talk.send("/say also in French\r")
                talk.sees("> also in French")
                if options:
                    talk.sees("Heard also in French.")
                    talk.send("half a line")
                    talk.sees("> half a line")  # below the answer
                    talk.send("\x15/say stop\r")
                    talk.sees("Heard stop.")
                else:
                    talk.sees("Not sent: ")
                    talk.sees("The task is WORKING, so it accepts no message.")
                    (tmp_path / "go").touch()
                    talk.sees("and ended")
                talk.at_prompt()
                talk.send("\x04")
                assert talk.end() == 0
