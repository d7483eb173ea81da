"""Graphs of LangGraph behind our log: the framework itself with fake models, in a process."""

import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from coreason_client import A2AClient
from coreason_client.a2a import Message, TaskState
from coreason_client.adapters.langgraph import as_agent
from coreason_manifest.definitions.presentation import StreamPacket
from tests.docs.blocks import parse
from tests.installed import python_environment, run_python
from tests.preloaded import PROJECT, PipedProcess
from tests.server.peer import Answer, Peer, envelope

ROOT = Path(__file__).parents[2]
PROGRAM = ["-m", "tests.adapters.langgraph_graphs"]
PACKAGES = ("langgraph==1.2.22", "langgraph-checkpoint-sqlite==3.1.2", "langchain==1.4.7")
MODULES = ("langchain.agents.middleware", "langgraph.checkpoint.sqlite.aio", "langgraph.prebuilt")
SEVEN = "Adding.\n\nIt is seven.\n\nGoodbye."
KEYS = ("1" * 32, "2" * 32)
SECONDS = 60.0  # the imports alone take seconds on an idle machine
pytestmark = pytest.mark.timeout(240)  # the first test installs the packages

GRAPHS = (
    "tools/durable/sqlite",
    "tools/plain/none",
    "own/durable/memory",
    "own/durable/none",
    "fakes/plain/none",
    "hidden/plain/memory",
    "nested/durable/sqlite",
    "custom/durable/sqlite",
    "failing/durable/sqlite",
    "strict/durable/sqlite",
    "strict/plain/memory",
    "routed/plain/memory",
    "structured/durable/sqlite",
    "hidden_structured/plain/memory",
    "json/plain/memory",
    "calls/plain/memory",
    "some/plain/memory",
    "both/plain/memory",
    "mood/durable/sqlite",
    "shouted/plain/memory",
    "interrupts/plain/none",
    "parallel/durable/sqlite",
    "parallel/plain/memory",
    "sent/plain/memory",
    "breakpoint/plain/memory",
)
CALL = {"call_id": "call-1", "name": "add", "arguments": {"a": 1, "b": 2}}
RESULT = {"call_id": "call-1", "name": "add", "result": "3", "is_error": False}


@pytest.fixture(scope="session")
def env() -> dict[str, str]:
    return {"PYTHONPATH": str(python_environment(*PACKAGES))}


def libraries() -> tuple[str, ...]:
    """What is imported once for all programs."""
    return str(python_environment(*PACKAGES)), *MODULES, *PROJECT


class Served:
    """A graph that another process serves."""

    def __init__(self, url: str) -> None:
        self.peers = [Peer(url, key) for key in KEYS]
        self.peer = self.peers[0]


