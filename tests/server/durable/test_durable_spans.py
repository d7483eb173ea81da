"""The spans of a durable agent: one for each run, linked to the run before."""

from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode

from coreason_client.server import AgentStream
from coreason_client.server.observe._spans import AgentRun, Attempt, tracing
from coreason_manifest.definitions.service import ServiceRequest

from ..observe.test_spans import PARENT, SPAN_ID, TRACE_ID, Spans, id_of, parent_of, spans, trace_of
from ..peer import Gate, envelope
from .crash import replica

__all__ = ["spans"]  # the fixture


class Waits:
    """An agent whose each run writes one packet more and then waits, except the last run."""

    def __init__(self, runs: int) -> None:
        self.gates = [Gate() for _ in range(runs - 1)]
        self.current: list[Any] = []

    async def __call__(self, request: ServiceRequest, stream: AgentStream) -> None:
        self.current.append(trace.get_current_span())
        for number, gate in enumerate(self.gates, 1):
            await stream.thought(f"{number}")  # it is in the log when this returns
            if stream.attempt == number:
                await gate.wait()
        await stream.write("end")


def attempts(of: list[ReadableSpan]) -> list[Any]:
    return [span.attributes["coreason.attempt"] for span in of if span.attributes is not None]


@pytest.mark.proves("DUR-15-observe", "DUR-7-request")
@pytest.mark.parametrize("dies", [True, False])
def test_each_run_is_a_span_linked_to_the_run_before(
    tmp_path: Path, spans: Spans, *, dies: bool
) -> None:
    agent, path = Waits(3), tmp_path / "streams.db"
    body = envelope()
    for run in (1, 2):
        with replica(path, agent, agent_id="a") as process:
            if run == 1:
                with process.peer.open(body, traceparent=PARENT, tracestate="v=1") as answer:
                    answer.until(1)
            agent.gates[run - 1].seen()
            if dies:
                process.die()
    with replica(path, agent, agent_id="a") as process:
        assert process.peer.ask(body).text == "end"
    runs = spans.of_agents(3)
    assert attempts(runs) == [1, 2, 3]
    # All are children of the request, whose trace was stored with it.
    assert {(trace_of(span), parent_of(span)) for span in runs} == {(TRACE_ID, SPAN_ID)}
    assert [dict(span.context.trace_state) for span in runs if span.context] == [{"v": "1"}] * 3
    linked = [[f"{link.context.span_id:016x}" for link in span.links] for span in runs]
    assert linked == [[], [id_of(runs[0])], [id_of(runs[1])]]
    assert [id_of(span) for span in agent.current] == [id_of(span) for span in runs]
    outcomes = [span.attributes["coreason.outcome"] for span in runs if span.attributes]
    before = "producer_lost" if dies else "handed_over"
    assert outcomes == [before, before, "complete"]
    failed = [span.status.status_code is StatusCode.ERROR for span in runs]
    assert failed == [dies, dies, False]


class NoHeaders:
    def getlist(self, key: str) -> list[str]:
        return []


def begin(attempt: Attempt) -> AgentRun:
    request = ServiceRequest.model_validate(envelope())

    class Meta:
        stream_id = request_id = request.request_id

    meta: Any = Meta()
    return tracing("1").begin("a", NoHeaders(), request, meta, attempt)


@pytest.mark.parametrize("previous", [None, "", "nonsense", "00-" + "0" * 32 + f"-{SPAN_ID}-01"])
def test_a_span_that_cannot_be_read_is_not_linked(spans: Spans, previous: str | None) -> None:
    run = begin(Attempt(2, previous))
    assert run.span is not None
    run.end(0, "complete", None)
    assert spans.of_agent().links == ()


@pytest.mark.parametrize(("number", "is_child"), [(1, True), (2, False)])
def test_a_restart_is_no_child_of_what_runs_here(
    spans: Spans, number: int, *, is_child: bool
) -> None:
    with spans.tracer.start_as_current_span("another request") as around:
        begin(Attempt(number, None)).end(0, "complete", None)
    assert parent_of(spans.of_agent()) == (id_of(around) if is_child else None)


def test_a_stream_that_is_not_durable_has_no_attempt(tmp_path: Path, spans: Spans) -> None:
    with replica(tmp_path / "streams.db", Waits(1), durable=False) as process:
        process.peer.ask()
    assert "coreason.attempt" not in (spans.of_agent().attributes or {})


def test_without_a_provider_nothing_is_stored(tmp_path: Path) -> None:
    with replica(tmp_path / "streams.db", Waits(1)) as process:
        assert process.peer.ask().text == "end"
