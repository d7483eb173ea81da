"""The numbers of a process, as Prometheus reads them from a real server."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.routing import Mount

from coreason_client.errors import MissingExtraError
from coreason_client.server import (
    AgentApp,
    AgentStream,
    LogUnavailable,
    MemoryStreamLog,
    SQLiteStreamLog,
    ValkeyStreamLog,
    running,
)
from coreason_client.server.log import NewStream
from coreason_client.server.observe._metrics import NO_METRICS, PrometheusMetrics
from coreason_manifest.definitions.presentation import StreamOpCode
from coreason_manifest.definitions.service import ServiceRequest

from ..conftest import Serve
from ..faulty_log import Faulty
from ..log.backends import Clock
from ..log.valkey_server import ValkeyServer
from ..peer import LIMIT, Gate, Peer, envelope

NAMES = {
    "coreason_streams_open": "gauge",
    "coreason_readers_open": "gauge",
    "coreason_streams_started": "counter",
    "coreason_streams_ended": "counter",
    "coreason_packets_appended": "counter",
    "coreason_resumes": "counter",
    "coreason_takeovers": "counter",
    "coreason_restarts": "counter",
    "coreason_packets_replayed": "counter",
    "coreason_streams_handed_over": "counter",
    "coreason_requests_refused": "counter",
    "coreason_push_notifications": "counter",
    "coreason_append_seconds": "histogram",
    "coreason_first_packet_seconds": "histogram",
    "coreason_log_degraded": "gauge",
    "coreason_leases_held": "gauge",
    "coreason_leases_lost": "counter",
    "coreason_limit_used": "gauge",
    "coreason_limit_maximum": "gauge",
    "coreason_store_changes": "counter",
    "coreason_event_loop_delay_seconds": "histogram",
}


class Scrape:
    """The metrics that a scraper has read."""

    def __init__(self, text: str) -> None:
        self.families = {
            family.name: family
            for family in text_string_to_metric_families(text)
            if not family.name.endswith("_created")
        }

    def __call__(self, name: str, **labels: str) -> float:
        """Return the value of a sample, 0 for one that is not there yet."""
        for family in self.families.values():
            for sample in family.samples:
                if sample.name == f"coreason_{name}" and sample.labels == labels:
                    return sample.value
        return 0.0

    def labels(self) -> set[str]:
        """Return every value of every label but the bounds of the histograms."""
        return {
            value
            for family in self.families.values()
            for sample in family.samples
            for name, value in sample.labels.items()
            if name != "le"
        }


def scrape(peer: Peer, path: str = "/metrics") -> Scrape:
    answer = peer.http.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert answer.headers["cache-control"] == "no-store"
    return Scrape(answer.text)


def until(peer: Peer, reached: Callable[[Scrape], bool]) -> Scrape:
    """Scrape until it is so: a reader sees the end of a stream before its producer is gone."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        if reached(found := scrape(peer)):
            return found
    raise AssertionError("it was never so")


