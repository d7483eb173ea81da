"""An A2A agent behind an inspector: the page speaks CAP, whatever the agent speaks."""

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import httpx2
import pytest

from coreason_client.a2a import A2AClient, TaskState
from coreason_client.inspector import A2ATarget, Inspector
from coreason_client.inspector._a2a_backend import A2ABridge
from coreason_client.inspector._a2a_packets import A2AConversation
from coreason_client.server import AgentApp, AgentStream, ServiceRequest, running
from coreason_manifest.definitions.presentation import ErrorSeverity
from tests.a2a.loopback import Answer as Response
from tests.a2a.loopback import Seen, as_json, serve
from tests.server.peer import Answer, Peer, envelope, wait_for
from tests.server.test_inbox import send

from .inspecting import LIMIT, TOKEN, a2a_target, inspecting, url_of

FACES = ["jsonrpc-1.0", "rest-1.0", "jsonrpc-0.3"]


@pytest.fixture(scope="module", params=FACES)
def face(request: pytest.FixtureRequest, origin: str) -> str:
    return f"{origin}/{request.param}"


@pytest.fixture(scope="module")
def page(face: str) -> Iterator[httpx2.Client]:
    with inspecting(a2a_target(face)) as page:
        yield page


@pytest.fixture
def tab(page: httpx2.Client) -> Iterator[Peer]:
    with closing(Peer(url_of(page), TOKEN)) as tab:
        yield tab


def types(answer: Answer) -> list[str]:
    return [packet.p["type"] for packet in answer.packets if packet.op == "EVENT"]


def states(answer: Answer) -> list[str]:
    events = [packet.p for packet in answer.packets if packet.op == "EVENT"]
    found = [event["data"]["status"]["state"] for event in events if "status" in event["data"]]
    return [state.removeprefix("TASK_STATE_") for state in found]


def test_the_page_gets_the_card_in_one_shape(page: httpx2.Client, face: str) -> None:
    config = page.get("/page/config.json").json()
    assert config.pop("card")["supportedInterfaces"]
    name = face.rpartition("/")[2]
    assert config == {
        "agent_id": f"{name} peer",
        "version": "1.2.3",
        "protocol": "a2a",
        "target": face,
        "needs_key": False,
        "adds_key": False,
        "curl_option": ["-H", "Authorization: Bearer {key}"],
        "cut": True,
        "inbox": True,
        "documents": False,
    }


