"""Connections that are cut at every chunk, and in the middle of every chunk: one whole message."""

from collections.abc import Iterator
from typing import Any

import pytest

from ..openai.cutting import CuttingProxy, cutting
from .pages import CAPABILITIES, Pages
from .serving import (
    EVERYTHING,
    HEADERS,
    KEY,
    PACKETS,
    PARTS,
    Site,
    answers,
    body,
    check_whole,
    comparable,
    frames,
    peer,
    site,
    user,
)

ENDING = 5  # frames that are written when the agent has ended, with the end mark
WORKFLOW: dict[str, Any] = {"kind": "workflow"}


@pytest.fixture(scope="module")
def server() -> Iterator[Site]:
    with site() as server:
        yield server


@pytest.fixture(scope="module")
def proxy(server: Site) -> Iterator[CuttingProxy]:
    with cutting(server.url) as proxy:
        proxy.once = True
        yield proxy


@pytest.fixture(scope="module")
def count(server: Site) -> int:
    """The number of frames of the answer, with the end mark."""
    with peer(server.url) as http:
        raw = http.post("/api/chat", json=body(None, user(EVERYTHING))).content
    return len(frames(raw))


def api(proxy: CuttingProxy) -> str:
    return f"{proxy.url}/api/chat"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("half", [False, True], ids=["whole", "half"])
def test_a_page_resumes_by_its_chat_after_a_cut_anywhere(
    pages: Pages, server: Site, proxy: CuttingProxy, count: int, half: bool
) -> None:
    """The agent waits at its end, so that the answer is running when the page resumes."""
    options: dict[str, Any] = {"key": KEY}
    options["body"] = {"capabilities": CAPABILITIES[pages.version]}
    for after in range(1, count - ENDING + 1 - half):
        question = f"Held:{len(PACKETS)} {pages.version} {half} {after}"
        proxy.after, proxy.half = after, half
        chat = pages.chat(api(proxy), question, **options)
        shown = chat.send(question)
        assert shown["status"] == "error"
        assert len(shown["messages"]) == 2
        resumed = chat.begin("resume")
        chat.answered(2)
        server.agent.gates[question].open()
        check_whole(resumed.result(10))
        assert server.agent.runs.count(question) == 1
        chat.close()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("half", [False, True], ids=["whole", "half"])
def test_a_page_that_has_not_seen_the_end_reads_an_answer_that_has_ended(
    pages: Pages, server: Site, proxy: CuttingProxy, count: int, half: bool
) -> None:
    runs = len(server.agent.runs)
    cuts = [*range(2, count - ENDING, 6), *range(count - ENDING, count - 1)]
    for after in cuts:
        name = f"ended-{pages.version}-{half}-{after}"
        proxy.after, proxy.half = after, half
        chat = pages.chat(api(proxy), name, key=KEY, transport={"kind": "ended"})
        shown = chat.send(EVERYTHING)
        assert shown["status"] == "error"
        with peer(server.url) as http:
            # It has ended when its run can be read.
            http.get(f"/api/chat/{shown['runs'][0]}/stream")
            assert http.get(f"/api/chat/{name}/stream").status_code == 204
        check_whole(chat.resume())
        chat.close()
    assert len(server.agent.runs) == runs + len(cuts)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("half", [False, True], ids=["whole", "half"])
def test_a_transport_resumes_by_its_run_after_a_cut_anywhere(
    newest: Pages, server: Site, proxy: CuttingProxy, count: int, half: bool
) -> None:
    runs = len(server.agent.runs)
    for after in range(1, count):
        proxy.after, proxy.half = after, half
        chat = newest.chat(api(proxy), "c", key=KEY, transport=WORKFLOW)
        shown = chat.send(EVERYTHING)
        check_whole(shown)
        is_over = after == count - 1  # the client has the last chunk
        requests = [["POST", "/api/chat", 200]]
        if not is_over:
            path = f"/api/chat/{shown['runs'][0]}/stream?startIndex={after}"
            requests.append(["GET", path, 200])
        assert shown["requests"] == requests
        runs += 1
        assert len(server.agent.runs) == runs
        chat.close()


