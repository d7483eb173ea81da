"""Every message is answered once, by one run of the agent, whatever happens to its connection.

`make fuzz` runs these tests with a thousand rounds.
"""

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from coreason_client.server import AgentApp, AgentStream, ServiceRequest, running

from ..aio import LIMIT
from ..log.task_stores import TaskKeeper, maker

ROUNDS = 1000 if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else 40
AT_ONCE = 8
LONGEST = 0.005  # seconds between two equal messages, or before a connection is lost

Ports = list[int]


class Desk:
    """One or two servers on one log, and how often the agent has run for each question."""

    def __init__(self, ports: Ports, runs: Counter[str]) -> None:
        self.ports = ports
        self.runs = runs
        self.random = random.Random(7)

    @property
    def moment(self) -> float:
        return self.random.choice((0.0, self.random.uniform(0.0, LONGEST)))


@pytest.fixture(params=["memory", "sqlite", "valkey", "two replicas", "two replicas on a cluster"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    kind = {"two replicas": "valkey", "two replicas on a cluster": "valkey_cluster"}
    make: Callable[[], TaskKeeper] = maker(kind.get(request.param, request.param), tmp_path)
    runs: Counter[str] = Counter()

    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        runs[stream.question] += 1
        if stream.question.startswith("ask") and not (await stream.history()).turns:
            await stream.ask("More?")
        else:
            await stream.write(f"About {stream.question}.")

    with ExitStack() as servers:
        yield Desk(
            [
                servers.enter_context(
                    running(AgentApp(agent, log=make(), agent_id="agent", a2a=True))
                ).port
                for _ in range(2 if request.param in kind else 1)
            ],
            runs,
        )


def message(text: str, **ids: str) -> bytes:
    about = {"messageId": uuid4().hex, "role": "ROLE_USER", "parts": [{"text": text}], **ids}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": about}}
    return json.dumps(call).encode()


async def send(port: int, body: bytes, lost_after: float | None = None) -> Any:
    """Send a message; return the task, or lose the connection after so many seconds."""
    async with asyncio.timeout(LIMIT):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = (
            "POST /a2a HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nA2A-Version: 1.0\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        if lost_after is not None:
            await writer.drain()
            await asyncio.sleep(lost_after)
            writer.transport.abort()
            return None
        answer = await reader.read()
        writer.close()
    result = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert "result" in result, result
    return result["result"]["task"]


def in_rounds(one: Callable[[int], Any]) -> None:
    """Do all rounds, some of them at once."""

    async def run() -> None:
        slots = asyncio.Semaphore(AT_ONCE)

        async def limited(number: int) -> None:
            async with slots:
                await one(number)

        await asyncio.gather(*map(limited, range(ROUNDS)))

    asyncio.run(asyncio.wait_for(run(), LIMIT + ROUNDS))


def test_equal_messages_begin_one_task_and_run_the_agent_once(desk: Desk) -> None:
    async def later(port: int, body: bytes) -> Any:
        await asyncio.sleep(desk.moment)
        return await send(port, body)

    async def pair(number: int) -> None:
        body = message(f"pair {number}")
        first, second = await asyncio.gather(send(desk.ports[0], body), later(desk.ports[-1], body))
        assert first["id"] == second["id"]
        assert first["status"]["state"] == second["status"]["state"] == "TASK_STATE_COMPLETED"

    in_rounds(pair)
    assert desk.runs == {f"pair {number}": 1 for number in range(ROUNDS)}


def test_a_message_that_is_sent_again_after_a_lost_connection_is_answered(
    desk: Desk,
) -> None:
    async def again(number: int) -> None:
        body = message(f"again {number}")
        await send(desk.ports[0], body, lost_after=desk.moment)
        task = await send(desk.ports[-1], body)
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert task["artifacts"][0]["parts"] == [{"text": f"About again {number}."}]

    in_rounds(again)
    assert desk.runs == {f"again {number}": 1 for number in range(ROUNDS)}


def test_equal_answers_to_a_question_begin_one_turn(desk: Desk) -> None:
    async def answer(number: int) -> None:
        asked = await send(desk.ports[0], message(f"ask {number}"))
        assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        body = message(f"answer {number}", taskId=asked["id"])
        await send(desk.ports[0], body, lost_after=desk.moment)
        both = await asyncio.gather(*(send(port, body) for port in (desk.ports * 2)[:2]))
        for task in both:
            assert task["id"] == asked["id"]
            assert task["status"]["state"] == "TASK_STATE_COMPLETED"

    in_rounds(answer)
    questions = (f"{kind} {number}" for kind in ("ask", "answer") for number in range(ROUNDS))
    assert desk.runs == dict.fromkeys(questions, 1)
