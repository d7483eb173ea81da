"""The price table is loaded once, in a thread, and no event loop waits for it."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from coreason_client.errors import MissingExtraError
from coreason_client.llm import AsyncLLMClient, LLMError, TextDelta, UsageDelta, _cost
from tests.llm.server import Provider, Received, Replied, provider

MESSAGES = [{"role": "user", "content": "Hello"}]
USAGE = {"prompt_tokens": 1_000_000, "completion_tokens": 0}
ANSWER = Replied(
    body=json.dumps(
        {
            "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}],
            "usage": USAGE,
        }
    ).encode()
)
DELTA = b'data: {"choices": [{"delta": {"content": "Hi"}, "finish_reason": null}]}\n\n'
END = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": %b}\n\n' % (
    json.dumps(USAGE).encode()
)
SSE = {"content-type": "text/event-stream"}
STREAM = Replied(200, SSE, chunks=[DELTA, END, b"data: [DONE]\n\n"])
BROKEN = Replied(200, SSE, chunks=[DELTA], cut=True)
PRICE = 2.5


class SlowLoader:
    """A loader that is not done before it is told so."""

    def __init__(self) -> None:
        self.begun = 0
        self.may_end = threading.Event()

    def __call__(self) -> None:
        self.begun += 1
        assert self.may_end.wait(30)


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowLoader]:
    slow = SlowLoader()
    monkeypatch.setattr(_cost, "_loading", None)
    monkeypatch.setattr(_cost, "_ended", False)
    monkeypatch.setattr(_cost, "_load_table", slow)
    yield slow
    slow.may_end.set()
    if _cost._loading is not None:
        _cost._loading.result(30)


def client(server: Provider) -> AsyncLLMClient:
    return AsyncLLMClient("key-0123456789", server.url, "gpt-4o", max_retries=0)


async def tick_until_answered(server: Provider) -> None:
    """Let the loop turn until the server has replied, and many times more."""
    [reply], asked = server.replies, asyncio.Event()

    def answer(_: Received) -> Replied:
        asked.set()
        return reply

    server.reply = answer
    await asyncio.wait_for(asked.wait(), 20)
    for _ in range(200):
        await asyncio.sleep(0)


def test_the_loop_goes_on_while_an_answer_waits_for_its_price(loader: SlowLoader) -> None:
    async def go() -> None:
        async with provider(ANSWER) as server, client(server) as ours:
            call = asyncio.create_task(ours.generate(MESSAGES))
            await tick_until_answered(server)
            assert not call.done()
            loader.may_end.set()
            response = await asyncio.wait_for(call, 20)
            assert response["usage"]["cost_estimate"] == PRICE

    asyncio.run(go())


def test_text_does_not_wait_for_the_price(loader: SlowLoader) -> None:
    async def go() -> None:
        async with provider(STREAM) as server, client(server) as ours:
            stream = ours.stream(MESSAGES)
            async with asyncio.timeout(20):
                assert await anext(stream) == TextDelta("Hi")
            rest = asyncio.create_task(stream.result())
            for _ in range(200):
                await asyncio.sleep(0)
            assert not rest.done()
            loader.may_end.set()
            response = await asyncio.wait_for(rest, 20)
            assert response["usage"]["cost_estimate"] == PRICE

    asyncio.run(go())


def test_the_usage_of_a_stream_has_its_price(loader: SlowLoader) -> None:
    async def go() -> None:
        async with provider(STREAM) as server, client(server) as ours:
            stream = ours.stream(MESSAGES)
            assert await anext(stream) == TextDelta("Hi")
            loader.may_end.set()
            [usage] = [delta.usage async for delta in stream if isinstance(delta, UsageDelta)]
            assert usage["cost_estimate"] == PRICE

    asyncio.run(go())


def test_what_came_of_a_broken_stream_has_its_price(loader: SlowLoader) -> None:
    async def go() -> None:
        async with provider(BROKEN) as server, client(server) as ours:
            stream = asyncio.create_task(ours.stream(MESSAGES).result())
            await tick_until_answered(server)
            assert not stream.done()
            loader.may_end.set()
            with pytest.raises(LLMError) as caught:
                await asyncio.wait_for(stream, 20)
            assert caught.value.partial is not None
            assert caught.value.partial["usage"]["cost_estimate"] is not None

    asyncio.run(go())


def test_a_stream_that_is_left_does_not_wait_for_the_table(loader: SlowLoader) -> None:
    async def go() -> None:
        async with (
            asyncio.timeout(20),
            provider(STREAM) as server,
            client(server) as ours,
            ours.stream(MESSAGES) as stream,
        ):
            await anext(stream)

    asyncio.run(go())
    assert not loader.may_end.is_set()


def test_an_amount_that_was_billed_waits_for_no_table(loader: SlowLoader) -> None:
    async def go() -> None:
        billed = ANSWER.body.replace(b'"usage": {', b'"usage": {"cost": 0.25, ')
        async with provider(Replied(body=billed)) as server, client(server) as ours:
            response = await asyncio.wait_for(ours.generate(MESSAGES), 20)
            assert response["usage"]["cost_estimate"] == 0.25

    asyncio.run(go())
    assert not loader.may_end.is_set()


def test_the_table_is_loaded_once(loader: SlowLoader) -> None:
    async def go() -> None:
        async with provider(ANSWER) as server, client(server) as ours:
            calls = [asyncio.create_task(ours.generate(MESSAGES)) for _ in range(20)]
            await tick_until_answered(server)
            loader.may_end.set()
            responses = await asyncio.wait_for(asyncio.gather(*calls), 20)
            assert {response["usage"]["cost_estimate"] for response in responses} == {PRICE}
            await ours.generate(MESSAGES)

    asyncio.run(go())
    asyncio.run(go())
    assert loader.begun == 1


def test_a_loop_that_ends_early_leaves_nothing_behind(loader: SlowLoader) -> None:
    async def go() -> None:
        async with provider(ANSWER) as server, client(server) as ours:
            call = asyncio.create_task(ours.generate(MESSAGES))
            await tick_until_answered(server)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    asyncio.run(go())
    loader.may_end.set()
    assert _cost._loading is not None
    _cost._loading.result(30)
    assert all(thread.name != "coreason-prices" for thread in ended(threading.enumerate()))


def ended(threads: list[threading.Thread]) -> list[threading.Thread]:
    """Return those that still run after a moment to end."""
    for thread in threads:
        if thread.name == "coreason-prices":
            thread.join(10)
    return [thread for thread in threads if thread.is_alive()]


def test_a_process_that_ends_while_the_table_is_loaded_ends_in_order() -> None:
    code = """
