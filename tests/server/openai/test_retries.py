"""Requests that the SDK sends again by itself, and equal requests that it does not."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI

from coreason_client.server import StreamLog, ValkeyStreamLog

from ..log.valkey_server import fresh_prefix, shared_server
from ..peer import LIMIT
from .cutting import cutting
from .serving import KEY, MODEL, Site, async_sdk, site

ALONE = {"Connection": "close"}


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)


@contextmanager
def replicas(count: int) -> Iterator[list[Site]]:
    """Servers of one agent; several of them share a log."""
    prefix = fresh_prefix()

    def log() -> StreamLog | None:
        url = shared_server().url
        return None if count == 1 else ValkeyStreamLog(url, prefix=prefix)

    with ExitStack() as stack:
        yield [stack.enter_context(site(log=log())) for _ in range(count)]


def runs(sites: list[Site]) -> int:
    return sum(len(one.agent.runs) for one in sites)


async def chat(client: AsyncOpenAI, **options: Any) -> tuple[str, str]:
    asked: Any = {"model": MODEL, "messages": [{"role": "user", "content": "Wait"}]}
    found = await client.chat.completions.create(**asked, **options)
    return found.id, found.choices[0].message.content


async def chat_stream(client: AsyncOpenAI, **options: Any) -> tuple[str, str]:
    asked: Any = {"model": MODEL, "messages": [{"role": "user", "content": "Wait"}]}
    stream = await client.chat.completions.create(**asked, **options, stream=True)
    chunks = [chunk async for chunk in stream]
    return chunks[0].id, "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


async def respond(client: AsyncOpenAI, **options: Any) -> tuple[str, str]:
    found = await client.responses.create(model=MODEL, input="Wait", **options)
    return found.id, found.output_text


async def respond_stream(client: AsyncOpenAI, **options: Any) -> tuple[str, str]:
    asked: Any = {"model": MODEL, "input": "Wait"}
    stream = await client.responses.create(**asked, **options, stream=True)
    last = [event async for event in stream][-1]
    return last.response.id, last.response.output_text


Call = Callable[..., Awaitable[tuple[str, str]]]
CALLS: list[Call] = [chat, chat_stream, respond, respond_stream]


class LosingTransport(httpx.AsyncHTTPTransport):
    """Loses the connection of the first request before its response.

    `lose` is called after that request was sent, `then` after the next one.
    """

    def __init__(self, lose: Callable[[], None], then: Callable[[], None]) -> None:
        super().__init__()
        self._steps = [lose, then]
        self.counts: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.counts.append(request.headers["x-stainless-retry-count"])
        sent = asyncio.ensure_future(super().handle_async_request(request))
        await asyncio.to_thread(self._steps[len(self.counts) - 1])
        response = await sent
        if len(self.counts) == 1:  # a stream has begun, and nobody has read anything
            await response.aclose()
            raise httpx.ReadError("lost", request=request)
        return response


def repeated(
    call: Call, api: str, lose: Callable[[], None], then: Callable[[], None] = lambda: None
) -> tuple[str, str]:
    """Call, and lose the first request; return the answer to the second one."""

    async def go() -> tuple[tuple[str, str], list[str]]:
        transport = LosingTransport(lose, then)
        http = openai.DefaultAsyncHttpxClient(transport=transport)
        options: Any = {"default_headers": ALONE, "max_retries": 2, "http_client": http}
        async with async_sdk(api, **options) as client, asyncio.timeout(LIMIT):
            return await call(client), transport.counts

    answer, counts = asyncio.run(go())
    assert counts == ["0", "1"]
    return answer


@pytest.mark.parametrize("count", [1, 2], ids=["one server", "another replica"])
@pytest.mark.parametrize("call", CALLS)
def test_a_request_that_the_sdk_repeats_runs_once(call: Call, count: int) -> None:
    with replicas(count) as sites, cutting(sites[0].url) as proxy:

        def lose() -> None:
            sites[0].agent.gate.seen()
            proxy.route_to(sites[-1].url)
            proxy.cut_all()

        def then() -> None:
            proxy.until_connected(2)
            sites[0].agent.gate.open()

        _, text = repeated(call, proxy.api, lose, then)
        assert (text, runs(sites)) == ("Working. Done.", 1)


@pytest.mark.parametrize("call", CALLS)
def test_a_repetition_reads_an_answer_that_has_ended_meanwhile(call: Call) -> None:
    with replicas(2) as sites, cutting(sites[0].url) as proxy:

        def lose() -> None:
            sites[0].agent.gate.seen()
            proxy.route_to(sites[1].url)
            proxy.cut_all()
            sites[0].agent.gate.open()
            assert sites[0].agent.ended.wait(LIMIT)

        _, text = repeated(call, proxy.api, lose)
        assert (text, runs(sites)) == ("Working. Done.", 1)


async def begin(client: AsyncOpenAI, **options: Any) -> tuple[str, str]:
    made = await client.responses.create(model=MODEL, input="Wait", background=True, **options)
    return made.id, str(made.status)


@pytest.mark.parametrize("call", [begin, *CALLS])
def test_a_response_that_is_lost_after_it_was_written_runs_once(call: Call) -> None:
    with site() as server:
        server.agent.gate.open()
        repeated(call, server.api, server.agent.gate.seen)
        assert len(server.agent.runs) == 1


@pytest.mark.parametrize("call", CALLS)
def test_equal_requests_that_are_not_repetitions_run_each(call: Call) -> None:
    async def go(api: str) -> list[tuple[str, str]]:
        async with async_sdk(api) as client, asyncio.timeout(LIMIT):
            return [await call(client) for _ in range(2)]

    with site() as server:
        server.agent.gate.open()
        (first, text), (second, other) = asyncio.run(go(server.api))
        assert first != second
        assert (text, other, len(server.agent.runs)) == ("Working. Done.", "Working. Done.", 2)


@pytest.mark.parametrize("count", [1, 2], ids=["one server", "two replicas"])
def test_equal_requests_at_the_same_time_run_each(count: int) -> None:
    async def go(apis: list[str]) -> list[tuple[str, str]]:
        clients = [async_sdk(api) for api in apis]
        async with asyncio.timeout(LIMIT):
            found = await asyncio.gather(
                *(respond_stream(clients[number % len(clients)]) for number in range(20))
            )
        for client in clients:
            await client.close()
        return found

    with replicas(count) as sites:
        for one in sites:
            one.agent.gate.open()
        found = asyncio.run(go([one.api for one in sites]))
        assert len({name for name, _ in found}) == runs(sites) == 20
        assert {text for _, text in found} == {"Working. Done."}


# Idempotency-Key


@pytest.mark.parametrize("call", CALLS)
def test_a_request_with_a_key_runs_once(call: Call) -> None:
    async def go(api: str) -> list[tuple[str, str]]:
        headers = {"Idempotency-Key": "order 7"}
        async with async_sdk(api) as client, asyncio.timeout(LIMIT):
            both = (call(client, extra_headers=headers) for _ in range(2))
            return [*await asyncio.gather(*both), await call(client, extra_headers=headers)]

    with site() as server:
        server.agent.gate.open()
        found = asyncio.run(go(server.api))
        assert len(set(found)) == len(server.agent.runs) == 1


@pytest.mark.parametrize("path", ["/chat/completions", "/responses"])
def test_a_key_with_another_body_is_refused_and_not_repeated(path: str) -> None:
    sent: list[httpx.Request] = []
    http = openai.DefaultHttpxClient(event_hooks={"request": [sent.append]})
    headers = {"Idempotency-Key": "order 7"}
    with site() as server:
        options: Any = {"api_key": KEY, "base_url": server.api, "http_client": http}
        with openai.OpenAI(**options, max_retries=2, timeout=LIMIT) as client:

            def ask(text: str) -> object:
                body: dict[str, Any] = {"model": MODEL, "input": text}
                body["messages"] = [{"role": "user", "content": text}]
                return client.post(path, cast_to=object, body=body, options={"headers": headers})

            ask("one")
            del sent[:]
            with pytest.raises(openai.ConflictError) as caught:
                ask("two")
        assert caught.value.code == "request_conflict"
        assert "Idempotency-Key" in caught.value.message
        assert caught.value.response.headers["x-should-retry"] == "false"
        assert len(sent) == len(server.agent.runs) == 1


def test_the_key_of_another_caller_is_another_key() -> None:
    async def go(api: str) -> list[tuple[str, str]]:
        headers = {"Idempotency-Key": "order 7"}
        async with async_sdk(api) as ann, async_sdk(api, "bob-key") as bob, asyncio.timeout(LIMIT):
            return [await respond(one, extra_headers=headers) for one in (ann, bob)]

    with site() as server:
        server.agent.gate.open()
        assert len(set(asyncio.run(go(server.api)))) == len(server.agent.runs) == 2
