"""One of something per event loop and process."""

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from coreason_client import _ownership
from coreason_client._ownership import PerLoop

LIMIT = 20.0


class Value:
    """Something that belongs to an event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.closed_on: list[object] = []
        self.closed = threading.Event()
        self.called_on: list[object] = []
        self.called = threading.Event()

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.closed_on.append(asyncio.get_running_loop())
        self.closed.set()

    def call(self) -> None:
        self.called_on.append(asyncio.get_running_loop())
        self.called.set()


Registry = PerLoop[Value]


@pytest.fixture
def registry() -> Registry:
    return PerLoop(asyncio.get_running_loop)


async def opened(registry: Registry) -> Value:
    value = Value()
    await registry.open(value, value.close)
    return value


@contextmanager
def other_loop() -> Iterator[Callable[[Any], Any]]:
    """Run an event loop in another thread; yield what runs a coroutine there."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(LIMIT)

    try:
        yield run
    finally:
        run(loop.shutdown_asyncgens())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LIMIT)
        loop.close()


def test_each_loop_has_its_own_and_closes_it(registry: Registry) -> None:
    async def main() -> Value:
        assert registry.get() is None
        value = await opened(registry)
        assert registry.get() is value
        assert asyncio.get_running_loop() in registry
        assert registry.items() == [(asyncio.get_running_loop(), value)]
        assert not value.closed_on
        return value

    first, second = asyncio.run(main()), asyncio.run(main())
    assert first is not second
    for value in (first, second):
        assert value.closed_on == [value.loop]
    assert len(registry) == 0


def test_it_can_be_closed_before_its_loop_ends(registry: Registry) -> None:
    async def main() -> None:
        value = await opened(registry)
        await asyncio.gather(registry.aclose(), registry.aclose())
        await registry.aclose()
        assert value.closed_on == [value.loop]
        assert registry.get() is None
        again = await opened(registry)
        assert registry.get() is again

    asyncio.run(main())
    assert len(registry) == 0


def test_loops_at_the_same_time(registry: Registry) -> None:
    async def main() -> None:
        with other_loop() as run:
            here, there = await opened(registry), await asyncio.to_thread(run, opened(registry))
            assert registry.get() is here
            assert len(registry) == 2
            registry.call_on_each(Value.call)
            assert here.called_on == [here.loop]  # at once
            assert await asyncio.to_thread(there.called.wait, LIMIT)
            assert there.called_on == [there.loop]
            await registry.aclose()
            assert [value for _, value in registry.items()] == [there]
            registry.close_everywhere()
            assert len(registry) == 0
            assert await asyncio.to_thread(there.closed.wait, LIMIT)
            assert there.closed_on == [there.loop]

    asyncio.run(main())


def test_calls_and_closes_from_a_thread_without_a_loop(registry: Registry) -> None:
    with other_loop() as run:
        value: Value = run(opened(registry))
        registry.call_on_each(Value.call)
        assert value.called.wait(LIMIT)
        registry.close_everywhere()
        assert value.closed.wait(LIMIT)
        assert value.closed_on == [value.loop]


def test_a_close_from_elsewhere_while_the_loop_ends(registry: Registry) -> None:
    """As for a client that is garbage-collected just before its loop ends."""
    reported: list[dict[str, Any]] = []

    async def main() -> Value:
        value = await opened(registry)
        value.loop.set_exception_handler(lambda _, context: reported.append(context))
        registry.close_everywhere()
        return value

    value = asyncio.run(main())
    assert value.closed_on == [value.loop]
    assert not reported


def test_a_close_from_elsewhere_that_is_cancelled(registry: Registry) -> None:
    async def main() -> Value:
        value = await opened(registry)
        registry.close_everywhere()
        await asyncio.sleep(0)  # the close has begun; `asyncio.run` cancels its task
        return value

    value = asyncio.run(main())
    assert value.closed_on == [value.loop]


def left_behind(registry: Registry) -> Value:
    """Open a value on a loop that is closed and does not end in order."""
    loop = asyncio.new_event_loop()
    value: Value = loop.run_until_complete(opened(registry))
    loop.close()
    return value


def test_a_loop_that_did_not_end_in_order(registry: Registry) -> None:
    value = left_behind(registry)
    disconnected: list[Value] = []

    async def main() -> None:
        ours = await opened(registry)
        await registry.close_dead(disconnected.append)
        assert registry.items() == [(asyncio.get_running_loop(), ours)]

    asyncio.run(main())
    assert disconnected == [value]
    assert len(value.closed_on) == 1


def test_a_closed_loop_is_not_called(registry: Registry) -> None:
    value = left_behind(registry)
    registry.call_on_each(Value.call)
    registry.close_everywhere()
    assert len(registry) == 0
    assert not value.called_on
    assert not value.closed_on
    gc.collect()


def test_values_that_the_caller_removes(registry: Registry) -> None:
    async def main() -> None:
        first, second = Value(), Value()
        registry.set(first)
        registry.set(second)
        registry.discard(first.loop, first)  # replaced already
        assert registry.get() is second
        await registry.aclose()  # it was not opened
        assert registry.get() is second
        registry.forget_dead()
        assert registry.get() is second
        registry.discard(second.loop, second)
        assert registry.get() is None
        registry.discard(second.loop, second)
        registry.set(first)

    asyncio.run(main())
    assert len(registry) == 1
    registry.forget_dead()
    assert len(registry) == 0


def test_a_forked_child_leaves_the_values_to_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    monkeypatch.setattr(_ownership, "never_finalize", kept.append)
    left: list[Value] = []
    registry: Registry = PerLoop(asyncio.get_running_loop, leave=left.append)
    assert registry in _ownership._registered

    async def main() -> None:
        value = await opened(registry)
        registry.after_fork()
        assert left == [value]
        assert value in kept[0][0].values()
        assert registry.get() is None
        await registry.aclose()
        assert not value.closed_on
        other = await opened(registry)
        assert registry.get() is other

    asyncio.run(main())
