"""The server does what its OpenAPI document says: every operation, every status, every body.

The document itself is read by a program that has never seen the server, which makes requests that
fit it and requests that do not, and checks each answer: its status, headers, type and body.
"""

from collections import Counter
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

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
ROUTES = [
    "post /assist",
    "post /v1/assist",
    "get /health",
    "get /ready",
    "get /metrics",
    "get /.well-known/agent-card.json",
    "get /streams/{stream_id}",
    "delete /streams/{stream_id}",
]


@cache
def operations() -> dict[str, Any]:
    """Return the operations of the document by method and path; the import takes a second."""
    import schemathesis
    from schemathesis.checks import load_all_checks

    load_all_checks()
    schema = schemathesis.openapi.from_asgi("/openapi.json", APP)
    found: list[Any] = [result.ok() for result in schema.get_all_operations()]  # type: ignore[union-attr]
    return {f"{operation.method} {operation.path}": operation for operation in found}


@pytest.fixture
def operation(request: pytest.FixtureRequest) -> Any:
    return operations()[request.param]


def test_every_route_is_described() -> None:
    assert sorted(operations()) == sorted(ROUTES)


def answers(operation: Any, mode_name: str, key: str | None) -> Counter[int]:
    """Ask in this manner, check every answer, and count them by status."""
    from schemathesis import Case, GenerationMode
    from schemathesis.checks import CHECKS

    # Only the document's author can tell this one apart: a resume is refused for good reasons.
    excluded: Any = CHECKS.get_by_names(["positive_data_acceptance"])
    mode = GenerationMode[mode_name]
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
        case.validate_response(response, headers=headers, excluded_checks=excluded)
        if mode is GenerationMode.POSITIVE and response.status_code == 422:
            [*errors] = response.json()["errors"]
            assert any(words in error["msg"] for error in errors for words in UNSAYABLE), errors

    ask()
    return seen


@pytest.mark.parametrize("operation", ROUTES, indirect=True)
def test_requests_that_fit_the_document(operation: Any) -> None:
    seen = answers(operation, "POSITIVE", KEY)
    # A position in another stream than that of the path is refused with 400.
    assert set(seen) <= {200, 204, 400, 404, 409, 410, 422}
    assert seen[400] == 0 or (operation.method, operation.path) == ("get", "/streams/{stream_id}")
    assert seen[200] or operation.path == "/streams/{stream_id}"


@pytest.mark.parametrize(
    "operation", [route for route in ROUTES if route.split()[1] not in OPEN], indirect=True
)
def test_requests_that_do_not_fit_it(operation: Any) -> None:
    seen = answers(operation, "NEGATIVE", KEY)
    assert set(seen) <= {200, 400, 401, 404, 409, 415, 422}


@pytest.mark.parametrize("operation", ROUTES, indirect=True)
def test_requests_without_a_key(operation: Any) -> None:
    seen = answers(operation, "POSITIVE", None)
    assert set(seen) == ({200} if operation.path in OPEN else {401})
