"""A process with a durable agent that stops after some packets of its first run.

The question says after how many, and whether it then says something that the second run takes back.
Argument: the file of the log.
"""

import asyncio
import sys

from coreason_client.server import (
    AgentApp,
    AgentStream,
    ServiceRequest,
    SQLiteStreamLog,
    running,
)

from .serving import KEYS, PACKETS, called, write


async def tell(request: ServiceRequest, stream: AgentStream) -> None:
    mode, _, count = stream.question.partition(" after ")
    held = int(count)

    async def hold() -> None:
        if stream.attempt == 1:
            print("held", flush=True)
            await asyncio.Event().wait()

    async def go_on() -> None:
        if stream.attempt == 1:
            await stream.write("Something")
            await write(stream, called("c9", "other", {}))
            await stream.write("else.")
        await hold()
        for packet in PACKETS[held:]:
            await write(stream, packet)

    for packet in PACKETS[:held]:
        await write(stream, packet)
    if mode == "Other":
        await stream.step("rest", go_on)
    else:
        await hold()
        for packet in PACKETS[held:]:
            await write(stream, packet)


def main(path: str) -> None:
    app = AgentApp(tell, log=SQLiteStreamLog(path), durable=True, ag_ui=True, api_keys=KEYS)
    with running(app) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
