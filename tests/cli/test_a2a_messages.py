"""`coreason a2a`: answers to questions, conversations, files and headers."""

import json
import re
import shlex
from pathlib import Path

import pytest

from coreason_client.cli.exits import ExitCode
from tests.a2a.loopback import as_json, serve

from .command import coreason_here
from .command import run_a2a as run_here

# Answers


@pytest.mark.parametrize("face", ["jsonrpc-1.0", "rest-1.0", "jsonrpc-0.3"])
def test_a_question_is_answered_with_the_command_that_was_printed(peer: str, face: str) -> None:
    code, _, err = run_here("send", f"{peer}/{face}", "ask")
    assert code == 0
    [line] = re.findall(r"^to answer: coreason a2a (.*)$", err, re.MULTILINE)
    assert run_here(*shlex.split(line), "blue")[:2] == (0, "You said blue.\n")
    code, out, err = run_here(*shlex.split(line), "green")
    assert (code, out) == (1, "")
    assert err.startswith("error: the agent answered: ")


@pytest.mark.parametrize("face", ["jsonrpc-1.0", "jsonrpc-0.3"])
def test_the_task_alone_is_enough_to_answer_it(peer: str, face: str) -> None:
    url = f"{peer}/{face}"
    task = json.loads(run_here("send", url, "ask", "--json")[1])["task"]
    code, out, err = run_here("task", "get", url, task["id"])
    assert (code, out) == (0, "Which colour?\n")
    assert f"to answer: coreason a2a send {url} --task {task['id']}" in err
    code, out, _ = run_here("stream", url, "blue", "--task", task["id"], "--json")
    assert code == 0
    assert json.loads(out.splitlines()[-1])["statusUpdate"]["contextId"] == task["contextId"]
    code, out, err = run_here("send", url, "green", "--task", task["id"])
    assert (code, out) == (1, "")
    assert err == (
        "error: the task is completed and takes no more messages; use --context "
        f"{task['contextId']} without --task to continue its conversation\n"
    )


def test_a_conversation_is_continued(peer: str) -> None:
    url = f"{peer}/rest-1.0"
    code, out, _ = run_here("send", url, "count 1", "--context", "mine", "--json")
    assert (code, json.loads(out)["task"]["contextId"]) == (0, "mine")
    code, out, err = run_here("list", url, "--context", "mine")
    assert (code, err) == (0, "")
    [row] = out.splitlines()
    assert re.fullmatch(r"[0-9a-f-]{36}\tcompleted\t\d{4}-\S+Z\tcount 1", row)


@pytest.mark.parametrize("face", ["jsonrpc-1.0", "rest-1.0", "jsonrpc-0.3"])
@pytest.mark.parametrize("command", ["send", "stream"])
def test_files_go_to_the_agent_and_come_back(
    peer: str, face: str, command: str, tmp_path: Path
) -> None:
    content = bytes(range(256)) * 20
    (tmp_path / "a.png").write_bytes(content)
    link = "https://files.example/b.pdf"
    folder = tmp_path / "out"
    arguments = ["-a", str(tmp_path / "a.png"), "-a", link, "--save", str(folder)]
    code, out, err = run_here(command, f"{peer}/{face}", "files", *arguments)
    assert code == 0, err
    assert out.splitlines() == [
        f"a.png (image/png): 5120 bytes, saved as {folder / 'a.png'}",
        f"b.pdf (application/pdf): {link}",
    ]
    assert (folder / "a.png").read_bytes() == content
    assert [path.name for path in folder.iterdir()] == ["a.png"]


def test_files_are_saved_beside_json_and_by_task_get(peer: str, tmp_path: Path) -> None:
    url = f"{peer}/jsonrpc-1.0"
    (tmp_path / "a.bin").write_bytes(b"\0\xff")
    arguments = ["-a", str(tmp_path / "a.bin"), "--save", str(tmp_path), "--json"]
    code, out, err = run_here("send", url, "files", *arguments)
    assert (code, err) == (0, f"saved as {tmp_path / 'a-2.bin'}\n")
    task = json.loads(out)["task"]
    (tmp_path / "a.bin").write_bytes(b"mine")
    assert run_here("task", "get", url, task["id"], "--save", str(tmp_path), "--force")[0] == 0
    assert (tmp_path / "a.bin").read_bytes() == b"\0\xff"
    assert run_here("task", "get", url, task["id"])[1] == (
        "a.bin (application/octet-stream): 2 bytes, not saved (see --save)\n"
    )


def test_stdin_can_be_the_message_or_a_file() -> None:
    with serve() as agent:
        done = coreason_here("a2a", "send", agent.url, "-", stdin="hello\n")
        assert done.returncode == 0, done
        assert agent.seen[-1].json["params"]["message"]["parts"] == [{"text": "hello"}]
        done = coreason_here("a2a", "send", agent.url, "-a", "-", "What is it?", stdin="x = 1\n")
        assert done.returncode == 0, done
        text, file = agent.seen[-1].json["params"]["message"]["parts"]
        assert text == {"text": "What is it?"}
        assert file == {"raw": "eCA9IDEK", "filename": "stdin", "mediaType": "text/plain"}
        done = coreason_here("a2a", "send", agent.url, "-a", "-", stdin="x = 1\n")
        assert len(agent.seen[-1].json["params"]["message"]["parts"]) == 1, done
        done = coreason_here("a2a", "send", agent.url, "-a", "-", "-", stdin="x = 1\n")
        assert (done.returncode, done.stderr) == (
            2,
            "error: - can be given once: stdin is already the attachment\n",
        )


def test_a_file_that_is_not_base64_fails_after_the_whole_answer(tmp_path: Path) -> None:
    with serve() as agent:
        parts = [{"raw": "?", "filename": "x"}, {"text": "after"}]
        agent.stream = lambda _: iter([{"message": {"messageId": "1", "parts": parts}}])  # type: ignore[assignment,method-assign]
        code, out, err = run_here("send", agent.url, "hi", "--save", str(tmp_path))
    assert code == ExitCode.PROTOCOL
    assert out.endswith("after\n")
    assert err == "error: the file x is not valid base64\n"


def test_a_header_is_sent_with_every_request_and_its_value_is_secret() -> None:
    with serve() as agent:
        header = ["--header", "X-Tenant: blue-secret"]
        assert run_here("send", agent.url, "say", *header)[0] == 0
        assert [seen.headers["x-tenant"] for seen in agent.seen] == ["blue-secret"] * 2

        agent.rules.append(lambda seen: as_json({"error": str(seen.headers)}, 400))
        code, out, err = run_here("send", agent.url, "say", *header, "-v")
        assert (code, out) == (1, "")
        assert "x-tenant" in err
        assert "blue-secret" not in err
        agent.rules.clear()
        code, _, err = run_here("send", agent.url, "ask", *header, "--token", "tell-no-one")
        assert code == 0
        assert err.endswith(' --header "X-Tenant: $X_TENANT" --token "$TOKEN"\n')
