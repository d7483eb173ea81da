"""`GET /streams/{id}`: a second tab or device reads a stream without the request of it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from coreason_client.server import AgentApp, AgentStream, MemoryStreamLog, ValkeyStreamLog
from coreason_client.server.http import _gate as gate_module
from coreason_manifest.definitions.service import ServiceRequest

from .aio import aio
from .conftest import Serve
from .log.backends import BACKENDS, Clock
from .log.valkey_server import fresh_prefix, shared_server
from .peer import Answer, Gate, Peer, envelope
from .test_drain import Shared, draining
from .test_lifecycle import asgi

KEYS = {"of-ann": "ann", "also-of-ann": "ann", "of-bob": "bob"}


async def two_words(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("one ")
    await stream.write("two")


@contextmanager
def reading(
    peer: Peer, stream_id: str, cursor: str | None = None, **headers: str
) -> Iterator[Answer]:
    if cursor is not None:
        headers["Last-Event-ID"] = cursor
    with peer.http.stream("GET", f"/streams/{stream_id}", headers=headers) as response:
        yield Answer(response)


def read(peer: Peer, stream_id: str, cursor: str | None = None, **headers: str) -> Answer:
    """Read to the end."""
    with reading(peer, stream_id, cursor, **headers) as answer:
        return answer.rest()


@pytest.mark.parametrize("log", list(BACKENDS))
def test_a_second_reader_follows_live_on_every_log(serve: Serve, log: str, tmp_path: Path) -> None:
    first, second = Gate(), Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("one ")
        await first.wait()
        await stream.write("two ")
        await second.wait()
        await stream.write("three")

    peer = serve(agent, log=BACKENDS[log](Clock(), tmp_path))
    with peer.open() as asked:
        asked.until(1)
        with reading(peer, asked.stream_id) as other:
            other.until(1)
            first.open()
            asked.until(2)
            other.until(2)
            with reading(peer, asked.stream_id, f"{asked.stream_id}:1") as third:
                third.until(1)
                second.open()
                assert third.rest().text == "two three"
            assert asked.rest().raw == other.rest().raw
    assert other.text == "one two three"
    assert [answer.last.op for answer in (asked, other, third)] == ["CLOSE"] * 3
    assert other.headers["x-request-id"] == asked.headers["x-request-id"]
    assert other.stream_id == third.stream_id == asked.stream_id
    assert other.headers["content-type"] == asked.headers["content-type"]


def test_a_stream_is_read_and_cancelled_at_another_replica(serve: Serve) -> None:
    hold, prefix = Gate(), fresh_prefix()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("one")
        await hold.wait()

    here, there = (
        serve(agent, log=ValkeyStreamLog(shared_server().url, prefix=prefix)) for _ in range(2)
    )
    with here.open() as asked, reading(there, asked.until(1).stream_id) as other:
        other.until(1)
        assert there.cancel(asked.stream_id) == 204
        assert other.rest().last.op == "ERROR"
        assert asked.rest().raw == other.raw


def test_a_stream_that_has_ended_is_replayed_and_nothing_follows_its_end(serve: Serve) -> None:
    peer = serve(two_words)
    asked = peer.ask()
    assert read(peer, asked.stream_id).raw == asked.raw
    assert read(peer, asked.stream_id, asked.stream_id).raw == asked.raw
    assert read(peer, asked.stream_id.upper(), f"{asked.stream_id}:1").seqs == [2, 3]
    at_the_end = read(peer, asked.stream_id, f"{asked.stream_id}:3")
    assert (at_the_end.status, at_the_end.headers["x-stream-outcome"]) == (204, "complete")
    assert read(peer, f"{asked.stream_id}/").raw == asked.raw


def test_a_wrong_position_is_refused(serve: Serve) -> None:
    peer = serve(two_words)
    stream_id = peer.ask().stream_id
    for cursor, status, slug in (
        (f"{stream_id}:4", 410, "position-gone"),
        (f"{stream_id}:3:7", 410, "position-gone"),
        (f"{stream_id}:2:7:2", 410, "position-gone"),
        (f"{stream_id}:x", 400, "bad-last-event-id"),
        (f"{uuid4()}:1", 400, "bad-position"),
    ):
        answer = read(peer, stream_id, cursor)
        assert (answer.status, answer.problem["type"]) == (status, f"urn:coreason:problem:{slug}")


def test_a_stream_of_another_principal_does_not_exist(serve: Serve) -> None:
    peer = serve(two_words, "of-ann", api_keys=KEYS)
    mine, guessed = peer.ask().stream_id, str(uuid4())
    theirs, unknown = (
        read(peer, stream_id, Authorization="Bearer of-bob") for stream_id in (mine, guessed)
    )
    assert theirs.status == unknown.status == 404
    assert theirs.raw.decode().replace(mine, "") == unknown.raw.decode().replace(guessed, "")
    assert read(peer, mine, Authorization="Bearer no").status == 401
    assert read(peer, "x", Authorization="Bearer no").status == 401
    assert read(peer, "x").status == 404
    assert read(peer, mine, Authorization="Bearer also-of-ann").text == "one two"


@aio
async def test_dropped_packets_are_gone() -> None:
    clock = Clock()
    app = AgentApp(two_words, log=MemoryStreamLog(clock=clock))
    async with app.lifespan(), asgi(app) as client:
        stream_id = (await client.post("/assist", json=envelope())).headers["x-stream-id"]
        assert (await client.get(f"/streams/{stream_id}")).status_code == 200
        clock.forward(1000.0)
        await app.log.expire(900.0, 86400.0)
        response = await client.get(f"/streams/{stream_id}")
        assert (response.status_code, response.json()["status"]) == (410, 410)


def test_a_reader_counts_as_one_and_needs_no_token(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_module, "monotonic_ns", lambda: 10**15)
    hold = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await hold.wait()

    peer = serve(agent, max_requests_per_minute=1, max_readers_per_key=2)
    with peer.open() as asked:
        asked.until(1)
        # The rate is used up: a stream of one's own can still be read, an invented one cannot.
        assert read(peer, str(uuid4())).status == 429
        with reading(peer, asked.stream_id) as other:
            other.until(1)
            full = read(peer, asked.stream_id)
            assert (full.status, full.headers["retry-after"]) == (429, "1")
            assert full.problem["type"] == "urn:coreason:problem:too-many-readers"
        hold.open()
        asked.rest()


def test_a_token_is_given_back(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_module, "monotonic_ns", lambda: 10**15)
    peer = serve(two_words, max_requests_per_minute=2)
    stream_id = peer.ask().stream_id
    for _ in range(3):
        assert read(peer, stream_id).status == 200
    assert peer.ask().status == 200
    assert peer.ask().status == 429


def test_a_draining_server_serves_readers() -> None:
    hold = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await hold.wait()
        await stream.write("b")

    with draining(AgentApp(agent, log=Shared(), drain_timeout=10.0)) as (peer, _, stop):
        with peer.open() as asked:
            asked.until(1)
            stop.set()
            asked.rest()
        with reading(peer, asked.stream_id, f"{asked.stream_id}:1") as back:
            back.until_raw(b"retry: ")
            hold.open()
            assert back.rest().text == "b"


def test_one_route_has_both_methods_and_no_other(serve: Serve) -> None:
    peer = serve(two_words)
    stream_id = peer.ask().stream_id
    for method in ("HEAD", "POST", "PUT"):
        response = peer.http.request(method, f"/streams/{stream_id}")
        assert response.status_code == 405
        assert set(response.headers["allow"].split(", ")) == {"GET", "DELETE"}


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_pages_of_other_sites_are_refused(serve: Serve, method: str) -> None:
    peer = serve(two_words)
    path = f"/streams/{peer.ask().stream_id}"
    for headers, status in (
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ):
        refused = peer.http.request(method, path, headers=headers)
        assert refused.status_code == json.loads(refused.content)["status"] == status
    assert peer.http.request(method, path, headers={"Sec-Fetch-Site": "same-origin"}).is_success
