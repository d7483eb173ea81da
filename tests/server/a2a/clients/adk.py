"""The program for the client of google-adk: it asks an agent and prints what the session keeps."""

import asyncio
import json
import sys
from importlib import import_module
from typing import Any

# The type checker does not have it.
RemoteA2aAgent: Any = import_module("google.adk.agents.remote_a2a_agent").RemoteA2aAgent
InMemoryRunner: Any = import_module("google.adk.runners").InMemoryRunner
types: Any = import_module("google.genai").types

IDS = {"app_name": "app", "user_id": "user"}


def text_of(event: Any) -> str:
    parts = event.content.parts if event.content else None
    return "".join(part.text or "" for part in parts or [])


async def ask(url: str) -> dict[str, Any]:
    agent = RemoteA2aAgent(name="remote", agent_card=f"{url}/.well-known/agent-card.json")
    runner = InMemoryRunner(agent=agent, app_name="app")
    session = await runner.session_service.create_session(**IDS)
    question = types.Content(role="user", parts=[types.Part(text="Hello?")])
    events = [
        event
        async for event in runner.run_async(
            user_id="user", session_id=session.id, new_message=question
        )
    ]
    kept = await runner.session_service.get_session(**IDS, session_id=session.id)
    return {
        "chunks": [text_of(event) for event in events if event.partial],
        "answers": [text_of(e) for e in kept.events if e.author == "remote" and text_of(e)],
        "errors": [event.error_message for event in events if event.error_message],
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(ask(*sys.argv[1:]))))
