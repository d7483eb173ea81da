"""The programs under `examples/` do what their docstrings say."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from openai import OpenAI
from openai.types.responses import (
    ResponseCompletedEvent,
    ResponseCreatedEvent,
    ResponseStreamEvent,
    ResponseTextDeltaEvent,
)

from coreason_client import A2AClient, CAPClient
from coreason_client.a2a import Task, TaskState
from tests.llm.server import ServerInThread
from tests.llm.tools.answers import streamed_calls, streamed_text
from tests.ports import free_port
from tests.server.program import PATIENCE, Program

EXAMPLES = Path(__file__).parents[2] / "examples"
RUN = "import runpy, sys; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
DAY = re.compile(r"On day (\d) we walk through (\w+) and look at everything\. \n")


def wait_for(port: int) -> None:
    """Wait until a program listens: it logs its address before."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, "the program does not listen"
            time.sleep(0.05)


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


def a2a_agent(port: int, log: Path) -> Program:
    return Program(RUN, EXAMPLES / "a2a_agent.py", "--port", port, "--log", log)


@pytest.mark.timeout(120)
def test_the_a2a_agent_asks_and_goes_on_after_a_kill(tmp_path: Path) -> None:
    port = free_port()
    with a2a_agent(port, tmp_path / "log") as first:
        wait_for(port)
        with A2AClient.connect(first.url()) as client:
            asked = client.send_message("Plan a trip to Kyoto.")
        assert isinstance(asked, Task)
        assert asked.status.state is TaskState.INPUT_REQUIRED
        assert asked.status.text == "How many days?"
        first.signal(signal.SIGKILL)
        assert first.end() == -signal.SIGKILL
    with a2a_agent(port, tmp_path / "log") as second:
        wait_for(port)
        with A2AClient.connect(second.url()) as client:
            assert client.get_task(asked.id).status.text == "How many days?"
            stream = client.send_message_stream("2", reply_to=asked)
            text = "".join(event.text for event in stream)
            assert text.count("walk and look at everything.") == 2
            assert stream.task is not None
            assert (stream.task.id, stream.task.status.state) == (asked.id, TaskState.COMPLETED)
            [calendar] = [one for one in stream.task.artifacts if one.name == "calendar"]
            assert calendar.parts[0].content == b"day,plan\n1,walk\n2,walk"
            refused = client.send_message("99")
            assert isinstance(refused, Task)
            assert refused.status.state is TaskState.REJECTED


def test_the_model_calls_the_functions_of_the_program(tmp_path: Path) -> None:
    far = ("distance", {"start": "Lima", "end": "Riga"})
    unknown = ("distance", {"start": "Lima", "end": "Atlantis"})
    with ServerInThread(streamed_calls(far, unknown), streamed_text("Far.")) as model:
        shown = subprocess.run(
            [sys.executable, EXAMPLES / "tools.py", "How far is it?"],
            env={**os.environ, "LLM_API_KEY": "key", "LLM_API_BASE_URL": model.url},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        ).stdout
    assert "distance {'start': 'Lima', 'end': 'Riga'}" in shown
    assert re.search(r"distance -> 11\d\d\d\.0|distance -> 11\d\d\d", shown)
    assert "distance -> Error: KeyError: 'Atlantis'" in shown
    assert re.search(r"Far\.\n\(2 answers, \d+ tokens\)\n$", shown)


def openai_agent(port: int, log: Path) -> Program:
    options = ("--port", port, "--log", log, "--pause", "0.05")
    return Program(RUN, EXAMPLES / "openai_agent.py", *options)


@pytest.mark.timeout(120)
def test_a_response_of_the_openai_agent_goes_on_after_a_kill(tmp_path: Path) -> None:
    port = free_port()
    events: list[ResponseStreamEvent] = []
    with (
        openai_agent(port, tmp_path / "log") as first,
        OpenAI(base_url=f"{first.url()}/v1", api_key="any-key") as client,
    ):
        wait_for(port)
        question = "Plan a trip to Kyoto."
        stream = client.responses.create(model="trips", input=question, stream=True)
        while len(events) < 20:
            events.append(next(stream))
        first.signal(signal.SIGKILL)
        assert first.end() == -signal.SIGKILL
        assert isinstance(events[0], ResponseCreatedEvent)
        response_id = events[0].response.id
        with openai_agent(port, tmp_path / "log") as second:
            wait_for(port)
            last = events[-1].sequence_number
            rest = client.responses.retrieve(response_id, stream=True, starting_after=last)
            events += rest
            assert "looked up" not in second.errors
            more = client.responses.create(
                model="trips", input="And Lima?", previous_response_id=response_id
            )
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert isinstance(events[-1], ResponseCompletedEvent)
    deltas = [event.delta for event in events if isinstance(event, ResponseTextDeltaEvent)]
    text = events[-1].response.output_text
    assert "".join(deltas) == text
    kinds = [item.type for item in events[-1].response.output]
    assert kinds == ["reasoning", "mcp_call", "message"]
    assert text.startswith("5 days in Kyoto.\n\n* **Day 1:** walk")
    assert text.count("walk and look at everything.") == 5
    assert more.output_text.startswith("After that: 4 days in Lima.")
