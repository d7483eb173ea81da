"""Durable agents that run a model with a tool; as a program, it serves them until it is killed.

Arguments: the file of the log, the URL of the model, the file that the tool writes to.
"""

import sys
from pathlib import Path
from typing import Any

from coreason_client.llm import AsyncLLMClient, LLMClient
from coreason_client.server import AgentApp, AgentStream, SQLiteStreamLog, running
from coreason_client.server.sync_stream import SyncAgentStream
from coreason_manifest.definitions.service import ServiceRequest

__all__ = ["PROGRAM", "app"]

PROGRAM = "tests.e2e.run_agent"
LEASE = 10.0  # a busy machine must renew it in time


def app(log: str, model: str, effects: str, *, plain: bool) -> AgentApp:
    def book(seat: int) -> str:
        with Path(effects).open("a") as file:
            file.write(f"{seat}\n")
        return f"booked {seat}"

    options: dict[str, Any] = {"timeout": 30, "max_retries": 0}

    async def assist(request: ServiceRequest, stream: AgentStream) -> str:
        async with AsyncLLMClient("key", model, "m", **options) as client:
            messages = [{"role": "user", "content": stream.question}]
            return (await client.run(messages, tools=[book])).text

    def assist_plain(request: ServiceRequest, stream: SyncAgentStream) -> str:
        with LLMClient("key", model, "m", **options) as client:
            messages = [{"role": "user", "content": stream.question}]
            return client.run(messages, tools=[book]).text

    return AgentApp(
        assist_plain if plain else assist,
        log=SQLiteStreamLog(log, lease=LEASE),
        agent_id="booking",
        durable=True,
        drain_timeout=0.1,
        cancel_grace=0.2,
    )


if __name__ == "__main__":
    with running(app(*sys.argv[1:4], plain=sys.argv[4:] == ["plain"])) as server:
        print(server.url, flush=True)
        sys.stdin.read()
