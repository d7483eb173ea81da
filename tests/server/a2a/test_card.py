"""The card of an agent, for clients of both versions, and how it is kept."""

from datetime import UTC, datetime
from typing import Any

import pytest

from coreason_client.a2a._v03._shapes import card_from_v03
from coreason_client.a2a.types import AgentCard, AgentCardSignature
from coreason_client.server.a2a._cards import (
    AgentDescription,
    CardInterface,
    ServedCard,
    completed_card,
    make_card,
    served_card,
)

RPC = CardInterface("https://x.example/a2a", "JSONRPC", ("1.0", "0.3"))
REST = CardInterface("https://x.example/a2a", "HTTP+JSON", ("1.0", "0.3"))
GRPC = CardInterface("x.example:50051", "GRPC", ("1.0",))
CARD = make_card(AgentDescription("travel_agent", "Plans trips.\n\nIn Europe.", "2.1"))


def served(**options: Any) -> dict[str, Any]:
    options = {"with_keys": False, "streaming": True, "push": True, "extended": False} | options
    return served_card(options.pop("card", CARD), [RPC, REST, GRPC], **options)


def test_a_card_is_made_from_the_agent() -> None:
    assert (CARD.name, CARD.description, CARD.version) == ("travel_agent", "Plans trips.", "2.1")
    [skill] = CARD.skills
    assert (skill.id, skill.name) == ("travel_agent", "travel agent")
    assert make_card(AgentDescription("a", None, "1")).description == "The agent a."


def test_a_card_that_lacks_required_members_gets_them_from_the_agent() -> None:
    agent = AgentDescription("travel_agent", "Plans trips.", "2.1")
    short = AgentCard.model_validate({"name": "Trips", "iconUrl": "https://x.example/icon.png"})
    card = completed_card(short, agent)
    assert (card.name, card.icon_url) == ("Trips", "https://x.example/icon.png")
    assert (card.description, card.version, card.skills) == ("Plans trips.", "2.1", CARD.skills)
    assert card.default_input_modes == card.default_output_modes == ["text/plain"]
    assert completed_card(card, AgentDescription("b", "Other.", "3")) == card


def test_signatures_of_a_changed_card_are_dropped() -> None:
    signed = AgentCard.model_validate(
        {"name": "a", "signatures": [{"protected": "e30", "signature": "c2ln"}]}
    )
    assert "signatures" not in served(card=signed)


def test_a_client_of_1_0_finds_every_interface() -> None:
    found = [
        (one["protocolVersion"], one["protocolBinding"]) for one in served()["supportedInterfaces"]
    ]
    assert found == [
        ("1.0", "JSONRPC"),
        ("1.0", "HTTP+JSON"),
        ("1.0", "GRPC"),
        ("0.3", "JSONRPC"),
        ("0.3", "HTTP+JSON"),
    ]


def test_a_client_of_0_3_finds_its_interfaces() -> None:
    older = {k: v for k, v in served().items() if k != "supportedInterfaces"}
    card = AgentCard.model_validate(card_from_v03(older))
    assert [(i.url, i.protocol_binding) for i in card.supported_interfaces][:1] == [
        ("https://x.example/a2a", "JSONRPC")
    ]
    assert {i.protocol_version for i in card.supported_interfaces} == {"0.3.0"}


def test_a_card_says_what_the_server_does() -> None:
    given = AgentCard.model_validate(
        {
            "name": "mine",
            "skills": [],
            "capabilities": {"streaming": False, "pushNotifications": True},
            "supportedInterfaces": [{"url": "https://elsewhere.example"}],
        }
    )
    card = served(card=given, push=False)
    assert card["capabilities"]["streaming"] is True
    assert card["capabilities"]["pushNotifications"] is False
    assert "elsewhere" not in str(card)


def test_a_server_with_keys_says_so_in_both_versions() -> None:
    assert not served()["securitySchemes"]
    card = served(with_keys=True)
    assert card["security"] == [{"bearer": []}]
    parsed = AgentCard.model_validate(card_from_v03(card))
    scheme = parsed.security_schemes["bearer"].http_auth_security_scheme
    assert scheme is not None
    assert scheme.scheme == "bearer"


# Caching.

MODIFIED = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
KEPT = ServedCard({"name": "a"}, MODIFIED)


def test_the_headers_of_a_card() -> None:
    headers = KEPT.headers
    assert headers["Cache-Control"] == "public, max-age=300"
    assert headers["Last-Modified"] == "Fri, 02 Jan 2026 03:04:05 GMT"
    assert headers["ETag"] != ServedCard({"name": "b"}, MODIFIED).headers["ETag"]


ETAG = KEPT.headers["ETag"]


@pytest.mark.parametrize(
    ("match", "since", "current"),
    [
        (None, None, False),
        (ETAG, None, True),
        (f'"other", W/{ETAG}', None, True),
        ("*", None, True),
        ('"other"', "Fri, 02 Jan 2026 03:04:05 GMT", False),
        (None, "Fri, 02 Jan 2026 03:04:05 GMT", True),
        (None, "Fri, 02 Jan 2026 03:04:04 GMT", False),
        (None, "yesterday", False),
        (None, "Fri, 02 Jan 2026 03:04:05", False),
    ],
)
def test_a_client_that_has_the_card(match: str | None, since: str | None, current: bool) -> None:
    assert KEPT.is_current(match, since) is current


def test_signatures_are_not_served_for_a_card_that_was_changed() -> None:
    signed = CARD.model_copy(
        update={"signatures": [AgentCardSignature(protected="p", signature="s")]}
    )
    assert "signatures" not in served(card=signed)
