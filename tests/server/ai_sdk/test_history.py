"""An agent sees each earlier turn once, whether the page or the server keeps the history."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from coreason_client.agents.llm import llm_agent
from coreason_client.llm import AsyncLLMClient
from coreason_client.server import AgentStream, ServiceRequest
from coreason_client.testing import fake_model

from .pages import Pages
from .serving import KEY, Site, body, chunks, peer, said, site, texts, user


async def shows_history(request: ServiceRequest, stream: AgentStream) -> None:
    """Answer with everything that an agent can see of a conversation."""
    earlier = [f"{message.role}:{message.text}" for message in await stream.history()]
    new = [f"{message.role}:{message.text}" for message in request.payload.messages or ()]
    await stream.write(f"[{' '.join(earlier)}][{' '.join(new)}][{stream.question}]")


async def recalls(request: ServiceRequest, stream: AgentStream) -> str:
    history = await stream.history()
    turns = " ".join(message.text for turn in history.turns for message in turn.messages)
    return f"{len(history.turns)} turns ({turns}), now: {stream.question}"


@pytest.fixture(scope="module")
def server() -> Iterator[Site]:
    with site(shows_history) as server:
        yield server


def post(server: Site, given: dict[str, Any]) -> str:
    with peer(server.url) as http:
        answer = http.post("/api/chat", json=given)
        assert answer.status_code == 200, answer.text
    return "".join(chunk.get("delta", "") for chunk in chunks(answer.content))


@pytest.mark.parametrize("only", [False, True], ids=["messages", "message"])
def test_three_turns_an_edit_and_a_new_answer(pages: Pages, server: Site, only: bool) -> None:
    """With `message`, a page sends the new message alone, and the server knows the others."""
    chat = pages.chat(server.api, f"turns {only} {pages.version}", key=KEY, only=only)
    first, second, third = (texts(chat.send(text))[-1] for text in ("one", "two", "three"))
    assert first == "[][user:one][one]"
    assert second == f"[user:one assistant:{first}][user:two][two]"
    earlier = f"user:one assistant:{first} user:two assistant:{second}"
    assert third == f"[{earlier}][user:three][three]"
    if only:
        return
    asked = chat.shown()["messages"]
    # The later turns are gone with the edit of the first message.
    edited = chat.send("one, edited", asked[0]["id"])
    assert texts(edited)[-1] == "[][user:one, edited][one, edited]"
    again = chat.regenerate()
    assert texts(again) == ["one, edited", "[][user:one, edited][one, edited]"]
    after = chat.send("four")
    assert texts(after)[-1] == f"[user:one, edited assistant:{texts(again)[-1]}][user:four][four]"


def test_a_new_answer_of_an_earlier_turn(newest: Pages, server: Site) -> None:
    chat = newest.chat(server.api, "earlier", key=KEY)
    for text in ("one", "two", "three"):
        chat.send(text)
    first = chat.shown()["messages"][1]
    shown = chat.regenerate(first["id"])
    assert texts(shown) == ["one", "[][user:one][one]"]


def test_the_agent_of_the_documentation(newest: Pages) -> None:
    with site(recalls) as server:
        chat = newest.chat(server.api, "recalls", key=KEY)
        found = [texts(chat.send(text))[-1] for text in ("one", "two", "three")]
        assert found[0] == "0 turns (), now: one"
        assert found[1] == f"1 turns (one {found[0]}), now: two"
        assert found[2] == f"2 turns (one {found[0]} two {found[1]}), now: three"
        assert texts(chat.regenerate())[-1] == found[2]
        first = chat.shown()["messages"][0]["id"]
        assert texts(chat.send("1", first)) == ["1", "0 turns (), now: 1"]


@pytest.mark.parametrize("only", [False, True], ids=["messages", "message"])
def test_a_model_gets_each_turn_once(newest: Pages, only: bool) -> None:
    with fake_model("answer", exhausted="repeat") as fake:
        agent = llm_agent("openai/fake", client=AsyncLLMClient(**fake.options()))
        with site(agent) as server:
            chat = newest.chat(server.api, "model", key=KEY, only=only)
            for text in ("one", "two", "three"):
                chat.send(text)
            if not only:
                chat.regenerate()
                chat.send("edited", chat.shown()["messages"][0]["id"])
        sent = [
            [(message["role"], message["content"]) for message in request.json["messages"]]
            for request in fake.requests
        ]
    one, two = ("user", "one"), ("user", "two")
    three = [one, ("assistant", "answer"), two, ("assistant", "answer"), ("user", "three")]
    assert sent[:3] == [three[:1], three[:3], three]
    assert sent[3:] == ([] if only else [three, [("user", "edited")]])


def test_system_messages_are_not_history(server: Site) -> None:
    system = {"id": "s", "role": "system", "parts": [{"type": "text", "text": "Be brief."}]}
    asked = body(None, system, user("one"), said("1"), user("two", "u2"))
    assert post(server, asked) == "[user:one assistant:1][system:Be brief. user:two][two]"


def test_parts_of_messages() -> None:
    async def parts(request: ServiceRequest, stream: AgentStream) -> None:
        earlier = [(m.role, part.dump()) for m in await stream.history() for part in m.parts]
        new = [(m.role, part.dump()) for m in request.payload.messages or () for part in m.parts]
        await stream.write(json.dumps([*earlier, *new]))

    tool = {"type": "dynamic-tool", "toolName": "f", "input": {"a": 1}}
    message = {
        "id": "a",
        "role": "assistant",
        "parts": [
            {"type": "step-start"},
            {"type": "reasoning", "text": "hm"},
            {**tool, "toolCallId": "c1", "state": "output-available", "output": [1]},
            {"type": "tool-g", "toolCallId": "c2", "state": "output-error", "errorText": "no"},
            {**tool, "toolCallId": "c3", "state": "output-denied"},
            {**tool, "toolCallId": "c4", "state": "input-available"},
            {"type": "source-url", "sourceId": "1", "url": "https://a.example"},
            {"type": "data-x", "data": 1},
            {"type": "text", "text": "Done."},
        ],
    }
    asked = user("look", "u2")
    asked["parts"] += [
        {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,aGk="},
        {"type": "file", "mediaType": "text/plain", "url": "http://127.0.0.1:9/never-fetched"},
    ]
    with site(parts) as server:
        found = json.loads(post(server, body(None, user("one"), message, asked)))
    call = {"type": "tool_call", "name": "f", "arguments": {"a": 1}}
    result = {"type": "tool_call_response"}
    denied = "The user has denied the call."
    image = {"type": "blob", "content": "aGk=", "mime_type": "image/png", "modality": "image"}
    link = {"type": "uri", "uri": "http://127.0.0.1:9/never-fetched", "modality": "file"}
    assert found == [
        ["user", {"type": "text", "content": "one"}],
        ["assistant", {"type": "reasoning", "content": "hm"}],
        ["assistant", {**call, "id": "c1"}],
        ["tool", {**result, "id": "c1", "response": [1]}],
        ["assistant", {"type": "tool_call", "name": "g", "id": "c2"}],
        ["tool", {**result, "id": "c2", "response": {"error": "no"}}],
        ["assistant", {**call, "id": "c3"}],
        ["tool", {**result, "id": "c3", "response": {"error": denied}}],
        ["assistant", {"type": "text", "content": "Done."}],
        ["user", {"type": "text", "content": "look"}],
        ["user", image],
        ["user", {**link, "mime_type": "text/plain"}],
    ]
