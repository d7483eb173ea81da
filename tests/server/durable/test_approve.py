"""`stream.approve`: a durable agent asks in its middle, and the turn that answers goes on there."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest

from coreason_client.server import (
    AgentApp,
    AgentStream,
    ServiceRequest,
    SQLiteStreamLog,
    StepFailed,
    SyncAgentStream,
    running,
)
from coreason_client.server.engine import _inbox, _takeover

from ..conftest import Serve
from ..log.backends import BACKENDS, Clock
from ..peer import Peer, envelope
from ..test_on_busy import Away
from .simulated import Answer, MortalLog, survive

TEXTS = [
    'planning for a trip. May I call book with {"seat":7}?',
    'booked 7. May I call pay with {"euros":40}?',
    "paid 40 as [True, True].",
]


@dataclass
class Trip:
    """An agent with two approvals, and how often each of its steps was called."""

    calls: Counter[str] = field(default_factory=Counter)
    ids: set[tuple[Any, ...]] = field(default_factory=set)
    firsts: set[UUID] = field(default_factory=set)

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        earlier = [message.text for message in await stream.history()]
        assert earlier == []  # also in the turns that answer
        assert request is stream.request
        self.firsts.add(stream.uuid())
        await stream.write(f"planning for {stream.question}. ")
        seat = await stream.step("plan", self._do, "plan", 7)
        first = await stream.approve("book", {"seat": seat})
        seat = await stream.step("book", self._do, "book", (first.arguments or {"seat": 7})["seat"])
        await stream.write(f"booked {seat}. ")
        ids = (stream.uuid(), first.call_id)
        second = await stream.approve("pay", {"euros": 40})
        euros = await stream.step("pay", self._do, "pay", 40)
        await stream.write(f"paid {euros} as {[first.approved, second.approved]}.")
        self.ids.add((*ids, second.call_id))

    async def _do(self, name: str, result: int) -> int:
        self.calls[name] += 1
        return result


async def turn(agent: Any, log: MortalLog, text: str) -> Answer:
    return await survive(
        agent, ServiceRequest.model_validate(envelope(text)), [(0, False)] * 3, log=log
    )


def text_of(answer: Answer) -> str:
    return "".join(p for op, p in answer.packets if op == "DELTA")


def test_each_turn_goes_on_whatever_dies_between_and_during_them() -> None:
    """A process dies before or after each append of each of the three turns, and of two of them."""

    async def once(deaths: list[tuple[int, bool]]) -> bool:
        log, trip = MortalLog(deaths), Trip()
        with patch.object(_inbox, "_POLL_SECONDS", 0.001):
            for number, text in enumerate(["a trip", "yes", "ok"]):
                before = dict(trip.calls)
                answer = await turn(trip, log, text)
                assert (answer.outcome, text_of(answer)) == ("complete", TEXTS[number]), deaths
                for name in list(before)[:number]:
                    assert trip.calls[name] == before[name], (deaths, name)
        assert len(trip.firsts) == len({ids[:2] for ids in trip.ids}) == 1  # the same in each run
        assert len(set(*trip.ids)) == 3
        return not log._deaths

    async def go() -> None:
        for stored in (False, True):
            number = 0
            while await once([(number, stored)]):
                await once([(number, stored), (2, not stored)])
                number += 1
            assert number > 15  # appends

    asyncio.run(asyncio.wait_for(go(), 120))


@pytest.mark.parametrize("log", [name for name in BACKENDS if name != "memory"])
def test_the_answer_comes_after_a_restart_on_every_log(log: str, tmp_path: Path) -> None:
    trip, texts, kept = Trip(), [], BACKENDS[log](Clock(), tmp_path)
    for text in ("a trip", "yes", "yes"):
        with running(AgentApp(trip, log=kept, durable=True)) as server:
            peer = Peer(server.url, None)
            texts.append(peer.ask(envelope(text)).text)
            peer.close()
    assert texts == TEXTS
    assert trip.calls == {"plan": 1, "book": 1, "pay": 1}


def test_a_question_and_its_answer_outlive_an_error_of_the_log(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply to each use of the log by the agent of both turns is lost once."""
    monkeypatch.setattr(_takeover, "_POLL_SECONDS", 0.05)

    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        await stream.write(f"{len(await stream.history())} ")
        await stream.write(f"{(await stream.approve('pay')).approved}")

    log = Away(tmp_path / "log.db")
    log.done = True
    peer = serve(agent, log=log, durable=True)
    number = 0
    while log.left <= 0:
        number += 1
        log.left = number
        texts = [peer.ask(envelope(text, f"{number}")).text for text in ("go", "yes")]
        assert texts == ["0 May I call pay with null?", "True"]
    assert number > 8


