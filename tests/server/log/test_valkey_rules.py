"""The rules of the Valkey log that need no store: time, ownership, bytes, and the queue."""

import asyncio
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis.exceptions import InvalidResponse, ReadOnlyError, ResponseError

from coreason_client.server.log.valkey._errors import LaneStopped, StoreSilent, reply_error
from coreason_client.server.log.valkey._lane import Health, Job, Lane, settle
from coreason_client.server.log.valkey._link import _Wire
from coreason_client.server.log.valkey._ownership import Ownership
from coreason_client.server.log.valkey._run_clock import RunClock
from coreason_client.server.log.valkey._store_clock import StoreClock
from coreason_client.server.log.valkey._wire import MORE, ReplyReader, make_reader, pack

from ..aio import aio
from .backends import Clock
from .valkey_logs import until

# The clock that counts only while the process runs.

GAPS = st.lists(st.floats(0, 1e4), max_size=50)


def ticked(interval: float, gaps: Sequence[float]) -> RunClock:
    clock, at = RunClock(interval), 100.0
    clock.resume(at)
    for gap in gaps:
        at += gap
        clock.tick(at)
    return clock


@pytest.mark.parametrize(
    ("gaps", "now", "blocked"),
    [
        ([], 0.0, 0.0),
        ([1.0, 1.0, 1.0], 3.0, 0.0),
        ([1.0, 2.0], 3.0, 0.0),  # a little late is still all counted
        ([1.0, 30.0, 1.0], 4.0, 28.0),  # frozen for half a minute
        ([5.0, 5.0, 5.0], 6.0, 9.0),  # always short of CPU: slower, but it counts
        ([0.0, -3.0], 0.0, 0.0),
    ],
)
def test_only_time_in_which_the_process_ran_is_counted(
    gaps: list[float], now: float, blocked: float
) -> None:
    clock = ticked(1.0, gaps)
    assert (clock.now, clock.blocked) == (now, blocked)


@given(GAPS, st.floats(0.01, 10))
def test_a_tick_counts_two_intervals_at_most_and_the_rest_is_blocked(
    gaps: list[float], interval: float
) -> None:
    clock = ticked(interval, gaps)
    assert clock.now <= 2 * interval * len(gaps) + 1e-6
    assert math.isclose(clock.now + clock.blocked, sum(gaps), rel_tol=1e-6, abs_tol=1e-6)


@given(GAPS, st.floats(0.1, 10), st.floats(0.5, 50))
def test_a_silence_is_judged_neither_early_nor_never(
    gaps: list[float], interval: float, limit: float
) -> None:
    clock, at, passed = RunClock(interval), 0.0, False
    clock.resume(at)
    for number, gap in enumerate(gaps):
        before = at
        at += gap
        clock.tick(at)
        if clock.passed(0.0, limit):
            passed = True
            assert before >= limit - 1e-6  # at the tick before, so much had passed
        if all(gap >= interval for gap in gaps) and (number - 1) * interval >= limit + 1e-6:
            assert passed  # so many ticks are enough, however long they took


def test_what_arrived_before_a_late_tick_is_read_before_it_is_judged() -> None:
    clock = ticked(1.0, [1.0] * 9)
    since, limit = 0.0, 10.0
    clock.tick(1000.0)  # a long block: the reply is in the socket, and not read yet
    assert clock.now >= since + limit
    assert not clock.passed(since, limit)
    clock.tick(1001.0)
    assert clock.passed(since, limit)


def test_time_without_ticks_is_not_counted() -> None:
    clock = ticked(1.0, [1.0, 1.0])
    clock.resume(5000.0)
    clock.tick(5001.0)
    assert (clock.now, clock.blocked) == (3.0, 0.0)


# The clock of the store.


@given(
    st.floats(-1e6, 1e6),
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 20), st.floats(0, 1)), min_size=1),
)
def test_the_clock_of_the_store_is_known_within_a_round_trip(
    offset: float, trips: list[tuple[float, float, float]]
) -> None:
    local = Clock(0.0)
    clock, best = StoreClock(local), math.inf
    for pause, took, share in trips:
        local.forward(pause)
        sent = local.now
        local.forward(took)
        clock.measured(sent, local.now, offset + sent + took * share)
        best = min(best, took)
        assert abs(clock() - (local.now + offset)) <= best + 1e-3  # the best so far, not the last


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(0, 1))
def test_a_jump_of_either_clock_is_forgotten_after_one_measurement(
    before: float, after: float, took: float
) -> None:
    local = Clock(0.0)
    clock = StoreClock(local)
    clock.measured(0.0, 0.0, before)
    local.forward(took)
    clock.measured(0.0, took, after + took)
    assert abs(clock() - (after + took)) <= took + 1e-3


