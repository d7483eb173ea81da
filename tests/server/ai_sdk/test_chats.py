"""Reading the answer of a chat, and stopping it: who may, and what everybody else gets."""

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
import pytest

from coreason_client.server import AISDK, create_ticket

from ..peer import LIMIT
from .pages import Pages
from .serving import (
    EVERYTHING,
    HEADERS,
    KEY,
    OTHER_KEY,
    PACKETS,
    Site,
    answers,
    body,
    check_whole,
    chunks,
    frames,
    peer,
    site,
    texts,
    until,
    user,
)

SECRET = "a secret of the application, 32+"
FINISH = [b'data: {"type":"finish"}', b"data: [DONE]"]


@pytest.fixture(scope="module")
def server() -> Iterator[Site]:
    with site() as server:
        yield server


# Nothing to resume


def test_a_page_without_a_running_answer_is_ready(pages: Pages, server: Site) -> None:
    chat = pages.chat(server.api, f"ended {pages.version}", key=KEY)
    shown = chat.send("Hello")
    for name in (f"ended {pages.version}", "never seen"):
        again = pages.chat(server.api, name, key=KEY, messages=shown["messages"]).resume()
        assert (again["status"], again["error"]) == ("ready", None)
        assert again["messages"] == shown["messages"]
        assert again["requests"][0][2] == 204


def test_an_ended_answer_is_read_by_its_run(server: Site) -> None:
    with peer(server.url) as http:
        posted = http.post("/api/chat", json=body("by run", user("Hello")))
        run = posted.headers["x-workflow-run-id"]
        assert http.get(f"/api/chat/{run}/stream").content == posted.content
        assert http.get("/api/chat/by run/stream").status_code == 204


def test_a_chat_with_a_start_index_is_never_204(server: Site) -> None:
    with peer(server.url) as http:
        http.post("/api/chat", json=body("ended", user("Hello")))
        for name in ("ended", "unknown"):
            found = http.get(f"/api/chat/{name}/stream?startIndex=0")
            assert found.status_code == 200
            assert frames(found.content) == FINISH
            assert found.headers["x-vercel-ai-ui-message-stream"] == "v1"


def test_a_number_does_not_name_one_of_several_answers(server: Site) -> None:
    with peer(server.url) as http:
        first = http.post("/api/chat", json=body("several", user("One")))
        path = "/api/chat/several/stream?startIndex=2"
        assert frames(http.get(path).content) == frames(first.content)[2:]
        http.post("/api/chat", json=body("several", user("Two")))
        refused = http.get(path)
    assert refused.status_code == 409
    assert "x-workflow-run-id" in refused.json()["detail"]


# Other callers


def test_the_chat_of_somebody_else_is_like_an_unknown_one(pages: Pages, server: Site) -> None:
    name = f"of ann {pages.version}"
    question = f"Wait: {name}"
    chat = pages.chat(server.api, name, key=KEY)
    sent = chat.begin_send(question)
    run = chat.until("Working.")["runs"][0]
    other = pages.chat(server.api, name, key=OTHER_KEY).resume()
    assert (other["status"], other["messages"]) == ("ready", [])
    with peer(server.url, OTHER_KEY) as http:
        for path in (name, "unknown"):
            read = http.get(f"/api/chat/{path}/stream")
            assert (read.status_code, read.content) == (204, b"")
            assert http.delete(f"/api/chat/{path}/stream").status_code == 204
        for path in (run, f"run_{'0' * 32}"):
            assert http.get(f"/api/chat/{path}/stream").status_code == 404
            assert http.delete(f"/api/chat/{path}/stream").status_code == 204
    with peer(server.url, "wrong") as http:
        for method in ("GET", "DELETE"):
            assert http.request(method, f"/api/chat/{name}/stream").status_code == 401
        assert http.post("/api/chat", json=body(name, user("Hi"))).status_code == 401
    server.agent.gates[question].open()
    assert texts(sent.result(10)) == [question, "Working. Done."]


def test_the_ticket_of_another_user_sees_nothing(newest: Pages) -> None:
    ann, bob = (create_ticket(SECRET, name) for name in ("ann", "bob"))
    with site(api_keys=None, ticket_secrets=[SECRET]) as server:
        chat = newest.chat(server.api, "short", key=ann)
        sent = chat.begin_send("Wait: ticket")
        chat.until("Working.")
        assert newest.chat(server.api, "short", key=bob).resume()["messages"] == []
        new = create_ticket(SECRET, "ann", clock=lambda: 0.0)
        refused = newest.chat(server.api, "short", key=new).resume()
        assert refused["requests"][0][2] == 401
        again = newest.chat(server.api, "short", key=create_ticket(SECRET, "ann"))
        resumed = again.begin("resume")
        again.answered(1)
        server.agent.gates["Wait: ticket"].open()
        sent.result(10)
        assert texts(resumed.result(10)) == ["Working. Done."]


