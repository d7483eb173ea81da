"""What calls learn from each other about a rate limit, on a clock that only the tests advance."""

import threading
import time
from heapq import heappop, heappush
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coreason_client._drive import Action, Flow, Reply, Wait
from coreason_client._http._types import Request
from coreason_client.llm import LLMClient, LLMError, LLMRateLimitError, Response
from coreason_client.llm._attempts import Attempts, Policy
from coreason_client.llm._check_call import check_call
from coreason_client.llm._pacing import DeploymentPace, Paces
from coreason_client.llm._plan import CallPlan
from coreason_client.llm._reply import generate_flow
from coreason_client.llm._route import Target
from coreason_client.testing import ModelFailure, ModelRequest, fake_model
from tests.llm.play import BASE, KEY, MESSAGES, Clock, refusal, reply

BUSY = "rate_limit_exceeded"


class Server:
    """Admits `rate` requests per second: in each second, in any second, or with a bucket."""

    def __init__(self, clock: Clock, rate: float, kind: str, asks: str) -> None:
        self.clock, self.rate, self.kind, self.asks = clock, rate, kind, asks
        self.admitted: list[float] = []
        self.requests = 0

    def __call__(self) -> Reply:
        self.requests += 1
        now = self.clock()
        start = now // 1.0 if self.kind == "fixed" else now - 1.0
        recent = sum(time >= start for time in self.admitted[-int(self.rate) :])
        if recent < self.rate:
            self.admitted.append(now)
            return reply()
        exact = f"{start + 1 - now if self.kind == 'fixed' else 1.0:.3f}"
        headers = {"none": {}, "whole": {"retry_after": "1"}, "exact": {"retry_after": exact}}
        return refusal(429, BUSY, **headers[self.asks])


class Crowd:
    """Calls that run at the same time; an answer takes `seconds`, a rejection at most 0.1 s."""

    def __init__(self, kind: str = "fixed", asks: str = "whole", rate: float = 100) -> None:
        self.clock = Clock()
        self.server = Server(self.clock, rate, kind, asks)
        self.seconds = 0.05
        self.paces = Paces()
        self.outcomes: dict[int, Response | LLMError] = {}
        self.ended: list[int] = []
        self._attempts: dict[int, Attempts[CallPlan]] = {}
        self._numbers = count()
        self._order = count()
        self._events: list[tuple[float, int, int, Flow[Response], Reply | None]] = []

    def start(self, number: int, **policy: float) -> list[int]:
        target = Target(BASE, KEY).route("m")
        call = check_call(MESSAGES, "m", None, 0.7, 100)
        rules = Policy(paces=self.paces, clock=self.clock, jitter=lambda: 0.5, **policy)  # type: ignore[arg-type]
        started = []
        for _ in range(number):
            name = next(self._numbers)
            attempts = self._attempts[name] = Attempts([CallPlan(call, target, "m")], rules)
            self._at(self.clock(), name, generate_flow(attempts), None)
            started.append(name)
        return started

    def cancel(self, name: int) -> None:
        self._attempts.pop(name).close()

    def run(self, seconds: float | None = None) -> None:
        until = None if seconds is None else self.clock() + seconds
        while self._events and (until is None or self._events[0][0] <= until):
            self.clock.now, _, name, flow, sent = heappop(self._events)
            if name in self._attempts:
                self._step(name, flow, sent)
        self.clock.now = until or self.clock.now

    def _step(self, name: int, flow: Flow[Response], sent: Reply | None) -> None:
        try:
            step = flow.send(sent)
        except StopIteration as done:
            self._end(name, done.value)
        except LLMError as error:
            self._end(name, error)
        else:
            if isinstance(step, Request):
                answer = self.server()
                seconds = self.seconds if answer.head.status == 200 else min(self.seconds, 0.1)
                self._at(self.clock() + seconds, name, flow, answer)
            elif isinstance(step, Wait):
                assert step.seconds > 0
                self._at(self.clock() + step.seconds, name, flow, None)
            else:
                assert isinstance(step, Action)
                step.perform()
                self._at(self.clock(), name, flow, None)

    def _end(self, name: int, outcome: Response | LLMError) -> None:
        self._attempts.pop(name).close()
        self.outcomes[name] = outcome
        self.ended.append(name)

    def _at(self, time: float, name: int, flow: Flow[Response], sent: Reply | None) -> None:
        heappush(self._events, (time, next(self._order), name, flow, sent))

    def errors(self) -> list[LLMError]:
        return [one for one in self.outcomes.values() if isinstance(one, LLMError)]


