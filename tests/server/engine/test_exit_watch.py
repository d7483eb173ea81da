"""The watch for a server that is about to stop."""

import asyncio
import threading

import pytest

from coreason_client.server.engine import _watchdog as _exit_watch
from coreason_client.server.engine._watchdog import watch_exit

from ..aio import aio, turns


class Flag:
    """The flag of a server that is set when a signal arrives."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.set = False
        self.polls = 0
        monkeypatch.setattr(_exit_watch, "_POLL_INTERVAL", 0.0)
        monkeypatch.setattr(_exit_watch, "exit_check", lambda: self.check)

    def check(self) -> bool:
        self.polls += 1
        return self.set


@aio
async def test_the_callback_is_called_once_when_the_flag_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flag, calls = Flag(monkeypatch), list[str]()
    task = watch_exit(lambda: calls.append("exit"))
    assert task is not None
    while flag.polls < 3:
        await turns()
    assert (calls, task.done()) == ([], False)
    flag.set = True
    await task
    assert calls == ["exit"]


@aio
async def test_a_watch_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    Flag(monkeypatch)
    calls: list[str] = []
    task = watch_exit(lambda: calls.append("exit"))
    assert task is not None
    await turns()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert calls == []


@aio
async def test_there_is_nothing_to_watch_without_a_server_that_handles_signals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_exit_watch, "exit_check", lambda: None)
    assert watch_exit(pytest.fail) is None


def test_only_the_main_thread_has_a_server_that_handles_signals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flag = Flag(monkeypatch)
    tasks: list[object] = ["not called"]

    async def watch() -> None:
        tasks[:] = [watch_exit(pytest.fail)]

    thread = threading.Thread(target=lambda: asyncio.run(watch()))
    thread.start()
    thread.join(10)
    assert (tasks, flag.polls) == ([None], 0)
