"""A process with a durable agent that stops after some packets of its first run.

The question says after how many. Argument: the file of the log.
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

from .serving import KEYS, MODEL, PACKETS, write


async def tell(request: ServiceRequest, stream: AgentStream) -> None:
    held = int(stream.question.rpartition(" ")[2])
    for number, packet in enumerate([*PACKETS, None]):
        if number == held and stream.attempt == 1:
            print("held", flush=True)
            await asyncio.Event().wait()
        if packet is not None:
            await write(stream, packet)


def main(path: str) -> None:
    log = SQLiteStreamLog(path)
    app = AgentApp(tell, log=log, durable=True, openai=True, agent_id=MODEL, api_keys=KEYS)
    with running(app) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
