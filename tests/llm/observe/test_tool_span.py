"""The spans of tools and runs."""

import asyncio
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from coreason_client.llm.observe._observation import Observation

from .collect import Collected


def observation(collected: Collected, **options: Any) -> Observation:
    return Observation(collected.telemetry(metric_names="latest", **options))


def test_a_tool_call(collected: Collected) -> None:
    with observation(collected).tool("weather", "call_1", {"city": "Rome"}) as span:
        span.set_result("sunny")
    found = collected.span()
    assert (found.name, found.kind) == ("execute_tool weather", SpanKind.INTERNAL)
    assert collected.attributes() == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "weather",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "call_1",
        "coreason.outcome": "complete",
    }
    [point] = collected.metrics()["gen_ai.execute_tool.duration"]
    assert dict(point.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "weather",
        "gen_ai.tool.type": "function",
    }


def test_arguments_and_results_are_recorded_only_on_request(collected: Collected) -> None:
    with observation(collected, record_content=True).tool("f", "c", {"a": 1}) as span:
        span.set_result({"b": 2})
    attributes = collected.attributes()
    assert attributes["gen_ai.tool.call.arguments"] == '{"a":1}'
    assert attributes["gen_ai.tool.call.result"] == '{"b":2}'


@pytest.mark.parametrize(
    ("error", "outcome", "kind"),
    [
        (KeyError("secret"), "error", "KeyError"),
        (asyncio.CancelledError(), "cancelled", None),
        (GeneratorExit(), "closed", None),
    ],
)
def test_an_exception_that_leaves_the_block(
    collected: Collected, error: BaseException, outcome: str, kind: str | None
) -> None:
    with pytest.raises(type(error)), observation(collected).tool("f", "c", {}):
        raise error
    assert collected.attributes()["coreason.outcome"] == outcome
    assert collected.attributes().get("error.type") == kind
    expected = StatusCode.UNSET if kind is None else StatusCode.ERROR
    assert collected.span().status.status_code is expected
    assert "secret" not in collected.everything()


def test_a_failure_without_an_exception(collected: Collected) -> None:
    with observation(collected).tool("f", "c", {}, "extension") as span:
        span.set_error("timeout")
    assert collected.attributes()["error.type"] == "timeout"
    assert collected.attributes()["gen_ai.tool.type"] == "extension"
    [point] = collected.metrics()["gen_ai.execute_tool.duration"]
    assert point.attributes["error.type"] == "timeout"


def test_tools_are_children_of_their_run(collected: Collected) -> None:
    watch = observation(collected)
    with watch.run() as run:
        with run.current():
            tool = watch.tool("f", "c", {})
        with tool:
            pass
        with watch.tool("g", "d", {}):
            pass
    inside, outside, whole = collected.spans
    assert (whole.name, whole.kind) == ("invoke_agent", SpanKind.INTERNAL)
    assert whole.context is not None
    assert inside.parent is not None
    assert inside.parent.span_id == whole.context.span_id
    assert outside.parent is None
    assert "gen_ai.invoke_agent.duration" in collected.metrics()


def test_a_failure_of_the_telemetry_does_not_fail_the_work(
    collected: Collected, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def on_start(self, *_: Any, **__: Any) -> None:
            raise KeyError

    collected.tracers.add_span_processor(Broken())  # type: ignore[arg-type]
    done = False
    with observation(collected, record_content=True).tool("f", "c", {}) as span, span.current():
        span.set_result("r")
        done = True
    assert done
    assert "telemetry failed: KeyError" in caplog.messages
