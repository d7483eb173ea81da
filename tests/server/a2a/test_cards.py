"""The cards of an application."""

import pytest
from a2a.types import a2a_pb2
from google.protobuf import json_format  # type: ignore[import-untyped]
from pydantic_core import from_json

from coreason_client.a2a import AgentCard
from coreason_client.a2a.errors import (
    ExtendedAgentCardNotConfiguredError,
    UnsupportedOperationError,
)
from coreason_client.server.a2a._cards import AgentDescription, Cards
from coreason_client.server.a2a._settings import A2A

URL = "http://agent.example"
AGENT = AgentDescription("agent", None, "1")
EXTENDED = AgentCard.model_validate({"name": "extended"})


def test_each_url_has_a_card_of_its_own_and_keeps_it() -> None:
    cards = Cards(A2A(), AGENT, with_keys=False)
    card = cards.public(URL)
    assert b'"url":"http://agent.example/a2a"' in card.body
    assert cards.public(URL) is card
    assert b"other.example" in cards.public("http://other.example").body


def test_cards_for_many_urls_are_not_kept_for_ever() -> None:
    cards = Cards(A2A(), AGENT, with_keys=False)
    first = cards.public(URL)
    for number in range(16):
        cards.public(f"http://{number}.example")
    again = cards.public(URL)
    assert again is not first
    assert again.headers == first.headers


def test_the_extended_card_has_the_interfaces_of_the_server() -> None:
    card = Cards(A2A(extended_card=EXTENDED), AGENT, with_keys=True).extended(URL)
    assert card["name"] == "extended"
    assert card["capabilities"]["extendedAgentCard"] is True
    assert {one["url"] for one in card["supportedInterfaces"]} == {f"{URL}/a2a"}


def test_an_extended_card_that_is_missing_is_refused_as_each_version_wants_it() -> None:
    cards = Cards(A2A(), AGENT, with_keys=False)
    with pytest.raises(UnsupportedOperationError):
        cards.extended(URL)
    with pytest.raises(ExtendedAgentCardNotConfiguredError):
        cards.extended(URL, "0.3")


def test_a_card_for_1_0_alone_has_no_fields_of_0_3() -> None:
    card = from_json(Cards(A2A(versions=["1.0"]), AGENT, with_keys=False).public(URL).body)
    json_format.ParseDict(card, a2a_pb2.AgentCard())  # refuses what 1.0 does not define
    assert {one["protocolVersion"] for one in card["supportedInterfaces"]} == {"1.0"}


def test_a_card_for_0_3_alone_has_no_interface_of_1_0() -> None:
    card = from_json(Cards(A2A(versions=["0.3"]), AGENT, with_keys=False).public(URL).body)
    assert {one["protocolVersion"] for one in card["supportedInterfaces"]} == {"0.3"}
    assert card["url"] == f"{URL}/a2a"
