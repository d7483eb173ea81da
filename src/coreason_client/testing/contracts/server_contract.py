"""The contract of a CAP server as tests, for people who write one in any language."""

import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias
from uuid import uuid4

import httpx2
import pytest

from coreason_manifest.definitions.presentation import StreamPacket, parse_packet

from ...sse import ServerSentEvent, SSEDecoder

__all__ = ["CAPAnswer", "CAPPeer", "ServerContract", "ServerUnderTest", "question_body"]

Body: TypeAlias = dict[str, Any]

_POSITIONS = 12  # at most, from which a long answer is resumed
_NUMBERED = "test_an_answer_is_a_numbered_stream"
_IDS = "test_every_event_has_its_position_as_id"
# What a test builds on. The others build on an answer with ids.
_NEEDS = {
    _NUMBERED: (),
    _IDS: (_NUMBERED,),
    "test_an_unknown_stream_cannot_be_cancelled": (),
    "test_a_key_is_needed": (),
    "test_health_needs_no_key": (),
}


@dataclass(frozen=True)
class ServerUnderTest:
    """The server to test, and what the tests need to know of it.

    `question` is any question whose answer has at least three packets. `slow_question` is one whose
    answer takes some seconds: with it, cancelling is tested. `other_key` belongs to another
    principal: with it, the separation of principals is tested. A server without keys has neither.
    `timeout` is the limit in seconds for each wait.
    """

    url: str
    key: str | None = None
    other_key: str | None = None
    question: str = "Count to ten."
    slow_question: str | None = None
    timeout: float = 30.0


class _Given:
    """What the tests get besides the server."""

    @pytest.fixture
    def peer(self, cap_server: ServerUnderTest) -> "Iterator[CAPPeer]":
        """A client with the key."""
        yield from _peer(cap_server, cap_server.key)

    @pytest.fixture
    def other(self, cap_server: ServerUnderTest) -> "Iterator[CAPPeer]":
        """A client with the key of another principal."""
        if cap_server.other_key is None:
            pytest.skip("the server has no `other_key`")
        yield from _peer(cap_server, cap_server.other_key)

    @pytest.fixture
    def body(self, cap_server: ServerUnderTest) -> Body:
        """A new request with the question."""
        return question_body(cap_server.question)


