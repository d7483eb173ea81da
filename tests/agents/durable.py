"""Runs a durable agent whose process dies at chosen appends."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from coreason_client import ServiceRequest
from coreason_client.server import AgentStream
from tests.server.durable.simulated import Answer, MortalLog, survive
from tests.server.durable.test_properties import valid_packets
from tests.server.peer import envelope

Agent = Callable[[ServiceRequest, AgentStream], Coroutine[Any, Any, None]]


def request(text: str = "What is the sky?", *, rewinds: bool = False) -> ServiceRequest:
    body = envelope(text)
    if rewinds:
        body["payload"] |= {"capabilities": {"supported_events": ["REWIND"]}}
    return ServiceRequest.model_validate(body)


async def run(
    agent: Agent, asked: ServiceRequest, deaths: Sequence[tuple[int, bool]], log: Any = None
) -> Answer:
    return await asyncio.wait_for(survive(agent, asked, deaths, log=log), 20)


class CountingLog(MortalLog):
    """A log that counts appends and never dies."""

    def __init__(self) -> None:
        super().__init__([])
        self.appends = 0

    def _dies(self) -> bool | None:
        self.appends += 1
        return super()._dies()


async def undisturbed(agent: Agent, asked: ServiceRequest) -> tuple[Answer, int]:
    """Return the answer and the number of its appends."""
    log = CountingLog()
    return await run(agent, asked, [], log), log.appends


def text(answer: Answer) -> str:
    return "".join(payload for op, payload in valid_packets(answer.packets) if op == "DELTA")


def shown(answer: Answer) -> list[tuple[str, Any]]:
    """Return the valid packets as a replay compares them."""
    return [
        (op, {k: v for k, v in p.items() if k not in ("id", "timestamp")} if op == "EVENT" else p)
        for op, p in valid_packets(answer.packets)
    ]


def events(answer: Answer, kind: str) -> list[Any]:
    packets = valid_packets(answer.packets)
    return [p["data"] for op, p in packets if op == "EVENT" and p["type"] == kind]


def before_rewind(answer: Answer) -> str:
    """Return the text that a client has received before the first REWIND packet."""
    ends = [at for at, (op, p) in enumerate(answer.packets) if op == "EVENT" and is_rewind(p)]
    return "".join(p for op, p in answer.packets[: ends[0]] if op == "DELTA")


def is_rewind(payload: Any) -> bool:
    return bool(payload["type"] == "REWIND")


def rewinds(answer: Answer) -> int:
    return sum(op == "EVENT" and is_rewind(p) for op, p in answer.packets)
