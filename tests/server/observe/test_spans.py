"""The agent's span: whose child it is, what it says, and that it outlives the request."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from coreason_client import AsyncCAPClient, CAPClient
from coreason_client._context import trace_headers
from coreason_client.server import (
    AgentApp,
    AgentStream,
    Fenced,
    LogUnavailable,
    MemoryStreamLog,
    running,
)
from coreason_client.server.observe._spans import NOT_TRACED, Tracing, tracing
from coreason_client.testing import VirtualClock
from coreason_manifest.definitions.service import ServiceRequest

from ..conftest import Serve
from ..peer import LIMIT, Gate, Peer, envelope

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE_ID}-{SPAN_ID}-01"
SECRET = "sk-very-secret-0123456789"


class Spans(InMemorySpanExporter):
    """Every span that has ended, whoever began it."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = threading.Condition()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self))
        self.tracer = self.provider.get_tracer("test")

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with self.ended:
            self.ended.notify_all()
            return super().export(spans)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.get_finished_spans() if span.name == name]

    def runs(self) -> list[ReadableSpan]:
        """Return the spans of agents that have ended so far."""
        finished = self.get_finished_spans()
        return [span for span in finished if span.name.startswith("invoke_agent ")]

    def of_agents(self, count: int) -> list[ReadableSpan]:
        """Wait for them: a reader may see the end of a stream before its span has ended."""
        with self.ended:
            assert self.ended.wait_for(lambda: len(self.runs()) >= count, LIMIT)
        return self.runs()

    def of_agent(self) -> ReadableSpan:
        """Return the one there is."""
        [span] = self.of_agents(1)
        return span


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    """A provider as an application configures one, but for this test alone."""
    spans = Spans()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: spans.provider)
    return spans


async def hello(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("hello")


def parent_of(span: ReadableSpan) -> str | None:
    return None if span.parent is None else f"{span.parent.span_id:016x}"


def trace_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.trace_id:032x}"


def id_of(span: Any) -> str:
    return f"{span.get_span_context().span_id:016x}"


# What it says


def test_a_run_is_one_span_under_the_callers(serve: Serve, spans: Spans) -> None:
    peer = serve(hello, agent_id="greeter")
    body = envelope(session="talk-7")
    answer = peer.ask(body, traceparent=PARENT, tracestate="vendor=1,other=2")
    span = spans.of_agent()
    assert (span.name, span.kind) == ("invoke_agent greeter", SpanKind.SERVER)
    assert (trace_of(span), parent_of(span)) == (TRACE_ID, SPAN_ID)
    assert span.context is not None
    assert dict(span.context.trace_state) == {"vendor": "1", "other": "2"}
    assert span.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.id": "greeter",
        "gen_ai.agent.name": "greeter",
        "gen_ai.conversation.id": "talk-7",
        "coreason.stream_id": answer.stream_id,
        "coreason.request_id": body["request_id"],
        "coreason.packets": 2,
        "coreason.outcome": "complete",
    }
    assert span.status.status_code is StatusCode.UNSET
    assert span.events == ()


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "nonsense",
        "00-" + "0" * 32 + f"-{SPAN_ID}-01",
        f"00-{TRACE_ID}-" + "0" * 16 + "-01",
        f"ff-{TRACE_ID}-{SPAN_ID}-01",
        PARENT.upper(),
        PARENT + "-more",
        PARENT[:-1],
        "x" * 600,
    ],
)
def test_a_parent_that_is_none_begins_a_trace(
    serve: Serve, spans: Spans, given: str | None
) -> None:
    headers = {} if given is None else {"traceparent": given}
    assert serve(hello).ask(**headers).text == "hello"
    span = spans.of_agent()
    assert (span.parent, span.kind) == (None, SpanKind.SERVER)


def test_of_two_parents_none_is_taken(serve: Serve, spans: Spans) -> None:
    peer = serve(hello)
    headers = [("Content-Type", "application/json"), *[("traceparent", PARENT)] * 2]
    answer = peer.http.post("/assist", json=envelope(), headers=headers)
    assert answer.status_code == 200
    assert spans.of_agent().parent is None


def test_a_parent_that_is_not_sampled_is_followed(serve: Serve, spans: Spans) -> None:
    serve(hello).ask(traceparent=PARENT[:-2] + "00")
    serve(hello).ask(traceparent=PARENT)
    assert trace_of(spans.of_agent()) == TRACE_ID  # of the second alone


class Broken(Exception):
    """A failure of an agent's own."""


