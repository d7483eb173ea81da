"""`POST /page/cut` over real connections: abrupt, resumable, and only for who may read."""

from collections.abc import Iterator
from uuid import uuid4

import httpx2
import pytest

from coreason_client import CAPClient
from coreason_client.server import AgentApp, AgentStream, running
from coreason_client.server.http._cuts import CutPlan
from coreason_manifest.definitions.service import ServiceRequest

from ..conftest import Serve
from ..peer import Answer, Gate, Peer, envelope

WORDS = [f"{number} " for number in range(300)]
SERVERS = [("asyncio", "h11"), ("uvloop", "httptools")]


async def long_answer(request: ServiceRequest, stream: AgentStream) -> None:
    for word in WORDS:
        await stream.write(word)


@pytest.fixture(params=SERVERS, ids="-".join)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    loop, http = request.param
    app = AgentApp(long_answer, page=True, _cuts=True)
    with running(app, loop=loop, http=http) as server:
        yield server.url


def cut(peer: Peer, stream_id: str, seed: int | None = None, **headers: str) -> httpx2.Response:
    body = {"stream_id": stream_id, "seed": seed}
    return peer.http.post("/page/cut", json=body, headers=headers)


def read_until_cut(peer: Peer, stream_id: str, after: int) -> Answer:
    headers = {"Last-Event-ID": f"{stream_id}:{after}"}
    with peer.http.stream("GET", f"/streams/{stream_id}", headers=headers) as response:
        answer = Answer(response)
        with pytest.raises(httpx2.RemoteProtocolError):
            answer.rest()
    return answer


def test_connections_are_cut_after_the_packets_of_the_plan(url: str) -> None:
    peer, plan, seed = Peer(url), CutPlan(3), 3
    stream_id = peer.ask().stream_id
    assert cut(peer, stream_id, seed).status_code == 204
    read = 0
    for _ in range(4):
        answer = read_until_cut(peer, stream_id, read)
        expected = plan.next()
        assert answer.seqs == list(range(read + 1, read + expected + 1))
        read += expected
    peer.close()


def test_a_client_reads_everything_once_in_spite_of_the_cuts(url: str) -> None:
    peer, delivered = Peer(url), []
    with CAPClient(url, "any") as client, client.chat("Hi") as answer:
        delivered.append(next(answer))
        assert cut(peer, str(answer.position.stream_id), 11).status_code == 204  # type: ignore[union-attr]
        delivered += answer
    assert delivered == WORDS
    peer.close()


def test_a_cut_closes_every_connection_at_once(serve: Serve) -> None:
    hold = Gate()

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        await stream.write("a")
        await hold.wait()
        await stream.write("b")

    peer = serve(AgentApp(agent, page=True, _cuts=True))
    body = envelope()
    with peer.open(body) as one, peer.open(body) as two:
        for answer in (one, two):
            answer.until(1)
        assert cut(peer, one.stream_id).status_code == 204
        for answer in (one, two):
            # Without an end of the body: the client knows that something is missing.
            with pytest.raises(httpx2.RemoteProtocolError):
                answer.rest()
    with peer.open(body, f"{one.stream_id}:1") as back:
        hold.open()
        assert back.rest().text == "b"


def test_only_who_may_read_a_stream_may_cut_it(serve: Serve) -> None:
    keys = {"of-ann": "ann", "of-bob": "bob"}
    peer = serve(AgentApp(long_answer, api_keys=keys, page=True, _cuts=True), "of-ann")
    stream_id = peer.ask().stream_id
    assert cut(peer, stream_id).status_code == 204
    assert cut(peer, stream_id, Authorization="Bearer of-bob").status_code == 404
    assert cut(peer, str(uuid4())).status_code == 404
    refused = cut(peer, stream_id, Authorization="Bearer wrong")
    assert refused.status_code == 401
    assert "www-authenticate" in refused.headers
    assert "content-security-policy" in refused.headers


def test_pages_of_other_sites_cut_nothing(serve: Serve) -> None:
    peer = serve(AgentApp(long_answer, page=True, _cuts=True))
    stream_id = peer.ask().stream_id
    for headers, status in (
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ):
        assert cut(peer, stream_id, 1, **headers).status_code == status
    assert peer.http.get(f"/streams/{stream_id}").status_code == 200  # whole, so it has no plan


def test_a_body_that_is_wrong_or_too_large_is_refused(serve: Serve) -> None:
    peer = serve(AgentApp(long_answer, page=True, _cuts=True))
    assert cut(peer, "x").status_code == 422
    assert peer.http.post("/page/cut", content=bytes(2000)).status_code == 413
    assert peer.http.get("/page/cut").status_code == 404  # there is no such file


def test_the_page_knows_whether_it_may_cut(serve: Serve) -> None:
    for cuts in (True, False):
        app = AgentApp(long_answer, page=True, _cuts=cuts)
        assert serve(app).http.get("/page/config.json").json()["cut"] is cuts