class Process:
    """Serves one or more graphs."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self._process = PipedProcess(
            command, env={**os.environ, **env}, cwd=ROOT, libraries=libraries()
        )
        self.served = [Served(url) for url in self._process.line().split()]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(SECONDS)

    def close(self) -> None:
        for peer in (peer for served in self.served for peer in served.peers):
            peer.close()
        self._process.stdin.close()
        self._process.wait(SECONDS)
        self._process.close(SECONDS)


@contextmanager
def process(env: dict[str, str], folder: Path, *names: str) -> Iterator[Process]:
    started = Process([*PROGRAM, "serve", ",".join(names), str(folder)], env)
    try:
        yield started
    finally:
        started.close()


@pytest.fixture(scope="module")
def graphs(
    env: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Served]]:
    """Graphs that no test kills, all in one process."""
    with process(env, tmp_path_factory.mktemp("graphs"), *GRAPHS) as started:
        yield dict(zip(GRAPHS, started.served, strict=True))


def events(answer: Answer, kind: str) -> list[Any]:
    found = [packet.p for packet in answer.packets if packet.op == "EVENT"]
    payloads = [p if isinstance(p, dict) else p.model_dump() for p in found]
    return [payload["data"] for payload in payloads if payload["type"] == kind]


def notes(folder: Path) -> list[str]:
    path = folder / "notes"
    return path.read_text().splitlines() if path.exists() else []


def asking(text: str, session: str = "s", **answer: Any) -> dict[str, Any]:
    body = envelope(text, session)
    body["payload"]["metadata"] = {"answer": answer} if answer else {}
    return body


# What a graph does is what readers get.


def own_text(env: dict[str, str], folder: Path, name: str, question: str) -> str:
    command = [*PROGRAM, "own", name, str(folder), question]
    return str(run_python(command, env, ROOT, SECONDS, libraries())["text"])


def test_tools_usage_and_two_turns(
    graphs: dict[str, Served], env: dict[str, str], tmp_path: Path
) -> None:
    served = graphs["tools/durable/sqlite"]
    first, second = (served.peer.ask(envelope(text)) for text in ("1+2", "again"))
    other = served.peers[1].ask(envelope("1+2"))
    assert first.text == own_text(env, tmp_path, "tools", "1+2") == "Let me see.\n\nResult 1: 3."
    assert second.text == "Let me see.\n\nResult 2: 3."
    assert other.text == first.text, "another principal has another thread"
    assert (events(first, "TOOL_CALL"), events(first, "TOOL_RESULT")) == ([CALL], [RESULT])
    assert [call["call_id"] for call in events(second, "TOOL_CALL")] == ["call-2"]
    used = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14, "cost_estimate": None}
    assert events(first, "USAGE") == [used, used]


def test_models_that_do_not_stream_and_messages_without_a_model(
    graphs: dict[str, Served], env: dict[str, str], tmp_path: Path
) -> None:
    answer = graphs["fakes/plain/none"].peer.ask(envelope("?"))
    assert answer.text == own_text(env, tmp_path, "fakes", "?") == SEVEN
    assert len(events(answer, "TOOL_CALL")) == len(events(answer, "TOOL_RESULT")) == 1
    assert answer.last.p == {"reason": "complete"}


def test_the_history_of_a_graph_without_a_checkpointer(graphs: dict[str, Served]) -> None:
    peer = graphs["tools/plain/none"].peer
    texts = [peer.ask(envelope(text)).text for text in ("1+2", "again")]
    assert texts == ["Let me see.\n\nResult 1: 3.", "Let me see.\n\nResult 2: 3."]


def test_the_text_of_other_nodes_is_not_shown(graphs: dict[str, Served]) -> None:
    answer = graphs["hidden/plain/memory"].peer.ask(envelope("1+2"))
    assert answer.text == ""
    assert events(answer, "TOOL_CALL") == [CALL]
    assert len(events(answer, "USAGE")) == 2


def test_nested_graphs_thoughts_and_tokens(graphs: dict[str, Served]) -> None:
    peer = graphs["nested/durable/sqlite"].peer
    first, second = (peer.ask(envelope(text)) for text in ("2+2", "again"))
    assert [first.text, second.text] == ["Four.\n\nDone."] * 2
    assert events(first, "THOUGHT_TRACE") == [{"content": "Two and two."}]
    [usage] = events(first, "USAGE")
    assert [usage[name] for name in ("cached_tokens", "reasoning_tokens")] == [3, 2]


def test_another_state_and_what_a_node_writes_itself(graphs: dict[str, Served]) -> None:
    answer = graphs["custom/durable/sqlite"].peer.ask(envelope("hi"))
    assert answer.text == "words "
    assert events(answer, "MARKDOWN_BLOCK") == [{"content": "# Title"}]
    assert events(answer, "CUSTOM") == [{"done": 3}, "HI"]


def test_a_blank_line_separates_messages_of_one_node_and_not_their_words(
    graphs: dict[str, Served],
) -> None:
    text = graphs["sent/plain/memory"].peer.ask(envelope("go")).text
    assert sorted(text.split()) == ["One", "One", "three.", "three.", "two", "two"]
    assert text.count("\n\n") == 1


def test_a_structured_answer_is_written_once(graphs: dict[str, Served]) -> None:
    city = '{"name":"Rome","inhabitants":3}'
    answers = {
        "structured/durable/sqlite": f"Let me see.\n\n{city}",
        "hidden_structured/plain/memory": "",
        "json/plain/memory": city,
    }
    assert {name: graphs[name].peer.ask(envelope("?")).text for name in answers} == answers


def test_an_answer_without_text_is_logged(env: dict[str, str], tmp_path: Path) -> None:
    program = """
