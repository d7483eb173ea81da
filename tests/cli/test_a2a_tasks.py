"""`coreason a2a list` and `cancel`; `coreason a2a task` is tested in test_a2a.py."""

import json
import re

from tests.a2a.loopback import serve

from .command import run_a2a as run_here


def test_tasks_are_listed_over_all_pages_up_to_the_limit() -> None:
    with serve() as agent:
        for number in range(250):
            status = {"state": "TASK_STATE_WORKING"}
            agent.tasks[f"t{number}"] = {"id": f"t{number}", "contextId": "c", "status": status}
        code, out, err = run_here("list", agent.url, "--limit", "300")
        assert (code, err) == (0, "")
        assert [row.split("\t")[0] for row in out.splitlines()] == list(agent.tasks)
        assert run_here("list", agent.url, "--limit", "250")[2] == ""
        code, out, err = run_here("list", agent.url, "--limit", "120", "--json")
        assert (code, err) == (0, "there are more tasks than --limit 120\n")
        assert [json.loads(line)["id"] for line in out.splitlines()] == list(agent.tasks)[:120]
        agent.seen.clear()
        assert run_here("list", agent.url, "--limit", "5", "--state", "Input_Required")[0] == 0
        [call] = [seen.json for seen in agent.seen if seen.path == "/rpc"]
        assert call["params"] == {"status": "TASK_STATE_INPUT_REQUIRED", "pageSize": 6}


def test_an_agent_of_version_0_3_cannot_list_its_tasks(peer: str) -> None:
    code, out, err = run_here("list", f"{peer}/jsonrpc-0.3")
    assert (code, out) == (1, "")
    assert re.fullmatch(r"error: the tasks cannot be listed: version 0\.3 .*\n", err)


def test_a_task_is_cancelled_with_the_short_command_too() -> None:
    with serve() as agent:
        agent.tasks["t"] = {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}
        assert run_here("cancel", agent.url, "t") == (0, "", "task t: canceled\n")
        code, out, err = run_here("cancel", agent.url, "t", "--json")
        assert (code, err, json.loads(out)["id"]) == (0, "", "t")
        assert run_here("cancel", agent.url, "other")[0] == 1