def test_the_clock_of_the_store_has_to_be_measured_first() -> None:
    with pytest.raises(RuntimeError, match="has not been measured"):
        StoreClock()()


# Ownership.


def test_ownership_ends_with_its_lease() -> None:
    clock = Clock(0.0)
    owned, stream = Ownership(clock), uuid4()
    assert not owned.owns(stream)
    owned.own(stream, 10.0)
    owned.add(stream, 1, [b"a", b"b"])
    page = owned.page(stream, 1, 9)
    assert page is not None
    assert list(page.entries) == [b"b"]
    clock.forward(9.9)
    assert owned.owns(stream)
    clock.forward(0.1)
    assert not owned.owns(stream)  # somebody else may have claimed it
    assert owned.page(stream, 1, 9) is None


def test_a_renewal_in_time_or_late_continues_an_ownership() -> None:
    clock = Clock(0.0)
    owned, stream, other = Ownership(clock), uuid4(), uuid4()
    owned.own(stream, 10.0)
    clock.forward(15.0)
    owned.forget_old()
    assert owned.extend(stream, 25.0)
    assert owned.owns(stream)
    assert not owned.extend(other, 25.0)  # it is not written here
    assert not owned.owns(other)
    clock.forward(100.0)
    owned.forget_old()
    assert not owned.extend(stream, 200.0)  # by now it was forgotten


def test_what_is_not_owned_is_not_kept() -> None:
    owned, stream = Ownership(Clock(0.0)), uuid4()
    owned.add(stream, 1, [b"a"])
    owned.own(stream, 10.0)
    assert owned.page(stream, 0, 9) is None
    owned.add(stream, 2, [b"b"])
    assert owned.disown(stream)
    assert not owned.disown(stream)
    owned.own(stream, 10.0)
    assert owned.page(stream, 1, 9) is None


# Bytes.


def encoded(value: Any) -> bytes:
    if value is None:
        return b"$-1\r\n"
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, bytes):
        return b"$%d\r\n%b\r\n" % (len(value), value)
    return b"*%d\r\n%b" % (len(value), b"".join(map(encoded, value)))


# Ours, and hiredis where it is installed.
READERS = [ReplyReader] if isinstance(make_reader(), ReplyReader) else [ReplyReader, make_reader]
FEW = settings(max_examples=40)  # these are slow to make

VALUES = st.recursive(
    st.none() | st.integers(-(2**63), 2**63 - 1) | st.binary(max_size=40),
    lambda values: st.lists(values, max_size=5),
    max_leaves=20,
)


def read(reader: Any, pieces: Sequence[bytes]) -> list[Any]:
    replies = []
    for piece in pieces:
        reader.feed(piece)
        while (reply := reader.gets()) is not MORE:
            replies.append(reply)
    return replies


