"""The case of the table in docs/durable.md: a process is killed in the middle of a second step."""

import signal
from pathlib import Path

import pytest

from coreason_client import CAPClient, CAPRuntimeError
from tests.ports import free_port
from tests.server.program import Program

PROGRAM = """
import asyncio, sys
from coreason_client.server import AgentApp, SQLiteStreamLog, serve

async def tokens(stream, letter):
    for number in range(10):
        await stream.write(f"{letter}{number} ")
        await asyncio.sleep(0.02)

async def agent(request, stream):
    await stream.step("first", tokens, stream, "A")
    await stream.step("second", tokens, stream, "B")

port, log, durable = sys.argv[1:]
app = AgentApp(agent, log=SQLiteStreamLog(log), durable=durable == "durable")
print(f"http://127.0.0.1:{port}", file=sys.stderr, flush=True)
serve(app, port=int(port))
"""
FIRST = "".join(f"A{number} " for number in range(10))
SECOND = "".join(f"B{number} " for number in range(10))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["durable", "plain"])
def test_what_the_reader_has_in_the_end(kind: str, tmp_path: Path) -> None:
    arguments = (free_port(), tmp_path / "log", kind)
    with (
        Program(PROGRAM, *arguments) as first,
        CAPClient(first.url(), "any-key", max_retries=30) as client,
    ):
        stream = client.chat("Go.")
        for _ in range(15):
            next(stream)
        first.signal(signal.SIGKILL)
        first.end()
        with Program(PROGRAM, *arguments):
            if kind == "durable":
                list(stream)
                assert stream.text == FIRST + SECOND
            else:
                with pytest.raises(CAPRuntimeError) as caught:
                    list(stream)
                assert caught.value.stream_error is not None
                assert caught.value.stream_error.code == "producer_lost"
                text = stream.text
                assert (FIRST + SECOND).startswith(text)
                assert len(FIRST) < len(text) < len(FIRST + SECOND)
