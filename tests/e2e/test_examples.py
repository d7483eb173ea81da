"""The programs under `examples/` do what their docstrings say."""

import re
import signal
import socket
from pathlib import Path

import pytest

from coreason_client import CAPClient
from tests.server.program import Program

EXAMPLES = Path(__file__).parents[2] / "examples"
RUN = "import runpy, sys; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
DAY = re.compile(r"On day (\d) we walk through (\w+) and look at everything\. \n")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def durable_agent(port: int, log: Path) -> Program:
    options = ("--port", port, "--log", log, "--pause", "0.02")
    return Program(RUN, EXAMPLES / "durable_agent.py", *options)


@pytest.mark.timeout(120)
def test_the_answer_of_the_durable_agent_goes_on_after_a_kill(tmp_path: Path) -> None:
    port = free_port()
    # It logs its address before it listens, so the first attempts may be refused.
    with (
        durable_agent(port, tmp_path / "log") as first,
        CAPClient(first.url(), "any-key", max_retries=30) as client,
    ):
        stream = client.chat("Plan a journey.")
        before = [next(stream) for _ in range(20)]
        first.signal(signal.SIGKILL)
        assert first.end() == -signal.SIGKILL
        with durable_agent(port, tmp_path / "log") as second:
            after = list(stream)
            second.expect(r"run 2 of the agent")
            assert "chose" not in second.errors
    chosen = re.search(r"chose (.*)", first.errors)
    assert chosen is not None
    cities = chosen[1].split(", ")
    text = "".join([*before, *after])
    assert text.startswith(f"From {cities[0]} to {cities[-1]}.\n")
    assert DAY.findall(text) == [(str(day), city) for day, city in enumerate(cities, 1)]
    assert text.count("\n") == 5
    assert stream.complete
    assert stream.reconnects >= 1
