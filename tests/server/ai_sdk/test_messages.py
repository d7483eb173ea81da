"""Pages show everything that an answer has, and how it ended: each version of the SDK."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from coreason_client.server import AgentStream, File

from .pages import CAPABILITIES, Pages
from .serving import (
    EVERYTHING,
    KEY,
    TRANSIENT,
    Site,
    answers,
    body,
    check_whole,
    chunks,
    peer,
    site,
    texts,
    user,
)

LARGE = 262_144  # bytes of the largest file that is sent
NEVER = ("tool-input-start", "tool-input-delta", "tool-output-denied", "custom", "reasoning-file")
BEYOND = ("reset-step", "tool-approval-request", "tool-approval-response")


@pytest.fixture(scope="module")
def server() -> Iterator[Site]:
    with site() as server:
        yield server


def posted(server: Site, text: str, **more: Any) -> list[dict[str, Any]]:
    with peer(server.url) as http:
        return chunks(http.post("/api/chat", json=body(None, user(text), **more)).content)


def shown_of(pages: Pages, agent: Any, text: str = "Hi", **options: Any) -> dict[str, Any]:
    with site(agent) as server:
        return pages.chat(server.api, "c", key=KEY, **options).send(text)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("able", [True, False], ids=["capabilities", "none"])
def test_a_page_shows_everything(pages: Pages, server: Site, able: bool) -> None:
    given = {"capabilities": CAPABILITIES[pages.version] if able else []}
    chat = pages.chat(server.api, f"everything {pages.version} {able}", key=KEY, body=given)
    shown = chat.send(EVERYTHING)
    check_whole(shown)
    assert [part["type"] for part in shown["data"] if part.get("transient")] == TRANSIENT
    [finished] = shown["finished"]
    assert not any(finished[name] for name in ("isAbort", "isDisconnect", "isError"))


def test_every_chunk_is_valid(pages: Pages, server: Site) -> None:
    questions = (EVERYTHING, "Ask:", "May I:", "Fail:", "Raise:", "Hello")
    bodies = [posted(server, question) for question in questions]
    for found in pages.check(bodies):
        assert found["wrong"] == []
    kinds = {chunk["type"] for told in bodies for chunk in told}
    assert not kinds & {*NEVER, *BEYOND}
    for told in bodies:
        assert [chunk["type"] for chunk in told].count("finish") == 1
        assert told[-1]["type"] == "finish"


def test_each_version_knows_the_chunks_that_it_names(pages: Pages) -> None:
    known: dict[str, dict[str, Any]] = {
        "reset-step": {"type": "reset-step"},
        "tool-approval-request": {
            "type": "tool-approval-request",
            "approvalId": "1",
            "toolCallId": "c",
        },
        "tool-approval-response": {
            "type": "tool-approval-response",
            "approvalId": "1",
            "approved": True,
        },
    }
    [found] = pages.check([[*known.values()]])
    wrong = [chunk["type"] for chunk in found["wrong"]]
    assert [name for name in known if name not in wrong] == CAPABILITIES[pages.version]


def test_a_page_does_not_send_again_after_calls_of_the_agent(pages: Pages, server: Site) -> None:
    when = "lastAssistantMessageIsCompleteWithToolCalls"
    name = f"no second {pages.version}"
    shown = pages.chat(server.api, name, key=KEY, when=when).send(EVERYTHING)
    check_whole(shown)
    assert len(shown["requests"]) == 1


# Ends


def test_an_answer_that_fails(pages: Pages, server: Site) -> None:
    chat = pages.chat(server.api, f"fails {pages.version}", key=KEY)
    shown = chat.send("Fail: now")
    assert (shown["status"], shown["error"]) == ("error", "The tank is empty.")
    assert texts(shown) == ["Fail: now", "Half of "]
    *_, error, finish = posted(server, "Fail: now")
    assert error == {"type": "error", "errorText": "The tank is empty.", "code": "no_fuel"}
    assert finish == {"type": "finish", "finishReason": "error"}


def test_an_agent_that_raises_an_error_does_not_tell_it(server: Site) -> None:
    told = posted(server, "Raise: it")
    assert told[-2]["code"] == "agent_error"
    assert "secret" not in str(told)


@pytest.mark.parametrize(
    ("reason", "told"), [("length", "length"), ("content_filter", "content-filter")]
)
def test_an_answer_that_the_model_did_not_finish(pages: Pages, reason: str, told: str) -> None:
    async def agent(_: Any, stream: AgentStream) -> None:
        await stream.write("half")
        await stream.usage(prompt_tokens=1, completion_tokens=2, finish_reason=reason)

    shown = shown_of(pages, agent)
    assert (shown["status"], texts(shown)) == ("ready", ["Hi", "half"])
    [finished] = shown["finished"]
    assert finished["finishReason"] == told


def test_an_answer_without_anything(pages: Pages) -> None:
    async def agent(_: Any, __: AgentStream) -> None:
        await asyncio.sleep(0)

    shown = shown_of(pages, agent)
    assert (shown["status"], shown["error"]) == ("ready", None)
    [message] = answers(shown)
    assert [part["type"] for part in message["parts"]] in ([], ["step-start"])


# Content


@pytest.mark.parametrize(("size", "is_sent"), [(LARGE, True), (LARGE + 3, False)])
def test_a_large_file_is_named_and_not_sent(newest: Pages, size: int, is_sent: bool) -> None:
    async def agent(_: Any, stream: AgentStream) -> None:
        await stream.artifact("a", File(b"x" * size, name="x.bin", media_type="text/plain"))

    [message] = answers(shown_of(newest, agent))
    [part] = [part for part in message["parts"] if part["type"] != "step-start"]
    if is_sent:
        assert (part["type"], part["mediaType"]) == ("file", "text/plain")
    else:
        assert part["type"] == "data-artifact"
        assert part["data"]["parts"] == [{"filename": "x.bin", "mediaType": "text/plain"}]


def test_a_warning_is_data(newest: Pages) -> None:
    async def agent(_: Any, stream: AgentStream) -> None:
        await stream.warn("slow", "It is slow.", {"secret": 1})

    [message] = answers(shown_of(newest, agent))
    assert message["parts"][-1] == {
        "type": "data-warning",
        "data": {"code": "slow", "message": "It is slow."},
    }


def test_an_id_of_a_call_is_used_twice(pages: Pages) -> None:
    """The page shows both calls: the second is not written over the first."""

    async def agent(_: Any, stream: AgentStream) -> None:
        for number in (1, 2):
            call_id = await stream.tool_call("f", {"number": number}, id="same")
            await stream.tool_result(call_id, number)

    [message] = answers(shown_of(pages, agent))
    calls = [part for part in message["parts"] if part["type"] == "dynamic-tool"]
    assert [(call["input"]["number"], call["output"]) for call in calls] == [(1, 1), (2, 2)]


def test_settings_of_a_page_reach_the_agent(newest: Pages) -> None:
    async def agent(request: Any, stream: AgentStream) -> None:
        settings = request.payload.metadata["ai_sdk"]
        await stream.write(f"{settings['model']} {sorted(settings)}")

    shown = shown_of(newest, agent, body={"model": "m", "capabilities": ["reset-step", "unknown"]})
    assert texts(shown)[-1] == "m ['id', 'model', 'trigger']"