def test_a_transport_is_exact_if_every_connection_is_cut_after_each_chunk(
    newest: Pages, server: Site, proxy: CuttingProxy, count: int
) -> None:
    runs = len(server.agent.runs)
    transport = {**WORKFLOW, "options": {"maxConsecutiveErrors": 1000}}
    proxy.once, proxy.after, proxy.half = False, 1, False
    try:
        shown = newest.chat(api(proxy), "c", key=KEY, transport=transport).send(EVERYTHING)
    finally:
        proxy.once, proxy.after = True, None
    check_whole(shown)
    assert len(shown["requests"]) == count - 1  # the end mark needs none
    assert len(server.agent.runs) == runs + 1


@pytest.mark.parametrize("network", [False, True], ids=["Node", "browser"])
def test_a_page_is_exact_if_it_is_cut_twice(
    pages: Pages, server: Site, proxy: CuttingProxy, network: bool
) -> None:
    """A browser names the loss of a connection differently, and the SDK then keeps its state.

    Version 5 adds the whole answer to it: such a page must be loaded again.
    """
    question = f"Held:{len(PACKETS)} twice {pages.version} {network}"
    proxy.after, proxy.half = 9, True
    chat = pages.chat(api(proxy), question, key=KEY, network=network)
    shown = chat.send(question)
    assert shown["status"] == "error"
    assert shown["finished"][-1]["isDisconnect"] is network
    proxy.after = 20
    assert chat.resume()["status"] == "error"
    if network and pages.version == 5:
        chat = pages.chat(api(proxy), question, key=KEY, messages=chat.shown()["messages"])
    resumed = chat.begin("resume")
    chat.answered(1 if network and pages.version == 5 else 3)
    server.agent.gates[question].open()
    check_whole(resumed.result(10))


@pytest.mark.parametrize("back", [1, 3, 10, 1000])
def test_a_transport_begins_some_chunks_before_the_end(
    newest: Pages, server: Site, count: int, back: int
) -> None:
    """Counted from the end at that moment: it leaves out what began before."""
    question = f"Held:{len(PACKETS)} back {back}"
    asked = body(question, user(question))
    with peer(server.url) as http, http.stream("POST", "/api/chat", json=asked) as first:
        pieces, written = first.iter_raw(), b""
        while written.count(b"\n\n") < count - ENDING:
            written += next(pieces)
        options: dict[str, Any] = {**WORKFLOW, "options": {"initialStartIndex": -back}}
        chat = newest.chat(server.api, question, key=KEY, transport=options)
        resumed = chat.begin("resume")
        chat.answered(1)
        run = first.headers["x-workflow-run-id"]
        with http.stream("GET", f"/api/chat/{run}/stream?startIndex=-{back}") as rest:
            assert int(rest.headers["x-workflow-stream-tail-index"]) == count - ENDING - 1
            server.agent.gates[question].open()
            tail = rest.read()
        whole = written + b"".join(pieces)
    assert frames(whole)[max(count - ENDING - back, 0) :] == frames(tail)
    shown = resumed.result(10)
    assert (shown["status"], shown["error"]) == ("ready", None)
    [[_, path, _]] = shown["requests"]
    assert path.endswith(f"/stream?startIndex=-{back}")
    [message] = answers(shown)
    if back == 1000:
        assert comparable(message["parts"]) == PARTS


def test_every_rest_of_an_answer_is_its_tail(server: Site, count: int) -> None:
    with peer(server.url) as http:
        first = http.post("/api/chat", json=body("rest", user(EVERYTHING)))
        whole = first.content
        path = f"/api/chat/{first.headers['x-workflow-run-id']}/stream"
        parts = whole.split(b"\n\n")
        for start in range(count):
            rest = http.get(path, params={"startIndex": start})
            assert rest.status_code == 200
            # Whoever asks for what is after the last chunk gets the last one once more.
            begin = min(start, count - 2)
            assert rest.content == b"\n\n".join(parts[begin:])
            assert rest.headers["x-vercel-ai-ui-message-stream"] == "v1"
        for start in (count, count + 1, 10**15 - 1):
            late = http.get(path, params={"startIndex": start})
            assert late.status_code == 200
            assert frames(late.content) == [b'data: {"type":"finish"}', b"data: [DONE]"]
        for back in range(1, count + 3):
            rest = http.get(path, params={"startIndex": -back})
            assert rest.headers["x-workflow-stream-tail-index"] == str(count - 2)
            assert rest.content == b"\n\n".join(parts[max(count - 1 - back, 0) :])


