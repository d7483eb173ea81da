"""The server does what its OpenAPI document says: every operation, every status, every body.

The document itself is read by a program that has never seen the server, which makes requests that
fit it and requests that do not, and checks each answer: its status, headers, type and body.
"""

from collections import Counter
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from coreason_client.server import AgentApp, AgentStream
from coreason_manifest.definitions.presentation import ErrorSeverity, StreamError, StreamOpCode
from coreason_manifest.definitions.service import ServiceRequest
from tests.fuzz.strategies import examples

KEY = "the-key"
# They need no key and take no parameters.
OPEN = ("/health", "/ready", "/.well-known/agent-card.json")
# What a schema cannot say: that two fields are equal, and which days a calendar has.
UNSAYABLE = ("user.user_id must be equal", "datetime")


async def agent(request: ServiceRequest, stream: AgentStream) -> None:
    """Write a packet of every kind."""
    await stream.write("hello")
    await stream.write_packet(op=StreamOpCode.EVENT, p={"free": "form"})
    warning = StreamError(code="c", message="m", severity=ErrorSeverity.WARNING)
    await stream.write_packet(op=StreamOpCode.ERROR, p=warning)


APP = AgentApp(agent, api_keys=[KEY], metrics=True, a2a=True)
SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", APP)
OPERATIONS: list[Any] = [result.ok() for result in SCHEMA.get_all_operations()]  # type: ignore[union-attr]
load_all_checks()
# One that can be told apart only by the document's author: a resume is refused for good reasons.
EXCLUDED: Any = CHECKS.get_by_names(["positive_data_acceptance"])


def test_every_route_is_described() -> None:
    described = {(operation.method.upper(), operation.path) for operation in OPERATIONS}
    assert described == {
        ("POST", "/assist"),
        ("POST", "/v1/assist"),
        ("GET", "/health"),
        ("GET", "/ready"),
        ("GET", "/metrics"),
        ("GET", "/.well-known/agent-card.json"),
        ("GET", "/streams/{stream_id}"),
        ("DELETE", "/streams/{stream_id}"),
    }


def answers(operation: Any, mode: GenerationMode, key: str | None) -> Counter[int]:
    """Ask in this manner, check every answer, and count them by status."""
    seen: Counter[int] = Counter()
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}

    # The two paths of /assist have one handler, so a few requests show that the second works.
    # Without a key no request gets any further than any other.
    count = 5 if operation.path == "/v1/assist" or key is None else 20

    # To shrink what another program generates takes minutes, and it is readable as it is.
    @settings(examples(count), phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Case[Any]) -> None:
        response = case.call(headers=headers)
        seen[response.status_code] += 1
        case.validate_response(response, headers=headers, excluded_checks=EXCLUDED)
        if mode is GenerationMode.POSITIVE and response.status_code == 422:
            [*errors] = response.json()["errors"]
            assert any(words in error["msg"] for error in errors for words in UNSAYABLE), errors

    ask()
    return seen


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda it: f"{it.method} {it.path}")
def test_requests_that_fit_the_document(operation: Any) -> None:
    seen = answers(operation, GenerationMode.POSITIVE, KEY)
    # A position in another stream than that of the path is refused with 400.
    assert set(seen) <= {200, 204, 400, 404, 409, 410, 422}
    assert seen[400] == 0 or (operation.method, operation.path) == ("get", "/streams/{stream_id}")
    assert seen[200] or operation.path == "/streams/{stream_id}"


@pytest.mark.parametrize(
    "operation",
    [operation for operation in OPERATIONS if operation.path not in OPEN],
    ids=lambda it: f"{it.method} {it.path}",
)
def test_requests_that_do_not_fit_it(operation: Any) -> None:
    seen = answers(operation, GenerationMode.NEGATIVE, KEY)
    assert set(seen) <= {200, 400, 401, 404, 409, 415, 422}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda it: f"{it.method} {it.path}")
def test_requests_without_a_key(operation: Any) -> None:
    seen = answers(operation, GenerationMode.POSITIVE, None)
    assert set(seen) == ({200} if operation.path in OPEN else {401})