def test_a_server_without_keys_wants_a_long_id() -> None:
    with site(api_keys=None) as server, peer(server.url, None) as http:
        for method in ("GET", "DELETE"):
            refused = http.request(method, f"/api/chat/{'x' * 15}/stream")
            assert refused.status_code == 400
            assert "16 characters" in refused.json()["detail"]
            assert http.request(method, f"/api/chat/{'x' * 16}/stream").status_code == 204
        posted = http.post("/api/chat", json=body("short", user("Hi")))
        assert posted.status_code == 200
        run = posted.headers["x-workflow-run-id"]
        assert http.get(f"/api/chat/{run}/stream").content == posted.content


# Ids


@pytest.mark.parametrize(
    "name",
    ["x", "x" * 256, "ä ö ü", "%2e", "a?b#c", "msg_" + "0" * 32, "👩‍🚀".replace("\u200d", "")],
)
def test_an_id_has_any_printable_characters(newest: Pages, server: Site, name: str) -> None:
    question = f"Wait: id {name}"
    chat = newest.chat(server.api, name, key=KEY)
    sent = chat.begin_send(question)
    shown = chat.until("Working.")
    again = newest.chat(server.api, name, key=KEY, messages=shown["messages"])
    resumed = again.begin("resume")
    again.answered(1)
    with peer(server.url) as http:
        assert http.delete(f"/api/chat/{quote(name, safe='')}/stream").status_code == 204
    assert texts(sent.result(10)) == texts(resumed.result(10)) == [question, "Working."]


@pytest.mark.parametrize("name", ["x" * 257, "a\nb", "\u200b", f"run_{'0' * 32}", "a/b", ""])
def test_other_ids_are_refused(server: Site, name: str) -> None:
    with peer(server.url) as http:
        refused = http.post("/api/chat", json=body(name, user("Hi")))
        assert (refused.status_code, refused.json()["errors"][0]["loc"]) == (400, ["id"])
        path = f"/api/chat/{quote(name, safe='')}/stream"
        assert http.get(path).status_code in (400, 404)
        assert http.get(path).status_code < 500


# Several readers


def test_two_tabs_show_the_same(pages: Pages, server: Site) -> None:
    question = f"Held:12 tabs {pages.version}"
    first = pages.chat(server.api, question, key=KEY)
    sent = first.begin_send(question)
    shown = first.until("some text")
    tabs = []
    for count in (2, 1, 0):
        messages = shown["messages"][:count]
        page = pages.chat(server.api, question, key=KEY, messages=messages)
        tabs.append(page.begin("resume"))
        page.answered(1)
    server.agent.gates[question].open()
    whole = sent.result(10)
    check_whole(whole)
    for tab in tabs:
        assert answers(tab.result(10)) == answers(whole)
    assert [len(tab.result()["messages"]) for tab in tabs] == [2, 2, 1]
    assert server.agent.runs.count(question) == 1


@pytest.mark.parametrize("held", [0, 1, 3, 6, 13, 17, len(PACKETS) - 1])
def test_a_reload_shows_one_message(pages: Pages, server: Site, held: int) -> None:
    """The page has stored what it showed in mid-answer."""
    question = f"Held:{held} reload {pages.version}"
    first = pages.chat(server.api, question, key=KEY)
    sent = first.begin_send(question)
    first.until("msg_")
    server.agent.gates[question].seen()
    shown = first.shown()
    again = pages.chat(server.api, question, key=KEY, messages=shown["messages"])
    resumed = again.begin("resume")
    again.answered(1)
    server.agent.gates[question].open()
    check_whole(sent.result(10))
    assert resumed.result(10)["messages"] == sent.result(10)["messages"]


# Stopping


@pytest.mark.parametrize("by", ["chat", "run"])
def test_stopping_an_answer(pages: Pages, server: Site, by: str) -> None:
    question = f"Wait: stop by {by} {pages.version}"
    chat = pages.chat(server.api, question, key=KEY)
    sent = chat.begin_send(question)
    shown = chat.until("Working.")
    run = shown["runs"][0]
    with peer(server.url) as http:
        path = f"/api/chat/{question if by == 'chat' else run}/stream"
        for _ in range(2):
            assert http.delete(path).status_code == 204
        shown = sent.result(10)
        assert (shown["status"], texts(shown)) == ("ready", [question, "Working."])
        told = chunks(http.get(f"/api/chat/{run}/stream").content)
        assert [chunk["type"] for chunk in told[-2:]] == ["abort", "finish"]
        assert told[-1]["finishReason"] == "other"
        assert http.get(f"/api/chat/{question}/stream").status_code == 204