@pytest.mark.parametrize("question", ["Fail:1", "Raise:1", "Ask:1", "May I:1", "Stop"])
def test_a_transport_never_asks_again_after_the_end(
    newest: Pages, server: Site, question: str
) -> None:
    chat = newest.chat(server.api, question, key=KEY, transport={**WORKFLOW}, ids=True)
    if question == "Stop":
        sent = chat.begin_send("Wait: for a stop")
        chat.until("Working.")
        with peer(server.url) as http:
            assert http.delete("/api/chat/Stop/stream").status_code == 204
        shown = sent.result(10)
    else:
        shown = chat.send(question)
    assert len(shown["requests"]) == 1
    assert shown["status"] == ("error" if question[0] in "FR" else "ready")
    # The page is loaded again: nothing is to be resumed.
    again = newest.chat(
        server.api, question, key=KEY, transport={**WORKFLOW}, messages=shown["messages"]
    ).resume()
    assert (again["status"], again["error"]) == ("ready", None)
    [[method, path, status]] = again["requests"]
    assert (method, status) == ("GET", 200)
    assert path.endswith("/stream?startIndex=0")
    assert [part for message in answers(again) for part in message["parts"]] == [
        part for message in answers(shown) for part in message["parts"]
    ]


def test_a_transport_resumes_a_chat_after_a_reload_and_a_cut(
    newest: Pages, server: Site, proxy: CuttingProxy
) -> None:
    """The page knows only the id of the chat, and names the chunk in its only answer."""
    question = f"Held:{len(PACKETS)} reload"
    options: dict[str, Any] = {"key": KEY, "transport": WORKFLOW, "ids": True}
    first = newest.chat(server.api, question, **options)
    sent = first.begin_send(question)
    shown = first.until("The end.")
    second = newest.chat(api(proxy), question, messages=shown["messages"][:1], **options)
    proxy.after, proxy.half = 11, True
    resumed = second.begin("resume")
    second.answered(2)
    server.agent.gates[question].open()
    check_whole(resumed.result(10))
    check_whole(sent.result(10))
    assert second.shown()["requests"][1][1].endswith("/stream?startIndex=11")


def test_a_transport_is_told_that_a_chat_is_read_from_its_beginning(
    newest: Pages, server: Site
) -> None:
    """The page has kept half an answer with a call that was running.

    The SDK adds the answer to it, unless the transport has this property, as the usual one has.
    """
    question = "Held:12 replay"
    options: dict[str, Any] = {"key": KEY, "transport": {**WORKFLOW, "isReplay": True}}
    first = newest.chat(server.api, question, ids=True, **options)
    sent = first.begin_send(question)
    shown = first.until("some text")
    again = newest.chat(server.api, question, messages=shown["messages"], **options)
    resumed = again.begin("resume")
    again.answered(1)
    server.agent.gates[question].open()
    check_whole(sent.result(10))
    assert resumed.result(10)["messages"] == sent.result(10)["messages"]


def test_headers_of_a_stream(server: Site) -> None:
    with peer(server.url) as http:
        given = http.post("/api/chat", json=body(None, user("Hi")), headers=HEADERS).headers
    assert given["content-type"].startswith("text/event-stream")
    assert given["cache-control"] == "no-cache, no-transform"
    assert given["x-accel-buffering"] == "no"
    assert "content-encoding" not in given
    assert given["x-vercel-ai-ui-message-stream"] == "v1"
    assert given["x-workflow-run-id"].startswith("run_")