@pytest.mark.parametrize("asks", ["whole", "exact", "none"])
@pytest.mark.parametrize("kind", ["fixed", "any"])
@pytest.mark.parametrize("seconds", [0.005, 0.2, 2.0])
def test_500_calls_share_100_per_second_with_few_more_requests(
    kind: str, asks: str, seconds: float
) -> None:
    crowd = Crowd(kind, asks)
    crowd.server.asks, crowd.seconds = asks, seconds
    begun = crowd.clock()
    crowd.start(500)
    crowd.run()
    assert not crowd.errors()
    assert crowd.server.requests <= 700
    assert crowd.clock() - begun - seconds <= (8 if asks == "none" else 7)


@pytest.mark.parametrize("asks", ["whole", "exact", "none"])
@pytest.mark.parametrize("kind", ["fixed", "any"])
@pytest.mark.parametrize("used", [50, 80, 95, 100])
@pytest.mark.parametrize("moment", [0.0, 0.3, 0.75])
def test_a_limit_that_others_had_used_up_does_not_look_much_lower(
    moment: float, used: int, kind: str, asks: str
) -> None:
    crowd = Crowd(kind, asks)
    crowd.clock.now += moment
    crowd.server.admitted = [crowd.clock()] * used
    begun = crowd.clock()
    crowd.start(500)
    crowd.run()
    assert not crowd.errors()
    assert crowd.server.requests <= 700
    assert crowd.clock() - begun <= 11  # 30, if the first 429 were taken for the whole limit


def test_calls_wait_for_the_delay_that_another_call_received() -> None:
    crowd = Crowd(rate=1, asks="whole")
    crowd.start(2)
    crowd.run(0.1)  # one of them was rejected
    assert crowd.server.requests == 2
    crowd.start(5)
    crowd.run(0.5)
    assert crowd.server.requests == 2
    crowd.run()
    assert not crowd.errors()


@settings(max_examples=60, deadline=None)
@given(
    rate=st.integers(1, 120),
    kind=st.sampled_from(["fixed", "any"]),
    asks=st.sampled_from(["whole", "exact", "none"]),
    waves=st.lists(st.tuples(st.integers(1, 60), st.floats(0, 3)), min_size=1, max_size=5),
    cancelled=st.sets(st.integers(0, 100), max_size=40),
)
def test_every_call_ends_and_none_is_late(
    rate: int,
    kind: str,
    asks: str,
    waves: list[tuple[int, float]],
    cancelled: set[int],
) -> None:
    crowd, started = Crowd(kind, asks, rate), 0
    for number, pause in waves:
        for name in crowd.start(number, max_retries=50, deadline=5000.0):
            started += 1
            if name in cancelled:
                crowd.run(0)
                if name not in crowd.outcomes:
                    crowd.cancel(name)
                    started -= 1
        crowd.run(pause)
    crowd.run()
    assert len(crowd.outcomes) == started
    assert not crowd.errors()


def test_waiting_calls_are_sent_in_the_order_in_which_they_came() -> None:
    crowd = Crowd(rate=10)
    crowd.start(60)
    crowd.run(0.9)  # the limit is known by now
    late = crowd.start(30)
    later = crowd.start(30)
    crowd.run()
    places = {name: place for place, name in enumerate(crowd.ended)}
    behind = sum(places[one] > places[other] for one in late for other in later)
    assert behind <= 0.05 * 30 * 30  # those that were rejected once more


def test_the_turns_of_cancelled_calls_go_to_others() -> None:
    crowd = Crowd(rate=10)
    crowd.start(20)
    crowd.run(0.9)
    gone = crowd.start(500)
    crowd.run(0.05)
    crowd.start(20)
    crowd.run(0.05)
    for name in gone:
        crowd.cancel(name)
    begun = crowd.clock()
    crowd.run()
    assert not crowd.errors()
    assert crowd.clock() - begun < 10  # and not 50