def cut(data: bytes, points: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted({point % (len(data) + 1) for point in points}), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


@pytest.mark.parametrize("make", READERS)
@FEW
@given(st.lists(VALUES, max_size=6), st.lists(st.integers(0, 10_000), max_size=30))
def test_replies_are_read_whatever_pieces_they_come_in(
    make: Callable[[], Any], values: list[Any], points: list[int]
) -> None:
    data = b"".join(map(encoded, values))
    assert read(make(), cut(data, points)) == values


@FEW
@given(st.lists(st.lists(st.binary() | st.text() | st.integers(), min_size=1), max_size=5))
def test_packed_commands_are_arrays_of_their_arguments(commands: list[list[Any]]) -> None:
    # A lone surrogate is no text that a command is made of.
    commands = [
        [a if not isinstance(a, str) else a.encode("utf-8", "ignore").decode() for a in command]
        for command in commands
    ]
    wanted = [[a if isinstance(a, bytes) else str(a).encode() for a in c] for c in commands]
    assert read(ReplyReader(), [pack(commands)]) == wanted


@pytest.mark.parametrize(
    ("data", "reply"),
    [
        (b"+OK\r\n", b"OK"),
        (b"+\r\n", b""),
        (b":-7\r\n", -7),
        (b"*-1\r\n", None),
        (b"*0\r\n", []),
        (b"*2\r\n*0\r\n$0\r\n\r\n", [[], b""]),
        (b"$4\r\n\r\n\r\n\r\n", b"\r\n\r\n"),
    ],
)
@pytest.mark.parametrize("make", READERS)
def test_replies_of_each_kind(make: Callable[[], Any], data: bytes, reply: object) -> None:
    assert read(make(), [data]) == [reply]
    assert read(make(), [data[i : i + 1] for i in range(len(data))]) == [reply]


@pytest.mark.parametrize(
    ("line", "kind", "words"),
    [
        ("ERR no such thing", ResponseError, "no such thing"),
        ("READONLY You can't write", ReadOnlyError, "You can't write"),
        ("MOVED nowhere", ResponseError, "MOVED nowhere"),
        ("WRONGTYPE Operation", ResponseError, "WRONGTYPE Operation"),
    ],
)
@pytest.mark.parametrize("make", READERS)
def test_an_error_is_a_reply_like_any_other(
    make: Callable[[], Any], line: str, kind: type[Exception], words: str
) -> None:
    (error, after) = read(make(), [b"-%b\r\n:1\r\n" % line.encode()])
    assert (type(error), str(error), after) == (kind, words, 1)
    assert type(reply_error(line)) is kind


@pytest.mark.parametrize("data", [b"HTTP/1.1 400\r\n", b":x\r\n", b"$1_0\r\n", b"*+1\r\n"])
@pytest.mark.parametrize("make", READERS)
def test_bytes_of_another_protocol_are_refused(make: Callable[[], Any], data: bytes) -> None:
    with pytest.raises(InvalidResponse):
        read(make(), [data])


# The queue.


class FakeLink:
    """A connection whose replies a test gives."""

    def __init__(self, health: Health, on_idle: Callable[[], None]) -> None:
        self.sent: list[list[Any]] = []
        self._health = health
        self._on_idle = on_idle
        self._jobs: list[Job] = []

    def jobs(self) -> Sequence[Job]:
        return self._jobs

    def send(self, jobs: Sequence[Job]) -> None:
        assert not self._jobs
        self._jobs = list(jobs)
        self.sent.append([job.command[0] for job in jobs])

    def judge(self) -> None:
        pass

    async def stop(self) -> None:
        for job in self._jobs:
            settle(job, LaneStopped(), self._health)

    def reply(self, make: Callable[[Any], Any] = str.upper) -> None:
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            settle(job, make(job.command[0]), self._health)
        self._on_idle()


class Bench:
    """A lane with one connection, and a clock that a test moves."""

    def __init__(self, most_commands: int = 3, patience: float = 10.0) -> None:
        self.clock = RunClock(1.0)
        self.links: list[FakeLink] = []
        self._at = 0.0
        self.lane = Lane(
            [self._make],
            self.clock,
            most_commands=most_commands,
            patience=patience,
            on_busy=lambda: None,
        )

    @property
    def link(self) -> FakeLink:
        return self.links[0]

    def submit(self, *names: str) -> "list[asyncio.Future[Any]]":
        return [self.lane.submit((name,), self.clock.mark()) for name in names]

    def run_for(self, seconds: int) -> None:
        for _ in range(seconds):
            self.block_for(1.0)

    def block_for(self, seconds: float) -> None:
        """Let one tick come after so long."""
        self._at += seconds
        self.clock.tick(self._at)
        self.lane.judge()

    def _make(self, health: Health, on_idle: Callable[[], None]) -> FakeLink:
        self.links.append(FakeLink(health, on_idle))
        return self.links[-1]


@aio
async def test_commands_that_wait_share_a_round_trip() -> None:
    bench = Bench()
    (first,) = bench.submit("a")
    rest = bench.submit("b", "gone", "bad", "c", "d")
    rest[1].cancel()
    assert bench.link.sent == [["a"]]  # a lone command is sent at once
    bench.link.reply()
    assert await first == "A"
    bench.link.reply(lambda name: ValueError(name) if name == "bad" else name.upper())
    await until(lambda: len(bench.link.sent) == 3)
    bench.link.reply()
    results = await asyncio.gather(*rest, return_exceptions=True)
    assert [str(result) for result in results] == ["B", "", "bad", "C", "D"]
    assert bench.link.sent == [["a"], ["b", "bad", "c"], ["d"]]
    assert not bench.lane.busy


@aio
async def test_while_commands_come_during_others_the_next_ones_gather_for_a_moment() -> None:
    bench = Bench(most_commands=9)
    futures = bench.submit("a")
    futures += bench.submit("b")
    bench.link.reply()
    futures += bench.submit("c")
    bench.link.reply()  # twice something came meanwhile
    assert bench.link.sent == [["a"], ["b"]]
    futures += bench.submit("d")
    assert len(bench.link.sent) == 2
    await until(lambda: len(bench.link.sent) == 3)
    assert bench.link.sent[2] == ["c", "d"]
    bench.link.reply()
    assert await asyncio.gather(*futures) == [*"ABCD"]


@aio
async def test_commands_that_follow_one_another_are_sent_at_once() -> None:
    bench = Bench(most_commands=9)
    for number in range(20):
        (future,) = bench.submit(str(number))
        assert len(bench.link.sent) == number + 1
        bench.link.reply()
        await future


@aio
async def test_a_lane_that_stops_tells_everybody() -> None:
    bench = Bench(most_commands=1)
    futures = bench.submit(*"abc")
    await bench.lane.stop()
    for future in futures + bench.submit("d"):
        with pytest.raises(LaneStopped):
            await future


@aio
async def test_a_command_fails_when_the_store_is_silent_for_the_patience() -> None:
    bench = Bench(most_commands=1)
    sent, queued = bench.submit("a", "b")
    bench.run_for(10)
    (late,) = bench.submit("c")
    assert not sent.done()  # at the tick before, it was not ten seconds yet
    bench.run_for(1)
    for future, was_sent in ((sent, True), (queued, False)):
        error = future.exception()
        assert isinstance(error, StoreSilent)
        assert (error.sent, error.blocked) == (was_sent, 0.0)
    assert not late.done()  # it has its own ten seconds
    bench.run_for(10)
    assert isinstance(late.exception(), StoreSilent)


@aio
async def test_time_in_the_queue_of_a_store_that_answers_is_not_counted() -> None:
    bench = Bench(most_commands=1)
    futures = bench.submit(*(str(number) for number in range(40)))
    for future in futures:  # five seconds each, so the last one waits for 200
        bench.run_for(5)
        bench.link.reply()
        assert await future
    # And the sentence is not softened for one that has waited before.
    (silent,) = bench.submit("x")
    bench.run_for(11)
    assert isinstance(silent.exception(), StoreSilent)


@aio
async def test_time_in_which_the_process_was_blocked_is_not_counted_but_told() -> None:
    bench = Bench()
    (future,) = bench.submit("a")
    bench.run_for(1)
    bench.block_for(60.0)
    bench.run_for(6)
    assert not future.done()
    bench.run_for(2)
    error = future.exception()
    assert isinstance(error, StoreSilent)
    assert error.blocked == 58.0


@aio
async def test_a_transient_refusal_is_no_sign_of_life() -> None:
    bench = Bench(most_commands=1)
    refused, queued = bench.submit("a", "b")
    bench.run_for(9)
    bench.link.reply(lambda _: ReadOnlyError("You can't write"))
    assert isinstance(refused.exception(), ReadOnlyError)
    bench.run_for(2)
    error = queued.exception()
    assert isinstance(error, StoreSilent)
    assert isinstance(error.error, ReadOnlyError)


@aio
async def test_a_refusal_for_good_is_a_sign_of_life() -> None:
    bench = Bench(most_commands=1)
    refused, queued = bench.submit("a", "b")
    bench.run_for(9)
    bench.link.reply(lambda _: ResponseError("OOM"))
    assert isinstance(refused.exception(), ResponseError)
    bench.run_for(9)
    assert not queued.done()
    bench.link.reply()
    assert await queued == "B"


# A connection.


class SlowTransport(asyncio.Transport):
    """Takes bytes, and has some of them still to send."""

    def __init__(self) -> None:
        super().__init__()
        self.unsent = 0

    def write(self, data: Any) -> None:
        self.unsent += len(data)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def abort(self) -> None:
        pass


@aio
async def test_a_connection_that_still_sends_is_not_silent() -> None:
    clock = RunClock(1.0)
    health, transport = Health(clock), SlowTransport()
    wire = _Wire(health, lambda: None)
    wire.connection_made(transport)
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    wire.send([Job(("SET", "a", b"x" * 1000), future, clock.mark())])
    for second in range(1, 21):
        clock.tick(float(second))
        transport.unsent -= 10
        assert not wire.is_silent(5.0)
    assert health.alive == 20.0
    for second in range(21, 30):
        clock.tick(float(second))
        assert wire.is_silent(5.0) == (second > 25)
    wire.abort(ResponseError("too late"))
    assert str(future.exception()) == "too late"