async def listening(_: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("ready ")
    async for message in stream.inbox:
        await stream.write(f"{message.text} ")
        if message.text == "stop":
            return


@pytest.mark.parametrize("inbox", [True, False])
def test_messages_go_to_the_running_task(inbox: bool) -> None:
    may_end = threading.Event()

    async def deaf(_: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("ready ")
        await asyncio.to_thread(wait_for, may_end)

    app = AgentApp(listening if inbox else deaf, a2a=True, inbox=inbox)
    with (
        running(app) as agent,
        inspecting(a2a_target(agent.url)) as page,
        closing(Peer(url_of(page), TOKEN)) as tab,
        tab.open(envelope("go")) as answer,
    ):
        answer.until_raw(b"ready")
        for word in ("louder", "stop"):
            assert send(tab, answer.stream_id, word).status_code == 202
        if not inbox:
            answer.until_raw(b"'stop'")
            may_end.set()
        answer.rest()
    refused = [packet.p for packet in answer.packets if packet.op == "ERROR"]
    assert answer.last.op == "CLOSE"
    if inbox:
        assert (answer.text, refused) == ("ready louder stop ", [])
    else:
        assert answer.text == "ready "
        assert {one.severity for one in refused} == {ErrorSeverity.WARNING}
        assert [one.message.partition(": ")[0] for one in refused] == [
            "The agent did not take the message 'louder'",
            "The agent did not take the message 'stop'",
        ]


def test_a_message_before_the_task_begins_is_not_another_task() -> None:
    may_begin = threading.Event()
    with (
        serve() as agent,
        inspecting(a2a_target(agent.url)) as page,
        closing(Peer(url_of(page), TOKEN)) as tab,
    ):
        agent.rules.append(lambda _: None if may_begin.wait(LIMIT) else Response(503))
        with tab.open(envelope("go")) as answer:
            assert send(tab, answer.stream_id, "early").status_code == 202
            answer.until_raw(b"'early': it has not begun a task")
            may_begin.set()
            answer.rest()
    assert answer.text == "1\u20282\u20283\u20284\u2028"
    assert len(agent.tasks) == 1


def test_a_message_and_a_task(tab: Peer) -> None:
    hello = tab.ask(envelope("hello Ann"))
    assert (hello.text, types(hello), hello.last.op) == ("Hello, Ann!", ["a2a.message"], "CLOSE")
    count = tab.ask(envelope("count 3"))
    assert count.text == "w1 w2 w3 "
    assert types(count) == ["a2a.task", "a2a.status", *["a2a.artifact"] * 3, "a2a.status"]
    assert states(count) == ["SUBMITTED", "WORKING", "COMPLETED"]
    assert count.last.p == {"reason": "complete"}


def test_a_question_is_answered_in_the_same_task(tab: Peer) -> None:
    asked = tab.ask(envelope("ask", session="colours"))
    assert asked.text == "Which colour?"
    assert asked.last.p == {"reason": "input_required", "question": "Which colour?"}
    other = tab.ask(envelope("hello Bob", session="other"))
    assert other.text == "Hello, Bob!"
    answered = tab.ask(envelope("blue", session="colours"))
    assert answered.text == "You said blue."
    assert states(answered)[-1] == "COMPLETED"
    ids = [one.packets[0].p["data"] for one in (asked, answered)]
    assert ids[0]["id"] == ids[1].get("id", ids[1].get("taskId"))
    assert ids[0]["contextId"] == ids[1]["contextId"]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("fail", "task_failed", "It broke."),
        ("reject", "rejected", "Not for me."),
        ("raise", "a2a_internal", None),
    ],
)
def test_a_failure_is_a_fatal_error(tab: Peer, text: str, code: str, message: str | None) -> None:
    error = tab.ask(envelope(text)).last
    assert error.op == "ERROR"
    assert (error.p.code, error.p.severity) == (code, "FATAL")
    assert message is None or error.p.message == message


def test_a_second_tab_sees_the_same_packets(tab: Peer, page: httpx2.Client) -> None:
    answer = tab.ask(envelope("count 3"))
    again = page.get(f"/streams/{answer.stream_id}").content
    assert again.replace(b":\n\n", b"") == answer.raw.replace(b":\n\n", b"")


def task_of(face: str, answer: Answer) -> Any:
    data = answer.packets[0].p["data"]
    with A2AClient.connect(face) as client:
        return client.get_task(data.get("id") or data["taskId"])


def test_a_cancel_from_another_tab_cancels_the_task(
    tab: Peer, page: httpx2.Client, face: str
) -> None:
    with tab.open(envelope("wait")) as answer:
        answer.until(2)
        assert page.delete(f"/streams/{answer.stream_id}").status_code == 204
        answer.rest()
    assert answer.last.p.code == "cancelled"
    assert task_of(face, answer).status.state is TaskState.CANCELED


def test_a_server_that_stops_does_not_cancel_the_task(
    origin: str, caplog: pytest.LogCaptureFixture
) -> None:
    face = f"{origin}/jsonrpc-1.0"
    with ExitStack() as later:
        with running(Inspector(a2a_target(face), TOKEN), log_config=None) as server:
            tab = later.enter_context(closing(Peer(server.url, TOKEN)))
            answer = later.enter_context(tab.open(envelope("wait"))).until(2)
        answer.rest()
    assert answer.last.p.code == "server_stopped"
    task = task_of(face, answer)
    assert task.status.state is TaskState.WORKING
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    with A2AClient.connect(face) as client:
        client.cancel_task(task.id)


# A small agent of the tests, which can do anything