def test_a_deadline_ends_a_call_that_waits_for_others() -> None:
    crowd = Crowd(rate=10)
    crowd.start(40)
    crowd.run(0.1)
    begun, requests = crowd.clock(), crowd.server.requests
    (name,) = crowd.start(1, deadline=0.5)
    crowd.run(0)
    error = crowd.outcomes[name]
    assert type(error) is LLMRateLimitError
    assert error.retry_after is not None
    assert error.retry_after > 0.5
    assert error.attempts == 0
    assert crowd.server.requests == requests
    assert crowd.clock() == begun


@pytest.mark.parametrize("headers", [{"retry_after": "900"}, {}])
def test_nobody_waits_for_a_delay_that_is_too_long_or_without_retries(
    headers: dict[str, str],
) -> None:
    crowd = Crowd()
    retries = 3 if headers else 0
    crowd.server = lambda: refusal(429, BUSY, **headers)  # type: ignore[assignment]
    crowd.start(1, max_retries=retries)
    crowd.run()
    crowd.server = reply  # type: ignore[assignment]
    begun = crowd.clock()
    crowd.start(1, max_retries=retries)
    crowd.run()
    assert crowd.clock() - begun < 0.1
    assert len(crowd.errors()) == 1


def test_calls_without_a_429_are_not_held_back() -> None:
    crowd = Crowd(rate=1e9)
    crowd.seconds = 1e-4
    begun = crowd.clock()
    for _ in range(40):
        crowd.start(50)
        crowd.run()
    assert crowd.clock() - begun == pytest.approx(40 * 1e-4)
    crowd.seconds, begun = 30.0, crowd.clock()
    crowd.start(1000)
    crowd.run()
    assert crowd.clock() - begun < 30 + 2.5


def test_as_many_calls_as_were_admitted_are_sent_at_once_until_a_429() -> None:
    crowd = Crowd(rate=1e9)
    crowd.seconds = 0.5

    def seconds_of_500() -> float:
        begun = crowd.clock()
        crowd.start(500)
        crowd.run()
        return crowd.clock() - begun

    assert seconds_of_500() > 0.5
    seconds_of_500()
    assert seconds_of_500() == pytest.approx(0.5)
    crowd.server.rate = 100
    requests = crowd.server.requests
    seconds_of_500()
    assert not crowd.errors()
    assert crowd.server.requests - requests > 900  # nobody could know that there is a limit now
    crowd.clock.now += 60
    requests = crowd.server.requests
    seconds_of_500()
    assert crowd.server.requests - requests <= 700


def test_calls_one_after_the_other_do_not_let_many_be_sent_at_once() -> None:
    crowd = Crowd()
    for _ in range(400):
        crowd.start(1)
        crowd.run()
    assert crowd.server.requests == 400
    crowd.start(500)
    crowd.run()
    assert not crowd.errors()
    assert crowd.server.requests <= 400 + 700


def test_the_limit_is_forgotten_when_nobody_waits_for_it() -> None:
    pace, now = DeploymentPace(), 0.0
    for _ in range(12):
        pace.wait(None, now)
    pace.reject(0, 1.0, now)
    turns = [pace.take_turn(now) for _ in range(12)]
    now = 1.0
    waits = [pace.wait(turn, now)[0] for turn in turns]
    assert waits == sorted(waits)
    assert waits[0] < 0.2
    assert waits[-1] > 0.5
    assert pace.wait(None, now + 30)[0] == pace.wait(None, now + 30)[0] == 0


def test_threads_of_one_client_wait_for_each_other() -> None:
    rejected = threading.Event()
    opens = 0.0

    def turn(_: ModelRequest) -> ModelFailure | str:
        nonlocal opens
        opens = opens or time.monotonic() + 0.5
        return "Hi" if time.monotonic() >= opens else ModelFailure(429, retry_after=0.5)

    with (
        fake_model(turn, exhausted="repeat") as model,
        LLMClient("key", model.url, on_response=lambda _: rejected.set()) as client,
    ):
        threads = [
            threading.Thread(target=client.generate, args=[MESSAGES, "m"]) for _ in range(21)
        ]
        for index, thread in enumerate(threads):
            thread.start()
            assert index > 0 or rejected.wait(30)
        for thread in threads:
            thread.join(30)
        assert len(model.requests) == 22
