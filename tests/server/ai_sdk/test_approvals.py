"""Questions whether a tool may be called: asked, answered and continued in one message."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ..peer import Gate
from .pages import CAPABILITIES, Chat, Pages, pages_of
from .serving import (
    KEY,
    OTHER_KEY,
    Site,
    answered,
    answers,
    body,
    chunks,
    comparable,
    peer,
    site,
    texts,
    until,
    user,
)

CALL: dict[str, Any] = {
    "type": "dynamic-tool",
    "toolName": "delete",
    "toolCallId": "call-1",
    "input": {"path": "/tmp/x"},
    "providerExecuted": True,
}
CONVERTED = {"type": "text", "text": "May I delete it?", "state": "done"}
USAGE = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}


@pytest.fixture(scope="module")
def server() -> Iterator[Site]:
    with site() as server:
        yield server


@pytest.fixture(params=[6, 7], ids=lambda version: f"ai {version}")
def able(request: pytest.FixtureRequest) -> Pages:
    """The versions that know questions about a call."""
    return pages_of(request.param)


def opened(pages: Pages, server: Site, name: str, **options: Any) -> Chat:
    capabilities = {"capabilities": CAPABILITIES[pages.version]}
    return pages.chat(server.api, name, key=KEY, body=capabilities, **options)


def question_of(shown: dict[str, Any]) -> str:
    [message] = answers(shown)
    [part] = [part for part in message["parts"] if part["type"] == "dynamic-tool"]
    assert part["state"] == "approval-requested"
    return str(part["approval"]["id"])


def asked(chat: Chat, name: str) -> tuple[str, dict[str, Any]]:
    """Let the agent ask, and return the id of the question and what the page shows."""
    shown = chat.send(f"May I: {name}")
    question = question_of(shown)
    [message] = answers(shown)
    assert message["metadata"] == {"asks": "input_required", "usage": USAGE}
    part = {**CALL, "state": "approval-requested", "approval": {"id": question}}
    assert comparable(message["parts"]) == [{"type": "step-start"}, part, CONVERTED]
    return question, shown


@pytest.mark.parametrize("reason", [None, "fine"])
def test_an_answer_goes_on_in_the_same_message(
    able: Pages, server: Site, reason: str | None
) -> None:
    name = f"approved {able.version} {reason}"
    chat = opened(able, server, name)
    question, before = asked(chat, name)
    chat.approve(question, approved=True, reason=reason)
    shown = chat.send()
    assert (shown["status"], shown["error"]) == ("ready", None)
    [message] = answers(shown)
    assert message["id"] == answers(before)[0]["id"]
    given = {"id": question, "approved": True} | ({} if reason is None else {"reason": reason})
    part = {**CALL, "state": "output-available", "output": "gone", "approval": given}
    assert comparable(message["parts"]) == [
        *({"type": "step-start"}, part, CONVERTED),
        *({"type": "step-start"}, {"type": "text", "text": "Deleting.", "state": "done"}),
        {"type": "text", "text": " Deleted.", "state": "done"},
    ]
    assert server.agent.approvals[-1] == {
        "question_id": question,
        "call_id": "call-1",
        "name": "delete",
        "arguments": {"path": "/tmp/x"},
        "approved": True,
        "reason": reason,
    }
    assert message["metadata"] == {"asks": None, "usage": USAGE}  # it was answered


def test_a_call_is_denied(able: Pages, server: Site) -> None:
    name = f"denied {able.version}"
    chat = opened(able, server, name)
    question, _ = asked(chat, name)
    chat.approve(question, approved=False, reason="no")
    shown = chat.send()
    [message] = answers(shown)
    [part] = [part for part in message["parts"] if part["type"] == "dynamic-tool"]
    assert (part["state"], part["errorText"]) == ("output-error", "Denied.")
    assert texts(shown)[-1] == "May I delete it?Left alone: no"
    assert (server.agent.runs[-1], server.agent.approvals[-1]["approved"]) == ("denied: no", False)


def test_the_same_answer_joins_and_another_one_is_refused(newest: Pages, server: Site) -> None:
    chat = opened(newest, server, "twice")
    question, shown = asked(chat, "twice")
    runs = len(server.agent.runs)
    chat.approve(question, approved=True)
    first = chat.send()
    again = responded(shown, approved=True)
    other = responded(shown, approved=False)
    with peer(server.url) as http:
        same = http.post("/api/chat", json=again)
        assert same.status_code == 200
        assert chunks(same.content)[0]["messageId"] == answers(first)[0]["id"]
        refused = http.post("/api/chat", json=other)
    assert refused.status_code == 409
    assert refused.json()["type"] == "urn:coreason:problem:question-not-open"
    assert len(server.agent.runs) == runs + 1


def responded(shown: dict[str, Any], *, approved: bool) -> dict[str, Any]:
    """Return the request that a page sends after an answer."""
    ask, message = shown["messages"]
    return body(
        ask["parts"][0]["text"].removeprefix("May I: "),
        *(ask, answered(message, approved=approved)),
        messageId=message["id"],
        capabilities=CAPABILITIES[7],
    )


def test_different_answers_at_the_same_time_run_once(newest: Pages, server: Site) -> None:
    for number in range(5):
        name = f"race {number}"
        _, shown = asked(opened(newest, server, name), name)
        runs = len(server.agent.runs)
        requests = [responded(shown, approved=approved) for approved in (True, False) * 3]
        with peer(server.url) as http, ThreadPoolExecutor(6) as pool:
            sent = [pool.submit(http.post, "/api/chat", json=one) for one in requests]
        statuses = [one.result().status_code for one in sent]
        assert sorted(statuses) == [200, 200, 200, 409, 409, 409]
        assert len(server.agent.runs) == runs + 1


def test_a_call_is_taken_from_the_log(newest: Pages, server: Site) -> None:
    """A page may post any input."""
    _, shown = asked(opened(newest, server, "forged"), "forged")
    request = responded(shown, approved=True)
    part = next(p for p in request["messages"][1]["parts"] if p["type"] == "dynamic-tool")
    part["input"] = {"path": "/"}
    part["toolName"] = "format"
    with peer(server.url) as http:
        answer = http.post("/api/chat", json=request)
    assert answer.status_code == 200
    told = server.agent.approvals[-1]
    assert (told["name"], told["arguments"]) == ("delete", {"path": "/tmp/x"})


@pytest.mark.parametrize("wrong", ["question", "call", "other chat", "other key", "unknown"])
def test_an_answer_to_something_else_is_refused(newest: Pages, server: Site, wrong: str) -> None:
    _, shown = asked(opened(newest, server, f"not {wrong}"), f"not {wrong}")
    request = responded(shown, approved=True)
    part = next(p for p in request["messages"][1]["parts"] if p["type"] == "dynamic-tool")
    match wrong:
        case "question":
            part["approval"]["id"] = "question_1"
        case "unknown":
            part["approval"]["id"] = f"question_{'0' * 32}"
        case "call":
            part["toolCallId"] = "call-2"
        case "other chat":
            request["id"] = "another chat"
    runs = len(server.agent.runs)
    with peer(server.url, OTHER_KEY if wrong == "other key" else KEY) as http:
        refused = http.post("/api/chat", json=request)
    assert refused.status_code == 409
    assert len(server.agent.runs) == runs


def test_a_question_is_closed_by_the_next_message(newest: Pages, server: Site) -> None:
    _, shown = asked(opened(newest, server, "later"), "later")
    with peer(server.url) as http:
        ask, message = shown["messages"]
        assert http.post(
            "/api/chat", json=body("later", ask, message, user("No.", "u2"))
        ).is_success
        refused = http.post("/api/chat", json=responded(shown, approved=True))
    assert refused.status_code == 409


@pytest.mark.parametrize("only", [False, True], ids=["messages", "message"])
def test_the_turns_before_and_after_an_approval_are_seen_once(newest: Pages, only: bool) -> None:
    async def agent(request: Any, stream: Any) -> None:
        earlier = [f"{message.role}:{message.text}" for message in await stream.history()]
        if request.payload.metadata["ai_sdk"].get("approval") is not None:
            await stream.write(f" {stream.question}: {len(earlier)} before.")
        elif stream.question == "Go":
            await stream.ask("May I?", call_id=await stream.tool_call("step", {}))
        else:
            await stream.write(" ".join(earlier))

    with site(agent) as server:
        chat = opened(newest, server, "turns", only=only)
        [message] = answers(chat.send("Go"))
        [part] = [part for part in message["parts"] if part["type"] == "dynamic-tool"]
        chat.approve(part["approval"]["id"], approved=True)
        shown = chat.send()
        assert (shown["status"], shown["error"]) == ("ready", None)
        assert len(answers(shown)) == 1
        seen = texts(chat.send("And then?"))[-1]
    assert seen.count("user:Go") == seen.count("May I?") == seen.count("approved:") == 1


@pytest.mark.parametrize("approved", [True, False])
def test_a_page_sends_an_answer_by_itself_and_only_once(
    able: Pages, server: Site, approved: bool
) -> None:
    name = f"automatic {able.version} {approved}"
    when = "lastAssistantMessageIsCompleteWithApprovalResponses"
    chat = opened(able, server, name, when=when)
    question, _ = asked(chat, name)
    chat.approve(question, approved=approved)
    shown = chat.until("Deleted." if approved else "Left alone")
    until(lambda: chat.shown()["status"] == "ready")
    shown = chat.shown()
    assert len(shown["requests"]) == 2
    # Without a word about the call, too.
    runs = len(server.agent.runs)
    assert texts(chat.send("Thanks"))[-1] == "You said Thanks"
    assert len(chat.shown()["requests"]) == 3
    assert len(server.agent.runs) == runs + 1


@pytest.mark.parametrize("keeps", [True, False], ids=["with messages", "without messages"])
def test_a_reload_in_the_middle_of_a_continued_answer(
    newest: Pages, server: Site, keeps: bool
) -> None:
    """The page that was loaded again shows the same as the one that was not."""
    name = f"reload {keeps}"
    chat = opened(newest, server, name)
    question, _ = asked(chat, name)
    chat.approve(question, approved=True, reason=f"wait {keeps}")
    sent = chat.begin_send()
    shown = chat.until("Deleting.")
    messages = shown["messages"] if keeps else shown["messages"][:1]
    again = opened(newest, server, name, messages=messages)
    resumed = again.begin("resume")
    again.answered(1)
    server.agent.gates[f"wait {keeps}"].open()
    live, read = sent.result(10), resumed.result(10)
    assert (read["status"], read["error"]) == ("ready", None)
    assert read["messages"] == live["messages"]
    assert len(answers(read)) == 1


def test_a_reload_with_a_version_that_cannot_be_told_of_the_approval(server: Site) -> None:
    """Version 6 shows the result, and no longer what the user has answered."""
    pages = pages_of(6)
    chat = opened(pages, server, "reload 6")
    question, _ = asked(chat, "reload 6")
    chat.approve(question, approved=True, reason="wait 6")
    sent = chat.begin_send()
    shown = chat.until("Deleting.")
    again = opened(pages, server, "reload 6", messages=shown["messages"])
    resumed = again.begin("resume")
    again.answered(1)
    server.agent.gates["wait 6"].open()
    live, read = sent.result(10), resumed.result(10)
    assert (read["status"], read["error"]) == ("ready", None)
    for one in (live, read):
        [part] = [part for part in answers(one)[0]["parts"] if part["type"] == "dynamic-tool"]
        assert part.pop("approval")["id"] == question
    assert read["messages"] == live["messages"]


def test_two_answers_in_one_message(newest: Pages, server: Site) -> None:
    """A message is continued twice, and is whole after a reload."""
    gate = Gate()

    async def agent(request: Any, stream: Any) -> None:
        approval = request.payload.metadata["ai_sdk"].get("approval")
        number = 1 if approval is None else int(approval["call_id"]) + 1
        if approval is not None:
            await stream.tool_call(approval["name"], approval["arguments"], id=approval["call_id"])
            await stream.tool_result(approval["call_id"], f"done {number - 1}")
        if number == 3:
            await stream.write("Both.")
            await gate.wait()
            return
        call_id = await stream.tool_call("step", {"number": number}, id=str(number))
        await stream.ask(f"Step {number}?", call_id=call_id)

    with site(agent) as other:
        chat = opened(newest, other, "steps")
        shown = chat.send("Go")
        for number in (1, 2):
            parts = answers(shown)[0]["parts"]
            [part] = [part for part in parts if part.get("state") == "approval-requested"]
            assert part["toolCallId"] == str(number)
            chat.approve(part["approval"]["id"], approved=True)
            if number == 1:
                shown = chat.send()
        sent = chat.begin_send()
        shown = chat.until("Both.")
        again = opened(newest, other, "steps", messages=shown["messages"][:1])
        resumed = again.begin("resume")
        again.answered(1)
        gate.open()
        live, read = sent.result(10), resumed.result(10)
    assert (read["status"], read["error"]) == ("ready", None)
    assert read["messages"] == live["messages"]
    outputs = [part.get("output") for part in answers(live)[0]["parts"] if "output" in part]
    assert outputs == ["done 1", "done 2"]


def test_a_page_that_does_not_know_approvals_shows_a_question(pages: Pages, server: Site) -> None:
    name = f"text {pages.version}"
    chat = pages.chat(server.api, name, key=KEY)
    shown = chat.send("May I: text")
    [message] = answers(shown)
    [part] = [part for part in message["parts"] if part["type"] == "data-question"]
    assert part["data"] == {"question": "May I delete it?", "toolCallId": "call-1"}
    assert (shown["status"], texts(shown)[-1]) == ("ready", "May I delete it?")
    shown = chat.send("Yes.")
    assert texts(shown) == ["May I: text", "May I delete it?", "Yes.", "You said Yes."]


def test_a_question_without_a_call(pages: Pages, server: Site) -> None:
    chat = pages.chat(server.api, f"where {pages.version}", key=KEY)
    shown = chat.send("Ask: me")
    [message] = answers(shown)
    assert message["metadata"] == {"asks": "input_required"}
    [part] = [part for part in message["parts"] if part["type"] == "data-question"]
    assert part["data"] == {"question": "Where?"}
    assert texts(chat.send("Here."))[-1] == "You said Here."


def test_a_question_about_a_call_whose_id_was_used_before(able: Pages) -> None:
    async def agent(request: Any, stream: Any) -> None:
        approval = request.payload.metadata["ai_sdk"].get("approval")
        if approval is None:
            await stream.tool_call("look", {}, id="same")
            await stream.tool_result("same", "seen")
            await stream.tool_call("delete", {"path": "x"}, id="same")
            await stream.ask("May I?", call_id="same")
            return
        given = approval["call_id"]
        await stream.tool_call(approval["name"], approval["arguments"], id=given)
        await stream.tool_result(given, "gone")

    with site(agent) as server:
        chat = opened(able, server, "same")
        [message] = answers(chat.send("Go"))
        calls = [part for part in message["parts"] if part["type"] == "dynamic-tool"]
        assert [call["state"] for call in calls] == ["output-available", "approval-requested"]
        chat.approve(calls[1]["approval"]["id"], approved=True)
        shown = chat.send()
    assert (shown["status"], shown["error"]) == ("ready", None)
    [message] = answers(shown)
    calls = [part for part in message["parts"] if part["type"] == "dynamic-tool"]
    assert [(call["toolName"], call["output"]) for call in calls] == [
        ("look", "seen"),
        ("delete", "gone"),
    ]
