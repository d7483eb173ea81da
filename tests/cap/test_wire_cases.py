"""The wire cases, which the JavaScript client also has to pass, through both Python shells."""

import json
from typing import Any

import pytest

from coreason_client.cap.errors import CAPError
from tests.cap.scripted import SHELLS, BrokenPipe, Network, Outcome, machine_for
from tests.cap.wire_cases import connection, options, position, wire_cases, with_ids

DEFAULTS: dict[str, Any] = {"text": "", "error": None, "fields": {}, "cause": False, "message": []}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("case", wire_cases())
def test_case(case: dict[str, Any], shell: str) -> None:
    script = [connection(item) for item in case["connections"]]
    network = Network(script)
    outcome = SHELLS[shell](machine_for(clock=network.clock, **options(case)), network)
    expected = DEFAULTS | json.loads(with_ids(json.dumps(case["expect"])))
    seen = observed(outcome)
    assert {name: seen[name] for name in expected if name != "message"} == {
        name: value for name, value in expected.items() if name != "message"
    }
    assert len(network.requests) == len(script)
    check_requests(outcome)
    check_error(outcome, case, expected)


def observed(outcome: Outcome) -> dict[str, Any]:
    """Return everything that a case may expect."""
    machine, network, error = outcome.machine, outcome.network, outcome.error
    texts = [packet.p for packet in outcome.packets if isinstance(packet.p, str)]
    return {
        "seqs": outcome.seqs,
        "text": "".join(texts),
        "streams": [str(packet.stream_id) for packet in outcome.packets],
        "cursors": network.cursors,
        "waits": network.delays,
        "position": with_cursor(machine.position),
        "complete": machine.complete,
        "reconnects": machine.reconnects,
        "urls": [request.url for request in network.requests],
        "bare": [request.without_client_defaults for request in network.requests],
        "headers": [sorted(name.lower() for name in r.headers) for r in network.requests],
        "error": None if error is None else type(error).__name__,
        "cause": error is not None and error.__cause__ is not None,
        "fields": {} if error is None else fields_of(error),
    }


def with_cursor(value: Any) -> dict[str, Any] | None:
    return None if value is None else {"cursor": None, **value.dump()}


def fields_of(error: CAPError) -> dict[str, Any]:
    """Return the fields that are set; the number of attempts says something of a lost one only."""
    fields = {
        "attempts": error.attempts if type(error).__name__ == "CAPConnectionError" else None,
        "status_code": error.status_code,
        "retry_after": error.retry_after,
        "body": None if error.body is None else error.body.decode(),
        "stream_error": None if error.stream_error is None else error.stream_error.dump(),
    }
    for name in ("expected", "received"):
        if hasattr(error, name):
            fields[name] = str(getattr(error, name))
    return {name: value for name, value in fields.items() if value is not None}


def check_requests(outcome: Outcome) -> None:
    """Every attempt and every redirect sends the same request."""
    requests = outcome.network.requests
    assert {(request.method, request.content) for request in requests} == {
        ("POST", requests[0].content)
    }


def check_error(outcome: Outcome, case: dict[str, Any], expected: dict[str, Any]) -> None:
    error = outcome.error
    if error is None:
        assert outcome.machine.complete
        return
    assert error.position == position(case["expect"]["position"])
    for words in expected["message"]:
        assert words in str(error)
    if error.status_code is not None:
        assert error.headers is not None
        last = connection(case["connections"][-1])
        assert {name.lower(): value for name, value in last.headers.items()} == {
            name.lower(): value for name, value in error.headers.items()
        }
    if isinstance(error.__cause__, BrokenPipe):
        assert str(error.__cause__) == "reset"
