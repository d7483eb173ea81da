"""A process with a durable agent that stops after some packets of its first run.

The question says after how many, and whether the second run says the same. Argument: the file of
the log.
"""

import asyncio
import sys
from typing import Any

from coreason_client.server import AgentApp, AgentStream, ServiceRequest, SQLiteStreamLog, running

from .serving import KEYS, PACKETS, Packet, thought, write

VOID: list[Packet] = [thought("Void."), "Void words.", {"type": "data-void", "id": "w", "data": 1}]


async def tell(request: ServiceRequest, stream: AgentStream) -> None:
    approval = (request.payload.metadata or {})["ai_sdk"].get("approval")
    if approval is not None:
        await stream.write(f"{approval['name']} {approval['arguments']['attempt']}")
        return
    kind, _, number = stream.question.rpartition(" ")
    if kind.startswith("Ask"):
        await stream.step("call", _call, stream)
        await stream.ask("May I?", call_id="c")
    elif kind.startswith("Differs"):
        await stream.step("tell", _tell, stream, int(number), True)
    else:
        await _tell(stream, int(number), False)


async def _tell(stream: AgentStream, held: int, differs: bool) -> None:
    """Write the answer; the last words before it is held may differ."""
    packets = (
        [*PACKETS[: held - len(VOID)], *VOID] if differs and stream.attempt == 1 else [*PACKETS]
    )
    for place, packet in enumerate([*packets, None]):
        if place == held and stream.attempt == 1:
            print("held", flush=True)
            await asyncio.Event().wait()
        if packet is not None:
            await write(stream, packet)


async def _call(stream: AgentStream) -> None:
    """Call a tool with other arguments in each run."""
    await stream.tool_call("delete", {"attempt": stream.attempt}, id="c")
    if stream.attempt == 1:
        print("held", flush=True)
        await asyncio.Event().wait()


def main(path: str) -> None:
    options: dict[str, Any] = {"log": SQLiteStreamLog(path), "durable": True, "api_keys": KEYS}
    with running(AgentApp(tell, ai_sdk=True, agent_id="agent", **options)) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
