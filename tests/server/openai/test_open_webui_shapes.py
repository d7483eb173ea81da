"""Requests as Open WebUI sends them: recorded from version 0.12, and shortened."""

from typing import Any

import httpx2

from coreason_client.server import AgentApp, AgentStream, OpenAIAPI, ServiceRequest, running

from .asking import LIMIT, MODEL

IMAGE = "data:image/png;base64,iVBORw0KGgo="
TOOL = {"type": "function", "function": {"name": "search_notes", "parameters": {}}}
CHAT: dict[str, Any] = {
    "stream": False,
    "model": MODEL,
    "messages": [{"role": "user", "content": "Hello"}],
}
USER = {"X-OpenWebUI-User-Id": "24ae44e7", "X-OpenWebUI-Chat-Id": "def91c71"}


async def shows(request: ServiceRequest, stream: AgentStream) -> None:
    """Answer with what the agent sees."""
    history = [f"{message.role}:{message.text}" for message in await stream.history()]
    parts = [part["type"] for message in request.payload.messages or () for part in message.parts]
    headers = (request.payload.metadata or {}).get("headers", {})
    await stream.write(f"{history} {parts} {stream.question!r} {sorted(headers.items())}")


def answer(path: str, body: dict[str, Any], **settings: Any) -> httpx2.Response:
    app = AgentApp(shows, agent_id=MODEL, openai=OpenAIAPI(**settings))
    with running(app) as server:
        return httpx2.post(f"{server.url}/v1/{path}", json=body, headers=USER, timeout=LIMIT)


def chat_text(body: dict[str, Any], **settings: Any) -> str:
    response = answer("chat/completions", body, **settings)
    content: str = response.json()["choices"][0]["message"]["content"]
    return content


def test_its_own_tools_are_refused_with_a_hint() -> None:
    refused = answer("chat/completions", {**CHAT, "tools": [TOOL]})
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert (error["code"], error["param"]) == ("unsupported_parameter", "tools")
    assert 'tools="ignore"' in error["message"]


def test_its_own_tools_are_ignored() -> None:
    assert chat_text({**CHAT, "tools": [TOOL]}, tools="ignore") == "[] ['text'] 'Hello' []"


def test_an_attached_image_and_its_list_of_files() -> None:
    content = [
        {"type": "text", "text": "<attached_files>…</attached_files>\n\n"},
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": IMAGE}},
    ]
    text = chat_text({**CHAT, "messages": [{"role": "user", "content": content}]})
    assert text.startswith("[] ['text', 'text', 'blob'] '<attached_files>")
    assert "What is it?" in text


def test_a_message_after_one_without_an_answer() -> None:
    messages = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": "two"},  # the answer was an error, which is not sent again
        {"role": "user", "content": "three"},
    ]
    text = chat_text({**CHAT, "messages": messages})
    assert text == "['user:one', 'assistant:1'] ['text', 'text'] 'three' []"


def test_the_headers_of_its_user_reach_the_agent_if_they_are_named() -> None:
    assert chat_text(CHAT).endswith(" []")
    text = chat_text(CHAT, headers=["X-OpenWebUI-User-Id"])
    assert text.endswith(" [('x-openwebui-user-id', '24ae44e7')]")


def test_the_conversation_as_items_of_the_responses_api() -> None:
    items = [
        {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
        for role, kind, text in (
            ("user", "input_text", "one"),
            ("assistant", "output_text", "1"),
            ("user", "input_text", "two"),
        )
    ]
    body = {"stream": False, "model": MODEL, "input": items, "tools": [TOOL]}
    [item] = answer("responses", body, tools="ignore").json()["output"]
    assert item["content"][0]["text"] == "['user:one', 'assistant:1'] ['text'] 'two' []"


def test_a_stream_has_one_cache_control() -> None:
    response = answer("chat/completions", {**CHAT, "stream": True})
    assert response.headers.get_list("cache-control") == ["no-cache, no-transform"]
    assert response.headers["x-accel-buffering"] == "no"