async def raises(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("a")
    raise Broken(SECRET)


async def raises_a_builtin(request: ServiceRequest, stream: AgentStream) -> None:
    raise KeyError(SECRET)


async def fails(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.fail("quota_used_up", SECRET, {"key": SECRET})


async def cancels_itself(request: ServiceRequest, stream: AgentStream) -> None:
    raise asyncio.CancelledError(SECRET)


async def closes_and_raises(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write_packet("CLOSE", {"reason": "done"})
    raise Broken(SECRET)


@pytest.mark.parametrize(
    ("agent", "outcome", "packets", "error"),
    [
        (raises, "agent_error", 2, "tests.server.observe.test_spans.Broken"),
        (raises_a_builtin, "agent_error", 1, "KeyError"),
        (fails, "quota_used_up", 1, "quota_used_up"),
        (cancels_itself, "cancelled", 1, None),
        (closes_and_raises, "complete", 1, "tests.server.observe.test_spans.Broken"),
    ],
)
def test_a_failure_is_named_and_not_quoted(
    serve: Serve, spans: Spans, agent: Any, outcome: str, packets: int, error: str | None
) -> None:
    serve(agent).ask(envelope(SECRET))
    span = spans.of_agent()
    assert span.attributes is not None
    assert span.attributes["coreason.outcome"] == outcome
    assert span.attributes["coreason.packets"] == packets
    assert span.attributes.get("error.type") == error
    assert span.status.status_code is (StatusCode.UNSET if error is None else StatusCode.ERROR)
    assert SECRET not in span.to_json()


def test_a_cancel_that_was_asked_for_is_no_failure(serve: Serve, spans: Spans) -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await gate.wait()

    peer = serve(agent)
    with peer.open() as answer:
        assert peer.cancel(answer.until(1).stream_id) == 204
        assert answer.rest().payloads[-1].code == "cancelled"
    span = spans.of_agent()
    assert span.attributes is not None
    assert span.attributes["coreason.outcome"] == "cancelled"
    assert span.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("kind", [LogUnavailable, Fenced])
def test_a_stream_that_could_not_be_ended_is_lost(serve: Serve, spans: Spans, kind: Any) -> None:
    class Failing(MemoryStreamLog):
        async def close(self, stream_id: Any, epoch: int, *_: Any) -> None:
            raise Fenced(stream_id, epoch) if kind is Fenced else LogUnavailable(SECRET)

    peer = serve(hello, log=Failing())
    with peer.open() as answer:
        answer.until(1)
        span = spans.of_agent()
    assert span.attributes is not None
    assert span.attributes["coreason.outcome"] == "producer_lost"
    assert span.attributes["coreason.packets"] == 1
    assert span.attributes["error.type"] == f"coreason_client.server.errors.{kind.__name__}"
    assert SECRET not in span.to_json()


def test_only_what_starts_a_run_begins_a_span(serve: Serve, spans: Spans) -> None:
    peer = serve(hello)
    body = envelope()
    whole = peer.ask(body, traceparent=PARENT)
    assert peer.ask(body, traceparent=PARENT).stream_id == whole.stream_id
    assert peer.ask(body, f"{whole.stream_id}:1", traceparent=PARENT).seqs == [2]
    assert peer.ask(b"{", traceparent=PARENT).status == 422
    spans.of_agent()  # one and no more


# What is current


def agents(inner: Callable[[], None], gate: Gate) -> list[Any]:
    async def coroutine(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await gate.wait()
        inner()

    async def generator(request: ServiceRequest) -> AsyncIterator[str]:
        yield "a"
        await gate.wait()
        inner()

    async def in_a_task(request: ServiceRequest, stream: AgentStream) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(coroutine(request, stream))

    return [coroutine, generator, in_a_task]


@pytest.mark.parametrize("which", [0, 1, 2])
def test_what_the_agent_does_is_below_its_span_although_the_request_is_gone(
    serve: Serve, spans: Spans, which: int
) -> None:
    gate = Gate()
    seen: list[dict[str, str]] = []

    def inner() -> None:
        with spans.tracer.start_as_current_span("model call"):
            seen.append(trace_headers())  # what a client of ours would send from here

    peer = serve(agents(inner, gate)[which])
    with peer.open(traceparent=PARENT) as answer:
        answer.until(1)
    assert spans.runs() == []
    gate.open()
    run = spans.of_agent()
    [call] = spans.named("model call")
    assert parent_of(call) == id_of(run)
    assert trace_of(call) == trace_of(run) == TRACE_ID
    assert seen == [{"traceparent": f"00-{TRACE_ID}-{id_of(call)}-01"}]


def test_two_runs_at_once_do_not_see_each_other(serve: Serve, spans: Spans) -> None:
    both = asyncio.Barrier(2)
    seen = {}

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await both.wait()
        seen[str(request.request_id)] = id_of(trace.get_current_span())
        await both.wait()

    peer = serve(agent)
    one, two = envelope(), envelope()
    with peer.open(one) as first, peer.open(two, traceparent=PARENT) as second:
        first.rest()
        second.rest()
    assert len(set(seen.values())) == 2
    found = {
        str((span.attributes or {})["coreason.request_id"]): span for span in spans.of_agents(2)
    }
    assert {key: id_of(span) for key, span in found.items()} == seen
    assert found[one["request_id"]].parent is None
    assert parent_of(found[two["request_id"]]) == SPAN_ID


class Around:
    """An instrumented HTTP server around the application: a span for each request."""

    def __init__(self, app: AgentApp, begin: Callable[[], Any]) -> None:
        self.app = app
        self.begin = begin

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        with self.begin():
            token = context.attach(baggage.set_baggage("tenant", "t1"))
            try:
                await self.app(scope, receive, send)
            finally:
                context.detach(token)


def ask_through(around: Around, **headers: str) -> None:
    with running(around) as server:
        peer = Peer(server.url)
        assert peer.ask(**headers).status == 200
        peer.close()


@pytest.mark.parametrize("with_parent", [True, False])
def test_below_an_instrumented_server_it_is_a_child_of_the_request(
    spans: Spans, with_parent: bool
) -> None:
    seen = []

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        seen.append(baggage.get_baggage("tenant"))

    def begin() -> Any:
        sent = {"traceparent": PARENT} if with_parent else {}
        parent = TraceContextTextMapPropagator().extract(sent)
        return spans.tracer.start_as_current_span("POST /assist", parent)

    headers = {"traceparent": PARENT} if with_parent else {}
    ask_through(Around(AgentApp(agent), begin), **headers)
    span = spans.of_agent()
    [http] = spans.named("POST /assist")
    assert (parent_of(span), span.kind) == (id_of(http), SpanKind.INTERNAL)
    assert trace_of(span) == trace_of(http)
    assert seen == ["t1"]  # and what else is in the context stays in it


def test_a_span_around_the_whole_server_does_not_hide_the_caller(spans: Spans) -> None:
    with spans.tracer.start_as_current_span("main") as main:
        around = Around(AgentApp(hello), lambda: trace.use_span(main))
        ask_through(around, traceparent=PARENT)
    span = spans.of_agent()
    assert (trace_of(span), parent_of(span)) == (TRACE_ID, SPAN_ID)
    assert span.kind is SpanKind.SERVER


# From a client to an agent


class CutOnce:
    """An application whose first answer breaks off after its first packet."""

    def __init__(self, app: AgentApp, gate: Gate) -> None:
        self.app = app
        self.gate = gate
        self.parents: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.parents.append(dict(scope["headers"])[b"traceparent"].decode())
        first = len(self.parents) == 1

        async def until_a_packet(message: Any) -> None:
            await send(message)
            if first and message.get("body"):
                raise ConnectionError

        try:
            await self.app(scope, receive, until_a_packet)
        except ConnectionError:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            self.gate.open()


@pytest.mark.parametrize("client", ["sync", "async"])
def test_the_agents_span_is_a_child_of_the_clients_also_over_a_reconnect(
    spans: Spans, client: str, coreason_clock: VirtualClock
) -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await gate.wait()
        with spans.tracer.start_as_current_span("after the reconnect"):
            await stream.write("b")

    async def ask(url: str) -> str:
        async with AsyncCAPClient(url, "k") as cap:
            return "".join([piece async for piece in cap.chat("hi")])

    app = CutOnce(AgentApp(agent), gate)
    with running(app) as server, spans.tracer.start_as_current_span("caller") as caller:
        if client == "sync":
            with CAPClient(server.url, "k") as cap:
                assert "".join(cap.chat("hi")) == "ab"
        else:
            assert asyncio.run(ask(server.url)) == "ab"
    span = spans.of_agent()
    [later] = spans.named("after the reconnect")
    assert len(app.parents) == 2
    assert len(set(app.parents)) == 1
    assert parent_of(span) == id_of(caller)
    assert span.kind is SpanKind.SERVER
    assert parent_of(later) == id_of(span)
    assert trace_of(span) == trace_of(later) == f"{caller.get_span_context().trace_id:032x}"


def test_an_agent_that_asks_another_agent_is_one_trace(spans: Spans) -> None:
    with running(AgentApp(hello, agent_id="inner")) as inner:

        async def outer(request: ServiceRequest, stream: AgentStream) -> None:
            async with AsyncCAPClient(inner.url, "k") as cap:
                async for piece in cap.chat("hi"):
                    await stream.write(piece)

        with running(AgentApp(outer, agent_id="outer")) as server:
            peer = Peer(server.url)
            assert peer.ask(traceparent=PARENT).text == "hello"
            peer.close()
    [first], [second] = spans.named("invoke_agent outer"), spans.named("invoke_agent inner")
    assert parent_of(second) == id_of(first)
    assert trace_of(second) == trace_of(first) == TRACE_ID


# Without


def test_without_an_sdk_the_context_still_passes_through(serve: Serve) -> None:
    seen = []

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        seen.append(trace_headers())

    serve(agent).ask(traceparent=PARENT, tracestate="a=b")
    assert seen == [{"traceparent": PARENT, "tracestate": "a=b"}]


def test_without_the_library_everything_works(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert type(tracing("1")) is Tracing
    assert NOT_TRACED.context is None
    assert serve(hello).ask(traceparent=PARENT).text == "hello"
