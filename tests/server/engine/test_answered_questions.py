"""A turn that ended with a question gives its state to the turn that answers it, once."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.errors import ArgumentError
from coreason_client.server import AgentApp, AgentStream, ServiceRequest, SQLiteStreamLog, running
from coreason_client.server.engine._conversation import (
    StoredQuestion,
    answer_to,
    answered_stream,
    dump_asked,
    dump_claim,
    dump_turn,
    make_turn,
    parse_asked,
    parse_claims,
    parse_history,
)
from coreason_manifest.definitions.message import ChatMessage

from ..conftest import Serve
from ..log.backends import BACKENDS, Clock
from ..peer import Peer, envelope

STATE = {"messages": ["delete it"], "number": 7}


async def asking(request: ServiceRequest, stream: AgentStream) -> None:
    """Ask at the word "ask"; otherwise say what was answered, or that nothing was."""
    if stream.question == "ask":
        call_id = await stream.tool_call("delete", {"path": "x"}, "call-1")
        await stream.ask("May I?", call_id=call_id, state=STATE)
        return
    found = await stream.answered_question()
    if found is None:
        await stream.write("nothing was asked")
        return
    if found.reason == "fail":
        await stream.fail("told", "As it was told.")
        return
    assert (found.question, found.call_id, found.state) == ("May I?", "call-1", STATE)
    shown = [found.approved, found.reason, found.arguments]
    await stream.write(json.dumps(shown))


def said(peer: Peer, text: str, session: str = "s", **answer: Any) -> str:
    body = envelope(text, session)
    if answer:
        body["payload"]["metadata"] = {"answer": answer}
    return peer.ask(body).text


def assert_refused(peer: Peer, **answer: Any) -> None:
    """Check that a second answer to a question is refused, because the first one counts."""
    body = envelope("", "elsewhere")
    body["payload"]["metadata"] = {"answer": answer}
    refused = peer.http.post("/assist", json=body)
    assert refused.status_code == 409
    assert refused.json()["type"].endswith("question-not-open")


@pytest.mark.parametrize("log", list(BACKENDS))
def test_the_next_message_answers_the_question_once(serve: Serve, log: str, tmp_path: Path) -> None:
    peer = serve(asking, log=BACKENDS[log](Clock(), tmp_path))
    assert said(peer, "yes") == "nothing was asked"
    assert said(peer, "ask") == "May I?"
    assert said(peer, "yes", session="another") == "nothing was asked"
    assert said(peer, "yes") == '[true, "", null]'
    assert said(peer, "yes") == "nothing was asked"


def test_a_client_can_name_the_question_and_change_the_arguments(serve: Serve) -> None:
    peer = serve(asking)
    name = f"question_{UUID(str(peer.ask(envelope('ask')).stream_id)).hex}"
    other = {"path": "y"}
    shown = said(peer, "", "elsewhere", question_id=name, approved=True, arguments=other)
    assert shown == '[true, "", {"path": "y"}]'
    assert_refused(peer, question_id=name, approved=False)
    for wrong in ("question_x", f"question_{uuid4().hex}", 7):
        assert said(peer, "", "new", question_id=wrong, approved=True) == "nothing was asked"


def test_another_principal_gets_no_state() -> None:
    app = AgentApp(asking, api_keys={"1" * 32: "one", "2" * 32: "two"})
    with running(app) as server:
        peers = [Peer(server.url, key * 32) for key in "12"]
        name = f"question_{UUID(str(peers[0].ask(envelope('ask')).stream_id)).hex}"
        assert said(peers[1], "yes") == "nothing was asked"
        assert said(peers[1], "", question_id=name, approved=True) == "nothing was asked"
        assert said(peers[0], "", question_id=name, approved=True) == '[true, "", null]'
        for peer in peers:
            peer.close()


@pytest.mark.parametrize("log", list(BACKENDS))
def test_of_many_answers_at_once_one_counts(serve: Serve, log: str, tmp_path: Path) -> None:
    peer = serve(asking, log=BACKENDS[log](Clock(), tmp_path))
    assert said(peer, "ask") == "May I?"
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: said(peer, "yes"), range(8)))
    assert sorted(answers)[:1] == ['[true, "", null]']
    assert set(answers[:]) <= {'[true, "", null]', "nothing was asked"}
    assert answers.count('[true, "", null]') == 1


def test_a_question_can_be_answered_again_after_a_failure(serve: Serve) -> None:
    peer = serve(asking)
    name = f"question_{UUID(str(peer.ask(envelope('ask')).stream_id)).hex}"
    body = envelope("no: fail")
    assert peer.ask(body).last.p.code == "told"
    assert said(peer, "", question_id=name, approved=False) == '[false, "", null]'
    assert_refused(peer, question_id=name, approved=True)


def test_a_yes_counts_once_even_if_its_turn_has_failed(serve: Serve) -> None:
    """What was approved may have been done."""
    peer = serve(asking)
    name = f"question_{UUID(str(peer.ask(envelope('ask')).stream_id)).hex}"
    body = envelope("")
    answer = {"question_id": name, "approved": True, "reason": "fail"}
    body["payload"]["metadata"] = {"answer": answer}
    assert peer.ask(body).last.p.code == "told"
    assert_refused(peer, question_id=name, approved=True)


@pytest.mark.parametrize("durable", [False, True])
def test_the_state_survives_a_restart(tmp_path: Path, durable: bool) -> None:
    for text, expected in (("ask", "May I?"), ("No.", '[false, "", null]')):
        app = AgentApp(asking, log=SQLiteStreamLog(tmp_path / "log"), durable=durable)
        with running(app) as server:
            peer = Peer(server.url)
            assert said(peer, text) == expected
            peer.close()


def test_clients_of_stateless_protocols_answer_too() -> None:
    with running(AgentApp(asking, ai_sdk=True, ag_ui=True)) as server:
        peer = Peer(server.url)
        user = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "ask"}]}
        chunks = peer.http.post("/api/chat", json={"id": "c", "messages": [user]}).text
        assert "May I?" in chunks
        thread = {"threadId": "t", "messages": [{"id": "1", "role": "user", "content": "ask"}]}
        events = peer.http.post("/ag-ui", json={**thread, "runId": "1"}).text
        last = json.loads(events.strip().rpartition("data: ")[2])
        [interrupt] = last["outcome"]["interrupts"]
        payload = {"approved": True, "arguments": {"path": "z"}}
        entry = {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}
        answer = peer.http.post("/ag-ui", json={**thread, "runId": "2", "resume": [entry]}).text
        assert r"[true, \"\", {\"path\": \"z\"}]" in answer
        peer.close()


# The rules.


def request_with(text: str, **answer: Any) -> ServiceRequest:
    body = envelope(text)
    if answer:
        body["payload"]["metadata"] = {"answer": answer}
    return ServiceRequest.model_validate(body)


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        *((word, {}, (True, "")) for word in ("yes", "Yes.", " approved ", "OK!", "y")),
        *((word, {}, (False, "")) for word in ("no", "denied", "N", "Reject.")),
        ("denied: too dangerous", {}, (False, "too dangerous")),
        ("No, use another file", {}, (False, "use another file")),
        ("yes, but only x", {}, (False, "yes, but only x")),
        ("What does it do?", {}, (False, "What does it do?")),
        ("", {}, (False, "")),
        ("no", {"approved": True}, (True, "")),
        ("yes", {"approved": False, "reason": "late"}, (False, "late")),
        ("yes", {"approved": "true"}, (True, "")),
        ("perhaps", {"approved": 1}, (False, "perhaps")),
    ],
)
def test_only_a_clear_yes_is_a_yes(text: str, answer: Any, expected: tuple[bool, str]) -> None:
    found = answer_to(StoredQuestion("q"), request_with(text, **answer))
    assert (found.approved, found.reason) == expected


def test_arguments_of_a_no_are_not_used() -> None:
    given_ = {"approved": False, "arguments": {"a": 1}}
    assert answer_to(StoredQuestion("q"), request_with("", **given_)).arguments is None


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(st.text(st.characters(codec="utf-8")), st.none() | st.text(max_size=5), JSON)
def test_a_stored_question_comes_back(question: str, call_id: str | None, state: Any) -> None:
    asked, claims = StoredQuestion(question, call_id, state), [(uuid4(), True), (uuid4(), False)]
    stored = [dump_asked(asked), *(dump_claim(one, approves=yes) for one, yes in claims)]
    assert parse_asked(stored) == asked
    assert parse_claims(stored) == claims
    assert parse_asked(stored[1:]) is None


def test_the_mark_of_a_turn_is_no_message() -> None:
    asker = uuid4()
    turn = make_turn([ChatMessage.user("ask")], "May I?")
    stored = dump_turn(turn, asked_by=asker)
    assert parse_history([stored]).turns == (turn,)
    assert answered_stream(request_with("yes"), [dump_turn(turn), stored]) == asker
    assert answered_stream(request_with("yes"), [stored, dump_turn(turn)]) is None
    assert answered_stream(request_with("yes"), []) is None


def test_a_state_must_be_json(serve: Serve) -> None:
    errors: list[ArgumentError] = []

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        try:
            await stream.ask("q", state=object())
        except ArgumentError as error:
            errors.append(error)

    serve(agent).ask()
    assert [error.argument for error in errors] == ["state"]