def quote_headers(seen: Seen) -> Response:
    message = f"I got {seen.headers['authorization']} of {seen.headers['x-tenant']}"
    error = {"code": -32603, "message": message}
    return as_json({"jsonrpc": "2.0", "id": seen.json["id"], "error": error})


def test_credentials_reach_the_agent_and_never_the_page(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    secret, tenant = "credential-of-the-agent", "secret-of-the-tenant"
    with serve() as agent:
        target = a2a_target(agent.url, auth=secret, headers={"X-Tenant": tenant})
        with inspecting(target) as page, closing(Peer(url_of(page), TOKEN)) as tab:
            assert tab.ask(envelope("go")).text == "1\u20282\u20283\u20284\u2028"
            assert agent.seen[-1].headers["authorization"] == f"Bearer {secret}"
            assert TOKEN not in str(agent.seen)
            agent.rules.append(quote_headers)
            refused = tab.ask(envelope("go"))
            config = page.get("/page/config.json").text
    assert refused.last.p.code == "a2a_internal"
    assert refused.last.p.message == "I got *** of ***"
    assert refused.last.p.details == {"rpc_code": -32603}
    for shown in (refused.raw.decode(), config, caplog.text, repr(target)):
        assert not [word for word in (secret, tenant, TOKEN) if word in shown]


def test_an_agent_that_is_gone_is_an_error_of_the_stream() -> None:
    with serve() as agent:
        target = a2a_target(agent.url, max_retries=0)
    with inspecting(target) as page, closing(Peer(url_of(page), TOKEN)) as tab:
        last = tab.ask(envelope("go")).last
    assert last.p.code == "a2a_connection"
    assert "onnect" in last.p.message


def test_a_wrong_token_is_an_error_that_names_the_option() -> None:
    with serve() as agent:
        target = a2a_target(agent.url, auth="another-token")
        agent.rules.append(lambda _: Response(401))
        with inspecting(target) as page, closing(Peer(url_of(page), TOKEN)) as tab:
            last = tab.ask(envelope("go")).last
    assert last.p.details == {"status": 401}
    assert last.p.message.endswith(": start `coreason inspect` again with the right --token")
    assert "another-token" not in last.p.message


def test_a_follow_up_after_a_lost_answer_still_belongs_to_the_task() -> None:
    with serve() as agent:
        target = a2a_target(agent.url, max_retries=0)
        with inspecting(target) as page, closing(Peer(url_of(page), TOKEN)) as tab:
            tab.ask(envelope("ask"))
            agent.rules.append(lambda _: Response(400))
            assert tab.ask(envelope("lost")).last.op == "ERROR"
            agent.rules.clear()
            tab.ask(envelope("found"))
    sent = [one.json["params"]["message"] for one in agent.seen if one.path == "/rpc"]
    assert [message.get("taskId") for message in sent] == [None, "task-1", "task-1"]


def test_only_the_last_conversations_are_kept() -> None:
    bridge = A2ABridge(object(), str)  # type: ignore[arg-type]
    for number in range(1500):
        bridge._remember(str(number), A2AConversation(str(number)))
    assert len(bridge._conversations) == 1000
    assert "1499" in bridge._conversations


def test_an_event_that_does_not_fit_is_a_warning() -> None:
    parts = [{"text": "x" * 1_000_000}] * 11
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": parts}

    def answer(seen: Any) -> Response | None:
        if seen.path != "/rpc":
            return None
        event = {"jsonrpc": "2.0", "id": seen.json["id"], "result": {"message": message}}
        pieces = [b"data: " + json.dumps(event).encode() + b"\n\n"]
        return Response(200, {"content-type": "text/event-stream"}, pieces=pieces)

    with serve() as agent:
        agent.rules.append(answer)
        target: A2ATarget = a2a_target(agent.url, max_event_bytes=20_000_000)
        with inspecting(target) as page, closing(Peer(url_of(page), TOKEN)) as tab:
            found = tab.ask(envelope("go"))
    assert found.packets[0].p.code == "a2a_event_not_shown"
    assert found.packets[0].p.severity == "WARNING"
    assert len(found.text) == 11_000_000
    assert found.last.op == "CLOSE"
