"""A small request does not make the server do much: what is wrong a million times is said once."""

from typing import Any

import pytest
from pydantic import ValidationError

from coreason_client.server import AgentApp, AgentStream
from coreason_manifest.definitions.service import ServiceRequest
from tests.fuzz.inprocess import in_process
from tests.fuzz.strategies import CANARY, wire
from tests.server.peer import envelope

MANY = 20_000


def wrong_often(place: str) -> dict[str, Any]:
    """A body with a list of which every item is wrong."""
    body: dict[str, Any] = envelope()
    wrong = [7] * MANY
    if place == "permissions":
        body["context"]["permissions"] = wrong
    elif place == "messages":
        body["payload"]["messages"] = wrong
    elif place == "parts":
        body["payload"]["messages"][0]["parts"] = wrong
    else:
        body["payload"]["capabilities"] = {"supported_events": wrong}
    return body


PLACES = ["permissions", "messages", "parts", "supported_events"]


async def agent(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("hello")


@pytest.mark.parametrize("place", PLACES)
def test_the_refusal_of_a_body_that_is_wrong_everywhere_is_short(place: str) -> None:
    with in_process(AgentApp(agent)) as server:
        answer = server.ask(wire(wrong_often(place)))
        assert answer.status == 422
        assert len(answer.body) < 10_000
        assert answer.problem["errors"]
        assert server.ask(wire(envelope())).status == 200


@pytest.mark.parametrize("place", PLACES)
def test_a_list_is_left_at_its_first_wrong_item(place: str) -> None:
    with pytest.raises(ValidationError) as caught:
        ServiceRequest.model_validate_json(wire(wrong_often(place)))
    assert caught.value.error_count() < 100


def test_deep_nesting_and_long_numbers_are_refused_and_not_suffered() -> None:
    with in_process(AgentApp(agent)) as server:
        for inside, status in (
            (b"[" * 1_000_000, 413),
            (b"[" * 40_000, 422),
            (b'{"a":' * 500_000, 413),
            (b'{"a":' * 40_000, 422),
            (b"9" * 1_000_000, 422),
            (b'"\\ud800' * 99_999, 422),
        ):
            body = wire(envelope()).replace(
                b'"messages"', b'"metadata": ' + inside + b', "messages"'
            )
            answer = server.ask(body)
            assert answer.status == status
            assert len(answer.body) < 2_000
            assert CANARY not in answer.body.decode()
