"""`coreason a2a push` with agents of the official SDK, and with one that quotes secrets."""

import json
import re
from pathlib import Path

import pytest

from tests.a2a.loopback import as_json, serve

from .command import run_a2a

HOOK = "http://127.0.0.1:9/hook"


@pytest.mark.parametrize("face", ["jsonrpc-1.0", "rest-1.0", "jsonrpc-0.3"])
def test_webhooks_are_added_listed_and_removed(peer: str, face: str, tmp_path: Path) -> None:
    url = f"{peer}/{face}"
    task_id = json.loads(run_a2a("send", url, "ask", "--json")[1])["task"]["id"]
    (tmp_path / "token").write_text("s3cret-token\n")
    env = {"COREASON_A2A_PUSH_CREDENTIALS": "s3cret-key"}
    options = ["--id", "w1", "--push-token-file", str(tmp_path / "token")]
    done = run_a2a("push", "add", url, task_id, HOOK, *options, env=env)
    assert done == (0, f"w1\t{HOOK}\twith token and Bearer credentials\n", "")
    code, out, err = run_a2a("push", "add", url, task_id, f"{HOOK}2", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["url"] == f"{HOOK}2"

    code, out, err = run_a2a("push", "list", url, task_id)
    assert (code, err) == (0, "")
    assert re.search(rf"^w1\t{HOOK}\twith token", out, re.MULTILINE)
    assert len(out.splitlines()) == 2
    code, out, err = run_a2a("push", "list", url, task_id, "--json")
    assert "s3cret" not in out
    [first] = [one for one in map(json.loads, out.splitlines()) if one["id"] == "w1"]
    assert (first["token"], first["authentication"]["credentials"]) == ("***", "***")

    for _ in range(2):
        assert run_a2a("push", "remove", url, task_id, "w1") == (0, "", "removed webhook w1\n")
    code, out, err = run_a2a("push", "remove", url, task_id, "w1", "--json")
    assert (code, json.loads(out), err) == (0, {"taskId": task_id, "id": "w1"}, "")
    assert len(run_a2a("push", "list", url, task_id)[1].splitlines()) == 1


def test_an_unknown_task_is_one_sentence(peer: str) -> None:
    code, out, err = run_a2a("push", "add", f"{peer}/jsonrpc-1.0", "none", HOOK)
    assert (code, out) == (1, "")
    assert re.fullmatch(r"error: the agent answered: .*\(-32001\)\n", err)


def test_an_agent_that_quotes_the_secrets_does_not_get_them_printed() -> None:
    env = {
        "COREASON_A2A_PUSH_TOKEN": "s3cret-token",
        "COREASON_A2A_PUSH_CREDENTIALS": "s3cret-key",
    }
    with serve() as agent:
        agent.rules.append(
            lambda seen: as_json({"error": seen.body.decode()}, 400) if seen.body else None
        )
        code, out, err = run_a2a("push", "add", agent.url, "t", HOOK, "-vv", env=env)
        assert (code, out) == (1, "")
        assert err.count("error: ") == 1
        assert "***" in err
        assert "s3cret" not in err
        [call] = [seen.json["params"] for seen in agent.seen if seen.body]
        assert call["token"] == "s3cret-token"
        assert call["authentication"] == {"scheme": "Bearer", "credentials": "s3cret-key"}
