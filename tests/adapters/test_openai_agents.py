"""Agents of the OpenAI Agents SDK behind the server kit: the real SDK, with a fake model.

The agents and the model are in `openai_agents_program.py`, which runs in a process with the SDK.
"""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from coreason_client.adapters.openai_agents import as_agent
from coreason_client.testing import ModelToolCall, ModelTurn, fake_model
from tests.docs.blocks import parse
from tests.installed import python_environment
from tests.server.peer import Answer, Peer, envelope

PACKAGES = ("openai-agents==0.24.0", "openai==3.51.0")
ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
BOTH = pytest.mark.parametrize("durable", [False, True], ids=["plain", "durable"])

pytestmark = pytest.mark.timeout(300)  # the first test installs the SDK


class Sdk:
    """The process that has the SDK; it makes copies of itself."""

    def __init__(self) -> None:
        folders = (python_environment(*PACKAGES), ROOT / "src", ROOT)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.adapters.openai_agents_program"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": ":".join(map(str, folders))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        assert self.answer() == {"ready": True}

    def ask(self, **request: Any) -> Any:
        """Send a request, and return the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(request)}\n")
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> Any:
        """Return the next answer."""
        return json.loads(self._lines.get(timeout=PATIENCE))

    def own(self, name: str, text: str) -> Any:
        """Return the answer of the SDK itself."""
        return self.ask(do="own", arguments={"name": name, "text": text})["text"]

    @contextmanager
    def served(
        self,
        name: str,
        folder: Path,
        *,
        durable: bool,
        once: tuple[str, ...] = (),
        **options: str,
    ) -> Iterator["Served"]:
        """Serve an agent on a log in a folder, and kill its process at the end."""
        arguments = {"name": name, "durable": durable, "once": once}
        with self.process(folder, "serve", arguments, **options) as served:
            yield served

    @contextmanager
    def process(
        self, folder: Path, do: str, arguments: dict[str, Any], **options: str
    ) -> Iterator["Served"]:
        """Run a server, and kill its process at the end."""
        options = {"notes": str(folder / "notes"), **options}
        process = self.ask(do=do, arguments=arguments, options=options)
        served = Served(process["url"], process["pid"], folder)
        try:
            yield served
        finally:
            assert self.ask(kill=process["pid"]) == {"ended": process["pid"]}
            served.one.close()
            served.two.close()

    def close(self) -> None:
        self._process.communicate(timeout=PATIENCE)
        self._reader.join(PATIENCE)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)


class Served:
    """A served agent, and two callers."""

    def __init__(self, url: str, pid: int, folder: Path) -> None:
        self.pid = pid
        self.one, self.two = Peer(url, "1" * 32), Peer(url, "2" * 32)
        self._notes = folder / "notes"

    @property
    def notes(self) -> list[str]:
        """What tools and model have done, in all processes."""
        return self._notes.read_text().splitlines()


@pytest.fixture(scope="module")
def sdk() -> Iterator[Sdk]:
    made = Sdk()
    yield made
    made.close()


def events(answer: Answer, *kinds: str) -> list[tuple[str, Any]]:
    """Return the events of these types, with their data."""
    found = []
    for packet in answer.packets:
        if packet.op == "EVENT":
            event = packet.p if isinstance(packet.p, dict) else packet.p.model_dump(mode="json")
            if event["type"] in kinds:
                found.append((event["type"], event["data"]))
    return found


def answered(peer: Peer, text: str, session: str = "s", **decision: Any) -> Answer:
    body = envelope(text, session)
    if decision:
        body["payload"]["metadata"] = {"answer": decision}
    return peer.ask(body)


@BOTH
def test_the_answer_is_that_of_the_sdk_with_its_tools(
    tmp_path: Path, sdk: Sdk, durable: bool
) -> None:
    expected = sdk.own("tools", "weather Paris")
    with sdk.served("tools", tmp_path, durable=durable) as agent:
        answer = agent.one.ask(envelope("weather Paris"))
        notes = agent.notes
    assert answer.text == expected
    assert "sun in Paris" in expected
    assert sorted(notes) == ["clock", "model function_call", "model message", "weather Paris"]
    [*calls, first, one, two, second] = events(answer, "TOOL_CALL", "TOOL_RESULT", "USAGE")
    assert [(kind, data["call_id"], data["name"], data["arguments"]) for kind, data in calls] == [
        ("TOOL_CALL", "c1", "weather", {"city": "Paris"}),
        ("TOOL_CALL", "c/2#@", "clock", {}),
    ]
    assert [(data["call_id"], data["result"], data["is_error"]) for _, data in (one, two)] == [
        ("c1", "sun in Paris", False),
        ("c/2#@", "{'hour': 12, 'zones': ('UTC',)}", False),
    ]
    usages = [(data["prompt_tokens"], data["total_tokens"]) for _, data in (first, second)]
    assert usages == [(1, 8), (5, 12)]
    assert (first[1]["model"], first[1]["cached_tokens"], first[1]["reasoning_tokens"]) == (
        *("fake", 1, 2),
    )


@BOTH
def test_the_second_turn_has_the_first_one_once(tmp_path: Path, sdk: Sdk, durable: bool) -> None:
    with sdk.served("plain", tmp_path, durable=durable) as agent:
        first = agent.one.ask(envelope("hello"))
        second = agent.one.ask(envelope("again"))
        elsewhere = agent.one.ask(envelope("new", "other"))
        stranger = agent.two.ask(envelope("mine"))
    texts = [answer.text for answer in (first, second, elsewhere, stranger)]
    assert texts == ["hello", "hello | hello | again", "new", "mine"]
    assert [data["content"] for _, data in events(first, "THOUGHT_TRACE")] == ["It is easy."]


@BOTH
def test_a_handoff_is_shown_and_the_next_agent_has_its_tools(
    tmp_path: Path, sdk: Sdk, durable: bool
) -> None:
    with sdk.served("triage", tmp_path, durable=durable) as agent:
        answer = agent.one.ask(envelope("handoff now"))
    handed = '{"assistant": "writer"}'
    assert answer.text == f"I look.\n\nThe results are {handed} and sun in Oslo so far."
    assert answer.text.endswith(sdk.own("triage", "handoff now"))
    [progress, call, result] = events(answer, "PROGRESS_INDICATOR", "TOOL_CALL", "TOOL_RESULT")
    assert (progress[1]["label"], progress[1]["status"]) == ("Handoff to writer", "complete")
    assert [data["name"] for _, data in (call, result)] == ["weather", "weather"]


@BOTH
def test_a_tool_can_end_the_run(tmp_path: Path, sdk: Sdk, durable: bool) -> None:
    with sdk.served("last", tmp_path, durable=durable) as agent:
        answer = agent.one.ask(envelope("weather Rome"))
    assert answer.text == sdk.own("last", "weather Rome") == "sun in Rome"
    assert len(events(answer, "TOOL_RESULT")) == 2


@pytest.mark.parametrize("word", ["The", "are"])
@pytest.mark.parametrize(("agent", "text"), [("tools", "weather Paris"), ("triage", "handoff x")])
def test_after_a_kill_the_tools_ran_once_and_the_text_appears_once(
    tmp_path: Path, sdk: Sdk, agent: str, text: str, word: str
) -> None:
    """The process dies after the tools, before or in the middle of the answer."""
    body = envelope(text)
    with (
        sdk.served(agent, tmp_path, durable=True, hold=word) as first,
        first.one.open(body) as answer,
    ):
        assert sdk.answer() == {"held": word}
        if word == "are":
            answer.until_raw(b"results")
    with sdk.served(agent, tmp_path, durable=True) as second:
        whole = second.one.ask(body)
        other = second.one.ask(envelope(text, "other"))
        notes = second.notes
    assert whole.last.op == "CLOSE"
    assert whole.text == other.text
    assert whole.seqs == list(range(1, len(whole.seqs) + 1))
    kinds = ("TOOL_CALL", "TOOL_RESULT", "USAGE", "PROGRESS_INDICATOR")
    assert [data for _, data in events(whole, *kinds)] == [
        data for _, data in events(other, *kinds)
    ]
    tools = [line for line in notes if not line.startswith("model")]
    assert len(tools) == 2 * len(set(tools)), "each tool ran once in each of the two streams"
    # The answer that was interrupted was asked for again, and no other one.
    assert notes.count("model message") == 3


def test_another_answer_after_a_kill_takes_the_first_one_back(tmp_path: Path, sdk: Sdk) -> None:
    body = envelope("weather Paris")
    body["payload"] |= {"capabilities": {"supported_events": ["REWIND"]}}
    with (
        sdk.served("tools", tmp_path, durable=True, hold="are") as agent,
        agent.one.open(body) as answer,
    ):
        assert sdk.answer() == {"held": "are"}
        answer.until_raw(b"results")
    with sdk.served("tools", tmp_path, durable=True, first="Those") as agent:
        whole = agent.one.ask(body)
        notes = agent.notes
    [(_, rewind)] = events(whole, "REWIND")
    void = [packet.p for packet in whole.packets if packet.op == "DELTA"][:2]
    assert void == ["The", " results"]
    assert whole.text.removeprefix("".join(void)).startswith("Those results are sun in Paris")
    assert [packet.p for packet in whole.packets if packet.seq == rewind["to_seq"] + 1] == ["The"]
    assert notes.count("weather Paris") == 1


@BOTH
def test_an_approval_waits_across_a_restart(tmp_path: Path, sdk: Sdk, durable: bool) -> None:
    with sdk.served("careful", tmp_path, durable=durable) as agent:
        asked = agent.one.ask(envelope("delete x"))
    assert asked.text == 'May I call delete with {"path": "x"}?'
    assert asked.last.p["reason"] == "input_required"
    [(_, call), (_, question)] = events(asked, "TOOL_CALL", "QUESTION")
    assert call["call_id"] == question["call_id"] == "d-x"
    name = f"question_{UUID(asked.stream_id).hex}"
    with sdk.served("careful", tmp_path, durable=durable) as agent:
        # The other principal gets a conversation of its own, and cannot name the question.
        stranger = answered(agent.two, "yes")
        named = answered(agent.two, "yes", question_id=name, approved=True)
        assert [stranger.text, named.status] == ["yes", 409]
        assert "delete x" not in agent.notes
        answer = answered(agent.one, "yes")
        again = answered(agent.one, "yes")
        notes = agent.notes
    assert answer.text == "The results are x deleted so far."
    shown = events(answer, "TOOL_CALL", "TOOL_RESULT")
    assert [(kind, data["call_id"]) for kind, data in shown] == [
        ("TOOL_CALL", "d-x"),
        ("TOOL_RESULT", "d-x"),
    ]
    assert shown[1][1]["result"] == "x deleted"
    assert notes.count("delete x") == 1
    assert again.text.endswith("| yes")  # a new turn: the question was answered


@BOTH
def test_a_denial_reaches_the_model_with_its_reason(
    tmp_path: Path, sdk: Sdk, durable: bool
) -> None:
    with sdk.served("careful", tmp_path, durable=durable) as agent:
        agent.one.ask(envelope("delete x"))
    with sdk.served("careful", tmp_path, durable=durable) as agent:
        answer = answered(agent.one, "no: keep it")
        notes = agent.notes
    assert answer.text == "The results are keep it so far."
    [(_, result)] = events(answer, "TOOL_RESULT")
    assert (result["result"], result["is_error"]) == ("keep it", True)
    assert "delete x" not in notes


def test_other_arguments_are_a_new_call_that_is_asked_for(tmp_path: Path, sdk: Sdk) -> None:
    with sdk.served("careful", tmp_path, durable=True) as agent:
        asked = agent.one.ask(envelope("delete x"))
        name = f"question_{UUID(asked.stream_id).hex}"
        changed: dict[str, Any] = {
            "question_id": name,
            "approved": True,
            "arguments": {"path": "other"},
        }
        second = answered(agent.one, "", "s", **changed)
        assert second.text == 'May I call delete with {"path": "other"}?'
        third = answered(agent.one, "yes")
        notes = agent.notes
    assert third.text.endswith("other deleted so far.")
    assert [line for line in notes if line.startswith("delete")] == ["delete other"]


@BOTH
def test_an_approval_after_a_handoff(tmp_path: Path, sdk: Sdk, durable: bool) -> None:
    """The agent that goes on is the one that had asked, with its copied model and tools."""
    with sdk.served("triage", tmp_path, durable=durable) as agent:
        asked = agent.one.ask(envelope("handoff delete"))
    with sdk.served("triage", tmp_path, durable=durable) as agent:
        answer = answered(agent.one, "yes")
        notes = agent.notes
    assert asked.text == 'I look.\n\nMay I call delete with {"path": "x"}?'
    assert answer.text == 'The results are {"assistant": "writer"} and x deleted so far.'
    assert [kind for kind, _ in events(answer, "TOOL_CALL", "TOOL_RESULT", "USAGE")] == [
        *("TOOL_CALL", "TOOL_RESULT", "USAGE"),
    ]
    assert notes.count("delete x") == 1


@BOTH
def test_several_approvals_are_asked_for_one_by_one(
    tmp_path: Path, sdk: Sdk, durable: bool
) -> None:
    with sdk.served("careful", tmp_path, durable=durable) as agent:
        texts = [agent.one.ask(envelope("delete a b")).text]
        texts += [answered(agent.one, text).text for text in ("yes", "no: keep it")]
        notes = agent.notes
    assert texts == [
        'May I call delete with {"path": "a"}?',
        'May I call delete with {"path": "b"}?',
        "The results are a deleted and keep it so far.",
    ]
    assert [line for line in notes if line.startswith("delete")] == ["delete a"]


def test_a_process_that_dies_during_an_approved_call_continues(tmp_path: Path, sdk: Sdk) -> None:
    body = envelope("yes")
    with sdk.served("careful", tmp_path, durable=True, hold="The") as agent:
        agent.one.ask(envelope("delete x"))
        with agent.one.open(body):
            assert sdk.answer() == {"held": "The"}
    with sdk.served("careful", tmp_path, durable=True) as agent:
        answer = agent.one.ask(body)
        notes = agent.notes
    assert answer.text == "The results are x deleted so far."
    assert notes.count("delete x") == 1
    assert len(events(answer, "TOOL_RESULT")) == 1


def test_the_context_is_not_stored_with_a_question(tmp_path: Path, sdk: Sdk) -> None:
    with sdk.served("careful", tmp_path, durable=False) as agent:
        agent.one.ask(envelope("delete x"))
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("log.db*"))
    assert b"delete" in stored
    assert b"of one" not in stored


@BOTH
def test_the_objects_of_the_user_are_not_changed(tmp_path: Path, sdk: Sdk, durable: bool) -> None:
    for name, text in (("triage", "handoff x"), ("named", "hello")):
        with sdk.served(name, tmp_path, durable=durable) as agent:
            assert agent.one.ask(envelope(text)).last.op == "CLOSE"
            assert sdk.ask(signal=agent.pid) == {"unchanged": True}


@BOTH
def test_a_policy_of_a_tool_is_asked_as_by_the_sdk(tmp_path: Path, sdk: Sdk, durable: bool) -> None:
    """The SDK asks for an approval whenever the arguments are not those that the tool gets."""
    with sdk.served("mover", tmp_path, durable=durable) as agent:
        asked = [agent.one.ask(envelope(f"move path={path}", path)).text for path in ("safe", "x")]
    assert asked == [f'May I call move with {{"path": "{path}"}}?' for path in ("safe", "x")]
    assert sdk.own("mover", "move path=safe") is None


def test_a_tool_of_an_mcp_server_is_a_step(tmp_path: Path, sdk: Sdk) -> None:
    body = envelope("echo text=hi")
    with (
        sdk.served("echo", tmp_path, durable=True, hold="The") as agent,
        agent.one.open(body),
    ):
        assert sdk.answer() == {"held": "The"}
    with sdk.served("echo", tmp_path, durable=True) as agent:
        answer = agent.one.ask(body)
        notes = agent.notes
    assert answer.text == sdk.own("echo", "echo text=hi")
    assert notes.count("echo hi") == 1


@pytest.mark.parametrize("once", [(), ("pay",)], ids=["rerun", "once"])
def test_a_tool_that_was_interrupted(tmp_path: Path, sdk: Sdk, once: tuple[str, ...]) -> None:
    body = envelope("pay")
    with (
        sdk.served("payer", tmp_path, durable=True, hold="pay", once=once) as agent,
        agent.one.open(body),
    ):
        assert sdk.answer() == {"held": "pay"}
    with sdk.served("payer", tmp_path, durable=True, once=once) as agent:
        answer = agent.one.ask(body)
        notes = agent.notes
    if once:
        assert answer.last.p.code == "step_uncertain"
        assert notes.count("pay") == 1
    else:
        assert answer.text == "The results are paid so far."
        assert notes.count("pay") == 2


@BOTH
def test_an_agent_that_is_a_tool_is_one_call(tmp_path: Path, sdk: Sdk, durable: bool) -> None:
    """Its text is not mixed with the answer, and its approvals are asked for."""
    with sdk.served("nested", tmp_path, durable=durable) as agent:
        answer = agent.one.ask(envelope("helper input=hello"))
        asked = agent.one.ask(envelope("helper input=delete+x", "other"))
    with sdk.served("nested", tmp_path, durable=durable) as agent:
        deleted = answered(agent.one, "yes", "other")
        notes = agent.notes
    assert answer.text == "The results are hello so far."
    assert [data["name"] for _, data in events(answer, "TOOL_CALL")] == ["helper"]
    assert asked.text == 'May I call delete with {"path": "x"}?'
    assert deleted.text == "The results are The results are x deleted so far. so far."
    assert notes.count("delete x") == 1


@BOTH
def test_two_runs_of_an_agent_that_is_a_tool_may_have_calls_with_the_same_id(
    tmp_path: Path, sdk: Sdk, durable: bool
) -> None:
    with sdk.served("nested", tmp_path, durable=durable) as agent:
        asked = agent.one.ask(envelope("twice x y"))
        first, second = (answered(agent.one, "yes") for _ in range(2))
        notes = agent.notes
    questions = [f'May I call delete with {{"path": "{path}"}}?' for path in "xy"]
    assert [asked.text, first.text] == questions
    assert all(f"{path} deleted" in second.text for path in "xy")
    assert [note for note in notes if "delete" in note] == ["delete x", "delete y"]


@BOTH
def test_a_search_of_the_provider_is_shown(tmp_path: Path, sdk: Sdk, durable: bool) -> None:
    with sdk.served("plain", tmp_path, durable=durable) as agent:
        answer = agent.one.ask(envelope("search cats"))
    [(_, call), (_, result)] = events(answer, "TOOL_CALL", "TOOL_RESULT")
    assert (call["name"], call["arguments"]["action"]["query"]) == ("web_search", "cats")
    assert (result["call_id"], result["result"]) == (call["call_id"], "completed")
    assert answer.text == "Found."


@BOTH
def test_errors_of_the_sdk_have_codes(tmp_path: Path, sdk: Sdk, durable: bool) -> None:
    with sdk.served("named", tmp_path, durable=durable) as agent:
        answers = [agent.one.ask(envelope(text, text)) for text in ("loop", "rude words")]
        good = agent.one.ask(envelope("good words"))
        empty = envelope("x")
        empty["payload"]["messages"] = []
        answers.append(agent.one.ask(empty))
    codes = [answer.last.p.code for answer in answers]
    assert codes == ["max_turns", "guardrail", "unsupported_content"]
    assert good.text == "good words"


def test_images_and_files_reach_the_model(tmp_path: Path, sdk: Sdk) -> None:
    body = envelope("look")
    body["payload"]["messages"][0]["parts"] += [
        {"type": "uri", "uri": "https://a.example/b.png", "mime_type": "image/png"},
        {"type": "blob", "content": "aGk=", "mime_type": "application/pdf"},
    ]
    with sdk.served("plain", tmp_path, durable=False) as agent:
        answer = agent.one.ask(body)
    assert answer.text == "look input_image input_file"


@BOTH
def test_a_cancelled_run_stops(tmp_path: Path, sdk: Sdk, durable: bool) -> None:
    with (
        sdk.served("tools", tmp_path, durable=durable, hold="are") as agent,
        agent.one.open(envelope("weather Paris")) as answer,
    ):
        assert sdk.answer() == {"held": "are"}
        assert agent.two.cancel(answer.stream_id) == 404
        assert agent.one.cancel(answer.stream_id) == 204
        answer.rest()
    assert answer.last.p.code == "cancelled"
    assert answer.text == "The results"


def test_the_program_of_the_page(tmp_path: Path, sdk: Sdk) -> None:
    """It uses the SDK's own client of OpenAI, with a fake provider."""
    text = (ROOT / "docs" / "openai-agents.md").read_text(encoding="utf-8")
    [program] = [block for block in parse(text, "page") if block.language == "python"]
    assert len(program.code.splitlines()) <= 25
    path = tmp_path / "helper.py"
    path.write_text(program.code)
    turns = [
        ModelTurn("Let me see.", ModelToolCall("weather", {"city": "Bonn"}), reasoning="Easy."),
        ModelTurn("Sunny!"),
        ModelTurn(tool_calls=ModelToolCall("delete", {"path": "x"})),
        ModelTurn("It is gone."),
    ]
    with fake_model(turns, require_all=True) as model:
        arguments = {"path": str(path), "environment": dict(model.environment("openai"))}
        with sdk.process(tmp_path, "page", arguments) as agent:
            sunny = agent.one.ask(envelope("Is it sunny?"))
            asked = agent.one.ask(envelope("Delete x."))
        with sdk.process(tmp_path, "page", arguments) as agent:
            answer = agent.one.ask(envelope("yes"))
    assert sunny.text == "Let me see.\n\nSunny!"
    assert [kind for kind, _ in events(sunny, "THOUGHT_TRACE", "TOOL_CALL", "TOOL_RESULT")] == [
        *("THOUGHT_TRACE", "TOOL_CALL", "TOOL_RESULT"),
    ]
    assert len(events(sunny, "USAGE")) == 2
    assert asked.text == 'May I call delete with {"path": "x"}?'
    assert answer.text == "It is gone."
    assert [request.wire for request in model.requests] == ["responses"] * 4
    assert [message["content"] for message in model.requests[2].messages] == [
        *("Answer briefly.", "Is it sunny?", sunny.text, "Delete x."),
    ]
    assert model.requests[3].messages[-1]["content"] == "x was deleted"


def test_the_package_is_named_if_it_is_missing() -> None:
    with pytest.raises(ImportError, match="pip install openai-agents"):
        as_agent(object())
