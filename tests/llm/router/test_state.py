"""The state of one process: threads, forks, and the step that runs a command."""

import asyncio
import os
import threading

from coreason_client.llm import LLMStateError, MemoryState
from coreason_client.llm.router._rules import (
    Account,
    Acquire,
    Acquired,
    Candidate,
    Granted,
    Settle,
)
from coreason_client.llm.router._state import Command, RouterState, StateAction, steady_clock

ACCOUNT = Account("client", 1000)
CANDIDATE = Candidate("a", amounts=(10,))


def acquire(name: str) -> Acquire:
    return Acquire(name, [CANDIDATE], [ACCOUNT], 60_000)


def test_many_threads_never_exceed_a_limit() -> None:
    state = MemoryState()
    granted: list[str] = []

    def run(number: int) -> None:
        for count in range(50):
            name = f"{number}:{count}"
            if isinstance(state.run(acquire(name)), Granted):
                granted.append(name)
                state.run(Settle(name, CANDIDATE, [ACCOUNT], (7,), 0))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    spent, reserved = state.totals("client")
    assert (spent, reserved) == (7 * len(granted), 0)
    assert 990 < spent <= 1000


def test_a_child_process_begins_without_the_reservations_of_its_parent() -> None:
    state = MemoryState()
    state.run(acquire("1"))
    state._lock.acquire()  # as if another thread held it during the fork
    child = os.fork()
    if child == 0:
        os._exit(0 if state.totals("client") == (0, 0) else 1)
    state._lock.release()
    assert os.waitpid(child, 0)[1] == 0
    assert state.totals("client") == (0, 10)


class Broken(RouterState):
    def run(self, command: Command) -> Acquired | None:
        raise LLMStateError("no")

    async def run_async(self, command: Command) -> Acquired | None:
        raise LLMStateError("no, either")

    @property
    def fallback(self) -> RouterState:
        return self


def test_an_action_has_the_result_or_the_error() -> None:
    action = StateAction(MemoryState(), acquire("1"))
    action.perform()
    assert (action.result, action.error) == (Granted(0), None)
    asyncio.run(action.perform_async())  # again: the same command
    assert action.result == Granted(0)
    failing = StateAction(Broken(), acquire("1"))
    failing.perform()
    assert str(failing.error) == "no"
    asyncio.run(failing.perform_async())
    assert str(failing.error) == "no, either"


def test_the_clock_does_not_go_back() -> None:
    clock = steady_clock()
    times = [clock() for _ in range(100)]
    assert times == sorted(times)
    assert times[0] > 1.7e9
