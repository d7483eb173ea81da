"""Random disconnects from a file that the JavaScript client plays too."""

from typing import Any

import pytest

from coreason_client._http._types import Request
from tests.cap import disconnects
from tests.cap.scripted import SHELLS, Connection, Network, machine_for
from tests.cap.wire_cases import load


def test_the_file_is_current() -> None:
    assert disconnects.FILE.read_text(encoding="utf-8") == disconnects.content(), (
        "run python -m tests.cap.disconnects"
    )


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("plan", load("disconnects")["cases"], ids=lambda plan: plan["name"])
def test_every_packet_is_delivered_exactly_once(plan: dict[str, Any], shell: str) -> None:
    network: Network

    def server(request: Request) -> Connection:
        return disconnects.play(
            plan, len(network.requests) - 1, request.headers.get("Last-Event-ID")
        )

    network = Network(server)
    outcome = SHELLS[shell](machine_for(max_retries=1000, clock=network.clock), network)
    assert outcome.error is None
    expected = disconnects.packets(plan["words"])
    assert outcome.seqs == [packet.seq for packet in expected]
    assert [packet.p for packet in outcome.packets] == [packet.p for packet in expected]
    assert len(network.requests) <= len(plan["connections"]) + 1
