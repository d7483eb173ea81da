"""Router, budgets and cache of both clients, over real connections."""

import asyncio
import gc
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from coreason_client.errors import ArgumentError
from coreason_client.llm import (
    AsyncLLMClient,
    Budget,
    Deployment,
    LLMAuthenticationError,
    LLMBudgetError,
    LLMClient,
    LLMConnectionError,
    LLMError,
    LLMRequestError,
    LLMStateError,
    MemoryState,
    ResponseCache,
    Router,
    ValkeyState,
)
from coreason_client.llm.router._state import RouterState
from tests.llm.router.routed import MODEL
from tests.llm.server import Received, Replied, ServerInThread, provider
from tests.server.log.valkey_server import fresh_prefix, shared_server

Result = TypeVar("Result")
KEY = "sk-of-the-router"
MESSAGES = [{"role": "user", "content": "Hello"}]
SSE = {"content-type": "text/event-stream"}
BODY = {
    "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 100, "completion_tokens": 50},
}
ANSWER = Replied(body=json.dumps(BODY).encode())
PRICE = 750_000  # nanodollars of the answer
PIECE = b'data: {"choices": [{"delta": {"content": "Hi"}}]}\n\n'
BUDGET = Budget(1.0)
ACCOUNT = BUDGET.account(None, 0).name


