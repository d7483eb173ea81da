"""The trace of a caller travels with its requests, and costs nothing where nobody traces."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from coreason_client import AsyncCAPClient, CAPClient
from coreason_client._context import error_type, trace_headers
from coreason_client.a2a._call import Settings
from coreason_client.a2a._dialects import OPERATIONS, V10
from tests.faults import FaultServer, Run

KEY = "sk_top_secret"
OWN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


@pytest.fixture
def tracer() -> trace.Tracer:
    """A separate tracer: nothing of it is left behind for other tests."""
    return TracerProvider(shutdown_on_exit=False).get_tracer("test")


pytestmark = pytest.mark.usefixtures("coreason_clock")  # no back-off takes time


def span_of(trace_id: int, span_id: int, flags: int, state: list[tuple[str, str]]) -> trace.Span:
    return trace.NonRecordingSpan(
        trace.SpanContext(
            trace_id, span_id, False, trace.TraceFlags(flags), trace.TraceState(state)
        )
    )


def parents(run: Run) -> list[str | None]:
    return [sent.headers.get("traceparent") for sent in run.requests]


# The rule


def test_without_a_span_there_is_nothing_to_send() -> None:
    assert trace_headers() == {}


@given(
    trace_id=st.integers(1, 2**128 - 1),
    span_id=st.integers(1, 2**64 - 1),
    flags=st.integers(0, 255),
    state=st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9_*/-]{0,20}", fullmatch=True),
        st.from_regex(r"[!-+\--<>-~]{1,20}", fullmatch=True),
        max_size=4,
    ),
)
def test_what_is_sent_is_what_the_library_reads(
    trace_id: int, span_id: int, flags: int, state: dict[str, str]
) -> None:
    span = span_of(trace_id, span_id, flags, list(state.items()))
    with trace.use_span(span):
        headers = trace_headers()
    read = TraceContextTextMapPropagator().extract(headers)
    found = trace.get_current_span(read).get_span_context()
    assert (found.trace_id, found.span_id, found.trace_flags) == (trace_id, span_id, flags)
    assert dict(found.trace_state) == state
    assert ("tracestate" in headers) == bool(state)


def test_a_span_that_is_none_is_not_sent() -> None:
    with trace.use_span(trace.INVALID_SPAN):
        assert trace_headers() == {}


@pytest.mark.parametrize("name", ["traceparent", "Traceparent", "TRACEPARENT"])
def test_the_callers_own_header_wins_and_takes_no_foreign_state(name: str) -> None:
    with trace.use_span(span_of(1, 2, 1, [("a", "b")])):
        assert set(trace_headers({}, {"x": "y"})) == {"traceparent", "tracestate"}
        assert trace_headers({}, {name: OWN}) == {}
        assert trace_headers({name: OWN}, {}) == {}


def test_a_library_that_is_just_being_imported_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", ModuleType("opentelemetry.trace"))
    assert trace_headers() == {}


def test_nobody_imports_the_library_for_a_caller_who_does_not_trace() -> None:
    code = (
        "import sys\n"
        "from coreason_client import A2AClient, AsyncCAPClient, CAPClient, CAPConnectionError\n"
        "try:\n"
        "    list(CAPClient('http://127.0.0.1:1', 'k', max_retries=0).chat('hi'))\n"
        "except CAPConnectionError:\n"
        "    print('opentelemetry' in sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


# Over sockets


def test_every_call_carries_the_span_that_is_current(
    server: FaultServer, tracer: trace.Tracer
) -> None:
    run = server.run("correct")
    with CAPClient(run.base_url, KEY) as client:
        with tracer.start_as_current_span("caller") as span:
            list(client.chat("hi"))
        list(client.chat("hi"))
    context = span.get_span_context()
    assert parents(run) == [
        f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags(span)}",
        None,
    ]


def flags(span: trace.Span) -> str:
    return f"{span.get_span_context().trace_flags:02x}"


def test_each_reconnect_carries_the_span_of_the_call(
    server: FaultServer, tracer: trace.Tracer
) -> None:
    """Also when another one is current by then."""
    run = server.run("fin_mid_event_chunked", packets=20, fault_after=8)
    with CAPClient(run.base_url, KEY) as client:
        with tracer.start_as_current_span("caller"):
            stream = client.chat("hi")
        with tracer.start_as_current_span("another"):
            assert "".join(stream) == run.text
    assert len(run.requests) == 2
    assert len(set(parents(run))) == 1
    assert parents(run)[0] is not None


def test_the_async_client_does_the_same(server: FaultServer, tracer: trace.Tracer) -> None:
    runs = [server.run("fin_mid_event_chunked", packets=20, fault_after=8) for _ in range(2)]

    async def ask(run: Run) -> str:
        async with AsyncCAPClient(run.base_url, KEY) as client:
            with tracer.start_as_current_span("caller") as span:
                assert "".join([piece async for piece in client.chat("hi")]) == run.text
        return f"{span.get_span_context().span_id:016x}"

    async def both() -> list[str]:
        return await asyncio.gather(*map(ask, runs))

    for run, span_id in zip(runs, asyncio.run(both()), strict=True):
        assert [(parent or "").split("-")[2] for parent in parents(run)] == [span_id] * 2


@pytest.mark.parametrize("where", ["client", "call"])
def test_a_header_of_the_callers_own_is_sent_as_it_is(
    server: FaultServer, tracer: trace.Tracer, where: str
) -> None:
    run = server.run("correct")
    own = {"Traceparent": OWN}
    of_client: dict[str, Any] = {"headers": own} if where == "client" else {}
    of_call: dict[str, Any] = {"headers": own} if where == "call" else {}
    with (
        CAPClient(run.base_url, KEY, **of_client) as client,
        trace.use_span(span_of(1, 2, 1, [("a", "b")])),
    ):
        list(client.chat("hi", **of_call))
    [sent] = run.requests
    assert sent.headers["traceparent"] == OWN
    assert "tracestate" not in sent.headers


# The A2A clients


def test_the_a2a_clients_send_it_too() -> None:
    operation = OPERATIONS["resubscribe"]

    def sent(**headers: str) -> dict[str, str]:
        return Settings(headers=headers).sent_headers(V10, operation, {})

    assert "traceparent" not in sent()
    with trace.use_span(span_of(1, 2, 1, [("a", "b")])):
        assert sent()["traceparent"] == f"00-{1:032x}-{2:016x}-01"
        assert sent()["tracestate"] == "a=b"
        assert sent(traceparent=OWN)["traceparent"] == OWN
        assert "tracestate" not in sent(traceparent=OWN)


class Broken(Exception):
    """An error of this module."""


@pytest.mark.parametrize(
    ("error", "expected"),
    [(KeyError("secret"), "KeyError"), (Broken("secret"), "tests.cap.test_trace.Broken")],
)
def test_the_type_of_an_error_is_its_class_and_not_its_text(
    error: BaseException, expected: str
) -> None:
    assert error_type(error) == expected
