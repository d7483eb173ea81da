"""The rate of a key: the arithmetic, and what clients see of it over real HTTP."""

import asyncio
import itertools
import socket
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coreason_client import CAPClient, CAPRuntimeError
from coreason_client.server import AgentApp, AgentStream, LogUnavailable, MemoryStreamLog, running
from coreason_client.server.http import _gate as gate
from coreason_client.server.http._rate_limit import RequestRate, retry_after
from coreason_client.server.log import StreamMeta
from coreason_client.testing import VirtualClock
from coreason_manifest.definitions.service import ServiceRequest

from ..conftest import Serve
from ..peer import LIMIT, Gate, Peer, envelope

SECOND = 1_000_000_000
MINUTE = 60 * SECOND

# The arithmetic

rates = st.integers(1, 10_000)
pauses = st.lists(st.integers(0, 2 * MINUTE) | st.integers(0, SECOND), min_size=1, max_size=200)


@given(per_minute=rates, start=st.integers(0, 10**18))
def test_an_idle_key_may_ask_as_often_as_the_limit_says_at_once(
    per_minute: int, start: int
) -> None:
    rate = RequestRate(per_minute)
    for _ in range(per_minute):
        assert rate.take("a", start) == 0
    assert rate.take("a", start) > 0
    assert rate.take("b", start) == 0


@given(per_minute=rates, pauses=pauses)
def test_the_wait_that_is_told_is_the_shortest_that_suffices(
    per_minute: int, pauses: list[int]
) -> None:
    rate, now = RequestRate(per_minute), 0
    for pause in pauses:
        now += pause
        while (wait := rate.take("a", now)) == 0:
            pass
        assert rate.take("a", now + wait - 1) == 1
        assert rate.take("a", now + wait) == 0
        now += wait


@given(per_minute=st.integers(1, 50), pauses=pauses)
def test_no_stretch_of_time_lets_more_in_than_a_full_bucket_and_what_comes_back(
    per_minute: int, pauses: list[int]
) -> None:
    rate = RequestRate(per_minute)
    taken = [now for now in itertools.accumulate(pauses) if rate.take("a", now) == 0]
    interval = MINUTE // per_minute
    for first, start in enumerate(taken):
        for last in range(first, len(taken)):
            came_back = (taken[last] - start) // interval
            assert last - first + 1 <= per_minute + came_back


@given(per_minute=st.integers(1, 20), pauses=pauses)
def test_what_is_given_back_leaves_no_trace(per_minute: int, pauses: list[int]) -> None:
    one, other, now = RequestRate(per_minute), RequestRate(per_minute), 0
    for pause in pauses:
        now += pause
        assert one.take("a", now) == other.take("a", now)
        if other.take("a", now) == 0:
            other.give_back("a", now)


def test_giving_back_what_was_never_taken_changes_nothing() -> None:
    rate = RequestRate(1)
    rate.give_back("a", 5)
    assert (len(rate), rate.take("a", 5)) == (0, 0)
    assert rate.take("a", 5) == MINUTE


class Memory(RuleBasedStateMachine):
    """Keys come and go; only those that have asked of late are remembered."""

    @initialize(per_minute=st.integers(1, 100))
    def begin(self, per_minute: int) -> None:
        self.rate = RequestRate(per_minute)
        self.now = 0
        self.names = itertools.count()
        self.most_busy = 0
        self.last: dict[str, int] = {}

    @rule(count=st.integers(1, 300))
    def strangers_ask(self, count: int) -> None:
        for _ in range(count):
            key = str(next(self.names))
            assert self.rate.take(key, self.now) == 0
            self.last[key] = self.now
        busy = sum(self.now - at < MINUTE for at in self.last.values())
        self.most_busy = max(self.most_busy, busy)

    @rule(pause=st.integers(0, 3 * MINUTE))
    def time_passes(self, pause: int) -> None:
        self.now += pause

    @invariant()
    def the_table_is_bounded_by_who_is_busy(self) -> None:
        if hasattr(self, "rate"):
            assert len(self.rate) <= 64 + 2 * self.most_busy


Memory.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestMemory = Memory.TestCase


def test_idle_keys_are_forgotten() -> None:
    rate = RequestRate(60)
    for minute in range(100):
        for key in range(50):
            assert rate.take(f"{minute}-{key}", minute * MINUTE) == 0
    assert len(rate) <= 128


def test_a_full_table_is_swept_only_when_it_has_doubled() -> None:
    """A sweep looks at every key, so a sweep with every new key would be quadratic."""
    rate, sweeps = RequestRate(1), 0
    for key in range(1000):
        before = rate._full_at
        assert rate.take(str(key), 0) == 0
        sweeps += rate._full_at is not before
    assert sweeps <= 5


@pytest.mark.parametrize(
    ("wait", "told"), [(1, "1"), (SECOND, "1"), (SECOND + 1, "2"), (MINUTE, "60"), (0, "1")]
)
def test_a_wait_is_told_in_whole_seconds_and_never_too_short(wait: int, told: str) -> None:
    assert retry_after(wait) == told


