"""The queue of commands: what shares a round trip, and when a command fails."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from redis.exceptions import ReadOnlyError, ResponseError

from coreason_client.server.log.remote._clocks import RunClock
from coreason_client.server.log.remote._command_queue import (
    CommandQueue,
    Health,
    Job,
    PatienceExceeded,
    QueueStopped,
    settle,
)
from coreason_client.server.log.valkey._errors import is_transient

from ..aio import aio
from .valkey_logs import until


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

    def check_timeouts(self) -> None:
        pass

    async def stop(self) -> None:
        for job in self._jobs:
            settle(job, QueueStopped(), self._health)

    def reply(self, make: Callable[[Any], Any] = str.upper) -> None:
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            settle(job, make(job.command[0]), self._health)
        self._on_idle()


class Bench:
    """A queue with one connection, and a clock that a test moves."""

    def __init__(self, max_commands: int = 3, patience: float = 10.0) -> None:
        self.clock = RunClock(1.0)
        self.links: list[FakeLink] = []
        self._at = 0.0
        self.queue = CommandQueue(
            [self._make],
            self.clock,
            is_transient=is_transient,
            max_commands=max_commands,
            patience=patience,
            on_busy=lambda: None,
        )

    @property
    def link(self) -> FakeLink:
        return self.links[0]

    def submit(self, *names: str) -> "list[asyncio.Future[Any]]":
        return [self.queue.submit((name,), self.clock.mark()) for name in names]

    def run_for(self, seconds: int) -> None:
        for _ in range(seconds):
            self.block_for(1.0)

    def block_for(self, seconds: float) -> None:
        """Let one tick come after so long."""
        self._at += seconds
        self.clock.tick(self._at)
        self.queue.check_timeouts()

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
    assert not bench.queue.busy


@aio
async def test_while_commands_come_during_others_the_next_ones_gather_for_a_moment() -> None:
    bench = Bench(max_commands=9)
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
async def test_callers_whose_commands_shared_a_batch_share_the_next_one() -> None:
    bench = Bench()
    bench.submit("a", "b", "c")
    bench.link.reply()
    bench.link.reply()
    for name in ("d", "e"):  # each caller sends its next command when it has been woken
        asyncio.get_running_loop().call_soon(bench.submit, name)
    await until(lambda: len(bench.link.sent) == 3)
    assert bench.link.sent == [["a"], ["b", "c"], ["d", "e"]]
    bench.link.reply()


@aio
async def test_commands_that_follow_one_another_are_sent_at_once() -> None:
    bench = Bench(max_commands=9)
    for number in range(20):
        (future,) = bench.submit(str(number))
        assert len(bench.link.sent) == number + 1
        bench.link.reply()
        await future


@aio
async def test_a_lane_that_stops_tells_everybody() -> None:
    bench = Bench(max_commands=1)
    futures = bench.submit(*"abc")
    await bench.queue.stop()
    for future in futures + bench.submit("d"):
        with pytest.raises(QueueStopped):
            await future


@aio
async def test_a_command_fails_when_the_store_is_silent_for_the_patience() -> None:
    bench = Bench(max_commands=1)
    sent, queued = bench.submit("a", "b")
    bench.run_for(10)
    (late,) = bench.submit("c")
    assert not sent.done()  # at the tick before, it was not ten seconds yet
    bench.run_for(1)
    for future, was_sent in ((sent, True), (queued, False)):
        error = future.exception()
        assert isinstance(error, PatienceExceeded)
        assert (error.sent, error.blocked) == (was_sent, 0.0)
    assert not late.done()  # it has its own ten seconds
    bench.run_for(10)
    assert isinstance(late.exception(), PatienceExceeded)


@aio
async def test_time_in_the_queue_of_a_store_that_answers_is_not_counted() -> None:
    bench = Bench(max_commands=1)
    futures = bench.submit(*(str(number) for number in range(40)))
    for future in futures:  # five seconds each, so the last one waits for 200
        bench.run_for(5)
        bench.link.reply()
        assert await future
    # And the sentence is not softened for one that has waited before.
    (silent,) = bench.submit("x")
    bench.run_for(11)
    assert isinstance(silent.exception(), PatienceExceeded)


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
    assert isinstance(error, PatienceExceeded)
    assert error.blocked == 58.0


@aio
async def test_a_transient_refusal_is_no_sign_of_life() -> None:
    bench = Bench(max_commands=1)
    refused, queued = bench.submit("a", "b")
    bench.run_for(9)
    bench.link.reply(lambda _: ReadOnlyError("You can't write"))
    assert isinstance(refused.exception(), ReadOnlyError)
    bench.run_for(2)
    error = queued.exception()
    assert isinstance(error, PatienceExceeded)
    assert isinstance(error.error, ReadOnlyError)


@aio
async def test_a_refusal_for_good_is_a_sign_of_life() -> None:
    bench = Bench(max_commands=1)
    refused, queued = bench.submit("a", "b")
    bench.run_for(9)
    bench.link.reply(lambda _: ResponseError("OOM"))
    assert isinstance(refused.exception(), ResponseError)
    bench.run_for(9)
    assert not queued.done()
    bench.link.reply()
    assert await queued == "B"
