"""Agents of pydantic-ai behind the log: what readers get, restarts, and approvals."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import httpx2
import pytest

from coreason_client import A2AClient
from coreason_client.a2a import TaskStatusUpdateEvent
from coreason_client.adapters.pydantic_ai import as_agent

from ..installed import python_packages
from ..preloaded import PROJECT, PipedProcess
from ..server.peer import Answer, Peer, envelope

PACKAGES = ("pydantic-ai-slim==2.66.0", "pydantic-graph==2.66.0", "logfire-api==5.5.0")
ROOT = Path(__file__).parents[2]
PROGRAM = "tests.adapters.pydantic_ai_agents"
MODULES = ("pydantic_ai.models.function", "pydantic_ai.models.test", "pydantic_ai.toolsets")
LIMIT = 60.0  # a second at most, but machines may be busy
KEY, OTHER_KEY = "1" * 32, "2" * 32

pytestmark = pytest.mark.timeout(180)


class Served:
    """The program that serves the agents, and peers of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = str(python_packages(*PACKAGES))
        self._process = PipedProcess(
            ["-m", PROGRAM, str(folder / "log"), str(folder)],
            env={**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "error"},
            cwd=ROOT,
            libraries=(path, *MODULES, *PROJECT),
        )
        self.told: dict[str, Any] = json.loads(self._process.line() or "{}")
        assert "url" in self.told, "the program has ended"
        self._peers: list[Peer] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for peer in self._peers:
            peer.close()
        self._process.close(LIMIT)

    def peer(self, agent: str, key: str = KEY) -> Peer:
        peer = Peer(f"{self.told['url']}/{agent}", key)
        peer.http.timeout = httpx2.Timeout(LIMIT)
        self._peers.append(peer)
        return peer

    def notes(self, name: str) -> int:
        path = self.folder / name
        return len(path.read_text()) if path.exists() else 0

    def wait_for_note(self, name: str) -> None:
        end = time.monotonic() + LIMIT
        while not self.notes(name):
            assert time.monotonic() < end, f"{name} was not written"
            time.sleep(0.01)

    def stop(self) -> int:
        """End it as a deployment does, and return its exit code."""
        self._process.stdin.close()
        return self._process.wait(LIMIT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(LIMIT)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("served")) as program:
        yield program


def events(answer: Answer) -> list[tuple[str, dict[str, Any]]]:
    """Return the types and the data of the events."""
    found = [json.loads(event.data_bytes) for event in answer.events]
    return [(one["p"]["type"], one["p"]["data"]) for one in found if one["op"] == "EVENT"]


def of(answer: Answer, kind: str) -> list[dict[str, Any]]:
    return [data for name, data in events(answer) if name == kind]


@pytest.mark.parametrize("agent", ["plain", "durable"])
@pytest.mark.parametrize("question", ["add", "add twice"])
def test_readers_get_text_thoughts_tools_and_usage(
    served: Served, agent: str, question: str
) -> None:
    answer = served.peer(agent).ask(envelope(question, f"first {question}"))
    assert answer.text == served.told["own"][question]
    thoughts = [data["content"] for data in of(answer, "THOUGHT_TRACE")]
    assert thoughts == ["One moment.", "I add.", "Yes."]
    calls, results = of(answer, "TOOL_CALL"), of(answer, "TOOL_RESULT")
    assert calls[0] == {"call_id": "call-1", "name": "add", "arguments": {"a": 1, "b": 2}}
    assert {"call_id": "call-1", "name": "add", "result": 3, "is_error": False} in results
    assert len(calls) == len(results) == (2 if question == "add twice" else 1)
    [usage] = of(answer, "USAGE")
    assert usage["turns"] == 2
    assert usage["completion_tokens"] > 0
    assert answer.last.p == {"reason": "complete"}


@pytest.mark.parametrize("agent", ["searching", "searching-durable"])
def test_tools_that_the_provider_executes_are_visible(served: Served, agent: str) -> None:
    answer = served.peer(agent).ask(envelope())
    call = {"call_id": "search-1", "name": "web_search", "arguments": {"words": "Rome"}}
    assert of(answer, "TOOL_CALL") == [call]
    assert [data["result"] for data in of(answer, "TOOL_RESULT")] == [["a page"]]
    assert answer.text == "Found."


def test_a_model_without_a_name_is_not_named_in_the_usage(served: Served) -> None:
    answer = served.peer("nameless").ask(envelope())
    assert (answer.text, answer.last.op) == ("Found.", "CLOSE")
    [usage] = of(answer, "USAGE")
    assert "model" not in usage