class ServerContract(_Given):
    """The tests that every CAP server must pass.

    The tests that build on an answer, and on the ids of its events, are skipped if the test of that
    fails, so one fault is one failure.

    Derive a test class from it, and define a fixture `cap_server` that starts your server::

        @pytest.fixture(scope="module")
        def cap_server():
            with my_server() as url:
                yield ServerUnderTest(url, key="key-1", other_key="key-2")


        class TestMyServer(ServerContract):
            pass
    """

    @pytest.fixture(autouse=True)
    def _needed(self, request: pytest.FixtureRequest, cap_server: ServerUnderTest) -> None:
        """Skip a test if a test that it builds on fails."""
        needs = _NEEDS.get(request.function.__name__, (_NUMBERED, _IDS))
        if needs and (failed := _first_failed(cap_server)) in needs:
            pytest.skip(f"it builds on {failed}, which fails")

    # An answer.

    def test_an_answer_is_a_numbered_stream(self, peer: "CAPPeer", body: Body) -> None:
        """The packets count 1, 2, 3, … and only the last one ends the stream."""
        _check_numbered(peer.ask(body))

    def test_every_event_has_its_position_as_id(self, peer: "CAPPeer", body: Body) -> None:
        """An id is `<stream_id>:<seq>`; others follow if other processes wrote the packet."""
        _check_ids(peer.ask(body))

    # Resuming.

    def test_a_resume_gives_exactly_the_rest(self, peer: "CAPPeer", body: Body) -> None:
        """After any position the same packets follow as in the first response."""
        whole = peer.ask(body)
        for seq in _some(range(len(whole.ids) - 1)):
            rest = peer.ask(body, whole.ids[seq])
            assert (rest.status, rest.packets) == (200, whole.packets[seq + 1 :])

    def test_a_stream_id_alone_replays_the_stream(self, peer: "CAPPeer", body: Body) -> None:
        """A client of a server without ids has nothing else to resume from."""
        whole = peer.ask(body)
        again = peer.ask(body, str(whole.packets[0].stream_id))
        assert again.packets == whole.packets

    def test_an_answer_survives_a_lost_connection(self, peer: "CAPPeer", body: Body) -> None:
        """A client that leaves in the middle and comes back has every packet once."""
        first = peer.first_packets(body, 2)
        rest = peer.ask(body, first.ids[-1])
        packets = [*first.packets, *rest.packets]
        assert len({packet.stream_id for packet in packets}) == 1
        assert [packet.seq for packet in packets] == list(range(1, len(packets) + 1))
        assert packets[-1].is_last

    def test_nothing_follows_the_end(self, peer: "CAPPeer", body: Body) -> None:
        """A resume after the last packet has no packets: 204, or an empty stream."""
        whole = peer.ask(body)
        after = peer.ask(body, whole.ids[-1])
        assert after.status in (200, 204)
        assert after.events == []

    # Requests.

    def test_a_repeated_request_joins_its_stream(self, peer: "CAPPeer", body: Body) -> None:
        """The same `request_id` never starts the agent twice."""
        assert peer.ask(body).packets == peer.ask(body).packets

    def test_equal_requests_at_once_share_a_stream(self, peer: "CAPPeer", body: Body) -> None:
        """Whichever comes first begins the stream, and all of them read it."""
        with ThreadPoolExecutor(4) as threads:
            answers = list(threads.map(peer.ask, [body] * 4))
        assert all(answer.packets == answers[0].packets for answer in answers)
        assert answers[0].packets

    def test_another_body_with_the_same_id_is_a_conflict(self, peer: "CAPPeer", body: Body) -> None:
        """A known `request_id` with another question is refused with 409, also in a resume."""
        whole = peer.ask(body)
        changed = question_body("Another question.", body["request_id"])
        assert_problem(peer.ask(changed), 409)
        assert_problem(peer.ask(changed, whole.ids[0]), 409)
        assert_problem(peer.ask({**body, "request_id": str(uuid4())}, whole.ids[0]), 409)

    def test_an_invalid_body_is_refused(self, peer: "CAPPeer", body: Body) -> None:
        """JSON of another shape is refused with 422 (or 400), other media types with 415."""
        invalid: list[object] = [{}, {**body, "request_id": "7"}, {**body, "payload": {}}, []]
        for wrong in invalid:
            assert_problem(peer.ask(wrong), 422, 400)
        broken = peer.send("POST", "/assist", content=b"{", headers=_JSON)
        assert_problem(broken, 422, 400)
        text = {"Content-Type": "text/plain"}
        assert_problem(peer.send("POST", "/assist", content=b"hello", headers=text), 415)

    # Positions.

    def test_a_wrong_position_is_refused(self, peer: "CAPPeer", body: Body) -> None:
        """400 for a wrong position, 404 for an unknown stream, 410 for a packet it has not."""
        whole = peer.ask(body)
        stream_id = whole.packets[0].stream_id
        for wrong in ("7", f"{stream_id}:-1", f"{stream_id}:x"):
            assert_problem(peer.ask(body, wrong), 400)
        assert_problem(peer.ask(body, f"{stream_id}:{10**6}"), 410)
        assert_problem(peer.ask(body, f"{uuid4()}:1"), 404)

    # Reading and cancelling by the id of the stream.

    def test_a_stream_is_read_by_its_id(self, peer: "CAPPeer", body: Body) -> None:
        """`GET /streams/{id}` gives the packets, from the start or after a position."""
        whole = peer.ask(body)
        path = f"/streams/{whole.packets[0].stream_id}"
        assert peer.send("GET", path).packets == whole.packets
        assert peer.send("GET", path, whole.ids[0]).packets == whole.packets[1:]
        at_end = peer.send("GET", path, whole.ids[-1])
        assert (at_end.status, at_end.headers["x-stream-outcome"]) == (204, "complete")
        assert_problem(peer.send("GET", path, f"{uuid4()}:1"), 400)
        assert_problem(peer.send("GET", f"/streams/{uuid4()}"), 404)

    def test_a_stream_is_cancelled_by_its_id(
        self, cap_server: ServerUnderTest, peer: "CAPPeer"
    ) -> None:
        """`DELETE /streams/{id}` ends the answer with a fatal error, and may be repeated."""
        if cap_server.slow_question is None:
            pytest.skip("the server has no `slow_question`")
        body = question_body(cap_server.slow_question)
        first = peer.first_packets(body, 1)
        path = f"/streams/{first.packets[0].stream_id}"
        for _ in range(2):
            assert 200 <= peer.send("DELETE", path).status < 300
        *_, last = peer.ask(body, first.ids[0]).packets
        assert last.is_last
        assert getattr(last.p, "code", None) == "cancelled"

    def test_an_unknown_stream_cannot_be_cancelled(self, peer: "CAPPeer") -> None:
        """404, as for a stream of another principal."""
        assert_problem(peer.send("DELETE", f"/streams/{uuid4()}"), 404)

    # Keys.

    def test_a_key_is_needed(self, cap_server: ServerUnderTest, body: Body) -> None:
        """401 without a key and with a wrong one, and `WWW-Authenticate: Bearer`."""
        if cap_server.key is None:
            pytest.skip("the server has no keys")
        for key in (None, f"{cap_server.key}x"):
            for stranger in _peer(cap_server, key):
                refused = stranger.ask(body)
                assert_problem(refused, 401)
                assert refused.headers["www-authenticate"].lower().startswith("bearer")

    def test_principals_do_not_see_one_another(
        self, peer: "CAPPeer", other: "CAPPeer", body: Body
    ) -> None:
        """The stream of another principal does not exist."""
        whole = peer.ask(body)
        path = f"/streams/{whole.packets[0].stream_id}"
        assert_problem(other.ask(body, whole.ids[0]), 404)
        assert_problem(other.send("GET", path), 404)
        assert_problem(other.send("DELETE", path), 404)
        # The same request of another principal is another request.
        assert other.ask(body).packets[0].stream_id != whole.packets[0].stream_id

    # Health.

    def test_health_needs_no_key(self, cap_server: ServerUnderTest) -> None:
        """`GET /health` says how the agent is, and which one it is."""
        for anybody in _peer(cap_server, None):
            answer = anybody.send("GET", "/health")
            assert answer.status == 200
            assert b'"status"' in answer.body
            assert b'"agent_id"' in answer.body