import asyncio
from coreason_client.llm import AsyncLLMClient, LLMError

async def go():
    async with AsyncLLMClient("key", "http://127.0.0.1:9", max_retries=0) as client:
        await client.generate([{"role": "user", "content": "Hello"}])

try:
    asyncio.run(go())
except LLMError:
    pass
"""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_table_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cost, "_loading", None)
    monkeypatch.setattr(_cost, "_ended", False)
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)
    _cost._price.cache_clear()

    async def go(reply: Replied, *, stream: bool) -> None:
        async with provider(reply) as server, client(server) as ours:
            with pytest.raises(MissingExtraError, match="'llm'"):
                if stream:
                    await ours.stream(MESSAGES).result()
                else:
                    await ours.generate(MESSAGES)

    asyncio.run(go(ANSWER, stream=False))
    asyncio.run(go(STREAM, stream=True))


def test_the_child_of_a_fork_loads_by_itself(loader: SlowLoader) -> None:
    """It has no thread that would ever finish what its parent began."""
    first = _cost.load_prices()
    _cost._after_fork()
    second = _cost.load_prices()
    loader.may_end.set()
    first.result(30)
    second.result(30)
    assert first is not second
    assert _cost.prices_loaded()
    _cost._after_fork()
    assert _cost.prices_loaded()


def test_an_action_waits_for_the_table(loader: SlowLoader) -> None:
    action = _cost.PricesAction()

    async def go() -> None:
        waiting = asyncio.create_task(action.perform_async())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done()
        loader.may_end.set()
        await asyncio.wait_for(waiting, 20)

    asyncio.run(go())
    action.perform()
    assert _cost.prices_loaded()
    assert loader.begun == 1