async def _one(name: str) -> str:
    return name


class Changed:
    """An agent that is another one in the turn that answers."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.turns = 0

    async def __call__(self, _: ServiceRequest, stream: AgentStream) -> None:
        self.turns += 1
        way = self.way if self.turns > 1 else ""
        if way != "step less":
            await stream.step("one", _one, "other" if way == "argument" else "same")
        if way == "step more":
            await stream.step("two", _one, "x")
        if way == "no question":
            return
        if way == "other question":
            await stream.approve("other")
        await stream.approve("delete")


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("argument", "the step one#1 was called with other arguments"),
        ("step more", "the step two#1 was not called before the approval"),
        ("step less", "the step one#1 was not called again"),
        ("no question", "the agent did not ask for its approval again"),
        ("other question", "the agent asked for delete before"),
    ],
)
def test_an_agent_that_has_changed_is_not_mixed_with_the_old_one(
    serve: Serve, way: str, message: str, tmp_path: Path
) -> None:
    peer = serve(Changed(way), log=SQLiteStreamLog(tmp_path / "log.db"), durable=True)
    assert peer.ask(envelope("go")).text == "May I call delete with null?"
    answer = peer.ask(envelope("yes"))
    assert answer.packets[-1]["p"]["code"] == "replay_diverged"
    assert message in answer.packets[-1]["p"]["message"]


def test_it_is_asked_where_the_agent_can_go_on(serve: Serve, tmp_path: Path) -> None:
    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        async def ask() -> None:
            await stream.approve("delete")

        try:
            await (stream.step("outer", ask) if stream.question == "step" else ask())
        except (RuntimeError, StepFailed) as error:
            await stream.write(str(error))

    assert "needs AgentApp(agent, durable=True)" in serve(agent).ask(envelope("go")).text
    log = SQLiteStreamLog(tmp_path / "log.db")
    peer = serve(agent, log=log, durable=True)
    assert "approve() cannot be called in a step" in peer.ask(envelope("step")).text
    assert peer.ask(envelope("go")).text == "May I call delete with null?"


def test_steps_end_before_it_is_asked(serve: Serve, tmp_path: Path) -> None:
    async def agent(_: ServiceRequest, stream: AgentStream) -> None:
        begun = asyncio.Event()

        async def long() -> None:
            begun.set()
            await asyncio.Event().wait()

        step = asyncio.ensure_future(stream.step("long", long, on_restart="fail"))
        await begun.wait()
        try:
            await stream.approve("delete")
        except RuntimeError as error:
            await stream.write(str(error))
        step.cancel()
        await asyncio.wait({step})
        async with asyncio.TaskGroup():
            await stream.approve("delete")

    peer = serve(agent, log=SQLiteStreamLog(tmp_path / "log.db"), durable=True)
    answer = peer.ask(envelope("go"))
    before = "the step long#1 must end before approve() is called"
    assert answer.text == f"{before}May I call delete with null?"
    assert answer.packets[-1]["p"]["reason"] == "input_required"


def test_a_plain_function_asks_and_no_handler_stops_it(serve: Serve, tmp_path: Path) -> None:
    def agent(_: ServiceRequest, stream: SyncAgentStream) -> None:
        stream.write("ready ")
        try:
            answer = stream.approve("delete", {"path": "x"}, question="Delete x?")
        except Exception as error:
            stream.write(f"caught {error}")
            raise
        stream.tool_result(answer.call_id or "", "done")
        stream.write(f"{answer.approved} {answer.reason} {answer.arguments} {answer.state}")

    log = SQLiteStreamLog(tmp_path / "log.db")
    peer = serve(agent, log=log, durable=True)
    asked = peer.ask(envelope("go"))
    assert asked.text == "ready Delete x?"
    assert asked.packets[-1]["p"]["reason"] == "input_required"
    body = envelope("")
    body["payload"]["metadata"] = {"answer": {"approved": True, "arguments": {"path": "y"}}}
    answer = peer.ask(body)
    assert answer.text == "True  {'path': 'y'} None"
    assert peer.ask(envelope("no, never")).text == "ready Delete x?"  # a new message, asked anew
    assert peer.ask(envelope("no, never")).text == "False never None None"