async def hello(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("hello, ")
    await stream.write("world")
    await stream.thought("hm")


# The numbers


def test_a_server_that_has_done_nothing_shows_every_name(serve: Serve) -> None:
    found = scrape(serve(hello, metrics=True))
    assert {name: family.type for name, family in found.families.items()} == NAMES
    for op in ("DELTA", "EVENT", "ERROR", "CLOSE"):
        assert {"op": op} in [
            sample.labels for sample in found.families["coreason_packets_appended"].samples
        ]
    assert found("streams_open") == found("readers_open") == 0


def test_a_stream_is_counted_from_its_start_to_its_end(serve: Serve) -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await hello(request, stream)
        await gate.wait()
        await stream.warn("slow", "It was slow.")

    peer = serve(agent, metrics=True)
    with peer.open() as answer:
        answer.until(3)
        found = scrape(peer)
        assert (found("streams_open"), found("readers_open")) == (1, 1)
        assert (found("streams_started_total"), found("streams_ended_total")) == (1, 0)
        assert found("first_packet_seconds_count") == 1
        gate.open()
        answer.rest()
    found = until(peer, lambda found: found("streams_open") == found("readers_open") == 0)
    assert found("streams_ended_total", outcome="complete") == 1
    written = {op: found("packets_appended_total", op=op) for op in StreamOpCode}
    assert written == {"DELTA": 2, "EVENT": 1, "ERROR": 1, "CLOSE": 1}
    assert found("append_seconds_count") >= 3
    assert found("append_seconds_sum") > 0
    assert found("first_packet_seconds_count") == 1
    assert found("resumes_total") == 0


async def fails(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.fail(f"code_{request.request_id.hex}", "chosen by the agent")


async def raises(request: ServiceRequest, stream: AgentStream) -> None:
    raise KeyError("secret")


async def cancels_itself(request: ServiceRequest, stream: AgentStream) -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("agent", "outcome"),
    [
        (hello, "complete"),
        (fails, "failed"),
        (raises, "agent_error"),
        (cancels_itself, "cancelled"),
    ],
)
def test_every_end_has_a_name_from_a_closed_list(serve: Serve, agent: Any, outcome: str) -> None:
    peer = serve(agent, metrics=True)
    peer.ask()
    found = scrape(peer)
    assert found("streams_ended_total", outcome=outcome) == 1
    total = sum(
        sample.value
        for sample in found.families["coreason_streams_ended"].samples
        if sample.name.endswith("_total")
    )
    assert total == 1


def test_no_label_holds_what_a_client_or_an_agent_chose(serve: Serve) -> None:
    peer = serve(fails, key="key-of-ann", api_keys={"key-of-ann": "ann"}, metrics=True)
    answers = [peer.ask() for _ in range(3)]
    peer.ask(b"{")
    peer.ask(cursor=f"{uuid4()}:1")
    peer.http.get("/nothing/such")
    text = peer.http.get("/metrics").text
    assert "ann" not in text
    assert "code_" not in text
    assert not any(answer.stream_id in text for answer in answers)
    assert Scrape(text).labels() == {
        *("DELTA", "EVENT", "ERROR", "CLOSE"),
        *("complete", "cancelled", "abandoned", "server_stopped", "producer_lost"),
        *("agent_error", "replay_diverged", "step_uncertain", "failed"),
        "handed_over",
        *("delivered", "disabled"),
        *("invalid-request", "stream-not-found", "not-found"),
        *("log-unavailable", "busy", "too-many-streams", "too-many-readers"),
        *("streams", "readers", "connections"),
    }


def test_limits_show_what_is_used_and_how_much_there_is() -> None:
    gate = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("hello")
        await gate.wait()

    keys = {"a": "ann", "b": "bob"}
    app = AgentApp(
        agent,
        api_keys=keys,
        metrics=True,
        max_streams_per_key=7,
        max_readers_per_key=9,
        drain_timeout=0,
    )
    with running(app, max_connections=50) as server, ExitStack() as stack:
        ann, bob = Peer(server.url, "a"), Peer(server.url, "b")
        answers = [stack.enter_context(peer.open()) for peer in (ann, ann, bob)]
        for answer in answers:
            answer.until(1)
        found = scrape(ann)
        for limit, used, maximum in (("streams", 2, 7), ("readers", 2, 9), ("connections", 4, 50)):
            assert found("limit_used", limit=limit) == used, limit  # those of ann
            assert found("limit_maximum", limit=limit) == maximum
        assert found("leases_held") == 3
        gate.open()
        until(ann, lambda found: found("leases_held") == 0)
        ann.close()
        bob.close()


def test_a_log_that_does_not_work_is_degraded(serve: Serve) -> None:
    log = Faulty(lease=0.1)
    peer = serve(hello, metrics=True, log=log)
    assert scrape(peer)("log_degraded") == 0
    log.fail("claim_lost")
    until(peer, lambda found: found("log_degraded") == 1)
    log.repair()
    until(peer, lambda found: found("log_degraded") == 0)


def test_a_stream_that_another_process_takes_over_is_a_lost_lease(serve: Serve) -> None:
    clock, gate = Clock(), Gate()
    log = MemoryStreamLog(clock=clock)

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("mine")
        await gate.wait()
        await stream.write("not mine")

    peer = serve(agent, metrics=True, log=log)
    with peer.open() as answer:
        answer.until(1)
        assert scrape(peer)("leases_lost_total") == 0
        clock.forward(100)
        [claim] = asyncio.run(log.claim_lost("another process", 9))
        gate.open()
        until(peer, lambda found: found("leases_lost_total") == 1)
        asyncio.run(log.close(claim.stream_id, claim.epoch, 2, [b"\n"], "producer_lost"))
    found = until(peer, lambda found: found("leases_held") == 0)
    assert (found("leases_lost_total"), found("streams_handed_over_total")) == (1, 0)


def test_a_blocked_event_loop_is_in_the_histogram(serve: Serve) -> None:
    async def blocks(request: ServiceRequest, stream: AgentStream) -> None:
        time.sleep(1.0)  # noqa: ASYNC251 - as an agent does by mistake

    peer = serve(blocks, metrics=True)
    found = until(peer, lambda found: found("event_loop_delay_seconds_count") > 0)
    peer.ask()
    # The probe is sent a quarter of a second after the one before was answered, at the latest half.
    until(
        peer,
        lambda now: (
            now("event_loop_delay_seconds_count")
            > now("event_loop_delay_seconds_bucket", le="0.25")
            >= found("event_loop_delay_seconds_bucket", le="0.25")
        ),
    )


def test_a_restart_of_the_store_is_counted_once() -> None:
    with ValkeyServer(keep=True) as store:
        log = ValkeyStreamLog(store.url, lease=0.3)
        with running(AgentApp(hello, log=log, metrics=True, drain_timeout=0)) as server:
            peer = Peer(server.url)
            assert peer.ask().text == "hello, world"
            assert scrape(peer)("store_changes_total") == 0
            store.kill()
            store.start()
            until(peer, lambda found: found("store_changes_total") == 1)
            assert peer.ask().text == "hello, world"
            assert scrape(peer)("store_changes_total") == 1
            peer.close()


def test_resumes_are_counted_and_joins_are_not(serve: Serve) -> None:
    peer = serve(hello, metrics=True)
    body = envelope()
    whole = peer.ask(body)
    peer.ask(body)
    for seq in (0, 1, whole.seqs[-1]):
        peer.ask(body, f"{whole.stream_id}:{seq}")
    assert peer.ask(body, f"{uuid4()}:1").status == 404
    found = scrape(peer)
    assert (found("resumes_total"), found("streams_started_total")) == (3, 1)


def test_refusals_are_counted_by_their_problem(serve: Serve) -> None:
    peer = serve(hello, key="a", api_keys=["a"], metrics=True, max_requests_per_minute=1)
    stranger = Peer(str(peer.http.base_url), "b")
    statuses = [
        peer.ask(b"{").status,
        peer.ask(Content_Type="text/plain").status,
        peer.ask().status,
        stranger.ask().status,
        peer.http.get("/assist").status_code,
        peer.ask(cursor="x").status,
    ]
    assert statuses == [422, 415, 429, 401, 405, 400]
    found = scrape(peer)
    for problem in (
        "invalid-request",
        "unsupported-media-type",
        "too-many-requests",
        "unauthorized",
        "method-not-allowed",
        "bad-last-event-id",
    ):
        assert found("requests_refused_total", problem=problem) == 1, problem
    stranger.close()


def test_a_stream_of_a_lost_producer_is_a_takeover(tmp_path: Path) -> None:
    path = tmp_path / "log.db"

    async def leave_one_behind() -> None:
        log = SQLiteStreamLog(path)
        await log.start("gone")
        await log.open(NewStream(uuid4(), "p", uuid4(), "f"), "gone")
        await log.stop("gone")

    asyncio.run(leave_one_behind())
    with running(AgentApp(hello, log=SQLiteStreamLog(path), metrics=True)) as server:
        peer = Peer(server.url)
        found = scrape(peer)
        assert found("takeovers_total") == 1
        assert found("streams_ended_total", outcome="producer_lost") == 1
        assert found("packets_appended_total", op="ERROR") == 1
        assert found("streams_started_total") == 0
        peer.close()


def test_what_the_log_did_not_take_is_not_counted(serve: Serve) -> None:
    class Full(MemoryStreamLog):
        async def append(self, *_: Any) -> bool:
            raise LogUnavailable("full")

        async def close(self, *_: Any) -> None:
            await self.append()

    peer = serve(hello, log=Full(), metrics=True)
    with pytest.raises(httpx2.RemoteProtocolError):  # no packet, and no orderly end
        peer.ask()
    found = until(peer, lambda found: found("streams_open") == 0)
    assert found("streams_started_total") == 1
    assert found("packets_appended_total", op="DELTA") == found("append_seconds_count") == 0
    assert sum(found("streams_ended_total", outcome=name) for name in found.labels()) == 0


# Where, and for whom


def test_off_by_default(serve: Serve) -> None:
    peer = serve(hello)
    assert peer.http.get("/metrics").status_code == 404
    assert "/metrics" not in peer.http.get("/openapi.json").json()["paths"]


def test_at_another_path(serve: Serve) -> None:
    peer = serve(hello, metrics="/ops/numbers")
    assert scrape(peer, "/ops/numbers")("streams_open") == 0
    assert peer.http.get("/metrics").status_code == 404
    assert "/ops/numbers" in peer.http.get("/openapi.json").json()["paths"]


@pytest.mark.parametrize(
    "path", ["metrics", "/", "/a b", "/{x}", "/assist", "/health", "/streams/x"]
)
def test_a_path_that_cannot_be_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="metrics"):
        AgentApp(hello, metrics=path)


