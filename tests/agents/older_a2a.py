"""The program for the client of a2a-sdk 0.3: it sends one message and prints what it got.

Arguments: the URL, the key, the text and, for an answer, the ids of the task and its context.
"""

import asyncio
import json
import sys
from typing import Any
from uuid import uuid4

import a2a.types
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory

types: Any = a2a.types  # those of 0.3, not those that are installed beside the type checker


def text_of(parts: Any) -> str:
    return "".join(part.root.text for part in parts)


async def send(url: str, key: str, text: str, *ids: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(headers=headers, timeout=15) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        client: Any = ClientFactory(ClientConfig(httpx_client=http)).create(card)
        part: Any = {"kind": "text", "text": text}
        names = dict(zip(("task_id", "context_id"), ids, strict=False))
        message = types.Message(
            message_id=str(uuid4()), role=types.Role.user, parts=[part], **names
        )
        events = [event async for event in client.send_message(message)]
    task = events[-1][0]
    asked = task.status.message
    return {
        "task": task.id,
        "context": task.context_id,
        "state": task.status.state.value,
        "question": None if asked is None else text_of(asked.parts),
        "text": "".join(text_of(one.parts) for one in task.artifacts or ()),
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(send(*sys.argv[1:]))))