def test_leaving_is_not_stopping(pages: Pages, server: Site) -> None:
    question = f"Wait: leave {pages.version}"
    chat = pages.chat(server.api, question, key=KEY)
    sent = chat.begin_send(question)
    chat.until("Working.")
    chat.begin("stop").result(LIMIT)
    shown = sent.result(10)
    assert (shown["status"], texts(shown)) == ("ready", [question, "Working."])
    again = pages.chat(server.api, question, key=KEY, messages=shown["messages"])
    resumed = again.begin("resume")
    again.answered(1)
    server.agent.gates[question].open()
    assert texts(resumed.result(10)) == [question, "Working. Done."]


# Other origins


def test_a_foreign_origin_is_refused_before_the_body_is_read() -> None:
    """A page of any origin may send text/plain without asking first."""
    with site(api_keys=None) as server:
        address = urlsplit(server.url)
        head = (
            f"POST /api/chat HTTP/1.1\r\nHost: {address.netloc}\r\nOrigin: https://evil.example\r\n"
            "Content-Type: text/plain;charset=UTF-8\r\nContent-Length: 100000\r\n\r\n"
        )
        with socket.create_connection((address.hostname, address.port), timeout=LIMIT) as raw:
            raw.sendall(head.encode())
            assert raw.recv(100).startswith(b"HTTP/1.1 403 ")
        with peer(server.url, None) as http:
            refused = http.get(
                f"/api/chat/{'x' * 16}/stream", headers={"Origin": "https://evil.example"}
            )
            assert refused.status_code == 403
        assert server.agent.runs == []


def test_plain_text_is_json(server: Site) -> None:
    with peer(server.url) as http:
        content = json.dumps(body(None, user("Hi"))).encode()
        for kind, status in (
            ("text/plain;charset=UTF-8", 200),
            ("text/plain", 200),
            ("application/json", 200),
            ("text/html", 415),
            ("multipart/form-data", 415),
        ):
            answer = http.post("/api/chat", content=content, headers={"Content-Type": kind})
            assert answer.status_code == status, kind


def test_a_page_of_an_allowed_origin_reads_the_headers() -> None:
    origin = "https://app.example"
    with site(cors_origins=[origin]) as server, peer(server.url) as http:
        for method in ("POST", "GET", "DELETE"):
            path = "/api/chat" if method == "POST" else "/api/chat/x/stream"
            asked = {
                "Origin": origin,
                "Access-Control-Request-Method": method,
                "Access-Control-Request-Headers": "authorization,content-type",
            }
            allowed = http.options(path, headers=asked)
            assert allowed.status_code == 200, allowed.text
            assert method in allowed.headers["access-control-allow-methods"]
        answer = http.post("/api/chat", json=body(None, user("Hi")), headers={"Origin": origin})
        exposed = answer.headers["access-control-expose-headers"].lower()
        for name in (
            *("x-workflow-run-id", "x-workflow-stream-tail-index"),
            "x-vercel-ai-ui-message-stream",
        ):
            assert name in exposed


# Settings


def test_the_path_and_the_length_of_results_can_be_set() -> None:
    with (
        site(ai_sdk=AISDK(path="/api/talk", max_tool_result=5)) as server,
        peer(server.url) as http,
    ):
        assert http.post("/api/chat", json=body(None, user("Hi"))).status_code == 404
        told = chunks(http.post("/api/talk", json=body(None, user(EVERYTHING))).content)
        outputs = {
            chunk["toolCallId"]: chunk.get("output", chunk.get("errorText"))
            for chunk in told
            if chunk["type"].startswith("tool-output")
        }
        assert outputs["c1"] == '{"fou\n[cut after 5 of 19 characters]'
        assert outputs["c2"] == "No ro\n[cut after 5 of 9 characters]"
        assert outputs["c3"] == ""


def test_readers_are_counted_until_they_leave(server: Site) -> None:
    question = "Wait: counted"
    asked = body("counted", user(question))
    with peer(server.url) as http, http.stream("POST", "/api/chat", json=asked) as first:
        written = first.iter_raw()
        next(written)
        with httpx2.stream("GET", f"{server.api}/counted/stream", headers=HEADERS) as second:
            assert second.status_code == 200
            until(lambda: readers(server) == 2)
    until(lambda: readers(server) == 0)
    server.agent.gates[question].open()
    run = first.headers["x-workflow-run-id"]
    with peer(server.url) as http:
        http.get(f"/api/chat/{run}/stream")  # to its end
        assert http.get(f"/api/chat/{run}/stream?startIndex=100").status_code == 200
    until(lambda: readers(server) == 0)


def readers(server: Site) -> Any:
    runtime = server.app._runtime
    assert runtime is not None
    return runtime.producers.readers