@pytest.mark.parametrize(
    ("options", "nobody", "agent", "scraper"),
    [
        ({}, 200, 200, 200),
        ({"api_keys": ["agent"]}, 401, 200, 401),
        ({"api_keys": ["agent"], "metrics_key": "scraper"}, 401, 401, 200),
        ({"api_keys": ["agent"], "metrics_public": True}, 200, 200, 200),
        ({"metrics_key": "scraper"}, 401, 401, 200),
    ],
)
def test_who_may_read_them(
    serve: Serve, options: dict[str, Any], nobody: int, agent: int, scraper: int
) -> None:
    peer = serve(hello, metrics=True, **options)

    def status(key: str | None) -> int:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return peer.http.get("/metrics", headers=headers).status_code

    assert [status(None), status("agent"), status("scraper")] == [nobody, agent, scraper]
    described = peer.http.get("/openapi.json").json()
    with_key = nobody == 401
    assert described["paths"]["/metrics"]["get"]["security"] == ([{"key": []}] if with_key else [])
    assert ("securitySchemes" in described["components"]) == bool(options)
    if "api_keys" in options:  # and the scraper's key opens nothing else
        headers = {"Authorization": "Bearer scraper"}
        asked = peer.http.post("/assist", json=envelope(), headers=headers)
        assert asked.status_code == 401


