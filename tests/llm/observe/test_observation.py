"""The reports of a client, and the cost without them."""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import opentelemetry.trace  # noqa: F401 - a program that has imported it
import pytest

from coreason_client.errors import ArgumentError, MissingExtraError
from coreason_client.llm import AsyncLLMClient, LLMClient, Telemetry
from coreason_client.llm._attempts import NOT_OBSERVED
from coreason_client.llm.observe import _observation
from coreason_client.llm.observe._observation import Observation
from coreason_client.llm.observe._observer import ReportingObserver
from coreason_client.llm.observe._work_span import NO_SPAN
from tests.llm.server import Provider

from .collect import MESSAGES, Collected, answer, synchronously
from .test_attributes import plan

UNTOUCHED = """
import sys
{before}
from coreason_client.llm import LLMClient
client = LLMClient("sk-0123456789", "http://127.0.0.1:9", "m", max_retries=0)
try:
    client.generate([{{"role": "user", "content": "a"}}])
except ConnectionError:
    pass
loaded = [name for name in sys.modules if name.startswith("opentelemetry")]
reporting = [name for name in sys.modules if "llm.observe" in name]
print(loaded, sorted(name.rpartition(".")[2] for name in reporting))
"""


def run(before: str = "") -> str:
    code = UNTOUCHED.format(before=before)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert not done.stderr, done.stderr
    return done.stdout.strip()


def test_a_program_without_opentelemetry_does_not_load_it() -> None:
    assert run() == "[] ['_observation', '_work_span', 'observe']"


def test_a_program_that_cannot_import_it_is_not_disturbed() -> None:
    before = "sys.modules['opentelemetry.trace'] = None"
    assert run(before) == "['opentelemetry.trace'] ['_observation', '_work_span', 'observe']"


def test_a_broken_installation_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    monkeypatch.delattr("opentelemetry.metrics", raising=False)
    observation = Observation()
    assert observation.observer(plan()) is NOT_OBSERVED
    monkeypatch.undo()
    assert observation.observer(plan()) is NOT_OBSERVED


def test_a_program_that_has_imported_it_is_reported(
    server: Provider, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", lambda: collected.tracers)
    meters = "opentelemetry.metrics._internal.get_meter_provider"
    monkeypatch.setattr(meters, lambda: collected.meters)
    server.replies = [answer()]
    synchronously(server, lambda c: c.generate(MESSAGES))
    assert collected.span().name == "chat m"
    assert "gen_ai.client.operation.duration" in collected.metrics()
    synchronously(server, lambda c: c.generate(MESSAGES), telemetry=False)
    assert len(collected.spans) == 1


def test_false_turns_telemetry_off_but_not_the_hooks() -> None:
    assert Observation(False).observer(plan()) is NOT_OBSERVED
    assert Observation(False).instruments() is None
    assert Observation(False, on_request=print).observer(plan()) is not NOT_OBSERVED


def test_it_is_looked_for_until_an_sdk_is_configured(
    collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [0.0]
    observation = Observation(clock=lambda: seconds[0])
    monkeypatch.setattr(_observation, "_API", "opentelemetry.no_such_module")
    assert observation.observer(plan()) is NOT_OBSERVED
    monkeypatch.undo()
    assert observation.observer(plan()) is NOT_OBSERVED  # the API alone records nothing
    monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", lambda: collected.tracers)
    assert observation.observer(plan()) is NOT_OBSERVED  # it is looked for ten times a second
    seconds[0] = 0.1
    assert observation.observer(plan()) is not NOT_OBSERVED


def test_a_request_that_the_conventions_do_not_cover_has_only_hooks() -> None:
    listing: Any = SimpleNamespace(route=plan().route)
    observer = Observation(Telemetry(), print).observer(listing)
    assert isinstance(observer, ReportingObserver)
    assert observer._telemetry is None


@pytest.mark.parametrize("telemetry", [True, Telemetry()])
def test_telemetry_that_is_requested_needs_the_library(
    monkeypatch: pytest.MonkeyPatch, telemetry: Any
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(MissingExtraError, match="telemetry needs the extra 'otel'"):
        Observation(telemetry)


@pytest.mark.parametrize("client", [LLMClient, AsyncLLMClient])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"telemetry": "yes"}, "telemetry must be a Telemetry, True, False or None, got 'yes'"),
        ({"on_request": 1}, "on_request must be a callable, got 1"),
        ({"on_response": "f"}, "on_response must be a callable"),
    ],
)
def test_wrong_arguments_are_rejected(client: Any, options: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        client("sk-0123456789", **options)


async def async_hook(_: Any) -> None: ...


class AsyncHook:
    async def __call__(self, _: Any) -> None: ...


@pytest.mark.parametrize("hook", [async_hook, AsyncHook()])
@pytest.mark.parametrize("name", ["on_request", "on_response"])
def test_an_async_hook_is_rejected(name: str, hook: Any) -> None:
    with pytest.raises(ArgumentError, match=f"{name} must be a sync callable"):
        AsyncLLMClient("sk-0123456789", **{name: hook})


def test_tools_and_runs_have_no_span_if_nothing_is_reported() -> None:
    observation = Observation(False)
    assert observation.tool("f", "c", {}) is NO_SPAN
    assert observation.run() is NO_SPAN