@pytest.fixture(params=["memory", "valkey"])
def state(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "memory":
        yield MemoryState()
        return
    with ValkeyState(shared_server().url, prefix=fresh_prefix()) as state:
        yield state


def run(work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(asyncio.wait_for(work, 30))


def by_path(replies: dict[str, Replied]) -> Callable[[Received], Replied]:
    return lambda received: replies[received.path.split("/")[1]]


def options(url: str, state: RouterState | None = None, **more: Any) -> dict[str, Any]:
    one, two = (Deployment(MODEL, base_url=f"{url}/{name}", api_key=KEY) for name in "ab")
    router = Router({"fast": [one, two], "big": [two]}, fallbacks={"fast": ["big"]})
    return {"router": router, "budgets": BUDGET, "state": state, "timeout": 5, **more}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


def test_the_async_client_uses_the_deployment_that_works(state: Any) -> None:
    async def go() -> None:
        async with provider() as server:
            server.reply = by_path({"a": Replied(500), "b": ANSWER})
            async with AsyncLLMClient(**options(server.url, state)) as client:
                for _ in range(4):
                    response = await client.generate(MESSAGES, "fast")
                    assert response["data"]["content"] == "Hi"
            paths = [received.path.split("/")[1] for received in server.received]
            assert paths.count("a") <= 2  # it cools down for one second, and then for two
            assert paths.count("b") == 4

    run(go())
    assert state.totals(ACCOUNT) == (4 * PRICE, 0)


def test_the_sync_client_uses_the_deployment_that_works(state: Any) -> None:
    with ServerInThread() as server:
        server.reply = by_path({"a": Replied(500), "b": ANSWER})
        with LLMClient(**options(server.url, state)) as client:
            for _ in range(3):
                assert client.generate(MESSAGES, "fast")["data"]["content"] == "Hi"
            with client.stream(MESSAGES, "fast") as stream:
                assert stream.result()["data"]["content"] == "Hi"
    assert state.totals(ACCOUNT) == (4 * PRICE, 0)


def test_many_threads_share_a_client_with_limits_and_a_budget() -> None:
    state = MemoryState()
    with ServerInThread(ANSWER) as server:
        given = options(server.url, state, tokens_per_minute=10**8, requests_per_minute=10**6)
        with LLMClient(**given) as client:
            threads = [
                threading.Thread(
                    target=lambda: [client.generate(MESSAGES, "fast") for _ in range(10)]
                )
                for _ in range(6)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)
        assert len(server.received) == 60
    assert state.totals(ACCOUNT) == (60 * PRICE, 0)


@pytest.mark.parametrize("kind", ["generate", "stream"])
def test_a_cancelled_call_is_settled_with_its_reservation(state: Any, kind: str) -> None:
    async def go() -> int:
        async with (
            provider(Replied(silent=True)) as server,
            AsyncLLMClient(**options(server.url, state)) as client,
        ):

            async def call() -> None:
                if kind == "generate":
                    await client.generate(MESSAGES, "fast")
                else:
                    await client.stream(MESSAGES, "fast").result()

            task = asyncio.create_task(call())
            await until(lambda: len(server.received) == 1)
            reserved: int = state.totals(ACCOUNT)[1]
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return reserved

    reserved = run(go())
    assert reserved > 0
    assert state.totals(ACCOUNT) == (reserved, 0)


def test_a_stream_that_is_closed_early_is_settled(state: Any) -> None:
    async def go() -> int:
        held = Replied(200, SSE, chunks=[PIECE], hold=True)
        async with (
            provider(held) as server,
            AsyncLLMClient(**options(server.url, state)) as client,
            client.stream(MESSAGES, "fast") as stream,
        ):
            await anext(stream)
            reserved: int = state.totals(ACCOUNT)[1]
            return reserved

    reserved = run(go())
    spent, left = state.totals(ACCOUNT)
    assert 0 < spent < reserved  # what was received
    assert left == 0


def test_a_sync_stream_that_is_closed_early_is_settled(state: Any) -> None:
    with (
        ServerInThread(Replied(200, SSE, chunks=[PIECE], hold=True)) as server,
        LLMClient(**options(server.url, state)) as client,
    ):
        with client.stream(MESSAGES, "fast") as stream:
            next(iter(stream))
            assert state.totals(ACCOUNT)[1] > 0
        spent, reserved = state.totals(ACCOUNT)
        assert (spent > 0, reserved) == (True, 0)
        dropped = client.stream(MESSAGES, "fast")
        next(iter(dropped))
        del dropped
        gc.collect()
        assert state.totals(ACCOUNT) == (2 * spent, 0)


def test_a_stream_that_is_never_read_costs_nothing() -> None:
    state = MemoryState()
    with LLMClient(**options("http://127.0.0.1:9", state)) as client:
        client.stream(MESSAGES, "fast").close()
    assert state.totals(ACCOUNT) == (0, 0)


def test_a_call_of_a_client_that_is_closed_meanwhile_is_settled(state: Any) -> None:
    async def go() -> int:
        async with provider(Replied(silent=True)) as server:
            client = AsyncLLMClient(**options(server.url, state), max_retries=0)
            task = asyncio.create_task(client.generate(MESSAGES, "big"))
            await until(lambda: len(server.received) == 1)
            reserved: int = state.totals(ACCOUNT)[1]
            await client.aclose()
            with pytest.raises(LLMConnectionError):
                await task
            return reserved

    reserved = run(go())
    assert state.totals(ACCOUNT) == (reserved, 0)


def test_a_timeout_counts_as_reserved_and_the_answer_as_used(state: Any) -> None:
    async def go() -> int:
        async with provider() as server:
            server.reply = by_path({"a": Replied(silent=True), "b": ANSWER})
            one, two = (
                Deployment(MODEL, base_url=f"{server.url}/{name}", api_key=KEY) for name in "ab"
            )
            router = Router({"one": [one], "two": [two]}, fallbacks={"one": ["two"]})
            client = AsyncLLMClient(router=router, budgets=BUDGET, state=state, timeout=0.2)
            async with client:
                call = asyncio.create_task(client.generate(MESSAGES, "one"))
                await until(lambda: len(server.received) == 1)
                reserved: int = state.totals(ACCOUNT)[1]
                await call
                return reserved

    reserved = run(go())
    assert state.totals(ACCOUNT) == (reserved + PRICE, 0)


def test_a_budget_is_for_all_calls_at_once(state: Any) -> None:
    """Calls that run at the same time do not exceed it together."""
    budget = Budget(0.025)  # 25 reservations of about 0.001 dollars

    async def go() -> tuple[int, int]:
        async with provider(ANSWER) as server:
            given = options(server.url, state, budgets=budget)
            async with AsyncLLMClient(**given) as client:
                results = await asyncio.gather(
                    *(client.generate(MESSAGES, "fast", max_tokens=100) for _ in range(60)),
                    return_exceptions=True,
                )
            refused = [one for one in results if isinstance(one, LLMBudgetError)]
            answered = [one for one in results if isinstance(one, dict)]
            assert len(refused) + len(answered) == 60
            assert len(server.received) == len(answered)
            return len(answered), len(refused)

    answered, refused = run(go())
    assert refused > 0
    assert state.totals(budget.account(None, 0).name) == (answered * PRICE, 0)
    assert answered * PRICE <= 25_000_000


def test_embeddings_are_counted_too(state: Any) -> None:
    budget = Budget(0.00001, per="key")  # 500 tokens at 0.02 dollars per million
    vectors = {"data": [{"index": 0, "embedding": [1.0]}], "usage": {"prompt_tokens": 400}}
    with ServerInThread(Replied(body=json.dumps(vectors).encode())) as server:
        client = LLMClient(KEY, server.url, provider="openai", budgets=budget, state=state)
        with client:
            client.embed("Hello", "text-embedding-3-small", budget_key="one")
            with pytest.raises(LLMBudgetError):
                client.embed("x" * 900, "text-embedding-3-small", budget_key="one")
            with pytest.raises(LLMRequestError, match="budget_key is required"):
                client.embed("Hello", "text-embedding-3-small")
            client.embed("x" * 900, "text-embedding-3-small", budget_key="two")
    assert state.totals(budget.account("one", 0).name) == (8000, 0)


def test_the_cache_answers_without_a_request(state: Any) -> None:
    async def go() -> None:
        async with provider(ANSWER) as server:
            given = options(server.url, state, cache=ResponseCache())
            async with AsyncLLMClient(**given) as client:
                first = await client.generate(MESSAGES, "fast")
                second = await client.generate(MESSAGES, "fast")
                third = await client.generate(MESSAGES, "fast", cache=False)
                await client.stream(MESSAGES, "fast").result()
            assert [one.get("cached") for one in (first, second, third)] == [None, True, None]
            assert len(server.received) == 3
            assert second["usage"]["cost_estimate"] == 0
            assert 0 <= second["seconds"] < 5

    run(go())
    assert state.totals(ACCOUNT) == (3 * PRICE, 0)


def test_a_cache_needs_no_router() -> None:
    with ServerInThread(ANSWER) as server:
        with LLMClient(KEY, server.url, "m", cache=ResponseCache()) as client:
            assert [client.generate(MESSAGES).get("cached") for _ in range(2)] == [None, True]
        assert len(server.received) == 1


def test_without_valkey_a_call_with_a_budget_fails() -> None:
    with (
        ValkeyState("valkey://127.0.0.1:1") as state,
        LLMClient(**options("http://127.0.0.1:9", state)) as client,
        pytest.raises(LLMStateError, match="cannot be used"),
    ):
        client.generate(MESSAGES, "fast")


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"router": {"fast": ["m"]}}, "router"),
        ({"budgets": 5.0}, "budgets"),
        ({"cache": 60}, "cache"),
        ({"state": "valkey://127.0.0.1"}, "state"),
    ],
)
def test_a_wrong_argument(arguments: dict[str, Any], name: str) -> None:
    for kind in (LLMClient, AsyncLLMClient):
        with pytest.raises(ArgumentError) as caught:
            kind(KEY, **arguments)
        assert caught.value.argument == name


