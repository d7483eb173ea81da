"""A message is answered once; an edit, a new try and a new answer are answered again."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from coreason_client.server import (
    AgentApp,
    AgentGroup,
    AgentStream,
    ValkeyStreamLog,
    running,
)

from ..log.valkey_server import fresh_prefix, shared_server
from ..peer import Gate
from .pages import CAPABILITIES, Pages
from .serving import (
    EVERYTHING,
    KEY,
    KEYS,
    OTHER_KEY,
    PACKETS,
    Site,
    answered,
    answers,
    body,
    check_whole,
    chunks,
    peer,
    said,
    site,
    texts,
    until,
    user,
)


@pytest.fixture(scope="module")
def server() -> Iterator[Site]:
    with site() as server:
        yield server


def text_of(raw: bytes) -> str:
    return "".join(chunk.get("delta", "") for chunk in chunks(raw))


def runs(server: Site, question: str) -> int:
    return server.agent.runs.count(question)


# The same message


def test_the_same_message_at_the_same_time_runs_once(server: Site) -> None:
    question = "Wait: twenty times"
    with peer(server.url) as http, ThreadPoolExecutor(20) as pool:
        asked = body("twenty", user(question))
        sent = [pool.submit(http.post, "/api/chat", json=asked) for _ in range(20)]
        server.agent.gates[question].seen()
        until(lambda: server.app._runtime.producers.readers == 20)  # type: ignore[union-attr]
        server.agent.gates[question].open()
        found = {one.result().content for one in sent}
    assert len(found) == 1
    assert runs(server, question) == 1


def test_the_same_message_after_its_end_is_not_answered_again(server: Site) -> None:
    for question in ("Once more", "Ask: once more"):
        with peer(server.url) as http:
            asked = body(f"again {question}", user(question))
            both = [http.post("/api/chat", json=asked) for _ in range(2)]
        assert both[0].content == both[1].content
        names = [one.headers["x-workflow-run-id"] for one in both]
        assert names[0] == names[1]
        assert runs(server, question) == 1


@pytest.mark.parametrize("other", ["chat", "key", "text", "no chat"])
def test_another_message_is_answered(server: Site, other: str) -> None:
    question = f"Hello: {other}"
    first = body(None if other == "no chat" else "a chat", user(question))
    second: dict[str, Any] = {**first}
    key = KEY
    match other:
        case "chat":
            second["id"] = "another chat"
        case "key":
            key = OTHER_KEY
        case "text":  # under the same id of the message
            second["messages"] = [user(f"{question}, edited")]
    with peer(server.url) as http, peer(server.url, key) as also:
        one = http.post("/api/chat", json=first)
        two = also.post("/api/chat", json=second)
    assert one.headers["x-workflow-run-id"] != two.headers["x-workflow-run-id"]
    assert chunks(one.content)[0] != chunks(two.content)[0]
    assert len([run for run in server.agent.runs if run.startswith(question)]) == 2


def test_two_messages_of_one_chat_at_the_same_time(newest: Pages, server: Site) -> None:
    names = ("Wait: first", "Wait: second")
    chats = [newest.chat(server.api, "two at once", key=KEY) for _ in names]
    sent = []
    for chat, name in zip(chats, names, strict=True):
        sent.append(chat.begin_send(name))
        chat.until("Working.")
    again = newest.chat(server.api, "two at once", key=KEY, messages=chats[1].shown()["messages"])
    resumed = again.begin("resume")
    again.answered(1)
    for name in names:
        server.agent.gates[name].open()
    shown = [one.result(10) for one in sent]
    assert [texts(one) for one in shown] == [[name, "Working. Done."] for name in names]
    assert resumed.result(10)["messages"] == shown[1]["messages"]  # that of the newest


# Edits, tries and new answers of a page


def test_an_edit_is_a_new_message(pages: Pages, server: Site) -> None:
    chat = pages.chat(server.api, f"edit {pages.version}", key=KEY)
    first = chat.send("one")
    shown = chat.send("two", first["messages"][0]["id"])
    assert texts(shown) == ["two", "You said two"]
    shown = chat.send("one", first["messages"][0]["id"])
    assert texts(shown) == ["one", "You said one"]
    assert (shown["status"], shown["error"]) == ("ready", None)


@pytest.mark.parametrize("how", ["send", "regenerate"])
def test_a_failed_answer_is_tried_again(pages: Pages, server: Site, how: str) -> None:
    question = f"Fail once: {how} {pages.version}"
    chat = pages.chat(server.api, question, key=KEY)
    shown = chat.send(question)
    assert (shown["status"], shown["error"]) == ("error", "The tank is empty.")
    shown = chat.send() if how == "send" else chat.regenerate()
    assert (shown["status"], shown["error"]) == ("ready", None)
    assert runs(server, question) == 2
    expected = "Half of it." if how == "regenerate" else "Half of Half of it."
    assert texts(shown) == [question, expected]


def test_a_failed_message_is_tried_again_with_the_same_body(server: Site) -> None:
    question = "Fail once: same body"
    with peer(server.url) as http:
        asked = body("same body", user(question))
        first, second, third = (http.post("/api/chat", json=asked) for _ in range(3))
    kinds = [chunk["type"] for chunk in chunks(first.content)]
    assert kinds[-2:] == ["error", "finish"]
    assert chunks(first.content)[-1]["finishReason"] == "error"
    assert text_of(second.content) == "Half of it."
    assert third.content == second.content
    assert runs(server, question) == 2


def test_an_answer_is_generated_again(pages: Pages, server: Site) -> None:
    question = f"Wait: again {pages.version}"
    server.agent.gates[question].open()
    chat = pages.chat(server.api, question, key=KEY)
    names = [answers(chat.send(question))[0]["id"]]
    for _ in range(2):
        shown = chat.regenerate()
        assert texts(shown) == [question, "Working. Done."]
        names.append(answers(shown)[0]["id"])
    assert len(set(names)) == runs(server, question) == 3


def test_two_presses_of_regenerate_join_while_the_answer_runs(server: Site) -> None:
    question = "Wait: pressed twice"
    asked = body("pressed", user(question), trigger="regenerate-message")
    with peer(server.url) as http, ThreadPoolExecutor(2) as pool:
        request = http.build_request("POST", "/api/chat", json=asked)
        pressed = [pool.submit(http.send, request, stream=True) for _ in range(2)]
        both = [one.result() for one in pressed]  # each has its headers: it has joined
        server.agent.gates[question].open()
        first, second = (one.read() for one in both)
        assert first == second
        assert runs(server, question) == 1
        third = http.post("/api/chat", json=asked).content
    assert third != first
    assert runs(server, question) == 2


def test_a_stopped_answer_is_tried_again(pages: Pages, server: Site) -> None:
    question = f"Wait: stopped {pages.version}"
    chat = pages.chat(server.api, question, key=KEY)
    sent = chat.begin_send(question)
    chat.until("Working.")
    with peer(server.url) as http:
        assert http.delete(f"/api/chat/{question}/stream").status_code == 204
    shown = sent.result(10)
    assert texts(shown) == [question, "Working."]
    server.agent.gates[question].open()
    assert texts(chat.regenerate()) == [question, "Working. Done."]
    assert runs(server, question) == 2
    with peer(server.url) as http:
        # The request of the stopped answer, as it was.
        asked = body(question, shown["messages"][0])
        assert text_of(http.post("/api/chat", json=asked).content) == "Working. Done."
    assert runs(server, question) == 3


def test_a_message_is_answered_again_while_it_is_being_stopped() -> None:
    """An agent may take its time to stop: whoever asks again does not want that answer."""
    gates, attempts = (Gate(), Gate()), []

    async def agent(_: Any, stream: AgentStream) -> None:
        attempts.append(stream)
        if len(attempts) == 1:
            await stream.write("first")
            try:
                await gates[0].wait()
            finally:
                await gates[1].wait()
        await stream.write("second")

    with site(agent) as server, peer(server.url) as http, ThreadPoolExecutor(2) as pool:
        asked = body("slow to stop", user("Hi"))
        first = pool.submit(http.post, "/api/chat", json=asked)
        gates[0].seen()
        stopped = pool.submit(http.delete, "/api/chat/slow to stop/stream")
        gates[1].seen()
        try:
            assert text_of(http.post("/api/chat", json=asked).content) == "second"
        finally:
            gates[1].open()
        assert stopped.result().status_code == 204
        assert text_of(first.result().content) == "first"


@pytest.mark.parametrize("how", ["Fail once", "Stop once"])
def test_a_reload_while_an_answer_is_tried_again_in_its_message(
    newest: Pages, server: Site, how: str
) -> None:
    question = f"{how}: wait"
    chat = newest.chat(server.api, question, key=KEY)
    sent = chat.begin_send(question)
    chat.until("Half of ")
    if how == "Stop once":
        with peer(server.url) as http:
            http.delete(f"/api/chat/{question}/stream")
    sent.result(10)
    again = chat.begin_send()
    shown = chat.until("it.")
    page = newest.chat(server.api, question, key=KEY, messages=shown["messages"][:1])
    resumed = page.begin("resume")
    page.answered(1)
    server.agent.gates[question].open()
    live = again.result(10)
    assert texts(live) == [question, "Half of Half of it."]
    assert resumed.result(10)["messages"] == live["messages"]


# Several agents on one log


def test_agents_of_a_group_have_their_own_chats() -> None:
    async def one(_: Any, stream: AgentStream) -> None:
        await stream.write("I am one.")

    async def two(_: Any, stream: AgentStream) -> None:
        await stream.write("I am two.")

    apps = [
        AgentApp(agent, agent_id=name, ai_sdk=True, api_keys=KEYS, drain_timeout=0.0)
        for name, agent in (("one", one), ("two", two))
    ]
    log = apps[0].log
    apps[1] = AgentApp(two, agent_id="two", ai_sdk=True, api_keys=KEYS, drain_timeout=0.0, log=log)
    with running(AgentGroup(apps)) as group, peer(group.url) as http:
        asked = body("one chat", user("Who are you?"))
        found = [
            text_of(http.post(f"/{name}/api/chat", json=asked).content) for name in ("one", "two")
        ]
        run = http.post("/one/api/chat", json=asked).headers["x-workflow-run-id"]
        assert http.get(f"/one/api/chat/{run}/stream").status_code == 200
        assert http.get(f"/two/api/chat/{run}/stream").status_code == 404
    assert found == ["I am one.", "I am two."]


# Other processes


@contextmanager
def replicas() -> Iterator[tuple[Site, Site]]:
    """Two applications on one log."""
    url, prefix = shared_server().url, fresh_prefix()
    with (
        site(log=ValkeyStreamLog(url, prefix=prefix)) as first,
        site(log=ValkeyStreamLog(url, prefix=prefix)) as second,
    ):
        yield first, second


def test_another_replica_joins_and_resumes(newest: Pages) -> None:
    question = f"Held:{len(PACKETS) - 3} replica"
    with replicas() as (first, second):
        here = newest.chat(first.api, "a chat of two", key=KEY)
        sent = here.begin_send(question)
        shown = here.until("MY_OWN")
        asked = shown["messages"][:1]
        there = newest.chat(second.api, "a chat of two", key=KEY, messages=asked)
        resumed = there.begin("resume")
        there.answered(1)
        with peer(second.url) as http, ThreadPoolExecutor(2) as pool:
            joined = pool.submit(http.post, "/api/chat", json=body("a chat of two", *asked))
            path = f"/api/chat/{shown['runs'][0]}/stream"
            rest = pool.submit(http.get, path, params={"startIndex": 7})
            until(lambda: second.app._runtime.producers.readers == 3)  # type: ignore[union-attr]
            first.agent.gates[question].open()
            whole = joined.result().content
            assert whole.endswith(rest.result().content)
            assert whole == http.get(path).content
        check_whole(sent.result(10))
        assert resumed.result(10)["messages"] == sent.result(10)["messages"]
        assert (len(first.agent.runs), len(second.agent.runs)) == (1, 0)


def test_equal_messages_at_replicas_run_once() -> None:
    with replicas() as sites, ThreadPoolExecutor(10) as pool:
        asked = body("equal", user(EVERYTHING))
        with peer(sites[0].url) as first, peer(sites[1].url) as second:
            https = (first, second) * 5
            sent = [pool.submit(http.post, "/api/chat", json=asked) for http in https]
            found = {one.result().content for one in sent}
        assert len(found) == sum(len(one.agent.runs) for one in sites) == 1


def test_different_approvals_at_replicas_run_once(newest: Pages) -> None:
    capabilities = {"capabilities": CAPABILITIES[7]}
    with (
        replicas() as sites,
        ThreadPoolExecutor(6) as pool,
        peer(sites[0].url) as first,
        peer(sites[1].url) as second,
    ):
        for number in range(4):
            name = f"race {number}"
            chat = newest.chat(sites[0].api, name, key=KEY, body=capabilities)
            ask, message = chat.send(f"May I: {number}")["messages"]
            asked = [
                body(name, ask, answered(message, approved=approved), **capabilities)
                for approved in (True, False)
            ]
            sent = [
                pool.submit(http.post, "/api/chat", json=one)
                for http in (first, second, first)
                for one in asked
            ]
            statuses = sorted(one.result().status_code for one in sent)
            assert statuses == [200, 200, 200, 409, 409, 409]
            assert sum(len(one.agent.approvals) for one in sites) == number + 1


def test_another_replica_stops_an_answer(newest: Pages) -> None:
    with replicas() as (first, second):
        for name in ("chat", "run"):
            chat = newest.chat(first.api, f"stop by {name}", key=KEY)
            sent = chat.begin_send(f"Wait: {name}")
            shown = chat.until("Working.")
            path = f"stop by {name}" if name == "chat" else shown["runs"][0]
            with peer(second.url) as http:
                assert http.delete(f"/api/chat/{path}/stream").status_code == 204
            shown = sent.result(10)
            assert texts(shown)[-1] == "Working."
            assert shown["status"] == "ready"


# The history that a page brings


def test_a_message_after_an_answer(server: Site) -> None:
    with peer(server.url) as http:
        asked = body("c", user("one"), said("1"), user("two", "u2"))
        assert text_of(http.post("/api/chat", json=asked).content) == "You said two"