@pytest.mark.parametrize("agent", ["plain", "durable"])
def test_a_call_that_is_refused_is_an_error(served: Served, agent: str) -> None:
    answer = served.peer(agent).ask(envelope("a wrong call", "wrong"))
    [result] = of(answer, "TOOL_RESULT")
    assert result["is_error"] is True


def test_the_text_of_a_durable_agent_is_live(served: Served) -> None:
    with served.peer("durable").open(envelope("live", "live")) as answer:
        answer.until_raw(b"Let me ")
        (served.folder / "go").touch()
        answer.rest()
    (served.folder / "go").unlink()
    assert answer.text == served.told["own"]["add"]


@pytest.mark.parametrize("agent", ["memory", "memory-durable"])
def test_the_model_gets_the_history_and_the_prompts(served: Served, agent: str) -> None:
    peer = served.peer(agent)
    first = json.loads(peer.ask(envelope("One?", "turns")).text)
    assert first["messages"] == [["system-prompt", "A prompt."], ["user-prompt", "One?"]]
    second = json.loads(peer.ask(envelope("Two?", "turns")).text)
    kinds = [kind for kind, _ in second["messages"]]
    assert kinds == ["system-prompt", "user-prompt", "text", "user-prompt"]
    assert json.loads(second["messages"][2][1]) == first
    assert second["messages"][3][1] == "Two?"
    assert second["instructions"] == "Be brief."
    assert second["name"] is None  # the agent is not changed


def test_images_and_instructions_of_a_request_reach_the_model(served: Served) -> None:
    body = envelope("", "images")
    body["payload"]["messages"] = [
        {"role": "system", "parts": [{"type": "text", "content": "In French."}]},
        {
            "role": "user",
            "parts": [
                {"type": "uri", "uri": "https://a.example/x", "mime_type": "image/png"},
                {"type": "blob", "content": "AAAA", "mime_type": "image/png"},
                {"type": "blob", "content": "?", "mime_type": "image/png"},
                {"type": "uri", "uri": "https://a.example/"},
            ],
        },
    ]
    answer = json.loads(served.peer("memory").ask(body).text)
    assert answer["kinds"] == ["ImageUrl", "BinaryContent", "str", "str"]
    assert "In French." in answer["instructions"]
    body = envelope("", "nothing")
    body["payload"]["messages"] = []
    assert served.peer("memory").ask(body).last.p.code == "unsupported_content"


def test_an_output_that_is_not_the_text_of_the_model(served: Served) -> None:
    for agent in ("typed", "typed-durable"):
        answer = served.peer(agent).ask(envelope())
        assert json.loads(answer.text) == served.told["own"]["typed"]
        assert not of(answer, "TOOL_CALL")
    for agent in ("either", "validated"):
        assert served.peer(agent).ask(envelope()).text == served.told["own"][agent]


def test_dependencies_can_come_from_the_stream(served: Served) -> None:
    [result] = of(served.peer("deps", OTHER_KEY).ask(envelope()), "TOOL_RESULT")
    assert result["result"] == ["two", "_w==", None]
    [result] = of(served.peer("keyed").ask(envelope()), "TOOL_RESULT")
    assert UUID(result["result"]).version == 5  # the key of a step


def test_a_toolset_without_an_id_is_refused_when_the_application_is_created(served: Served) -> None:
    assert "durable cannot be used with this agent" in served.told["refusal"]
    assert "`id`" in served.told["refusal"]


@pytest.mark.parametrize("agent", ["plain", "durable"])
def test_an_error_of_the_model_ends_the_stream(served: Served, agent: str) -> None:
    answer = served.peer(agent).ask(envelope("fail", "fail"))
    assert answer.last.p.code == "agent_error"
    assert "secret" not in answer.raw.decode()


@pytest.mark.parametrize("agent", ["plain", "durable"])
def test_a_run_can_be_cancelled(served: Served, agent: str) -> None:
    peer = served.peer(agent)
    with peer.open(envelope("hold before", "cancel")) as answer:
        answer.until_raw(b"TOOL_RESULT")
        assert peer.cancel(answer.stream_id) == 204
        answer.rest()
    assert answer.last.p.code == "cancelled"


def test_a_missing_package_is_named() -> None:
    with pytest.raises(ImportError, match="pip install pydantic-ai-slim"):
        as_agent(object())


MESSAGE = {"id": "1", "role": "user", "content": "add", "parts": [{"type": "text", "text": "add"}]}