def test_a_deployment_without_a_key_is_found_when_the_client_is_created() -> None:
    for router in (
        Router({"fast": ["anthropic/claude-sonnet-4"]}),
        Router({"fast": ["m"]}, fallbacks={"fast": ["anthropic/claude-sonnet-4"]}),
    ):
        with pytest.raises(LLMAuthenticationError, match="ANTHROPIC_API_KEY"):
            LLMClient(KEY, router=router)


@pytest.mark.parametrize(
    ("deployment", "provider", "model", "url"),
    [
        (Deployment("gpt-4o", api_key=KEY), "openai", "gpt-4o", "https://api.openai.com/v1"),
        (
            Deployment("anthropic/claude-sonnet-4", api_key=KEY, headers={"x-team": "a"}),
            "anthropic",
            "claude-sonnet-4",
            "https://api.anthropic.com/v1",
        ),
        (
            Deployment("gpt-4o", base_url="https://x.openai.azure.com", api_key=KEY),
            "azure",
            "gpt-4o",
            "https://x.openai.azure.com/openai/v1",
        ),
        (
            Deployment("m", base_url="http://127.0.0.1:9", api_key=KEY, provider="groq"),
            "groq",
            "m",
            "http://127.0.0.1:9/openai/v1",
        ),
    ],
)
def test_the_route_of_a_deployment(
    deployment: Deployment, provider: str, model: str, url: str
) -> None:
    with LLMClient(router=Router({"fast": [deployment]})) as client:
        assert client._routing is not None
        [route] = client._routing._routes.values()
    assert (route.profile.name, route.model, route.key) == (provider, model, KEY)
    assert route.base == url
    assert dict(deployment.headers).items() <= dict(route.headers).items()


def test_tags_without_a_router_are_an_error() -> None:
    with LLMClient(KEY) as client, pytest.raises(LLMRequestError, match="there is no router"):
        client.generate(MESSAGES, tags=["eu"])
    for wrong in ("eu", [7]):
        with (
            LLMClient(**options("http://127.0.0.1:9")) as client,
            pytest.raises(LLMError, match="tags must be a list of words"),
        ):
            client.generate(MESSAGES, "fast", tags=wrong)  # type: ignore[arg-type]


def test_a_client_without_any_of_this_has_no_gate() -> None:
    with LLMClient(KEY) as client:
        assert client._routing is None
        assert client.stream(MESSAGES, "m")._machine._attempts.gate is None


@pytest.mark.parametrize("wrong", [5, "", b"key"])
def test_a_budget_key_is_checked_without_a_budget(wrong: Any) -> None:
    with LLMClient(KEY, "http://127.0.0.1:9", MODEL) as client:
        for call in (client.generate, client.stream):
            with pytest.raises(LLMRequestError, match="budget_key must be text"):
                call(MESSAGES, budget_key=wrong)
        with pytest.raises(LLMRequestError, match="budget_key must be text"):
            client.embed("text", "text-embedding-3-small", budget_key=wrong)


@pytest.mark.parametrize(
    ("stream", "wire", "why"),
    [
        (True, None, 'wire="responses"'),
        (False, "responses", "only a stream can be resumed"),
    ],
)
def test_resume_is_checked_with_a_router_too(*, stream: bool, wire: Any, why: str) -> None:
    deployments = {
        "fast": [
            Deployment("gpt-4o", api_key=KEY, wire="responses"),
            Deployment("gpt-4o-mini", api_key=KEY, wire=wire),
        ]
    }
    with LLMClient(keys={"openai": KEY}, router=Router(deployments)) as client:
        call = client.stream if stream else client.generate
        with pytest.raises(LLMRequestError, match=why):
            call(MESSAGES, "fast", resume=True)
