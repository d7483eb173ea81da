"""A turn that ended with a question gives its state to the turn that answers it, once."""

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, patch
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.errors import ArgumentError
from coreason_client.server import AgentApp, AgentStream, ServiceRequest, SQLiteStreamLog, running
from coreason_client.server.engine import _writer
from coreason_client.server.engine._conversation import (
    StoredQuestion,
    answer_to,
    dump_asked,
    dump_claim,
    dump_turn,
    last_asker,
    make_turn,
    parse_asked,
    parse_claims,
    parse_history,
)
from coreason_client.server.http import _admission
from coreason_manifest.definitions.message import ChatMessage

from ..conftest import Serve
from ..log.backends import BACKENDS, Clock
from ..peer import Peer, envelope, wait_for
from ..test_on_busy import Away

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
    if found.reason == "wait":
        await stream.write("waiting")
        await asyncio.sleep(30)
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
        assert_refused(peer, question_id=wrong, approved=True)


def test_another_principal_gets_no_state() -> None:
    app = AgentApp(asking, api_keys={"1" * 32: "one", "2" * 32: "two"})
    with running(app) as server:
        peers = [Peer(server.url, key * 32) for key in "12"]
        name = f"question_{UUID(str(peers[0].ask(envelope('ask')).stream_id)).hex}"
        assert said(peers[1], "yes") == "nothing was asked"
        assert_refused(peers[1], question_id=name, approved=True)
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