def test_a_key_of_its_own_and_no_key_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="must not be given together"):
        AgentApp(hello, metrics=True, metrics_key="k", metrics_public=True)


def test_two_applications_in_one_process_do_not_mix() -> None:
    one, two = (AgentApp(hello, agent_id=name, metrics=True) for name in ("one", "two"))
    parent = Starlette(routes=[Mount("/one", one), Mount("/two", two)])
    with running(parent, timeout_graceful_shutdown=1) as server:
        first, second = Peer(f"{server.url}/one"), Peer(f"{server.url}/two")
        first.ask()
        assert scrape(first)("streams_started_total") == 1
        assert scrape(second)("streams_started_total") == 0
        first.close()
        second.close()


def test_numbers_survive_a_restart_of_the_application() -> None:
    app = AgentApp(hello, metrics=True)
    for count in (1, 2):
        with running(app) as server:
            peer = Peer(server.url)
            peer.ask()
            found = until(peer, lambda found: found("streams_open") == 0)
            assert found("streams_started_total") == count
            peer.close()


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    AgentApp(hello)
    with pytest.raises(MissingExtraError) as caught:
        AgentApp(hello, metrics=True)
    assert (caught.value.part, caught.value.extra) == ("metrics", "metrics")


def test_the_library_is_not_loaded_when_nobody_counts() -> None:
    code = (
        "import sys; from coreason_client.server import AgentApp\n"
        "async def agent(request, stream): ...\n"
        "AgentApp(agent)\n"
        "print([m for m in ('prometheus_client', 'opentelemetry') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_what_counts_nothing_does_whatever_the_counting_does() -> None:
    counting = PrometheusMetrics()
    for metrics in (NO_METRICS, counting):
        metrics.watch({"streams_open": lambda: 1, "readers_open": lambda: 2})
        metrics.watch_limit("connections", lambda: 3, 4)
        metrics.watch_limit("streams", lambda: 5, None)
        metrics.loop_delayed(0.25)
        metrics.store_changed()
        meter = metrics.started(0.0)
        meter.appended(1, 2, [StreamOpCode.CLOSE], 0.5, 1.0)
        meter.ended("complete")
        meter.lease_lost()
        metrics.resumed()
        metrics.taken_over()
        metrics.refused("x")
    assert NO_METRICS.exposition()[0] == b""
    found = Scrape(counting.exposition()[0].decode())
    assert (found("streams_open"), found("readers_open")) == (1, 2)
    assert (found("append_seconds_sum"), found("first_packet_seconds_sum")) == (0.5, 1.0)
    assert (found("limit_used", limit="connections"), found("limit_used", limit="streams")) == (
        3,
        5,
    )
    maxima = found.families["coreason_limit_maximum"].samples
    assert [(sample.labels, sample.value) for sample in maxima] == [({"limit": "connections"}, 4)]
    assert found("event_loop_delay_seconds_sum") == 0.25
    assert (found("store_changes_total"), found("leases_lost_total")) == (1, 1)
