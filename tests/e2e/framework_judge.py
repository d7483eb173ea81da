"""Serves the agent of a module with a fake model behind it, asks it twice, and prints what came."""

import json
import os
import sys
from importlib import import_module
from typing import Any
from uuid import uuid4

import httpx2

from coreason_client.server import running
from coreason_client.sse import SSEDecoder
from coreason_client.testing import ModelToolCall, ModelTurn, fake_model

WAIT = 60.0
CALL = ModelTurn(tool_calls=ModelToolCall("population", {"city": "Paris"}))
ANSWERS = ("Paris has 2,100,000 people.", "As I said.")


def ask(url: str, question: str) -> list[Any]:
    """Return the packets of an answer: op and payload."""
    message = {"role": "user", "parts": [{"type": "text", "content": question}]}
    body = {
        "request_id": str(uuid4()),
        "context": {"session_id": "one", "user_id": "anybody"},
        "payload": {"messages": [message]},
    }
    response = httpx2.post(f"{url}/assist", json=body, timeout=WAIT)
    packets = [json.loads(event.data_bytes) for event in SSEDecoder().feed(response.content)]
    return [(packet["op"], packet["p"]) for packet in packets]


def main(module: str, last_tool: str = "") -> None:
    """`last_tool` is the tool with which the model must answer; by default it writes text."""
    turns = [
        ModelTurn(tool_calls=ModelToolCall(last_tool, {"answer": text}))
        if last_tool
        else ModelTurn(text)
        for text in ANSWERS
    ]
    with fake_model([CALL, *turns], require_all=True) as model:
        os.environ |= model.environment()
        os.environ |= {"GOOGLE_API_KEY": "any", "GOOGLE_GEMINI_BASE_URL": model.url}
        with running(import_module(module).app) as server:
            answers = [ask(server.url, question) for question in ("How many?", "Again?")]
        asked = [list(request.messages) for request in model.requests]
    print(json.dumps({"answers": answers, "asked": asked}))


if __name__ == "__main__":
    main(*sys.argv[1:])
