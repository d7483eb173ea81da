"""The metrics of durable streams: restarts, replayed packets, hand-overs and their outcomes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from coreason_client.server import AgentStream
from coreason_manifest.definitions.service import ServiceRequest

from ..observe.test_metrics import Scrape, scrape, until
from ..peer import Gate, envelope
from .crash import Replica, replica

CAUSES = ("producer_lost", "handed_over")


class Waits:
    """An agent that writes two events, waits in its first run, and then writes `rest`."""

    def __init__(self, rest: str = "end") -> None:
        self.gate = Gate()
        self.rest = rest

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        await stream.thought("one")
        await stream.thought("two")
        if stream.attempt == 1:
            await self.gate.wait()
        await stream.write(self.rest)


def begin(process: Replica, body: object = None) -> None:
    """Ask, and leave when the agent waits."""
    with process.peer.open(body or envelope()) as answer:
        answer.until(2)


def settled(process: Replica, reached: Callable[[Scrape], bool]) -> Scrape:
    return until(process.peer, reached)


def no_streams(found: Scrape) -> bool:
    return found("streams_open") == 0


@pytest.mark.proves("DUR-15-observe")
@pytest.mark.parametrize("cause", CAUSES)
def test_a_restart_is_counted_by_its_cause(tmp_path: Path, cause: str) -> None:
    agent, path, body = Waits(), tmp_path / "streams.db", envelope()
    with replica(path, agent, metrics=True) as process:
        begin(process, body)
        agent.gate.seen()
        found = scrape(process.peer)
        assert found("streams_started_total") == 1
        if cause == "producer_lost":
            process.die()
    with replica(path, agent, metrics=True) as process:
        assert process.peer.ask(body).text == "end"
        found = settled(process, no_streams)
    for name in CAUSES:
        assert found("restarts_total", cause=name) == (name == cause)
    assert found("packets_replayed_total") == 2
    # The stream was counted when it began, in another process.
    assert found("streams_started_total") == 0
    assert found("first_packet_seconds_count") == 0
    assert found("streams_ended_total", outcome="complete") == 1
    assert found("packets_appended_total", op="DELTA") == 1
    assert found("packets_appended_total", op="EVENT") == 0
    assert found("takeovers_total") == 0


def test_a_hand_over_is_counted_where_it_happens(tmp_path: Path) -> None:
    agent = Waits()
    with replica(tmp_path / "streams.db", agent, metrics=True) as process:
        begin(process)
        agent.gate.seen()
        assert scrape(process.peer)("streams_handed_over_total") == 0
        metrics = process.app._metrics
    found = Scrape(metrics.exposition()[0].decode())  # the server has stopped
    assert found("leases_lost_total") == 0
    assert found("streams_handed_over_total") == 1
    assert found("streams_ended_total", outcome="producer_lost") == 0


def test_a_divergence_is_an_outcome(tmp_path: Path) -> None:
    path, body = tmp_path / "streams.db", envelope()
    gate = Gate()

    async def random(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.thought(f"attempt {stream.attempt}")
        await gate.wait()

    with replica(path, random, metrics=True) as process:
        with process.peer.open(body) as answer:
            answer.until(1)
        process.die()
    with replica(path, random, metrics=True) as process:
        assert process.peer.ask(body).last.p.code == "replay_diverged"
        found = settled(process, no_streams)
    assert found("streams_ended_total", outcome="replay_diverged") == 1


def test_an_uncertain_step_is_an_outcome(tmp_path: Path) -> None:
    path, body, gate = tmp_path / "streams.db", envelope(), Gate()
    paid: list[int] = []

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        async def pay() -> None:
            paid.append(stream.attempt)
            await gate.wait()

        await stream.step("pay", pay, on_restart="fail")

    with replica(path, agent, metrics=True) as process:
        with process.peer.open(body):
            gate.seen()
        process.die()
    with replica(path, agent, metrics=True) as process:
        assert process.peer.ask(body).last.p.code == "step_uncertain"
        found = settled(process, no_streams)
    assert found("streams_ended_total", outcome="step_uncertain") == 1
    assert paid == [1]


def test_a_stream_that_is_given_up_is_a_takeover(tmp_path: Path) -> None:
    path, body, gates = tmp_path / "streams.db", envelope(), [Gate(), Gate()]

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.thought("one")
        await gates[stream.attempt - 1].wait()

    for gate in gates:
        with replica(path, agent, max_restarts=1) as process:
            if gate is gates[0]:
                with process.peer.open(body) as answer:
                    answer.until(1)
            gate.seen()
            process.die()
    with replica(path, agent, metrics=True, max_restarts=1) as process:
        assert process.peer.ask(body).last.p.code == "producer_lost"
        found = settled(process, lambda found: found("takeovers_total") == 1)
    assert found("streams_ended_total", outcome="producer_lost") == 1
    assert sum(found("restarts_total", cause=cause) for cause in CAUSES) == 0
