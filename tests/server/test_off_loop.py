"""Work beside the event loop: one thread for each loop, which ends with it."""

import asyncio
import threading

import pytest

from coreason_client.server import _off_loop
from coreason_client.server._off_loop import off_loop

LIMIT = 20.0


async def threads() -> set[threading.Thread]:
    """Return the threads in which many pieces of work were done."""
    found = await asyncio.gather(*(off_loop(threading.current_thread) for _ in range(20)))
    return set(found)


def test_a_loop_has_one_thread_that_ends_with_it() -> None:
    loops = []

    async def main() -> threading.Thread:
        loops.append(asyncio.get_running_loop())
        [thread] = await threads()
        assert loops[-1] in _off_loop._threads
        return thread

    first, second = asyncio.run(main()), asyncio.run(main())
    assert first is not second
    for thread in (first, second):
        assert thread.name.startswith("coreason-parse")
        thread.join(LIMIT)
        assert not thread.is_alive()
    assert not [loop for loop in loops if loop in _off_loop._threads]


def test_what_the_work_raises_is_raised() -> None:
    def fail() -> None:
        raise ValueError("broken")

    async def main() -> None:
        with pytest.raises(ValueError, match="broken"):
            await off_loop(fail)
        assert await off_loop(lambda: 7) == 7

    asyncio.run(main())


def test_a_forked_child_gets_a_thread_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coreason_client._ownership.never_finalize", lambda value: None)

    async def main() -> None:
        [parents] = await threads()
        _off_loop._threads.after_fork()  # in the child, whose loop goes on
        [childs] = await threads()
        assert childs is not parents

    asyncio.run(main())
