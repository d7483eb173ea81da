"""The gRPC interface on the card."""

from typing import Any

import pytest

from coreason_client.a2a.types import AgentCard
from coreason_client.server.a2a._cards import AgentDescription, Cards
from coreason_client.server.a2a._settings import A2A, GrpcAddress, GrpcInterface

HERE = GrpcAddress("127.0.0.1", 50051)
ALL = GrpcAddress("0.0.0.0", 50051)


@pytest.mark.parametrize(
    ("bound", "url", "http_url", "shown"),
    [
        (HERE, None, "http://10.0.0.7:8000", "127.0.0.1:50051"),
        (HERE, "agent.example:443", "http://10.0.0.7:8000", "agent.example:443"),
        (ALL, None, "http://10.0.0.7:8000/mounted", "10.0.0.7:50051"),
        (ALL, None, "https://agent.example", "agent.example:50051"),
        (GrpcAddress("::", 1), None, "http://[fe80::1]:8000", "[fe80::1]:1"),
        (ALL, None, None, "0.0.0.0:50051"),
    ],
)
def test_the_address_on_the_card(
    bound: GrpcAddress, url: str | None, http_url: str | None, shown: str
) -> None:
    assert GrpcInterface(bound, url).url_for(http_url) == shown


def bindings(card: dict[str, Any]) -> set[str]:
    return {found["protocolBinding"] for found in card["supportedInterfaces"]}


def test_the_cards_have_the_interface_while_it_is_set() -> None:
    extended = AgentCard(name="x", description="x", version="1")
    agent = AgentDescription("agent", None, "1")
    cards = Cards(A2A(extended_card=extended), agent, with_keys=False)
    cards.set_grpc(GrpcInterface(HERE, None))
    assert bindings(cards.extended(None)) == {"GRPC"}  # nothing is known of HTTP yet
    cards.set_grpc(None)
    before = cards.public("http://h:1")
    assert b"GRPC" not in before.body
    cards.set_grpc(GrpcInterface(HERE, None))
    listed = cards.public("http://h:1")
    assert listed.body.count(b"127.0.0.1:50051") == 3  # 1.0, 0.3, and the older field of 0.3
    assert listed.headers["ETag"] != before.headers["ETag"]
    over_grpc = cards.extended(None)
    assert bindings(over_grpc) == {"JSONRPC", "HTTP+JSON", "GRPC"}
    assert over_grpc == cards.extended("http://h:1")
    cards.set_grpc(None)
    assert cards.public("http://h:1").body == before.body
