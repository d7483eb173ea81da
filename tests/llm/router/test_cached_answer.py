"""Cached answers: what is found and by whom, what is stored, and which calls share a request."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import Any

import pytest
from pydantic import BaseModel

from coreason_client.llm import (
    AsyncLLMClient,
    AWSCredentials,
    Budget,
    Deployment,
    Finish,
    LLMClient,
    LLMConnectionError,
    LLMRequestError,
    LLMTimeoutError,
    ResponseCache,
    Router,
    TextDelta,
    ToolCallDelta,
    UsageDelta,
    ValkeyState,
)
from coreason_client.llm._check_call import check_call
from coreason_client.llm._plan import CallPlan
from coreason_client.llm._route import Target
from coreason_client.llm.router._cached_answer import request_key
from coreason_client.testing import FakeModel, ModelFailure, ModelToolCall, ModelTurn, fake_model
from tests.llm.play import KEY, MESSAGES, refusal, reply
from tests.llm.router.routed import MODEL, Site, answer, host
from tests.server.log.valkey_server import fresh_prefix, shared_server

LIMIT = 20.0


def test_the_same_request_is_sent_once() -> None:
    site = Site({"fast": ["a", "b"]}, cache=ResponseCache(), budgets=(budget := Budget(1.0)))
    first = site.generate()
    site.routing._random = iter([0.9, 0.1] * 10).__next__  # the other deployment first
    second = site.generate()
    assert site.hosts == ["a"]
    assert "cached" not in first
    assert second["cached"] is True
    assert second["usage"] == {**first["usage"], "cost_estimate": 0.0}
    assert second["data"] == first["data"]
    assert site.totals(budget) == pytest.approx((first["usage"]["cost_estimate"], 0))
    site.generate(max_tokens=99)
    assert len(site.hosts) == 2


class City(BaseModel):
    name: str


def test_a_structured_answer_is_parsed_again() -> None:
    body = {"choices": [{"message": {"content": '{"name": "Rome"}'}, "finish_reason": "stop"}]}
    site = Site({"fast": ["a"]}, cache=ResponseCache(), outcomes={"a": reply(200, body)})
    answers = [site.generate(response_format=City)["data"]["parsed"] for _ in range(2)]
    assert answers == [City(name="Rome")] * 2
    assert answers[0] is not answers[1]
    assert len(site.hosts) == 1


@pytest.mark.parametrize(
    "choice",
    [
        {"message": {"content": "Hi"}, "finish_reason": "length"},
        {"message": {"content": "Hi"}, "finish_reason": "content_filter"},
    ],
)
def test_a_truncated_or_filtered_answer_is_not_stored(choice: Any) -> None:
    outcomes = {"a": reply(200, {"choices": [choice]})}
    site = Site({"fast": ["a"]}, cache=ResponseCache(), outcomes=outcomes)
    site.generate()
    site.generate()
    assert len(site.hosts) == 2


def test_an_error_is_not_stored() -> None:
    site = Site({"fast": ["a"]}, cache=ResponseCache(), outcomes={"a": [refusal(400), answer()]})
    site.fails()
    assert "cached" not in site.generate()


def test_the_answer_of_a_fallback_is_not_stored() -> None:
    site = Site(
        {"fast": ["a"], "big": ["b"]},
        cache=ResponseCache(),
        fallbacks={"fast": ["big"]},
        outcomes={"a": [refusal(400), answer()]},
    )
    site.generate()
    assert "cached" not in site.generate()
    assert site.hosts == ["a", "b", "a"]


def test_what_cannot_be_read_is_asked_for_again() -> None:
    cache = ResponseCache()
    site = Site({"fast": ["a"]}, cache=cache)
    site.generate()
    [key] = cache._entries
    for wrong in (b"{", b"[]", json.dumps({"data": {}}).encode()):
        cache.put(key, wrong)
        assert "cached" not in site.generate()


def key_of(base: str = "a", name: str = "", **options: Any) -> str:
    call = check_call(MESSAGES, options.pop("model", MODEL), None, 0.7, 100, **options)
    return request_key(CallPlan(call, Target(host(base), KEY).route(call.model)), name, [b"owner"])


def test_the_key_depends_on_the_whole_request() -> None:
    keys = [
        key_of(),
        key_of("b"),
        key_of(name="fast"),
        key_of(model="other"),
        key_of(stop="."),
        key_of(extra={"seed": 7}),
        key_of(raw=True),
    ]
    assert len(set(keys)) == len(keys)
    assert key_of() == keys[0]


# Credentials.


def asked(model: FakeModel, cache: ResponseCache, **options: Any) -> bool:
    """Ask once, and return True if the answer came from the cache."""
    budget_key = options.pop("budget_key", None)
    with LLMClient(**{**model.options(), "cache": cache, **options}) as client:
        return client.generate(MESSAGES, budget_key=budget_key).get("cached", False)


OTHERS: list[dict[str, Any]] = [
    {"api_key": "another-key"},
    {"api_key": lambda: "another-key"},
    {"headers": {"X-Tenant": "b"}},
    {"budget_key": "bob"},
    {"budget_key": "bob", "headers": {"X-Tenant": "b"}},
]


@pytest.mark.proves("LLM2-cache-credentials")
def test_an_answer_is_found_only_with_the_same_credentials() -> None:
    cache = ResponseCache()
    with fake_model("Hi", exhausted="repeat") as model:
        for options in ({}, *OTHERS[::2]):
            assert not asked(model, cache, **options)
            assert asked(model, cache, **options)
        assert asked(model, cache, api_key=lambda: model.options()["api_key"])
        assert asked(model, cache, **OTHERS[1])  # the same key, from a callable
        assert not asked(model, cache, **OTHERS[3])


def test_a_callable_is_called_once_for_a_call_that_is_not_cached() -> None:
    calls = 0

    def key() -> str:
        nonlocal calls
        calls += 1
        return f"key-of-user-{users}"

    cache, users = ResponseCache(), 1
    with fake_model("Hi", exhausted="repeat") as model:
        assert not asked(model, cache, api_key=key)
        assert calls == 1
        assert asked(model, cache, api_key=key)
        users = 2  # the same callable, for somebody else
        assert not asked(model, cache, api_key=key)


def test_a_callable_that_fails_is_the_error_of_the_call() -> None:
    def key() -> str:
        raise OSError("no token")

    with fake_model("Hi", exhausted="repeat") as model, pytest.raises(Exception, match="no key"):
        asked(model, ResponseCache(), api_key=key)


def test_a_scope_is_shared_on_purpose() -> None:
    cache = ResponseCache(scope="all")
    with fake_model("Hi", exhausted="repeat") as model:
        assert not asked(model, cache)
        assert all(asked(model, cache, **options) for options in OTHERS)


def test_aws_credentials_are_credentials() -> None:
    def key(aws: AWSCredentials) -> set[str]:
        cache = ResponseCache()
        answered = {"output": {"message": {"content": [{"text": "Hi"}]}}, "stopReason": "end_turn"}
        target = Target("http://direct.test", aws, provider="bedrock")
        site = Site(budgets=Budget(1.0, unpriced="allow"), cache=cache)
        site.outcomes = {"direct": [reply(200, answered)]}
        site.routing._route = target.route
        site.generate("bedrock/some-model")
        return set(cache._entries)

    first = AWSCredentials("AKIDEXAMPLE", "a-secret", region="eu-west-1")
    second = AWSCredentials("AKIDEXAMPLE", "another", region="eu-west-1")
    assert key(first) == key(first) != key(second)


def test_every_deployment_counts_and_their_order_does_not() -> None:
    """The answer may have come from any of them."""

    def keys(*api_keys: Any, order: float = 0.5) -> set[str]:
        cache = ResponseCache()
        some = [
            Deployment(MODEL, base_url=host(name), api_key=key)
            for name, key in zip("ab", api_keys, strict=True)
        ]
        site = Site({"fast": some}, cache=cache)
        site.routing._random = lambda: order
        site.generate()
        return set(cache._entries)

    assert keys("1", "2") == keys("1", "2", order=0.01) == keys("1", "2", order=0.99)
    assert keys("1", "2") != keys("1", "3")
    assert keys("1", "2") == keys("1", lambda: "2")


@pytest.mark.parametrize("scope", [None, "all"])
def test_no_secret_is_in_the_store(scope: str | None) -> None:
    cache, key, prefix = ResponseCache(scope=scope), "sk-very-secret", fresh_prefix()
    options = {"api_key": key, "headers": {"X-Secret": "hidden-header"}, "budget_key": "bob"}
    with (
        fake_model("Hi", exhausted="repeat") as model,
        ValkeyState(shared_server().url, prefix=prefix) as state,
    ):
        asked(model, cache, **options)
        asked(model, cache, state=state, **options)
        assert asked(model, cache, state=state, **options)
        [name] = state.connections.execute("KEYS", f"{{{prefix}}}:cache:*")
        stored = [*cache._entries.items(), (name, state.connections.execute("GET", name))]
    for text in (key, "hidden-header", "bob"):
        assert text not in str(stored)


# Equal calls at the same time.


class Slow:
    """A turn that is answered when it is released; the fake model waits with it."""

    def __init__(self, turn: Any = "Hi") -> None:
        self.turn = turn
        self.started = threading.Event()
        self.released = threading.Event()

    def __call__(self, request: Any) -> Any:
        self.started.set()
        assert self.released.wait(LIMIT)
        return self.turn


@contextmanager
def slow_model(*later: Any, first: Any = "Hi") -> Iterator[tuple[FakeModel, Slow]]:
    slow = Slow(first)
    with fake_model([slow, *later], exhausted="allow") as model:
        try:
            yield model, slow
        finally:
            slow.released.set()


def waiting(cache: ResponseCache) -> int:
    """Return the number of calls that wait for another one."""
    landings: list[Any] = [flight.landed for flight in cache._flights.values()]
    return sum(len(landed._done_callbacks) for landed in landings)


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT):
        while not check():  # noqa: ASYNC110 - what is checked has no event
            await asyncio.sleep(0.005)


@pytest.mark.proves("LLM2-cache-flight")
@pytest.mark.parametrize("valkey", [False, True], ids=["memory", "valkey"])
def test_equal_async_calls_are_one_request(*, valkey: bool) -> None:
    async def go() -> None:
        cache = ResponseCache()
        async with AsyncExitStack() as stack:
            model, slow = stack.enter_context(slow_model())
            options = {**model.options(), "cache": cache}
            if valkey:
                state = ValkeyState(shared_server().url, prefix=fresh_prefix())
                options["state"] = await stack.enter_async_context(state)
            async with AsyncLLMClient(**options) as client:
                tasks = [asyncio.create_task(client.generate(MESSAGES)) for _ in range(20)]
                await until(lambda: waiting(cache) == 19)
                slow.released.set()
                async with asyncio.timeout(LIMIT):
                    responses = await asyncio.gather(*tasks)
            assert len(model.requests) == 1
            assert [one["data"]["content"] for one in responses] == ["Hi"] * 20
            assert [one.get("cached", False) for one in responses].count(False) == 1
            assert sum(one["usage"]["cost_estimate"] or 0 for one in responses[1:]) == 0

    asyncio.run(go())


def test_equal_sync_calls_are_one_request_also_of_other_clients() -> None:
    cache = ResponseCache()

    def ask(options: dict[str, Any]) -> Any:
        with LLMClient(**options, cache=cache) as client:
            return client.generate(MESSAGES)["data"]["content"]

    with slow_model() as (model, slow), ThreadPoolExecutor(6) as threads:
        answers = [threads.submit(ask, model.options()) for _ in range(5)]
        assert slow.started.wait(LIMIT)

        async def ask_async() -> str | None:
            async with AsyncLLMClient(**model.options(), cache=cache) as client:
                task = asyncio.create_task(client.generate(MESSAGES))
                await until(lambda: waiting(cache) >= 1)
                slow.released.set()
                return (await task)["data"]["content"]

        assert asyncio.run(ask_async()) == "Hi"
        assert [one.result(LIMIT) for one in answers] == ["Hi"] * 5
        assert len(model.requests) == 1


def test_a_caller_that_is_cancelled_harms_nobody() -> None:
    async def go() -> None:
        cache = ResponseCache()
        with slow_model("Second") as (model, slow):
            async with AsyncLLMClient(**model.options(), cache=cache) as client:
                tasks = [asyncio.create_task(client.generate(MESSAGES)) for _ in range(5)]
                await until(lambda: waiting(cache) == 4)
                tasks[3].cancel()  # one that waits
                await until(tasks[3].done)
                tasks[0].cancel()  # the one that has sent the request
                await until(tasks[0].done)
                slow.released.set()
                async with asyncio.timeout(LIMIT):
                    found = await asyncio.gather(tasks[1], tasks[2], tasks[4])
            assert [one["data"]["content"] for one in found] == ["Second"] * 3
            assert len(model.requests) == 2
            assert not cache._flights

    asyncio.run(go())


@pytest.mark.parametrize(
    "first",
    [ModelFailure(400, "No."), ModelTurn("Hi", finish="length")],
    ids=["an error", "a truncated answer"],
)
def test_after_an_answer_that_is_not_stored_each_call_is_sent(first: Any) -> None:
    async def go() -> None:
        cache = ResponseCache()
        with slow_model("2", "3", first=first) as (model, slow):
            async with AsyncLLMClient(**model.options(), cache=cache) as client:
                tasks = [asyncio.create_task(client.generate(MESSAGES)) for _ in range(3)]
                await until(lambda: waiting(cache) == 2)
                slow.released.set()
                async with asyncio.timeout(LIMIT):
                    found = await asyncio.gather(*tasks, return_exceptions=True)
            contents = [
                one["data"]["content"] for one in found if not isinstance(one, BaseException)
            ]
            assert sorted(contents[-2:], key=str) == ["2", "3"]
            assert len(model.requests) == 3

    asyncio.run(go())


def test_a_call_waits_for_another_one_only_until_its_deadline() -> None:
    async def go() -> None:
        with slow_model() as (model, _):
            async with (
                AsyncLLMClient(**model.options(), cache=cache) as patient,
                AsyncLLMClient(**model.options(), cache=cache, deadline=0.2) as hurried,
            ):
                task = asyncio.create_task(patient.generate(MESSAGES))
                await until(lambda: len(cache._flights) == 1)
                with pytest.raises(LLMTimeoutError, match="deadline"):
                    await hurried.generate(MESSAGES)
                await asyncio.to_thread(ask_hurried, model.options())
                task.cancel()
                await asyncio.wait([task])

    def ask_hurried(options: dict[str, Any]) -> None:
        with (
            LLMClient(**options, cache=cache, deadline=0.2) as client,
            pytest.raises(LLMTimeoutError, match="deadline"),
        ):
            client.generate(MESSAGES)

    cache = ResponseCache()

    asyncio.run(go())


def test_a_sync_call_never_waits_for_a_call_in_its_own_thread() -> None:
    """That call could not go on: its event loop is blocked."""

    async def go() -> None:
        cache = ResponseCache()
        with slow_model("Second") as (model, slow):
            async with AsyncLLMClient(**model.options(), cache=cache) as client:
                task = asyncio.create_task(client.generate(MESSAGES))
                await until(slow.started.is_set)
                threading.Timer(0.05, slow.released.set).start()
                with LLMClient(**model.options(), cache=cache, deadline=LIMIT) as sync:
                    assert sync.generate(MESSAGES)["data"]["content"] == "Second"
                assert (await task)["data"]["content"] == "Hi"

    asyncio.run(go())


# Streams.

TURN = ModelTurn(["Let me ", "see."], [ModelToolCall("weather", {"city": "Rome"})], ["I think."])


@pytest.mark.proves("LLM2-cache-streams")
def test_a_cached_stream_is_replayed() -> None:
    cache = ResponseCache()
    with fake_model(TURN) as model, LLMClient(**model.options(), cache=cache) as client:
        first = client.stream(MESSAGES).result()
        stream = client.stream(MESSAGES)
        deltas = [*stream]
        second = stream.result()
        assert len(model.requests) == 1
        assert second["cached"] is True
        assert second["data"] == first["data"]
        assert stream.spent == second["usage"]
        assert "".join(client.stream(MESSAGES).text()) == "Let me see."
        refreshed = client.stream(MESSAGES, cache=False)
        with pytest.raises(LLMRequestError, match="no turn"):
            refreshed.result()
        model._problems.clear()
    assert [type(delta) for delta in deltas[1:]] == [TextDelta, ToolCallDelta, UsageDelta, Finish]
    assert deltas[1] == TextDelta("Let me see.")


def test_a_cached_stream_of_the_async_client() -> None:
    async def go() -> None:
        options: dict[str, Any] = {"cache": ResponseCache(), "max_concurrency": 1}
        with fake_model('{"name": "Rome"}') as model:
            async with AsyncLLMClient(**model.options(), **options) as client:
                for _ in range(2):
                    stream = client.stream(MESSAGES, response_format=City)
                    assert [value async for value in stream.objects()][-1] == {"name": "Rome"}
                    assert (await stream.result())["data"]["parsed"] == City(name="Rome")
            assert len(model.requests) == 1

    asyncio.run(go())


@pytest.mark.parametrize(
    "turn",
    [ModelTurn("Hi", finish="length"), ModelTurn(["a", "b"], disconnect_after=1)],
    ids=["truncated", "broken"],
)
def test_an_incomplete_stream_is_not_stored(turn: ModelTurn) -> None:
    cache = ResponseCache()
    with (
        fake_model(turn) as model,
        LLMClient(**model.options(), cache=cache) as client,
        suppress(LLMConnectionError),
    ):
        client.stream(MESSAGES).result()
    assert len(cache) == 0


def test_a_stream_that_was_left_is_not_stored_and_nobody_waits_for_it() -> None:
    cache = ResponseCache()
    turns: list[Any] = [ModelTurn(["a", "b"], stall_after=1), "whole"]
    with (
        fake_model(turns) as model,
        LLMClient(**model.options(), cache=cache) as client,
        client.stream(MESSAGES) as slow,
    ):
        assert next(slow) == TextDelta("a")
        assert client.stream(MESSAGES).result()["data"]["content"] == "whole"
    assert len(cache) == 1


def test_the_streams_of_a_router_are_cached() -> None:
    cache = ResponseCache()
    with fake_model("Hi") as model:
        options = model.options()
        one = Deployment(MODEL, base_url=options["base_url"], api_key=options["api_key"])
        with LLMClient(router=Router({"fast": [one]}), cache=cache) as client:
            contents = [client.stream(MESSAGES, "fast").result() for _ in range(2)]
    assert [one.get("cached") for one in contents] == [None, True]