import json, logging
from typing import TypedDict
from langgraph.graph import START, StateGraph
from coreason_client import CAPClient
from coreason_client.adapters.langgraph import as_agent
from coreason_client.server import AgentApp, running

class State(TypedDict):
    question: str

found = []
class Handler(logging.Handler):
    def emit(self, record):
        found.append(getattr(record, "event", None))
logging.getLogger("coreason_client.server").addHandler(Handler())
graph = StateGraph(State).add_node("node", lambda state: state).add_edge(START, "node").compile()
agent = as_agent(graph, input=lambda request, messages: {"question": messages[-1].text})
with running(AgentApp(agent)) as server, CAPClient(server.url, "k") as client:
    text = client.ask("hi")
print(json.dumps({"text": text, "events": found}))
"""
    got = run_python(["-c", program], env, tmp_path, SECONDS, libraries())
    assert got["text"] == ""
    assert got["events"].count("graph_without_text") == 1


def test_a_conversation_goes_on_after_an_error(graphs: dict[str, Served]) -> None:
    peer = graphs["failing/durable/sqlite"].peer
    failed = peer.ask(envelope("fail"))
    assert (failed.text, failed.last.p.code) == ("1", "agent_error")
    assert peer.ask(envelope("go on")).text == "3\n\nfine"


@pytest.mark.parametrize("name", ["strict/durable/sqlite", "strict/plain/memory"])
def test_calls_that_were_interrupted_get_a_result(graphs: dict[str, Served], name: str) -> None:
    peer, interrupted = graphs[name].peer, "risk error: This call was interrupted. "
    with peer.open(envelope("wait")) as answer:
        answer.until_raw(b"TOOL_RESULT")  # of the other tool
        assert peer.cancel(answer.stream_id) == 204
        assert answer.rest().last.p.code == "cancelled"
    following = peer.ask(envelope("hello"))
    assert following.text.startswith(f"add success: 3; {interrupted}")
    assert not events(following, "TOOL_RESULT")
    assert peer.ask(envelope("again")).text == following.text
    assert peer.ask(envelope("fail", "failed")).last.p.code == "agent_error"
    assert peer.ask(envelope("hello", "failed")).text.startswith(interrupted)


@pytest.mark.parametrize("name", ["strict/durable/sqlite", "strict/plain/sqlite"])
def test_a_cancel_does_not_leave_the_file_of_the_saver_locked(
    env: dict[str, str], tmp_path: Path, name: str
) -> None:
    with process(env, tmp_path, name) as started:
        for number in range(40):
            with started.served[0].peer.open(envelope("wait", f"s-{number}")) as answer:
                answer.until_raw(b"TOOL_RESULT")
                assert started.served[0].peer.cancel(answer.stream_id) == 204
                assert answer.rest().last.p.code == "cancelled"
            with closing(sqlite3.connect(tmp_path / "strict.db", timeout=1.0)) as other:
                other.execute("BEGIN IMMEDIATE")


def test_calls_before_the_last_message_of_a_model_get_no_result(graphs: dict[str, Served]) -> None:
    peer = graphs["routed/plain/memory"].peer
    assert [peer.ask(envelope(text)).text for text in ("go", "on", "on")] == ["1", "4", "7"]


def test_clients_that_send_their_history(env: dict[str, str], tmp_path: Path) -> None:
    said = [
        {"role": "user", "content": "1+2"},
        {"role": "assistant", "content": "It is 3."},
        {"role": "user", "content": "again"},
    ]
    thread = {"threadId": "t", "messages": [{"id": "1", "role": "user", "content": "go"}]}
    with process(env, tmp_path, "tools/durable/sqlite", "approval/durable/sqlite") as started:
        tools, approval = (served.peer.http for served in started.served)
        body = {"model": "tools", "messages": said}
        completion = tools.post("/v1/chat/completions", json=body).json()
        text = approval.post("/ag-ui", json={**thread, "runId": "1"}).text
        last = json.loads(text.strip().rpartition("data: ")[2])
        [interrupt] = last["outcome"]["interrupts"]
        payload = {"approved": True, "arguments": {"path": "z"}}
        entry = {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}
        text = approval.post("/ag-ui", json={**thread, "runId": "2", "resume": [entry]}).text
    assert completion["choices"][0]["message"]["content"] == "Let me see.\n\nResult 2: 3."
    assert "z is gone" in text
    assert [note for note in notes(tmp_path) if "delete" in note] == ["delete z"]
    for name in ("tools.db", "approval.db"):
        with closing(sqlite3.connect(tmp_path / name)) as database:
            [[count]] = database.execute("SELECT count(*) FROM checkpoints")
            assert count == 0, "no request continues these threads"


# Questions.


def test_approvals_wait_across_a_restart(env: dict[str, str], tmp_path: Path) -> None:
    name = "approval/durable/sqlite"
    answers: dict[str, Any] = {
        "x is gone": {"approved": True},
        "y is gone": {"approved": True, "arguments": {"path": "y"}},
        "too late": {"approved": False, "reason": "too late"},
    }
    with process(env, tmp_path, name) as started:
        peer = started.served[0].peer
        asked = {result: peer.ask(envelope("go", session=result)) for result in answers}
        started.kill()
    with process(env, tmp_path, name) as started:
        own, strange = started.served[0].peers
        for result, answer in answers.items():
            [question] = events(asked[result], "QUESTION")
            [call] = events(asked[result], "TOOL_CALL")
            assert question["call_id"] == call["call_id"]
            assert asked[result].last.p["reason"] == "input_required"
            named = f"question_{asked[result].stream_id.replace('-', '')}"
            body = asking("", result, question_id=named, **answer)
            assert not events(strange.ask({**body, "request_id": str(uuid4())}), "TOOL_RESULT")
            answered = own.ask(body)
            [found] = events(answered, "TOOL_RESULT")
            assert found["call_id"] == call["call_id"]
            assert result in found["result"]
            assert found["is_error"] is not answer["approved"]
            assert answered.text.startswith("Result 1: ")
    done = [note for note in notes(tmp_path) if note != "model"]
    assert done == ["delete x", "delete y"]


@pytest.mark.parametrize(("answer", "result"), [("yes", "x is gone"), ("no: never", "never")])
def test_approvals_of_single_calls(graphs: dict[str, Served], answer: str, result: str) -> None:
    peer = graphs["calls/plain/memory"].peer
    [question] = events(peer.ask(envelope("go", result)), "QUESTION")
    assert question["call_id"] == "call-1"
    [found] = events(peer.ask(envelope(answer, result)), "TOOL_RESULT")
    assert result in found["result"]


def test_a_question_belongs_to_the_call_with_its_arguments(graphs: dict[str, Served]) -> None:
    peer = graphs["some/plain/memory"].peer
    asked = peer.ask(envelope("go"))
    assert [call["call_id"] for call in events(asked, "TOOL_CALL")] == ["x", "y"]
    [question] = events(asked, "QUESTION")
    assert question["call_id"] == "x"
    results = events(peer.ask(envelope("no: never")), "TOOL_RESULT")
    assert {one["call_id"]: one["is_error"] for one in results} == {"x": True, "y": False}


@pytest.mark.parametrize(
    ("name", "arguments"), [("both", {"path": "z"}), ("both", ["z"]), ("calls", ["z"])]
)
def test_other_arguments_that_fit_no_call_are_a_no(
    graphs: dict[str, Served], name: str, arguments: Any
) -> None:
    peer, session = graphs[f"{name}/plain/memory"].peer, f"other {arguments}"
    calls = events(peer.ask(envelope("go", session)), "TOOL_CALL")
    answer = peer.ask(asking("", session, approved=True, arguments=arguments))
    assert answer.last.p == {"reason": "complete"}
    results = events(answer, "TOOL_RESULT")
    assert [one["call_id"] for one in results] == [one["call_id"] for one in calls]
    assert all(one["is_error"] for one in results)


def test_an_answer_to_a_question_that_the_graph_no_longer_asks(graphs: dict[str, Served]) -> None:
    """A message that begins another task is no answer, and the graph starts again with it."""
    http = graphs["mood/durable/sqlite"].peer.http
    url, headers = f"{http.base_url}/a2a", {"Authorization": f"Bearer {KEYS[0]}"}
    with A2AClient(url, headers=headers, timeout=SECONDS) as client:
        asked: Any = client.send_message("ask")
        other: Any = client.send_message(Message.user("go", context_id=asked.context_id))
        late: Any = client.send_message("yes", reply_to=asked)
    found = [task.status.state for task in (asked, other, late)]
    assert found == [TaskState.INPUT_REQUIRED, TaskState.COMPLETED, TaskState.FAILED]
    assert late.status.message.text == "The graph no longer waits for this."


def test_a_thread_is_kept_when_another_conversation_answers(
    env: dict[str, str], tmp_path: Path
) -> None:
    with process(env, tmp_path, "approval/durable/sqlite") as started:
        peer = started.served[0].peer
        named = f"question_{peer.ask(envelope('go')).stream_id.replace('-', '')}"
        answer = peer.ask(asking("", "other", question_id=named, approved=True))
        assert answer.text == "Result 1: x is gone."
    with closing(sqlite3.connect(tmp_path / "approval.db")) as database:
        [[threads]] = database.execute("SELECT count(DISTINCT thread_id) FROM checkpoints")
        assert threads == 1


def test_several_interrupts(env: dict[str, str], tmp_path: Path) -> None:
    said = []
    for texts in (("go", "Ann"), ("Lee", "yes", "no")):  # the second process gets the answers
        with process(env, tmp_path, "interrupts/durable/sqlite") as started:
            said += [started.served[0].peer.ask(envelope(text)).text for text in texts]
            started.kill()
    assert said[:4] == ["Your first name?", "Your last name?", "a?", "b?"]
    assert said[4] == "Ann Lee a=True b=False"
    assert notes(tmp_path).count("tell") == 1


@pytest.mark.parametrize("name", ["parallel/durable/sqlite", "parallel/plain/memory"])
def test_an_answer_does_not_show_nodes_that_had_ended(graphs: dict[str, Served], name: str) -> None:
    answers = [graphs[name].peer.ask(envelope(text)) for text in ("go", "yes", "no")]
    texts = [answer.text for answer in answers]
    assert texts == ["The report.\n\na?", "a? yes.\n\nb?", "b? no.\n\nDone."]
    for kind in ("USAGE", "TOOL_CALL", "TOOL_RESULT"):
        assert [len(events(answer, kind)) for answer in answers] == [1, 0, 0]


def test_interrupts_without_a_tool_call_over_ag_ui(env: dict[str, str], tmp_path: Path) -> None:
    thread = {"threadId": "t", "messages": [{"id": "1", "role": "user", "content": "go"}]}
    asked, resume, text = list[str](), list[Any](), ""
    with process(env, tmp_path, "interrupts/durable/sqlite") as started:
        http = started.served[0].peer.http
        for number, payload in enumerate(("Ann", "Lee", "yes", "yes", None)):
            body = {**thread, "runId": f"r{number}", "resume": resume}
            text = http.post("/ag-ui", json=body).text
            if payload is not None:
                last = json.loads(text.strip().rpartition("data: ")[2])
                [interrupt] = last["outcome"]["interrupts"]
                asked.append(interrupt["message"])
                resume = [
                    {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}
                ]
    assert asked == ["Your first name?", "Your last name?", "a?", "b?"]
    assert "Ann Lee a=True b=True" in text


def test_the_answer_can_be_made_by_a_function(graphs: dict[str, Served]) -> None:
    peer = graphs["shouted/plain/memory"].peer
    said = [peer.ask(envelope(text)).text for text in ("go", "Ann", "Lee", "yes", "no")]
    assert said[-1].startswith("ANN/Your first name? LEE/Your last name?")


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("own/durable/memory", "checkpointer_missing", "and this one has InMemorySaver."),
        ("own/durable/none", "checkpointer_missing", "and this one has none."),
        ("interrupts/plain/none", "checkpointer_missing", "a graph needs a checkpointer."),
        ("breakpoint/plain/memory", "breakpoints_refused", "call interrupt() in a node."),
    ],
)
def test_graphs_that_cannot_be_served_say_why(
    graphs: dict[str, Served], name: str, code: str, message: str
) -> None:
    error = graphs[name].peer.ask(envelope("go")).last.p
    assert error.code == code
    assert error.message.endswith(message)


# Deaths.


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_kill_between_the_tool_and_the_answer(
    env: dict[str, str], tmp_path: Path, is_changed: bool
) -> None:
    body, name = envelope("1+2"), "tools/durable/sqlite"
    if is_changed:
        body["payload"]["capabilities"] = {"supported_events": ["REWIND"]}
    hold = tmp_path / "hold"
    hold.touch()
    with (
        process(env, tmp_path, name) as started,
        pytest.raises(httpx2.TransportError),
        started.served[0].peer.open(body) as begun,
    ):
        begun.until_raw(b'Result "')
        started.kill()
        begun.rest()
    hold.unlink()
    if is_changed:
        (tmp_path / "changed").touch()
    with process(env, tmp_path, name) as started:
        peer = started.served[0].peer
        rest, whole = peer.ask(body, begun.events[-1].id), peer.ask(body)
        assert notes(tmp_path).count("add 1 2") == 1
        following = peer.ask(envelope("again"))
    assert begun.packets + rest.packets == whole.packets
    assert (events(whole, "TOOL_CALL"), events(whole, "TOOL_RESULT")) == ([CALL], [RESULT])
    voided, shown = events(whole, "REWIND"), list[StreamPacket]()
    for packet in whole.packets:
        if voided and isinstance(packet.p, dict) and packet.p.get("type") == "REWIND":
            shown = [one for one in shown if one.seq <= voided[0]["to_seq"]]
        shown.append(packet)
    text = "".join(packet.p for packet in shown if packet.op == "DELTA")
    assert text == ("Let me see.\n\nResult: 3!" if is_changed else "Let me see.\n\nResult 1: 3.")
    assert len(voided) == is_changed
    if not is_changed:
        assert following.text == "Let me see.\n\nResult 2: 3."


@pytest.mark.parametrize(
    ("name", "conversations", "again"),
    [
        ("tools", ["1+2", "1+2|again"], {"model"}),
        ("approval", ["go", "go|yes", "go|no: never"], {"model"}),
        # A node starts again after an interrupt.
        ("interrupts", ["go|Ann", "go|Ann|Lee"], {"name", "first Ann"}),
        ("parallel", ["go|yes", "go|yes|no"], set()),
        ("structured", ["?"], {"model"}),
        ("strict", ["fail|hello"], set()),
        # LangGraph runs only the nodes of a nested graph again that had not ended.
        ("nested_steps", ["go", "go|yes"], {"one", "two", "three"}),
    ],
)
def test_a_death_at_any_append(
    env: dict[str, str], tmp_path: Path, name: str, conversations: list[str], again: set[str]
) -> None:
    paths = {"PYTHONPATH": f"{ROOT}{os.pathsep}{env['PYTHONPATH']}"}
    first, *others = conversations
    command = ["-m", "tests.adapters.langgraph_deaths", name, first, str(tmp_path), *others]
    got = run_python(command, paths, ROOT, 3 * SECONDS, libraries())
    assert list(got) == conversations
    for conversation, deaths in got.items():
        restarts = [found["restarts"] for found in deaths.values()]
        # How text is joined to appends depends on the time, so the last ones may be missing.
        assert set(restarts) <= {0, 1}
        assert sum(restarts) > 10
        for death, found in deaths.items():
            kept = (found["equal"], found["rewinds"], found["not"])
            assert kept == (True, 0, []), (conversation, death, found)
            assert set(found["again"]) <= again, (conversation, death, found)


# Arguments.


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langgraph", None)
    with pytest.raises(ImportError, match=r"this agent needs the package langgraph: pip install"):
        as_agent(object())


def test_only_compiled_graphs_are_accepted(env: dict[str, str], tmp_path: Path) -> None:
    program = """
