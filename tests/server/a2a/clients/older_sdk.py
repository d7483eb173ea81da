"""The program for the client of a2a-sdk 0.3: it calls an agent and prints what it got."""

import asyncio
import json
import sys
from typing import Any
from uuid import uuid4

import a2a.types
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory

types: Any = a2a.types  # those of 0.3, not those that are installed beside the type checker


def message(behaviour: str, **ids: Any) -> Any:
    part: Any = {"kind": "text", "text": "Hello."}
    return types.Message(
        message_id=f"{behaviour}-{uuid4()}", role=types.Role.user, parts=[part], **ids
    )


async def follow(client: Any, task_id: str, states: asyncio.Queue[Any]) -> None:
    """Put the states of a task into a queue until the stream ends."""
    async for task, _ in client.resubscribe(types.TaskIdParams(id=task_id)):
        states.put_nowait(task.status.state.value)


async def call(url: str, transport: str) -> dict[str, Any]:
    headers = {"Authorization": "Bearer ann-key"}
    async with httpx.AsyncClient(headers=headers, timeout=15) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        options: Any = {"httpx_client": http, "supported_transports": [transport]}
        options["use_client_preference"] = True
        plain: Any = ClientFactory(ClientConfig(**options, streaming=False)).create(card)
        client: Any = ClientFactory(ClientConfig(**options)).create(card)
        [(done, _)] = [event async for event in plain.send_message(message("tck-complete-task"))]
        [answer] = [event async for event in plain.send_message(message("tck-message-response"))]
        events = [event async for event in client.send_message(message("tck-stream-001"))]
        asked = [event async for event in client.send_message(message("tck-input-required"))]
        waiting = asked[-1][0]
        ids = {"task_id": waiting.id, "context_id": waiting.context_id}
        more = [event async for event in client.send_message(message("tck-complete-task", **ids))]
        [(other, _)] = [event async for event in plain.send_message(message("tck-input-required"))]
        read = await plain.get_task(types.TaskQueryParams(id=done.id))
        subscribed: asyncio.Queue[Any] = asyncio.Queue()
        following = asyncio.create_task(follow(client, other.id, subscribed))
        await subscribed.get()
        cancelled = await plain.cancel_task(types.TaskIdParams(id=other.id))
        async with asyncio.timeout(10):
            await following
        try:
            await plain.get_task(types.TaskQueryParams(id="unknown"))
            error = None
        except Exception as caught:  # noqa: BLE001 - its class is what the test looks at
            error = type(caught).__name__
    return {
        "sent": [done.status.state.value, done.artifacts[0].parts[0].root.text],
        "message": answer.parts[0].root.text,
        "streamed": [
            events[-1][0].status.state.value,
            events[-1][0].artifacts[0].parts[0].root.text,
        ],
        "asked": [waiting.status.state.value, waiting.status.message.parts[0].root.text],
        "answered": [more[-1][0].status.state.value, more[-1][0].id == waiting.id],
        "read": read.id == done.id,
        "cancelled": cancelled.status.state.value,
        "subscribed": [subscribed.get_nowait() for _ in range(subscribed.qsize())],
        "error": error,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(call(*sys.argv[1:]))))
