"""A process that serves agents over A2A; the first word of a question is the agent's name.

`gated PATH` pauses until the file exists.

Arguments: port, options as JSON, file of notes.
"""

import asyncio
import sys
import time
from pathlib import Path

from coreason_client.server import AgentApp, AgentStream, ServiceRequest, ValkeyStreamLog, serve

from ..soak.options import ReplicaOptions
from ..soak.replica import leave_with_parent

PROGRAM = "tests.e2e.a2a_replica"
WORDS = 20
HELD_AT = 8  # the number of words after which the first run of `held` stops
POLL = 0.02  # seconds between two looks at the gate of `gated`


def text(count: int = WORDS) -> str:
    """Return the first words of an answer."""
    return "".join(f"w{number} " for number in range(count))


async def agent(request: ServiceRequest, stream: AgentStream) -> None:
    """Writes words."""
    match stream.question.split():
        case ["held", *_]:
            await _write(stream, 0, HELD_AT)
            await stream.progress("held")  # no text, so every word before it is in the log
            if stream.attempt == 1:
                await asyncio.Event().wait()
            await _write(stream, HELD_AT, WORDS)
        case ["gated", gate]:
            await _write(stream, 0, HELD_AT)
            await asyncio.to_thread(_wait_for, Path(gate))
            await _write(stream, HELD_AT, WORDS)
        case ["ask", *_]:
            await stream.ask("Where?")
        case words:
            await stream.write(" ".join(words))


def _wait_for(gate: Path) -> None:
    while not gate.exists():  # the test ends this wait, or the process
        time.sleep(POLL)


async def _write(stream: AgentStream, start: int, end: int) -> None:
    for number in range(start, end):
        await stream.write(f"w{number} ")


def main(port: str, options_json: str, notes: str) -> None:
    options = ReplicaOptions.parse(options_json)
    leave_with_parent()
    app = AgentApp(
        agent,
        log=ValkeyStreamLog(options.url, prefix=options.prefix, lease=options.lease),
        agent_id="a2a",
        a2a=True,
        durable=options.durable,
        drain_timeout=options.drain_timeout,
        cancel_grace=1.0,
        heartbeat=0.5,
    )
    serve(app, port=int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