@pytest.mark.parametrize(
    ("path", "ids"),
    [("ag-ui", {"threadId": "t", "runId": "r"}), ("api/chat", {"id": "c"})],
)
def test_tools_are_visible_in_other_protocols(
    served: Served, path: str, ids: dict[str, str]
) -> None:
    shown = served.peer("plain").http.post(path, json={**ids, "messages": [MESSAGE]}).text
    for expected in ("call-1", "One moment.", "Let me ", "It is "):
        assert expected in shown


@pytest.mark.parametrize("agent", ["plain", "durable"])
def test_tools_are_visible_over_a2a(served: Served, agent: str) -> None:
    url, headers = f"{served.told['url']}/{agent}/a2a", {"Authorization": f"Bearer {KEY}"}
    with A2AClient(url, headers=headers, timeout=LIMIT) as client:
        events = list(client.send_message_stream("add"))
    assert "".join(event.text for event in events) == served.told["own"]["add"]
    assert "Calling add" in [event.status_text for event in events]
    statuses = [event for event in events if isinstance(event, TaskStatusUpdateEvent)]
    about: list[Any] = [(event.metadata or {}).get("coreason") for event in statuses]
    found = {report["type"]: report["data"] for report in about if report is not None}
    assert found["TOOL_CALL"]["arguments"] == {"a": 1, "b": 2}
    assert found["TOOL_RESULT"]["result"] == 3
    assert found["USAGE"]["turns"] == 2


def test_the_program_of_the_page_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "pydantic-ai.md").read_text(encoding="utf-8")
    code = page.partition("```python\n")[2].partition("```")[0]
    assert len(code.strip().splitlines()) <= 25
    (tmp_path / "files.py").write_text(code.replace("openai:gpt-5-mini", "test"))
    command = ["-m", "coreason_client", "serve", "files:agent", "--port", "0", "--durable"]
    process = subprocess.Popen(
        [sys.executable, *command, "--store", "sqlite:streams.db"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(python_packages(*PACKAGES))},
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("Serving files:agent at "), process.communicate(timeout=LIMIT)
        peer = Peer(line.split()[3].rstrip(","))
        answer = peer.ask(envelope("Delete a file."))
        assert "May I call delete_file with" in answer.text
        assert '"delete_file":' in peer.ask(envelope("yes")).text
        peer.close()
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=LIMIT)
    assert "files:agent is an agent of pydantic-ai" in errors


# Restarts.


@pytest.mark.parametrize(
    ("question", "shown"), [("hold before", b"TOOL_RESULT"), ("hold middle", b"It is ")]
)
def test_a_killed_process_neither_repeats_the_tool_nor_the_text(
    tmp_path: Path, question: str, shown: bytes
) -> None:
    body = envelope(question)
    with (
        Served(tmp_path) as program,
        pytest.raises(httpx2.TransportError),
        program.peer("durable").open(body) as answer,
    ):
        answer.until_raw(shown)
        program.kill()
        answer.rest()
    (tmp_path / "go").touch()
    with Served(tmp_path) as program:
        whole = program.peer("durable").ask(body)
        assert program.notes("durable-began") == program.notes("durable-ended") == 1
    assert whole.text == "Let me see.\n\nIt is 3."
    assert len(of(whole, "TOOL_CALL")) == len(of(whole, "TOOL_RESULT")) == 1
    assert whole.packets[: len(answer.packets)] == answer.packets
    assert whole.last.p == {"reason": "complete"}


@pytest.mark.parametrize(
    ("question", "shown"), [("hold before", b"TOOL_RESULT"), ("hold middle", b"It is ")]
)
def test_a_process_that_stops_hands_its_run_over(
    tmp_path: Path, question: str, shown: bytes
) -> None:
    body = envelope(question)
    with Served(tmp_path) as program, program.peer("durable").open(body) as answer:
        answer.until_raw(shown)
        assert program.stop() == 0
        answer.rest()
    (tmp_path / "go").touch()
    with Served(tmp_path) as program:
        whole = program.peer("durable").ask(body)
        assert program.notes("durable-ended") == 1
    assert whole.text == "Let me see.\n\nIt is 3."
    assert whole.last.p == {"reason": "complete"}


