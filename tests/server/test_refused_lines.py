"""The operator's lines about refusals and resumes; strangers cannot flood them."""

import logging
from typing import Any
from uuid import uuid4

import pytest

from coreason_client.server import AgentApp, AgentStream, LogUnavailable, MemoryStreamLog
from coreason_client.server.http._problems import PRINCIPAL, Problem, Refusals
from coreason_client.server.log import NewStream, Opened
from coreason_client.server.observe._metrics import NO_METRICS
from coreason_manifest.definitions.service import ServiceRequest
from tests.fuzz.inprocess import InProcess, in_process
from tests.fuzz.strategies import wire

from .peer import envelope

JSON = (b"content-type", b"application/json")


async def hello(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("hello")


@pytest.fixture(autouse=True)
def _info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "coreason_client.server")


def lines(caplog: pytest.LogCaptureFixture, event: str) -> list[Any]:
    return [record for record in caplog.records if getattr(record, "event", None) == event]


def ask(server: InProcess, key: str, body: Any = None, **headers: str) -> int:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    named += [JSON, (b"authorization", f"Bearer {key}".encode())]
    return server.ask(wire(body or envelope()), named).status


def test_a_refusal_names_who_and_why(caplog: pytest.LogCaptureFixture) -> None:
    with in_process(AgentApp(hello, agent_id="a", api_keys={"k": "ann"})) as server:
        assert ask(server, "wrong") == 401
        assert ask(server, "k", {"secret": "words"}) == 422
        stream_id = str(uuid4())
        assert ask(server, "k", last_event_id=stream_id) == 404
    unauthorized, invalid, unknown = lines(caplog, "refused")
    assert {r.levelno for r in (unauthorized, invalid, unknown)} == {logging.INFO}
    assert (unauthorized.status, unauthorized.principal) == (401, None)
    assert "request refused with 401 unauthorized: " in unauthorized.getMessage()
    assert (invalid.status, invalid.problem) == (422, "invalid-request")
    assert (
        "request of a/ann refused with 422 invalid-request: context: Field required"
        in invalid.getMessage()
    )
    assert "words" not in invalid.getMessage()
    assert unknown.principal == "a/ann"
    assert stream_id in unknown.reason


def test_the_reason_of_a_503_is_for_the_operator_alone(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(MemoryStreamLog):
        async def open(self, stream: NewStream, owner: str) -> Opened:
            raise LogUnavailable("the disk of 10.1.2.3 is full")

    with in_process(AgentApp(hello, log=Broken())) as server:
        answer = server.ask(wire(envelope()))
    assert answer.status == 503
    assert "10.1.2.3" not in answer.body.decode()
    (line,) = lines(caplog, "refused")
    assert line.levelno == logging.WARNING
    assert "503 log-unavailable: the disk of 10.1.2.3 is full" in line.getMessage()


def test_a_resume_is_written_down(caplog: pytest.LogCaptureFixture) -> None:
    with in_process(AgentApp(hello, agent_id="a", api_keys={"k": "ann"})) as server:
        body = envelope()
        named = [JSON, (b"authorization", b"Bearer k")]
        stream_id = server.ask(wire(body), named).headers["x-stream-id"]
        assert lines(caplog, "stream_resumed") == []
        assert ask(server, "k", body, last_event_id=f"{stream_id}:1") == 200
        assert ask(server, "k", envelope(), last_event_id=f"{stream_id}:1") == 409
    (line,) = lines(caplog, "stream_resumed")
    assert (line.stream_id, line.after_seq, line.principal) == (stream_id, 1, "a/ann")
    assert line.levelno == logging.INFO


# Floods, at made-up times


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


SCOPE = {"path": "/assist"}


def test_a_flood_of_one_kind_is_counted_and_hides_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    refusals = Refusals(NO_METRICS, clock)
    for _ in range(50):
        assert refusals.respond(Problem(401, "unauthorized", "No."), SCOPE).status_code == 401
    refusals.respond(Problem(404, "stream-not-found", "No."), SCOPE)
    assert [line.status for line in lines(caplog, "refused")] == [401] * 10 + [404]
    clock.now = 1.0
    refusals.respond(Problem(401, "unauthorized", "No."), SCOPE)
    last = lines(caplog, "refused")[-1]
    assert last.suppressed == 40
    assert last.getMessage().endswith("401 unauthorized: No. (40 more like this were not logged)")


def test_every_reason_of_a_503_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals(NO_METRICS, Clock())
    for reason in ("the disk is full", "the store does not answer"):
        for _ in range(50):
            refusals.respond(LogUnavailable(reason), {**SCOPE, PRINCIPAL: "a/ann"})
    shown = [line.reason for line in lines(caplog, "refused")]
    assert shown == ["the disk is full"] * 10 + ["the store does not answer"] * 10


def test_reasons_that_never_repeat_take_no_memory() -> None:
    refusals = Refusals(NO_METRICS, Clock())
    for number in range(1000):
        refusals.respond(LogUnavailable(f"failure {number}"), SCOPE)
    assert len(refusals._limits) <= 100