_JSON = {"Content-Type": "application/json"}


def _peer(server: ServerUnderTest, key: str | None) -> "Iterator[CAPPeer]":
    peer = CAPPeer(server.url, key, server.timeout)
    try:
        yield peer
    finally:
        peer.close()


@cache
def _first_failed(server: ServerUnderTest) -> str | None:
    """Return the first of the tests that others build on which the server does not pass."""
    failed = _NUMBERED
    for peer in _peer(server, server.key):
        try:
            answer = peer.ask(question_body(server.question))
            _check_numbered(answer)
            failed = _IDS
            _check_ids(answer)
        except Exception:  # noqa: BLE001 - the test itself shows it
            return failed
    return None


def _check_numbered(answer: "CAPAnswer") -> None:
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"].startswith("text/event-stream")
    packets = answer.packets
    assert len(packets) >= 3, "`question` must have an answer of at least three packets"
    assert len({packet.stream_id for packet in packets}) == 1
    assert [packet.seq for packet in packets] == list(range(1, len(packets) + 1))
    assert [packet.is_last for packet in packets] == [False] * (len(packets) - 1) + [True]


def _check_ids(answer: "CAPAnswer") -> None:
    for event_id, packet in zip(answer.ids, answer.packets, strict=True):
        stream_id, seq, *epoch = event_id.split(":")
        assert (stream_id.lower(), seq) == (str(packet.stream_id), str(packet.seq))
        assert len(epoch) <= 2


def _some(positions: range) -> range:
    """Return evenly spread positions, not too many."""
    return positions[:: max(1, len(positions) // _POSITIONS)]


def assert_problem(answer: "CAPAnswer", *statuses: int) -> None:
    """Check a refusal: one of these statuses, and a body that says why."""
    assert answer.status in statuses, (answer.status, answer.body[:500])
    assert answer.body, f"a refusal with {answer.status} must say why"


def question_body(question: str, request_id: str | None = None) -> Body:
    """Return the body of a request with one question."""
    message = {"role": "user", "parts": [{"type": "text", "content": question}]}
    return {
        "request_id": request_id or str(uuid4()),
        "context": {"session_id": str(uuid4()), "user_id": "contract"},
        "payload": {"messages": [message]},
    }


@dataclass
class CAPAnswer:
    """A response: its status and headers, and the events that were read."""

    status: int
    headers: httpx2.Headers
    events: list[ServerSentEvent] = field(default_factory=list)
    body: bytes = b""

    @property
    def packets(self) -> list[StreamPacket]:
        """The packets of the events."""
        return [parse_packet(event.data_bytes) for event in self.events]

    @property
    def ids(self) -> list[str]:
        """The ids of the events."""
        return [event.id for event in self.events]


@cache
def _authorities() -> ssl.SSLContext:
    """Return what httpx2 would load for each client; it takes longer than a test."""
    return httpx2.create_ssl_context(trust_env=False)


class CAPPeer:
    """Sends requests to one server with one key."""

    def __init__(self, url: str, key: str | None, timeout: float) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http = httpx2.Client(
            base_url=url.rstrip("/"),
            headers=headers,
            timeout=timeout,
            trust_env=False,
            verify=_authorities(),
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def ask(self, body: object, last_event_id: str | None = None, **options: Any) -> CAPAnswer:
        """Send `POST /assist`, and read the whole response."""
        return self.send("POST", "/assist", last_event_id, json=body, **options)

    def send(
        self, method: str, path: str, last_event_id: str | None = None, **options: Any
    ) -> CAPAnswer:
        """Send a request, and read the whole response."""
        with self.open(method, path, last_event_id, **options) as (answer, chunks):
            for chunk in chunks:
                answer.body += chunk
        if _is_stream(answer):
            answer.events = list(SSEDecoder().feed(answer.body))
        return answer

    @contextmanager
    def open(
        self, method: str, path: str, last_event_id: str | None = None, **options: Any
    ) -> Iterator[tuple[CAPAnswer, Iterator[bytes]]]:
        """Send a request; yield the response without its body, and the chunks of the body."""
        headers = dict(options.pop("headers", {}))
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        with self._http.stream(method, path, headers=headers, **options) as response:
            yield CAPAnswer(response.status_code, response.headers), response.iter_bytes()

    def first_packets(self, body: object, count: int) -> CAPAnswer:
        """Read so many packets of an answer, and close the connection."""
        decoder = SSEDecoder()
        with self.open("POST", "/assist", json=body) as (answer, chunks):
            for chunk in chunks:
                answer.events += decoder.feed(chunk)
                if len(answer.events) >= count:
                    break
        del answer.events[count:]
        return answer


def _is_stream(answer: "CAPAnswer") -> bool:
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip()
    return answer.status == 200 and media_type == "text/event-stream"
