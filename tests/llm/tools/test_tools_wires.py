"""Runs over other wire formats: what a provider expects back is sent back."""

import asyncio
import json
from typing import Any

from coreason_client.llm import AsyncLLMClient, LLMClient, RunResult
from tests.llm.server import Provider, Replied, ServerInThread

from .answers import KEY, MESSAGES


def weather(city: str) -> str:
    """Return the weather."""
    if city == "Atlantis":
        raise ValueError("no such city")
    return f"blue in {city}"


def reply(body: Any) -> Replied:
    return Replied(body=json.dumps(body).encode())


def run(server: Provider, model: str, *tools: Any, **options: Any) -> RunResult:
    async def go() -> RunResult:
        async with AsyncLLMClient(KEY, server.url, max_retries=0, **options) as client:
            return await client.run(MESSAGES, model, tools=[weather, *tools])

    return asyncio.run(asyncio.wait_for(go(), 20))


def test_reasoning_items_of_the_responses_api() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "xyz"}
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "weather",
        "arguments": '{"city": "Rome"}',
        "status": "completed",
    }
    text = {"type": "output_text", "text": "Blue.", "annotations": []}
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [text],
    }
    common = {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
    }
    replies = [
        reply({**common, "output": [reasoning, call]}),
        reply({**common, "output": [message]}),
    ]
    with ServerInThread(*replies) as server:
        result = run(server, "gpt-5", wire="responses")
    assert (result.text, result.usage["total_tokens"]) == ("Blue.", 10)
    sent = server.received[1].json["input"]
    kinds = [item.get("type", "message") for item in sent]
    assert kinds == ["message", "reasoning", "function_call", "function_call_output"]
    assert sent[1]["encrypted_content"] == "xyz"
    assert (sent[3]["call_id"], sent[3]["output"]) == ("call_1", "blue in Rome")


def test_the_thinking_of_claude() -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "signed"}
    calls = [
        {"type": "tool_use", "id": f"toolu_{city}", "name": "weather", "input": {"city": city}}
        for city in ("Rome", "Atlantis")
    ]
    common = {
        "type": "message",
        "role": "assistant",
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }
    replies = [
        reply({**common, "content": [thinking, *calls], "stop_reason": "tool_use"}),
        reply(
            {**common, "content": [{"type": "text", "text": "Blue."}], "stop_reason": "end_turn"}
        ),
    ]
    with ServerInThread(*replies) as server:
        result = run(server, "anthropic/claude-sonnet-4-5")
    assert result.text == "Blue."
    _, assistant, results = server.received[1].json["messages"]
    assert assistant["content"][0] == thinking
    assert [block["tool_use_id"] for block in results["content"]] == [
        "toolu_Rome",
        "toolu_Atlantis",
    ]
    assert [block.get("is_error") for block in results["content"]] == [None, True]
    assert results["content"][1]["content"][0]["text"] == "Error: ValueError: no such city"


def test_blocks_of_server_side_tools_and_a_turn_that_pauses() -> None:
    """What the provider's own tools did goes back unchanged, and the paused answer goes on."""
    web = {"type": "web_search_20250305", "name": "web_search"}
    searching = [
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "w"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srv_1",
            "content": [{"type": "web_search_result", "encrypted_content": "EqgfCioIARgB"}],
        },
    ]
    calling = [
        {"type": "text", "text": "I look. "},
        {"type": "text", "text": "\n"},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rome"}},
    ]
    usage = {"input_tokens": 3, "output_tokens": 2}
    replies = [
        {"content": searching, "stop_reason": "pause_turn", "usage": usage},
        {"content": [*searching, *calling], "stop_reason": "tool_use", "usage": usage},
        {"content": [{"type": "text", "text": "Blue."}], "stop_reason": "end_turn", "usage": usage},
    ]
    with ServerInThread(*map(reply, replies)) as server:
        result = run(server, "anthropic/claude-sonnet-5", web)
        sent = [received.json for received in server.received]
    assert (result.text, result.turns) == ("Blue.", 3)
    assert [tool["name"] for tool in sent[0]["tools"]] == ["weather", "web_search"]
    assert sent[0]["tools"][1] == web
    assert sent[1]["messages"][1:] == [{"role": "assistant", "content": searching}]
    # One turn; blank text is rejected, so it is left out.
    assert sent[2]["messages"][1]["content"] == [*searching, *searching, calling[0], calling[2]]
    assert sent[2]["messages"][2]["content"][0]["tool_use_id"] == "toolu_1"
    # An answer whose text was changed since, or another provider, gets only the text and the calls.
    changed = [
        {**message, "provider_items": message.get("provider_items")} for message in result.messages
    ]
    changed[2]["content"] = "I looked."
    with ServerInThread(reply(replies[2]), reply({"message": {"content": "Hi"}})) as server:
        with LLMClient(KEY, server.url, max_retries=0) as client:
            client.generate([*changed, MESSAGES[0]], "anthropic/claude-sonnet-5")
            client.generate([*changed, MESSAGES[0]], "ollama/qwen3")
        edited, other = [received.json["messages"] for received in server.received]
    kinds = [block["type"] for block in edited[1]["content"]]
    assert kinds == ["server_tool_use", "web_search_tool_result", "text", "tool_use"]
    assert [message["role"] for message in other][:4] == ["user", "assistant", "assistant", "tool"]
    assert "provider_items" not in str(other)