def test_an_answer_outlives_an_error_of_the_log_before_its_agent_begins(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply to each use of the log is lost once: nothing has run, and the answer counts."""
    monkeypatch.setattr(_writer, "_LOG_POLL", 0.01)
    log = Away(tmp_path / "log.db")
    log.done = is_over = True

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        nonlocal is_over
        is_over, log.left = log.left > 0, 0
        await asking(request, stream)

    peer = serve(agent, log=log)
    number = 0
    while not is_over or not number:
        number += 1
        name = peer.ask(envelope("ask")).stream_id
        log.left = number
        assert said(peer, "", question_id=name, approved=True) == '[true, "", null]'
    assert number > 3


heard = threading.Event()


async def working(request: ServiceRequest, stream: AgentStream) -> None:
    """Work until a message comes, and ask at the word "go"; read none at the word "other"."""
    answered = await stream.answered_question()
    if stream.question == "yes":
        await stream.write(f"answered: {answered and answered.approved}")
        return
    await stream.write("Working. ")
    if stream.question == "other":
        await asyncio.to_thread(wait_for, heard)
        return
    await anext(stream.inbox)
    await stream.ask("May I?")


def finish(peer: Peer, stream_id: str, text: str = "finish") -> None:
    sent = peer.http.post(f"/streams/{stream_id}/messages", json={"id": text, "text": text})
    assert sent.status_code == 202


def test_a_message_that_waited_before_the_question_is_no_answer(serve: Serve) -> None:
    peer, other = serve(working, on_busy="wait", inbox=True), None
    with peer.open(envelope("go")) as first:
        first.until(1)
        other = Peer(str(peer.http.base_url))
        with other.open(envelope("yes")) as queued:
            time.sleep(0.5)  # longer than the clocks of a store may differ
            finish(peer, first.stream_id)
            assert first.rest().text == "Working. May I?"
            assert queued.rest().text == "answered: None"
    other.close()


def test_a_message_that_an_earlier_agent_did_not_read_is_no_answer(serve: Serve) -> None:
    heard.clear()
    peer = serve(working, on_busy="wait", inbox=True)
    with peer.open(envelope("other")) as first:
        first.until(1)
        other = Peer(str(peer.http.base_url))
        with other.open(envelope("go")) as second:
            finish(peer, first.stream_id, "yes")
            heard.set()
            unread = dict(first.rest().last.p)["next_stream"]
            second.until(1)
            time.sleep(0.5)
            finish(peer, second.stream_id)
            assert second.rest().text == "Working. May I?"
        assert peer.http.get(f"/streams/{unread}").text.count("answered: None") == 1
        other.close()


def test_of_answers_at_once_that_name_the_question_one_starts_the_agent(serve: Serve) -> None:
    """The others do not begin the work of the agent again."""
    peer = serve(asking)
    name = peer.ask(envelope("ask")).stream_id
    body = envelope("", "elsewhere")
    body["payload"]["metadata"] = {"answer": {"question_id": name, "approved": False}}
    with patch.object(_admission, "was_answered", AsyncMock(return_value=False)):  # none has, yet
        assert peer.ask(body | {"request_id": str(uuid4())}).text == '[false, "", null]'
        late = peer.ask(body | {"request_id": str(uuid4())})
    assert (late.text, late.last.p.code) == ("", "question_not_open")


@pytest.mark.parametrize("first", ["no: fail", "no: wait"])
def test_a_question_is_open_again_after_an_answer_that_failed(serve: Serve, first: str) -> None:
    """Clients that answer in text need not name it."""
    peer = serve(asking)
    assert said(peer, "ask") == "May I?"
    with peer.open(envelope(first)) as failing:
        if first == "no: wait":
            failing.until(1)
            peer.cancel(failing.stream_id)
        failing.rest()
    assert said(peer, "yes") == '[true, "", null]'
    assert said(peer, "yes") == "nothing was asked"


@pytest.mark.parametrize("durable", [False, True])
def test_the_state_survives_a_restart(tmp_path: Path, durable: bool) -> None:
    for text, expected in (("ask", "May I?"), ("No.", '[false, "", null]')):
        app = AgentApp(asking, log=SQLiteStreamLog(tmp_path / "log"), durable=durable)
        with running(app) as server:
            peer = Peer(server.url)
            assert said(peer, text) == expected
            peer.close()


NOT_A_YES: Sequence[Any] = (False, 0, [], "no", {}, {"approve": False}, {"approved": 1})


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (None, True),
        (True, True),
        ("yes", True),
        ({"approved": True}, True),
        *((wrong, False) for wrong in NOT_A_YES),
    ],
)
def test_only_a_clear_yes_of_a_resumed_run_is_a_yes(payload: Any, expected: bool) -> None:
    thread = {"threadId": "t", "messages": [{"id": "1", "role": "user", "content": "ask"}]}
    with running(AgentApp(asking, ag_ui=True)) as server:
        peer = Peer(server.url)
        events = peer.http.post("/ag-ui", json={**thread, "runId": "1"}).text
        [asked] = json.loads(events.strip().rpartition("data: ")[2])["outcome"]["interrupts"]
        entry = {"interruptId": asked["id"], "status": "resolved", "payload": payload}
        answer = peer.http.post("/ag-ui", json={**thread, "runId": "2", "resume": [entry]}).text
        assert ("[true," in answer) is expected
        peer.close()


def test_a_question_of_a_run_that_was_answered_over_another_protocol_is_closed() -> None:
    thread = {"threadId": "t", "messages": [{"id": "1", "role": "user", "content": "ask"}]}
    with running(AgentApp(asking, ag_ui=True)) as server:
        peer = Peer(server.url)
        events = peer.http.post("/ag-ui", json={**thread, "runId": "1"}).text
        [asked] = json.loads(events.strip().rpartition("data: ")[2])["outcome"]["interrupts"]
        assert said(peer, "", question_id=asked["id"], approved=False) == '[false, "", null]'
        entry = {"interruptId": asked["id"], "status": "resolved"}
        late = peer.http.post("/ag-ui", json={**thread, "runId": "2", "resume": [entry]})
        assert late.status_code == 409
        peer.close()


@pytest.mark.parametrize("resume", [[{}], "x", [1], {"a": 1}, [{"interruptId": 1}], [[]]])
def test_metadata_in_the_form_of_another_protocol_may_be_anything(
    serve: Serve, resume: Any
) -> None:
    peer = serve(asking)
    body = envelope("yes")
    body["payload"]["metadata"] = {"ag_ui": {"resume": resume}}
    assert peer.ask(body).status in (200, 409)


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
    failed = dump_turn(make_turn([ChatMessage.user("yes")], "", "agent_error"))
    assert last_asker([dump_turn(turn), stored]) == asker
    assert last_asker([stored, failed, failed]) == asker
    assert last_asker([stored, dump_turn(turn)]) is None
    assert last_asker([]) is None


@pytest.mark.parametrize("durable", [False, True])
def test_a_large_state_comes_back(tmp_path: Path, durable: bool) -> None:
    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        answered = await stream.answered_question()
        if answered is None:
            await stream.ask("May I?", state="x" * 2_000_000)
        else:
            await stream.write(f"{answered.approved} {len(answered.state)}")

    app = AgentApp(agent, log=SQLiteStreamLog(tmp_path / "log"), durable=durable)
    with running(app) as server:
        peer = Peer(server.url)
        assert said(peer, "go") == "May I?"
        assert said(peer, "yes") == "True 2000000"
        peer.close()


def test_a_state_that_is_too_large_is_refused_before_the_question(serve: Serve) -> None:
    errors: list[str] = []

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        try:
            await stream.ask("q", state="x" * 3_000_000)
        except ArgumentError as error:
            errors.append(str(error))

    serve(agent).ask()
    assert errors == ["state must have at most 2,097,152 bytes of JSON"]


def test_a_state_must_be_json(serve: Serve) -> None:
    errors: list[ArgumentError] = []

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        try:
            await stream.ask("q", state=object())
        except ArgumentError as error:
            errors.append(error)

    serve(agent).ask()
    assert [error.argument for error in errors] == ["state"]
