"""SIGKILL in the middle of an answer: what was acknowledged stays, and the stream ends."""

import os
import signal
from pathlib import Path

import httpx2
import pytest

from coreason_client.server import AgentApp, AgentStream, SQLiteStreamLog, running
from coreason_manifest.definitions.presentation import ErrorSeverity
from coreason_manifest.definitions.service import ServiceRequest
from tests.preloaded import PROJECT, PipedProcess

from .peer import LIMIT, Peer, envelope

# It never ends: whatever is read, the process dies in the middle.
PROGRAM = """
import asyncio, sys
from coreason_client.server import AgentApp, SQLiteStreamLog, running

async def count(request, stream):
    number = 0
    while True:
        number += 1
        await stream.write(f"{number} ")
        if number % 10 == 0:
            await stream.progress("counting", number)
            with open(sys.argv[2], "a") as acknowledged:
                acknowledged.write(f"{number}\\n")
            await asyncio.sleep(0.001)

with running(AgentApp(count, log=SQLiteStreamLog(sys.argv[1]), agent_id="count")) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


@pytest.mark.proves("RES2-4d", "RES2-promise-delivery")
def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    path, notes = tmp_path / "log.db", tmp_path / "notes"
    process = PipedProcess(["-c", PROGRAM, str(path), str(notes)], libraries=PROJECT)
    body = envelope()
    try:
        peer = Peer(process.line())
        with pytest.raises(httpx2.TransportError), peer.open(body) as answer:
            answer.until(200)
            os.kill(process.pid, signal.SIGKILL)
            answer.rest()
        peer.close()
    finally:
        process.close(LIMIT)
    shown = answer.packets
    acknowledged = int(notes.read_text().split("\n")[-2])

    async def other(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a second generation")

    # With so long a lease only the start itself can end the stream in time.
    log = SQLiteStreamLog(path, lease=10_000)
    with running(AgentApp(other, log=log, agent_id="count")) as server:
        peer = Peer(server.url)
        resumed = peer.ask(body, answer.events[-1].id)
        whole = peer.ask(body)
        fresh = peer.ask(envelope())
        peer.close()
    packets = shown + resumed.packets
    assert whole.packets == packets
    assert [packet.seq for packet in packets] == list(range(1, len(packets) + 1))
    numbers = [int(packet.p) for packet in packets if packet.op == "DELTA"]
    assert numbers == list(range(1, len(numbers) + 1))
    assert numbers[-1] >= acknowledged
    assert packets[-1].p.code == "producer_lost"
    assert packets[-1].p.severity is ErrorSeverity.FATAL
    assert fresh.text == "a second generation"
