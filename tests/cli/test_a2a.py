"""`coreason a2a`: what goes where, and how it ends, with servers that really speak A2A."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from coreason_client._retry import Backoff
from coreason_client.a2a import client
from coreason_client.cli.exits import ExitCode
from tests.a2a.faults.scripts import FRESH_TOKEN, UNKNOWN_CODE, start
from tests.a2a.loopback import serve
from tests.faults import FaultServer

from .command import PATIENCE, Process, coreason, coreason_here, environment, shown
from .command import run_a2a as run_here

NAMED = r"task [0-9a-f-]{36}: "
TO_ANSWER = r"to answer: coreason a2a (send|stream) \S+ --task \S+ --context \S+\n"


@pytest.fixture(scope="module")
def faults() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


# An agent of the official SDK


@pytest.mark.parametrize("face", ["jsonrpc-1.0", "rest-1.0", "jsonrpc-0.3"])
@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        (["send", "hello Ann"], 0, r"Hello, Ann!\n", ""),
        (["send", "count 3"], 0, r"w1 w2 w3 \n", NAMED + r"completed\n"),
        (["stream", "count 3"], 0, r"w1 w2 w3 \n", NAMED + r"submitted\nworking\ncompleted\n"),
        (["stream", "hello Ann"], 0, r"Hello, Ann!\n", ""),
        (["send", "ask"], 0, r"Which colour\?\n", NAMED + rf"input-required\n{TO_ANSWER}"),
        (["stream", "ask"], 0, r"Which colour\?\n", rf"(?s).*\ninput-required\n{TO_ANSWER}"),
        (
            ["send", "login"],
            0,
            r"Who are you\?\n",
            NAMED
            + r"auth-required\nthe task waits until you have signed in; to watch it: .*\n"
            + TO_ANSWER,
        ),
        (["send", "fail"], 1, "", NAMED + r"failed\nerror: the task failed: It broke\.\n"),
        (
            ["stream", "reject"],
            1,
            "",
            r"(?s).*rejected\nerror: the agent rejected the task: Not for me\.\n",
        ),
        (
            ["send", "parts"],
            0,
            r'See:\n(picture.png \(image/png\): (10 bytes.*|https://.*)\n){2}\{.*"blue".*\}\n',
            "",
        ),
        (["send", "raise it"], 1, "", r"error: .*\n"),
        (["task", "get", "none"], 1, "", r"error: the agent answered: .*not found.*\(-32001\)\n"),
        (["task", "cancel", "none"], 1, "", r"error: .*not found.*\n"),
        (["task", "watch", "none"], 1, "", r"error: .*not found.*\n"),
    ],
    ids=lambda value: "-".join(value).replace(" ", "-") if isinstance(value, list) else "",
)
def test_what_goes_where(
    peer: str, face: str, arguments: list[str], code: int, out: str, err: str
) -> None:
    *names, last = arguments
    done = run_here(*names, f"{peer}/{face}", last)
    assert done[0] == code, done
    assert re.fullmatch(out, done[1]), done
    assert re.fullmatch(err, done[2]), done


def test_the_real_command_streams_plain_text_into_a_pipe(peer: str) -> None:
    done = coreason("a2a", "stream", f"{peer}/both", "count 3", env={"FORCE_COLOR": "1"})
    assert (done.returncode, done.stdout) == (0, "w1 w2 w3 \n")
    assert re.fullmatch(NAMED + r"submitted\nworking\ncompleted\n", done.stderr)


def test_json_is_the_protocols_one_object_a_line(peer: str) -> None:
    code, out, err = run_here("stream", f"{peer}/jsonrpc-0.3", "count 2", "--json")
    assert (code, err) == (0, "")
    events = [json.loads(line) for line in out.splitlines()]
    kinds = ["task", "statusUpdate", "artifactUpdate", "artifactUpdate", "statusUpdate"]
    assert [list(event) for event in events] == [[kind] for kind in kinds]
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    task_id = events[0]["task"]["id"]

    code, out, err = run_here("task", "get", f"{peer}/rest-1.0", task_id, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["id"] == task_id
    code, out, err = run_here("send", f"{peer}/rest-1.0", "hello Ann", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["message"]["parts"] == [{"text": "Hello, Ann!"}]
    code, out, err = run_here("send", f"{peer}/rest-1.0", "fail", "--json")
    assert (code, err) == (1, "error: the task failed: It broke.\n")
    assert json.loads(out)["task"]["status"]["state"] == "TASK_STATE_FAILED"


def test_the_card_for_people_and_for_programs(peer: str) -> None:
    url = f"{peer}/rest-1.0"
    code, out, err = run_here("card", url)
    assert (code, err) == (0, "")
    assert out.startswith("rest-1.0 peer 1.2.3\n")
    assert f"interface    {url} (HTTP+JSON 1.0)\n" in out
    assert "streaming, push notifications" in out
    assert "skill        Count: Counts.\n" in out
    code, out, err = run_here("card", f"{url}/.well-known/agent-card.json", "--json")
    assert (code, err, json.loads(out)["name"]) == (0, "", "rest-1.0 peer")
    code, out, err = run_here("card", f"{peer}/nowhere")
    assert (code, out) == (1, "")
    assert re.fullmatch(r"error: .*HTTP 404\n", err)


def test_ctrl_c_leaves_the_task_which_can_be_watched_and_cancelled(peer: str) -> None:
    url = f"{peer}/jsonrpc-1.0"
    with Process("a2a", "stream", url, "hold 4") as process:
        process.expect("w1 w2 ")
        process.signal(signal.SIGINT)
        assert process.end() == 130
        errors = process.errors
    told = re.search(
        rf"^the task has not ended; to watch it: coreason a2a task watch {url} (\S+)\n\Z",
        errors,
        re.MULTILINE,
    )
    assert told, errors
    assert "Traceback" not in errors
    task_id = told[1]

    assert run_here("task", "get", url, task_id)[:2] == (0, "w1 w2 \n")
    with Process("a2a", "task", "watch", url, task_id) as process:
        process.expect("w1 w2 ")
        assert run_here("send", url, f"release {task_id}")[0] == 0
        assert process.end() == 0
        assert process.text == "w3 w4 \n"
    code, out, err = run_here("task", "cancel", url, task_id)
    assert (code, out) == (1, "")
    assert re.fullmatch(r"error: the agent answered: .*\(-32002\)\n", err)


def test_a_cancelled_task(peer: str) -> None:
    url = f"{peer}/rest-1.0"
    with Process("a2a", "stream", url, "hold 2", "--json") as process:
        task_id = json.loads(process.expect("\n"))["task"]["id"]
        code, _, err = run_here("task", "cancel", url, task_id)
        assert (code, err) == (0, f"task {task_id}: canceled\n")
        assert process.end() == 1
        assert process.errors == "error: the task was canceled\n"


# How it ends


@pytest.mark.parametrize(
    ("fault", "options", "arguments", "code", "says"),
    [
        ("unknown_code", {}, ["stream"], 1, str(UNKNOWN_CODE)),
        ("unauthorized", {}, ["stream"], 1, "HTTP 401"),
        ("busy", {"on": "send", "retry_after": "99"}, ["send"], 1, "HTTP 503"),
        (
            "silence",
            {"on": "send", "times": 9},
            ["send", "--timeout", "0.2"],
            3,
            "no answer to POST",
        ),
        ("silence", {"on": "card"}, ["send", "--timeout", "0.2"], 3, "no answer to GET"),
        ("cut", {"after": 0}, ["stream"], 3, "closed before its task ended"),
        ("bad_json", {}, ["stream"], 4, "not valid"),
        ("html", {}, ["stream"], 4, "type text/html"),
        ("wrong_id", {}, ["stream"], 4, "its id must be"),
    ],
)
def test_a_fault_of_the_agent_has_its_exit_code(
    faults: FaultServer,
    fault: str,
    options: dict[str, Any],
    arguments: list[str],
    code: int,
    says: str,
) -> None:
    run = start(faults, fault, **options)
    done = run_here(*arguments, run.run.base_url, "hello")
    assert done[0] == code, done
    assert re.search(rf"(^|\n)error: .*{re.escape(says)}.*\n\Z", done[2]), done
    assert done[2].count("error: ") == 1


def test_a_card_that_leads_nowhere_is_one_sentence(
    faults: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(faults, "correct")
    monkeypatch.setattr(run, "card", lambda: run.model.card("http://["))
    done = run_here("send", run.run.base_url, "hello")
    assert done == (4, "", "error: the card of 'Counter' cannot be used: Invalid IPv6 URL\n")
    monkeypatch.setattr(run, "card", lambda: run.model.card("ftp://agent.example"))
    code, out, err = run_here("send", run.run.base_url, "hello")
    assert (code, out) == (1, "")
    assert re.fullmatch(r"error: the card of 'Counter' offers JSONRPC 1.0.*\n", err)


def test_a_lost_connection_is_healed_and_told_only_with_v(faults: FaultServer) -> None:
    run = start(faults, "cut", how="rst")
    done = coreason_here("a2a", "stream", run.run.base_url, "hello", "-v")
    assert (done.returncode, done.stdout.replace("\n", "")) == (0, run.text)
    assert "resubscribing in" in done.stderr


def test_control_characters_do_not_come_through(faults: FaultServer) -> None:
    run = start(faults, "correct", word="\x1b[31mw{}\x07\x9b\u202e\u00a0é ".format)
    code, out, _ = run_here("stream", run.run.base_url, "hello")
    assert (code, out.count("\u00a0é ")) == (0, 17)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", out)


@pytest.mark.parametrize(
    ("arguments", "env"),
    [(["--token", FRESH_TOKEN], {}), ([], {"COREASON_A2A_TOKEN": FRESH_TOKEN})],
)
def test_the_token(faults: FaultServer, arguments: list[str], env: dict[str, str]) -> None:
    run = start(faults, "unauthorized")
    code, out, err = run_here("stream", run.run.base_url, "hello", *arguments, env=env)
    assert (code, out.replace("\n", "")) == (0, run.text), err
    run = start(faults, "unauthorized", on="card")
    assert run_here("card", run.run.base_url, *arguments, env=env)[0] == 0
    assert run_here("card", run.run.base_url)[0] == 1


def test_a_port_where_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "Backoff", lambda **_: Backoff(0.001, 0.001))
    url = "http://127.0.0.1:1"
    for arguments in (["card", url], ["send", url, "hello"], ["task", "get", url, "1"]):
        code, out, err = run_here(*arguments)
        assert (code, out) == (3, "")
        assert re.fullmatch(r"error: no answer to GET http://127.0.0.1:1/.*\n", err)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["card"], "URL"),
        (["send", "http://x.example"], "give TEXT as an argument or on stdin"),
        (["send", "http://x.example", ""], "TEXT is empty"),
        (["task", "get", "http://x.example", ""], "TASK must not be empty"),
        (["task", "get", "http://x.example"], "TASK"),
        (["send", "http://x.example", "hello", "--task", ""], "--task must not be empty"),
        (["chat", "http://x.example", "--context", ""], "--context must not be empty"),
        (["send", "http://x.example", "hello", "--force"], "--force needs --save"),
        (
            ["send", "http://x.example", "hello", "-a", "/no/such"],
            "--attach /no/such: no such file",
        ),
        (["list", "http://x.example", "--limit", "0"], "--limit must be greater than 0, got 0"),
        (["list", "http://x.example", "--state", "ill"], "--state must be one of submitted, work"),
        (["cancel", "http://x.example", ""], "TASK must not be empty"),
        (["send", "http://x.example", "hello", "--header", "nothing"], "--header must be a name"),
        (["push", "remove", "http://x.example", "1", ""], "ID must not be empty"),
        (["push", "add", "http://x.example", "1", "ftp://y"], "WEBHOOK must start with http://"),
        (["card", "example"], "URL must start with http://"),
        (["send", "example", "hello"], "URL must start with http://"),
        (
            ["send", "http://x.example", "hello", "--timeout", "0"],
            "--timeout must be greater than 0",
        ),
        (["send", "http://x.example", "hello", "--timeout", "soon"], "--timeout"),
        (["send", "http://x.example", "hello", "--token", "a\nb"], "--token must be"),
        (["send", "http://x.example", "hello", "--token", "a b"], "--token must be visible ASCII"),
        (["card", "http://x.example", "--token", ""], "--token must not be empty"),
        (["send", "http://x.example", "hello", "--no-such-option"], "No such option"),
    ],
)
def test_wrong_usage_says_so_and_ends_with_2(arguments: list[str], says: str) -> None:
    code, _, err = run_here(*arguments)
    assert code == 2
    assert says in err


@pytest.mark.parametrize(
    "arguments",
    [
        *([], ["card"], ["send"], ["stream"], ["chat"], ["list"], ["cancel"]),
        *(["task"], ["task", "get"], ["task", "watch"], ["task", "cancel"]),
        *(["push"], ["push", "add"], ["push", "list"], ["push", "remove"]),
    ],
)
def test_help_fits_80_columns_has_examples_and_names_the_exit_codes(arguments: list[str]) -> None:
    code, out, _ = run_here(*arguments, "--help", env={"COLUMNS": "80"})
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "..." not in out.replace("[ARGS]...", "").replace("[-]]...", "")
    assert "Examples:" in out
    assert "coreason --help lists the exit codes." in out


def test_a_reader_that_goes_away_is_no_drama(faults: FaultServer) -> None:
    run = start(faults, "correct", events=3000, word=lambda number: f"w{number} " + "x" * 100)
    with Process("a2a", "stream", run.run.base_url, "hello") as process:
        process.expect("w1 ")
        process.hang_up()
        assert process.end() == 141
        assert "Traceback" not in process.errors


# In a terminal


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_sees_the_text_and_the_states(peer: str, env: dict[str, str]) -> None:
    with Process("a2a", "stream", f"{peer}/both", "count 3", terminal=True, env=env) as process:
        assert process.end() == 0
    assert re.search(r"submitted[^$]*working[^$]*w1 w2 w3[^$]*completed", shown(process.text))
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", process.text)
    if "TERM" in env:
        assert "\x1b" not in process.text


def test_a_terminal_sees_the_card_and_ctrl_c_shows_no_traceback(peer: str) -> None:
    with Process("a2a", "card", f"{peer}/both", terminal=True, fresh=True) as process:
        assert process.end() == 0
        assert "\x1b[1mboth peer 1.2.3\x1b[0m" in process.text
    with Process("a2a", "stream", f"{peer}/both", "hold 4", terminal=True) as process:
        process.expect("w2")
        process.send("\x03")
        assert process.end() == 130
        assert "the task has not ended; to watch it: " in process.text
        assert "Traceback" not in process.text


def test_other_commands_do_not_load_the_protocol() -> None:
    program = (
        "import sys; import coreason_client.cli._app, coreason_client.cli.chat._answer;"
        "print([name for name in sys.modules if name.startswith('coreason_client.a2a')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout == "[]\n"


# What a card may ask for


def test_a_card_that_leads_elsewhere_names_the_option_that_allows_it() -> None:
    with serve() as agent, serve() as other:
        interface = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        agent.card_extra = {"supportedInterfaces": [{"url": f"{other.url}/rpc", **interface}]}
        command = ("send", agent.url, "say", "--token", "tell-no-one")
        code, out, err = run_here(*command)
        assert (code, out) == (ExitCode.PROTOCOL, "")
        assert f"add --interface-origin {other.url}" in err
        assert other.seen == []
        code, out, _ = run_here(*command, "--interface-origin", other.url)
        assert (code, out) == (0, "Said.\n")
        [seen] = other.seen
        assert seen.headers["authorization"] == "Bearer tell-no-one"


def test_a_card_that_requires_an_extension_names_the_option_that_declares_it() -> None:
    with serve() as agent:
        uri = "https://x.example/ext"
        required = {"extensions": [{"uri": uri, "required": True}]}
        agent.card_extra = {"capabilities": {"streaming": True, **required}}
        code, _, err = run_here("stream", agent.url, "say")
        assert code == ExitCode.PROTOCOL
        assert f"add --extension {uri}" in err
        code, out, _ = run_here("stream", agent.url, "say", "--extension", uri)
        assert (code, out) == (0, "Said.\n")
