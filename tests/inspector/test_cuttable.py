"""Connections that the page cuts, and the client that reads the stream exactly once anyway."""

import logging
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest

from coreason_client import CAPClient
from coreason_client._retry import Backoff
from coreason_client.cap import _protocol
from coreason_client.inspector import CAPTarget
from coreason_client.server import AgentApp, AgentStream, running
from coreason_client.server.http._cuts import CutPlan
from coreason_manifest.definitions.presentation import DeltaPacket
from coreason_manifest.definitions.service import ServiceRequest
from tests.faults import FaultServer
from tests.server.peer import Gate, Peer, envelope

from .inspecting import KEY, TOKEN, a2a_target, inspecting, url_of

COUNT = 60


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_protocol, "Backoff", lambda **given: Backoff(0.001, 0.002, **given))


@pytest.fixture(autouse=True)
def _no_errors(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A cut is not a failure of the server."""
    yield
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


class Stepping:
    """An agent whose words come one by one, when the test says so."""

    def __init__(self) -> None:
        self.gates = [Gate() for _ in range(3)]

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        for number in range(COUNT):
            if number % 20 == 0:
                await self.gates[number // 20].wait()
            await stream.write(f"w{number} ")


def cut(page: httpx2.Client, stream_id: Any, seed: int | None = None) -> int:
    return page.post("/page/cut", json={"stream_id": str(stream_id), "seed": seed}).status_code


def test_a_cut_closes_the_connections_now_and_every_reader_recovers() -> None:
    stepping = Stepping()
    stepping.gates[0].open()
    with (
        running(AgentApp(stepping, api_keys=[KEY]), log_config=None) as agent,
        inspecting(CAPTarget(agent.url, KEY)) as page,
        CAPClient(url_of(page), TOKEN) as client,
        client.assist(ServiceRequest.model_validate(envelope())) as stream,
    ):
        seqs = []
        for packet in stream:
            seqs.append(packet.seq)
            if packet.seq in (20, 40):
                assert cut(page, packet.stream_id) == 204
                stepping.gates[packet.seq // 20].open()
    assert seqs == list(range(1, COUNT + 2))
    assert stream.reconnects == 2


def test_a_seed_cuts_after_the_packets_of_its_plan() -> None:
    plan = CutPlan(5)
    with FaultServer() as server:
        run = server.run("correct", packets=COUNT)
        with inspecting(CAPTarget(run.base_url, KEY)) as page:
            assert cut(page, run.stream_id, seed=5) == 204
            with (
                CAPClient(url_of(page), TOKEN) as client,
                client.assist(ServiceRequest.model_validate(envelope())) as stream,
            ):
                seqs = [packet.seq for packet in stream]
    assert seqs == [packet.seq for packet in run.packets]
    read, cursors = 0, list[str | None]([None])
    while (read := read + plan.next()) < len(seqs):
        cursors.append(f"{run.stream_id}:{read}")
    # The agent of the fault server sends no X-Stream-ID: the stream is known by its packets.
    assert run.last_event_ids == cursors
    assert stream.reconnects == len(cursors) - 1 > 1


@pytest.mark.parametrize("face", ["jsonrpc-1.0", "jsonrpc-0.3"])
def test_the_stream_of_an_a2a_agent_survives_cuts(origin: str, face: str) -> None:
    with (
        inspecting(a2a_target(f"{origin}/{face}")) as page,
        CAPClient(url_of(page), TOKEN) as client,
        closing(Peer(url_of(page), TOKEN)) as tab,
    ):
        request = ServiceRequest.model_validate(envelope("hold 30"))
        with tab.open(request.to_json().encode()) as held:
            held.until(4)
            stream_id = UUID(held.stream_id)
            assert cut(page, stream_id) == 204
            with pytest.raises(httpx2.TransportError):
                held.rest()
        assert cut(page, stream_id, seed=3) == 204
        task = held.packets[0].p["data"]["id"]
        with client.assist(request) as stream:
            packets = []
            for packet in stream:
                packets.append(packet)
                if packet.seq == 4:
                    tab.ask(envelope(f"release {task}", session="other"))
    assert [packet.seq for packet in packets] == list(range(1, len(packets) + 1))
    text = "".join(packet.p for packet in packets if isinstance(packet, DeltaPacket))
    assert text == "".join(f"w{number} " for number in range(1, 31))
    assert stream.reconnects > 1


def test_a_cut_of_an_unknown_stream_changes_nothing() -> None:
    with inspecting(CAPTarget("http://127.0.0.1:1")) as page:
        assert cut(page, uuid4()) == 204
        assert page.post("/page/cut", json={"stream_id": "x"}).status_code == 422