import json
from langgraph.graph import MessagesState, StateGraph
from coreason_client.adapters.langgraph import as_agent
found = []
for graph in (StateGraph(MessagesState), print):
    try:
        as_agent(graph)
    except ValueError as error:
        found.append(str(error).partition(",")[0])
print(json.dumps({"errors": found}))
"""
    got = run_python(["-c", program], env, tmp_path, SECONDS, libraries())
    assert got["errors"] == ["graph must be a graph of LangGraph: call its compile()"] * 2


def test_a_durable_application_refuses_a_graph_at_once(env: dict[str, str], tmp_path: Path) -> None:
    program = """
import json
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from coreason_client.server import AgentApp, SQLiteStreamLog
builder = StateGraph(MessagesState).add_node("node", lambda state: {}).add_edge(START, "node")
errors, log = [], SQLiteStreamLog("log.db")
class Surviving(InMemorySaver):
    pass
for options in (
    {},
    {"checkpointer": InMemorySaver()},
    {"checkpointer": Surviving(), "interrupt_before": ["node"]},
):
    try:
        AgentApp(builder.compile(**options), log=log, durable=True)
    except ValueError as error:
        errors.append(str(error))
AgentApp(builder.compile(checkpointer=Surviving()), log=log, durable=True)
print(json.dumps({"errors": errors}))
"""
    got = run_python(["-c", program], env, tmp_path, SECONDS, libraries())
    rule = "durable cannot be used with this agent: "
    assert all(error.startswith(rule) for error in got["errors"])
    ends = [error.rpartition(" ")[2] for error in got["errors"]]
    assert ends == ["none.", "InMemorySaver.", "node."]


# The page.


def test_the_program_of_the_page_runs(env: dict[str, str], tmp_path: Path) -> None:
    page = "docs/langgraph.md"
    program = next(
        block for block in parse((ROOT / page).read_text(), page) if block.language == "python"
    )
    assert len(program.code.splitlines()) <= 25
    (tmp_path / "graph_agent.py").write_text(program.code)
    serve = """
import sys
from coreason_client.server import running
from graph_agent import app
with running(app) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""
    paths = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{env['PYTHONPATH']}"}
    started = Process(["-c", f"import os; os.chdir({str(tmp_path)!r})\n{serve}"], paths)
    try:
        peer = started.served[0].peer
        texts = [peer.ask(envelope(text)).text for text in ("hello", "again")]
    finally:
        started.close()
    assert texts == ["You said: hello", "You said: again"]