def test_a_tool_that_must_not_run_twice_ends_the_stream(tmp_path: Path) -> None:
    body = envelope("add")
    with (
        Served(tmp_path) as program,
        pytest.raises(httpx2.TransportError),
        program.peer("careful").open(body) as answer,
    ):
        answer.until_raw(b"TOOL_CALL")
        program.wait_for_note("careful-began")
        program.kill()
        answer.rest()
    (tmp_path / "go").touch()
    with Served(tmp_path) as program:
        assert program.peer("careful").ask(body).last.p.code == "step_uncertain"
        assert program.notes("careful-began") == 1


# Approvals.


def question_of(answer: Answer) -> dict[str, Any]:
    [data] = of(answer, "QUESTION")
    name = f"question_{UUID(answer.stream_id).hex}"
    return {**data, "name": name}


def answer_with(name: str, session: str, **given: Any) -> dict[str, Any]:
    body = envelope("", session)
    body["payload"]["metadata"] = {"answer": {"question_id": name, **given}}
    return body


@pytest.mark.parametrize("agent", ["approving", "approving-durable"])
def test_an_approval_waits_across_a_restart(tmp_path: Path, agent: str) -> None:
    sessions = ("approve", "deny", "change", "words")
    with Served(tmp_path) as program:
        peer = program.peer(agent)
        asked = {name: peer.ask(envelope("add", name)) for name in sessions}
    questions = {name: question_of(answer) for name, answer in asked.items()}
    assert asked["deny"].text == 'Let me see.\n\nMay I call add with {"a":1,"b":2}?'
    assert questions["deny"]["call_id"] == "call-1"
    assert all("messages" not in event.data for event in asked["deny"].events)
    with Served(tmp_path) as program:
        peer, other = program.peer(agent), program.peer(agent, OTHER_KEY)
        name = questions["approve"]["name"]
        stolen = other.ask(answer_with(name, "mine", approved=True))
        assert not of(stolen, "TOOL_RESULT")
        assert program.notes(f"{agent}-ended") == 0

        approved = peer.ask(answer_with(name, "approve", approved=True))
        assert (approved.text, len(of(approved, "TOOL_CALL"))) == ("It is 3.", 1)
        assert program.notes(f"{agent}-ended") == 1
        assert peer.ask(envelope("yes", "words")).text == "It is 3."

        name = questions["change"]["name"]
        arguments = {"a": 5, "b": 6}
        changed = peer.ask(answer_with(name, "change", approved=True, arguments=arguments))
        assert changed.text == "It is 11."

        name = questions["deny"]["name"]
        denied = peer.ask(answer_with(name, "deny", approved=False, reason="Too dear."))
        assert denied.text == "It is Too dear.."
        assert of(denied, "TOOL_RESULT")[0]["is_error"] is True
        assert program.notes(f"{agent}-ended") == 3


@pytest.mark.parametrize("agent", ["approving", "approving-durable"])
def test_several_approvals_are_asked_for_one_after_the_other(served: Served, agent: str) -> None:
    peer = served.peer(agent)
    before = served.notes(f"{agent}-ended")
    first = peer.ask(envelope("add twice", "several"))
    assert question_of(first)["call_id"] == "call-1"
    second = peer.ask(envelope("yes", "several"))
    assert question_of(second)["call_id"] == "call-2"
    assert [data["call_id"] for data in of(second, "TOOL_CALL")] == ["call-2"]
    assert second.text == 'May I call add with {"a":10,"b":20}?'
    assert served.notes(f"{agent}-ended") == before
    last = peer.ask(envelope("no: never", "several"))
    assert last.text == "It is 3 and never."
    assert served.notes(f"{agent}-ended") == before + 1


@pytest.mark.parametrize("agent", ["approving", "approving-durable"])
def test_a_system_prompt_reaches_the_model_after_an_approval_too(
    served: Served, agent: str
) -> None:
    peer, texts = served.peer(agent), list[str]()
    for text in ("add", "yes"):  # a client that sends its system prompt with each request
        body = envelope(text, "prompted")
        prompt = {"role": "system", "parts": [{"type": "text", "content": "Be kind."}]}
        body["payload"]["messages"].insert(0, prompt)
        texts.append(peer.ask(body).text)
    assert texts[-1] == "It is 3. Be kind."


def test_changed_arguments_that_are_not_an_object_are_a_no(served: Served) -> None:
    peer = served.peer("approving")
    before = served.notes("approving-ended")
    name = question_of(peer.ask(envelope("add", "odd")))["name"]
    answer = peer.ask(answer_with(name, "odd", approved=True, arguments=[1, 2]))
    assert of(answer, "TOOL_RESULT")[0]["is_error"] is True
    assert served.notes("approving-ended") == before
