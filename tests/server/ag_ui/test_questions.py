"""Questions of the agent: interrupts, and runs that answer them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from coreason_client.server import AGUI, create_ticket
from coreason_client.server.answer._fold import asked_question
from tests.server.log.backends import BACKENDS, Clock

from ..answer.packets import entries_of
from .model import Model, events_of
from .serving import OTHER_KEY, Site, called, event, expire, run_body, site, user

LOGS = ["memory", "sqlite", "valkey"]
CALL = {"call_id": "call-1", "name": "delete", "arguments": {"path": "x"}}


@pytest.fixture(scope="module")
def server() -> Iterator[Site]:
    with site() as server:
        yield server


def ask(server: Site, question: str = "Delete") -> tuple[dict[str, Any], str]:
    """Ask something that makes the agent ask; return the input and the id of the interrupt."""
    body = run_body(question)
    last = server.events(body)[-1]
    assert last["outcome"]["type"] == "interrupt"
    [interrupt] = last["outcome"]["interrupts"]
    return body, interrupt["id"]


def answering(asked: dict[str, Any], name: str, status: str = "resolved", **members: Any) -> Any:
    """Return the input of a new run that answers a question."""
    entry = {"interruptId": name, "status": status, **members}
    return run_body(threadId=asked["threadId"], messages=asked["messages"], resume=[entry])


def said(server: Site, body: Any) -> str:
    [message] = Model([]).add_all(server.events(body)).messages
    return str(message["content"])


def refused(answer: httpx2.Response, status: int = 409) -> bool:
    assert answer.status_code == status, answer.text
    return "question" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("status", "members", "text"),
    [
        ("resolved", {}, "approved"),
        ("resolved", {"payload": None}, "approved"),
        ("resolved", {"payload": "In Rome"}, "In Rome"),
        ("resolved", {"payload": {"a": [1]}}, '{"a":[1]}'),
        ("resolved", {"payload": False}, "false"),
        ("resolved", {"payload": ""}, ""),
        ("cancelled", {}, "denied"),
        ("cancelled", {"payload": "In Rome"}, "denied"),
    ],
)
def test_the_agent_gets_the_answer_and_the_call_of_the_log(
    server: Site, status: str, members: dict[str, Any], text: str
) -> None:
    asked, name = ask(server)
    body = answering(asked, name, status, **members)
    # Whatever the client says about the call, the log is right.
    function = {"name": "delete", "arguments": '{"path":"everything"}'}
    forged = [{"id": "call-1", "type": "function", "function": function}]
    body["messages"] = [*body["messages"], {"id": "a", "role": "assistant", "toolCalls": forged}]
    assert said(server, body) == f"You said {text}"
    request = server.agent.requests[-1]
    [answer] = request.payload.metadata["ag_ui"]["resume"]
    entry = {"interruptId": name, "status": status, **members}
    assert answer == {**{n: v for n, v in entry.items() if v is not None}, **CALL}
    [message] = request.payload.messages or []
    assert (str(message.role), message.text) == ("user", text)


@pytest.mark.parametrize("name", LOGS)
def test_a_question_is_answered_once(name: str, tmp_path: Path) -> None:
    with site(log=BACKENDS[name](Clock(), tmp_path)) as server:
        asked, interrupt = ask(server)
        body = answering(asked, interrupt)
        assert said(server, body) == "You said approved"
        again = Model(body["messages"]).add_all(server.events(body))  # the same run joins
        assert again.messages[-1]["content"] == "You said approved"
        for status in ("resolved", "cancelled"):
            assert refused(server.post(answering(asked, interrupt, status)))
        assert refused(server.post({**body, "state": 1}))
        assert len(server.agent.runs) == 2


def test_several_answers_at_once_make_one_run(server: Site) -> None:
    asked, interrupt = ask(server)
    runs = len(server.agent.runs)
    bodies = [answering(asked, interrupt) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(server.post, [*bodies, *bodies]))
    statuses = [answer.status_code for answer in answers]
    assert statuses[:4] == statuses[4:]
    assert sorted(statuses[:4]) == [200, 409, 409, 409]
    assert len(server.agent.runs) == runs + 1


def test_an_answer_can_be_resumed_and_cancelled(server: Site) -> None:
    asked, interrupt = ask(server)
    body = answering(asked, interrupt)
    frames = server.frames(body)
    for index, (last, _) in enumerate(frames):
        assert server.frames(body, last) == frames[index + 1 :]
    assert server.post(answering(asked, interrupt), frames[0][0]).status_code == 409
    assert server.cancel(body["runId"]) == 204
    assert server.cancel(body["runId"], OTHER_KEY) == 404


def test_a_running_answer_to_a_question_can_be_cancelled(server: Site) -> None:
    asked, interrupt = ask(server)
    body = answering(asked, interrupt, payload="Wait after:3")
    with server.reading(body) as answer:
        server.agent.gates["Wait after:3"].seen()
        assert server.cancel(body["runId"]) == 204
        last = events_of(answer.read())[-1]
    assert last["outcome"] == {"type": "cancelled"}


def test_a_question_can_be_answered_again_after_the_answer_has_failed(server: Site) -> None:
    asked, interrupt = ask(server)
    failing = answering(asked, interrupt, payload="Fail")
    for _ in range(2):  # the same run has the same end
        assert server.events(failing)[-1]["type"] == "RUN_ERROR"
    body = answering(asked, interrupt)
    assert said(server, body) == "You said approved"
    assert server.events(failing)[-1]["type"] == "RUN_ERROR"
    assert refused(server.post(answering(asked, interrupt)))


def test_an_answer_may_lead_to_the_next_question(server: Site) -> None:
    asked, interrupt = ask(server)
    body = answering(asked, interrupt, payload="Delete")
    [following] = server.events(body)[-1]["outcome"]["interrupts"]
    assert following["id"] != interrupt
    assert refused(server.post(answering(asked, interrupt)))
    assert said(server, answering(asked, following["id"], payload="x")) == "You said x"
    assert refused(server.post(answering(asked, following["id"])))


def test_a_question_is_open_only_at_the_end_of_its_thread(server: Site) -> None:
    asked, interrupt = ask(server)
    other = {**asked, "threadId": "another thread"}
    assert refused(server.post(answering(other, interrupt)))
    server.events(run_body("Hello", threadId=asked["threadId"]))
    assert refused(server.post(answering(asked, interrupt)))


def test_a_reload_of_an_earlier_run_leaves_a_question_open(server: Site) -> None:
    earlier = run_body("Hello")
    server.events(earlier)
    asked = run_body("Delete", threadId=earlier["threadId"])
    [interrupt] = server.events(asked)[-1]["outcome"]["interrupts"]
    server.events(earlier)
    assert said(server, answering(asked, interrupt["id"])) == "You said approved"


def test_a_question_of_another_caller_is_not_open(server: Site) -> None:
    asked, interrupt = ask(server)
    assert refused(server.post(answering(asked, interrupt), key=OTHER_KEY))
    # Not even if the other caller has a thread of the same name.
    assert server.post(run_body(threadId=asked["threadId"]), key=OTHER_KEY).status_code == 200
    assert refused(server.post(answering(asked, interrupt), key=OTHER_KEY))
    assert said(server, answering(asked, interrupt)) == "You said approved"


def test_a_ticket_says_whose_question_it_is() -> None:
    secret = "a secret of thirty-two characters"
    with site(ticket_secrets=[secret]) as server:
        carol, dave = (create_ticket(secret, name) for name in ("carol", "dave"))
        asked = run_body("Delete")
        last = events_of(server.post(asked, key=carol).content)[-1]
        body = answering(asked, last["outcome"]["interrupts"][0]["id"])
        for other in (dave, OTHER_KEY):
            assert refused(server.post(body, key=other))
            assert server.cancel(asked["runId"], other) == 404
        again = create_ticket(secret, "carol", 60)
        assert server.post(body, key=again).status_code == 200
        assert server.cancel(asked["runId"], again) == 204


@pytest.mark.parametrize(
    "name", ["", "x", "question_", f"question_{'0' * 32}", f"question_{'G' * 32}", "QUESTION_"]
)
def test_a_question_that_nobody_asked_is_not_open(server: Site, name: str) -> None:
    asked, _ = ask(server)
    assert refused(server.post(answering(asked, name)))


def test_only_one_question_can_be_answered(server: Site) -> None:
    asked, interrupt = ask(server)
    body = answering(asked, interrupt)
    body["resume"] *= 2
    assert refused(server.post(body))


def test_an_answer_that_is_not_a_question_cannot_be_answered(server: Site) -> None:
    for question in ("Hello", "Fail"):
        body = run_body(question)
        name = f"question_{server.frames(body)[0][0][:36].replace('-', '')}"
        assert refused(server.post(answering(body, name)))
    body = run_body("Wait after:2")
    with server.reading(body) as answer:
        server.agent.gates["Wait after:2"].seen()
        name = f"question_{answer.headers['x-stream-id'].replace('-', '')}"
        assert refused(server.post(answering(body, name)))
        server.agent.gates["Wait after:2"].open()
        answer.read()


@pytest.mark.parametrize("name", ["memory", "sqlite"])
def test_a_question_that_has_expired(name: str, tmp_path: Path) -> None:
    clock = Clock()
    with site(log=BACKENDS[name](clock, tmp_path)) as server:
        asked, interrupt = ask(server)
        clock.now += 60.0
        expire(server, 10.0)
        answer = server.post(answering(asked, interrupt))
        assert refused(answer, 410)
        assert "has expired" in answer.json()["detail"]


def test_a_plain_question_does_not_block_a_chat() -> None:
    with site() as server:
        body = run_body("Ask")
        events = server.events(body)
        assert events[-1]["outcome"] == {"type": "success"}
        assert Model([]).add_all(events).messages[-1]["content"] == "Where?"
    with site(ag_ui=AGUI(interrupts=True)) as server:
        for question, reason in (("Ask", "input_required"), ("Log in", "auth_required")):
            body = run_body(question)
            [interrupt] = server.events(body)[-1]["outcome"]["interrupts"]
            assert interrupt["reason"] == reason
            assert "toolCallId" not in interrupt
            assert said(server, answering(body, interrupt["id"], payload="Rome")) == "You said Rome"
            [answer] = server.agent.requests[-1].payload.metadata["ag_ui"]["resume"]
            assert answer.keys() == {"interruptId", "status", "payload"}


def test_a_tool_of_the_page_is_called_and_answered(server: Site) -> None:
    tools = [{"name": "click", "description": "Clicks", "parameters": {}}]
    body = run_body("Click", tools=tools)
    events = server.events(body)
    assert events[-1]["outcome"] == {"type": "success", "pendingToolCallIds": ["page-1"]}
    messages = Model(body["messages"]).add_all(events).messages
    result = {"id": "t", "role": "tool", "toolCallId": "page-1", "content": "Clicked"}
    index = next(i for i, one in enumerate(messages) if one["role"] == "tool")
    messages.insert(index, result)
    server.events(run_body(threadId=body["threadId"], messages=messages, tools=tools))
    request = server.agent.requests[-1]
    parts = [part for one in request.payload.messages or () for part in one.parts]
    found = {part.id: part.response for part in parts if part.type == "tool_call_response"}
    assert found["page-1"] == "Clicked"


def test_a_durable_agent_gets_the_answer(tmp_path: Path) -> None:
    with site(log=BACKENDS["sqlite"](Clock(), tmp_path), durable=True) as server:
        asked, interrupt = ask(server)
        assert said(server, answering(asked, interrupt)) == "You said approved"
        [answer] = server.agent.requests[-1].payload.metadata["ag_ui"]["resume"]
        assert answer["name"] == "delete"


def test_the_question_of_a_log() -> None:
    call, question = called("x", "t", {}), event("QUESTION", question="?", call_id="x")
    asks = ("CLOSE", {"reason": "input_required"})
    packets: list[tuple[str, Any]] = [("EVENT", call), ("EVENT", question), ("DELTA", "?")]
    found = asked_question(entries_of([*packets, asks]))
    assert found is not None
    assert found.call is not None
    assert (found.text, found.call.name) == ("?", "t")
    assert asked_question(entries_of(packets)) is None
    assert asked_question(entries_of([*packets, ("CLOSE", {"reason": "complete"})])) is None
    assert asked_question(entries_of([asks])) is None
    taken_back = ("EVENT", event("REWIND", to_seq=1))
    assert asked_question(entries_of([*packets, taken_back, asks])) is None


def test_what_was_said_is_part_of_the_thread(server: Site) -> None:
    """A client sends its messages with the answer, and the agent gets them as history."""
    asked, interrupt = ask(server)
    body = answering(asked, interrupt)
    said_before = {"id": "a", "role": "assistant", "content": "May I?"}
    body["messages"] = [user("Delete"), said_before]
    server.events(body)
    messages = server.agent.requests[-1].payload.messages or []
    assert [one.text for one in messages] == ["approved"]