# What clients see


class Clock:
    """Stands still until the test moves it."""

    def __init__(self) -> None:
        self.now = 10**15

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(gate, "monotonic_ns", clock)
    return clock


async def hello(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("hello")


@pytest.mark.proves("RES2-12c")
def test_a_key_may_ask_so_often_and_is_told_when_again(serve: Serve, clock: Clock) -> None:
    peer = serve(hello, key="a", api_keys=["a", "b"], max_requests_per_minute=4)
    other = Peer(str(peer.http.base_url), "b")
    assert [peer.ask().status for _ in range(4)] == [200] * 4
    refused = peer.ask()
    assert (refused.status, refused.headers["retry-after"]) == (429, "15")
    assert refused.problem["type"] == "urn:coreason:problem:too-many-requests"
    assert "4 requests a minute" in refused.problem["detail"]
    assert other.ask().status == 200
    clock.now += 14 * SECOND
    assert (peer.ask().status, peer.ask().headers["retry-after"]) == (429, "1")
    clock.now += SECOND  # what Retry-After asked for is enough
    assert [peer.ask().status for _ in range(2)] == [200, 429]
    other.close()


def test_two_keys_of_one_principal_share_its_limit(serve: Serve, clock: Clock) -> None:
    peer = serve(hello, key="a", api_keys={"a": "ann", "a2": "ann"}, max_requests_per_minute=1)
    second = Peer(str(peer.http.base_url), "a2")
    assert [peer.ask().status, second.ask().status] == [200, 429]
    second.close()


def test_without_a_limit_there_is_none(serve: Serve, clock: Clock) -> None:
    peer = serve(hello)
    assert {peer.ask().status for _ in range(10)} == {200}


def test_a_refusal_comes_before_the_body(serve: Serve, clock: Clock) -> None:
    peer = serve(hello, max_requests_per_minute=1)
    assert peer.ask().status == 200
    address = (peer.http.base_url.host, peer.http.base_url.port)
    with socket.create_connection(address, timeout=LIMIT) as slow:
        slow.sendall(
            b"POST /assist HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n"
        )
        assert slow.recv(100).startswith(b"HTTP/1.1 429 ")


def test_a_resume_does_not_count(serve: Serve, clock: Clock) -> None:
    peer = serve(hello, max_requests_per_minute=1)
    body = envelope()
    whole = peer.ask(body)
    assert peer.ask().status == 429
    for _ in range(10):
        assert peer.ask(body, f"{whole.stream_id}:1").seqs == [2]
    assert peer.ask(body, f"{whole.stream_id}:2").status == 204


def test_a_resume_that_joins_gives_back_what_it_took(serve: Serve, clock: Clock) -> None:
    peer = serve(hello, max_requests_per_minute=2)
    body = envelope()
    whole = peer.ask(body)
    for _ in range(10):  # there is a token left, which each of them takes
        assert peer.ask(body, f"{whole.stream_id}:1").seqs == [2]
    assert [peer.ask().status, peer.ask().status] == [200, 429]


@pytest.mark.parametrize("whose", ["nobody", "somebody else"])
def test_a_resume_of_nothing_counts(serve: Serve, clock: Clock, whose: str) -> None:
    """An invented position does not avoid the limit, nor does that of another's stream."""
    peer = serve(hello, key="a", api_keys=["a", "b"], max_requests_per_minute=3)
    other = Peer(str(peer.http.base_url), "b")
    stream_id = uuid4() if whose == "nobody" else other.ask().stream_id
    statuses = [peer.ask(cursor=f"{stream_id}:1").status for _ in range(5)]
    assert statuses == [404, 404, 404, 429, 429]
    assert peer.ask().status == 429
    assert peer.ask(cursor=f"{stream_id}:1").headers["retry-after"] == "20"
    other.close()


def test_a_resume_that_is_refused_for_its_body_counts(serve: Serve, clock: Clock) -> None:
    peer = serve(hello, max_requests_per_minute=3)
    whole = peer.ask()
    position = f"{whole.stream_id}:1"
    assert [peer.ask(cursor=position).status for _ in range(2)] == [409, 409]
    assert peer.ask().status == 429


@pytest.mark.parametrize("key", ["a", "b"])
def test_a_position_is_looked_up_before_the_body_is_read(
    serve: Serve, clock: Clock, key: str
) -> None:
    """The head alone says that there is no such stream, or that it is another's."""
    peer = serve(hello, key="a", api_keys=["a", "b"])
    stream_id = peer.ask().stream_id if key == "b" else uuid4()
    address = (peer.http.base_url.host, peer.http.base_url.port)
    with socket.create_connection(address, timeout=LIMIT) as slow:
        head = (
            "POST /assist HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {key}\r\nLast-Event-ID: {stream_id}:1\r\n"
            "Content-Length: 4000000\r\n\r\n"
        )
        slow.sendall(head.encode())
        assert slow.recv(100).startswith(b"HTTP/1.1 404 ")


def test_a_cancel_does_not_count(serve: Serve, clock: Clock) -> None:
    peer = serve(hello, max_requests_per_minute=1)
    stream_id = peer.ask().stream_id
    assert [peer.cancel(stream_id) for _ in range(5)] == [204] * 5


def test_joining_a_known_request_does_not_count(serve: Serve, clock: Clock) -> None:
    """A client whose connection broke before the first packet asks again, under the same id."""
    peer = serve(hello, max_requests_per_minute=2)
    body = envelope()
    stream_id = peer.ask(body).stream_id
    for _ in range(5):  # counted at first, and given back: the body is what names the request
        assert peer.ask(body).stream_id == stream_id
    assert peer.ask().status == 200
    for _ in range(5):  # the bucket is empty: now the head must name it
        assert peer.ask(body, X_Request_ID=body["request_id"]).stream_id == stream_id
    assert peer.ask(body).status == 429
    assert peer.ask(X_Request_ID=str(uuid4())).status == 429
    assert peer.ask(X_Request_ID="nonsense").status == 429


def test_a_head_that_promises_a_known_request_lets_no_new_one_in(
    serve: Serve, clock: Clock
) -> None:
    peer = serve(hello, max_requests_per_minute=1)
    body = envelope()
    assert peer.ask(body).status == 200
    answer = peer.ask(envelope(), X_Request_ID=body["request_id"])
    assert (answer.status, answer.headers["retry-after"]) == (429, "60")


def test_a_known_request_of_somebody_else_lets_nobody_in(serve: Serve, clock: Clock) -> None:
    peer = serve(hello, key="a", api_keys=["a", "b"], max_requests_per_minute=1)
    other = Peer(str(peer.http.base_url), "b")
    body = envelope()
    assert [other.ask(body).status, peer.ask().status] == [200, 200]
    assert peer.ask(body, X_Request_ID=body["request_id"]).status == 429
    other.close()


def test_what_is_refused_for_its_body_counts(serve: Serve, clock: Clock) -> None:
    peer = serve(hello, max_requests_per_minute=2)
    assert [peer.ask(b"{").status for _ in range(3)] == [422, 422, 429]


def test_a_wrong_key_uses_up_nobodys_limit(serve: Serve, clock: Clock) -> None:
    peer = serve(hello, key="a", api_keys=["a"], max_requests_per_minute=1)
    stranger = Peer(str(peer.http.base_url), "wrong")
    assert {stranger.ask().status for _ in range(5)} == {401}
    assert peer.ask().status == 200
    stranger.close()


class Cutter:
    """An application whose connections last for one packet."""

    def __init__(self, app: AgentApp, arrived: asyncio.Semaphore) -> None:
        self.app = app
        self.arrived = arrived
        self.cut = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def until_a_packet(message: Any) -> None:
            await send(message)
            if message.get("body") and message.get("more_body"):
                self.cut += 1
                raise ConnectionError

        if scope["type"] == "http":
            self.arrived.release()
        try:
            await self.app(scope, receive, until_a_packet)
        except ConnectionError:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def test_a_storm_of_reconnects_locks_no_client_out(
    clock: Clock, coreason_clock: VirtualClock
) -> None:
    arrived = asyncio.Semaphore(0)

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        for n in range(6):
            await arrived.acquire()
            await stream.write(str(n))

    app = Cutter(AgentApp(agent, max_requests_per_minute=1), arrived)
    with running(app) as server, CAPClient(server.url, "a") as client:
        assert "".join(client.chat("hi")) == "012345"
        assert app.cut >= 5
        with pytest.raises(CAPRuntimeError) as caught:
            list(client.chat("again"))
    assert (caught.value.status_code, caught.value.retry_after) == (429, 60)


# The other limits


def test_too_many_readers_are_refused_before_the_body_and_start_nothing(serve: Serve) -> None:
    gate, calls = Gate(), []

    async def agent(request: ServiceRequest, stream: AgentStream) -> None:
        calls.append(request.request_id)
        await stream.write("a")
        await gate.wait()

    peer = serve(agent, max_readers_per_key=1)
    with peer.open() as one:
        one.until(1)
        full = peer.ask()
        assert (full.status, full.headers["retry-after"]) == (429, "1")
        assert full.problem["type"] == "urn:coreason:problem:too-many-readers"
        gate.open()
        one.rest()
    assert len(calls) == 1


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "60"])
def test_a_limit_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(
        ValueError, match="max_requests_per_minute must be a whole number greater than 0"
    ):
        AgentApp(hello, max_requests_per_minute=value)


def test_a_log_that_does_not_answer_is_a_503_also_where_the_limit_asks_it(
    serve: Serve, clock: Clock
) -> None:
    class Silent(MemoryStreamLog):
        async def find(self, principal: str, request_id: Any) -> StreamMeta | None:
            raise LogUnavailable("down")

    peer = serve(hello, log=Silent(), max_requests_per_minute=1)
    assert peer.ask().status == 200
    answer = peer.ask(X_Request_ID=str(uuid4()))
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
