"""The AI client: whole answers, streams and imports, against aiohttp alone and other clients."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import Any, TypeAlias

# Read when litellm is imported, which would fetch its price table from the network otherwise.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import aiohttp
import litellm
import openai

import coreason_client.llm
from coreason_client.llm import AsyncLLMClient, TextDelta

from ._child import child
from ._fake_llm import CHUNKS, COMPLETION_TOKENS, MODEL, TEXT, texts
from ._llm_answers import BODY, KEY, MESSAGES, Answer, checked_turn
from ._llm_sync import fake_model_rows, sync_rows
from ._llm_tools import tool_rows
from ._measure import (
    Costs,
    Effort,
    Row,
    Table,
    Turn,
    amount,
    at_most,
    compare,
    measure,
    seconds,
)
from .imports import _child_cpu

__all__ = ["table"]

_RAW, _OURS, _FUNCTION = "aiohttp", "AsyncLLMClient", "generate()"
_OPENAI, _LITELLM = "openai", "litellm"
_CALL_GOAL, _FUNCTION_GOAL, _STREAM_GOAL = at_most(1.3), at_most(1.4), at_most(1.0)
_IMPORT_GOAL = at_most(1.2)
_CALLS, _STREAMS = 500, 10  # a multiple of every concurrency
_SLOW = {_OPENAI: 5, _LITELLM: 10}  # by how much less those do in a turn, where they can
_WITH_USAGE = {"stream": True, "stream_options": {"include_usage": True}}

_LEAST = """
import aiohttp, pydantic
class Model(pydantic.BaseModel):
    name: str
"""
_CLIENT = "from coreason_client.llm import AsyncLLMClient\nAsyncLLMClient('key')"
_BARE = "aiohttp and pydantic"
_BASE, _PRICES = "aiohttp, pydantic and a model", "price table"
_IMPORTS = {
    "coreason_client.llm": "import coreason_client.llm",
    _OURS: _CLIENT,
    _BASE: _LEAST,
    _BARE: "import aiohttp, pydantic",
    _PRICES: f"{_CLIENT}\nfrom coreason_client.llm import _cost\n_cost._load_table()",
    _OPENAI: "import openai\nopenai.AsyncOpenAI(api_key='key')",
    _LITELLM: "import litellm",
}

_Ask: TypeAlias = Callable[[], Coroutine[Any, Any, Answer]]


class _Clients:
    """A client of each kind for one address; all keep their connections between turns.

    Each takes the text and the number of tokens out of an answer, as its user would.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        # As ours is: else 500 calls would wait for 100 connections, and those not outlive a round.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60)
        self._http = aiohttp.ClientSession(connector=connector)
        self._ours = AsyncLLMClient(KEY, url)
        self._openai = openai.AsyncOpenAI(api_key=KEY, base_url=url)
        os.environ |= {"LLM_API_KEY": KEY, "LLM_API_BASE_URL": url}

    async def aclose(self) -> None:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._http.close)
            stack.push_async_callback(self._ours.aclose)
            stack.push_async_callback(self._openai.close)
            stack.push_async_callback(litellm.close_litellm_async_clients)

    def calls(self) -> dict[str, _Ask]:
        return {
            _RAW: self._raw_call,
            _OURS: partial(_our_call, self._ours.generate),
            _FUNCTION: partial(_our_call, coreason_client.llm.generate),
            _OPENAI: self._openai_call,
            _LITELLM: self._litellm_call,
        }

    def streams(self) -> dict[str, _Ask]:
        return {
            _RAW: self._raw_stream,
            _OURS: self._our_stream,
            _OPENAI: self._openai_stream,
            _LITELLM: self._litellm_stream,
        }

    def _post(self, body: dict[str, Any]) -> Any:
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        url = f"{self._url}/chat/completions"
        return self._http.post(url, data=json.dumps(body).encode(), headers=headers)

    async def _raw_call(self) -> Answer:
        async with self._post(BODY) as response:
            reply = json.loads(await response.read())
        text = reply["choices"][0]["message"]["content"]
        return text, reply["usage"]["completion_tokens"]

    async def _raw_stream(self) -> Answer:
        pieces, tokens = [], 0
        async with self._post(BODY | _WITH_USAGE) as response:
            async for line in response.content:
                if not line.startswith(b"data: ") or line == b"data: [DONE]\n":
                    continue
                chunk = json.loads(line[6:])
                choices = chunk["choices"]
                if choices and (content := choices[0]["delta"].get("content")):
                    pieces.append(content)
                if usage := chunk["usage"]:
                    tokens = usage["completion_tokens"]
        return "".join(pieces), tokens

    async def _our_stream(self) -> Answer:
        async with self._ours.stream(MESSAGES, MODEL) as stream:
            pieces = [delta.text async for delta in stream if isinstance(delta, TextDelta)]
            response = await stream.result()
        return "".join(pieces), response["usage"]["completion_tokens"]

    async def _openai_call(self) -> Answer:
        reply = await self._openai.chat.completions.create(**BODY)  # type: ignore[call-overload]
        return reply.choices[0].message.content, reply.usage.completion_tokens

    async def _openai_stream(self) -> Answer:
        body = BODY | _WITH_USAGE
        chunks = await self._openai.chat.completions.create(**body)  # type: ignore[call-overload]
        return await _gathered(chunks)

    async def _litellm_call(self) -> Answer:
        reply: Any = await self._litellm(BODY)
        return reply.choices[0].message.content, reply.usage.completion_tokens

    async def _litellm_stream(self) -> Answer:
        return await _gathered(await self._litellm(BODY | _WITH_USAGE))

    async def _litellm(self, body: dict[str, Any]) -> Any:
        named = body | {"model": f"openai/{MODEL}"}
        return await litellm.acompletion(api_base=self._url, api_key=KEY, **named)


async def _our_call(generate: Callable[..., Coroutine[Any, Any, Any]]) -> Answer:
    response = await generate(MESSAGES, MODEL)
    usage = response["usage"]
    if not usage["cost_estimate"]:
        raise AssertionError("the answer was not priced")
    return response["data"]["content"], usage["completion_tokens"]


async def _gathered(chunks: AsyncIterator[Any]) -> Answer:
    """Read a stream of objects, which are alike in openai and in litellm."""
    pieces, tokens = [], 0
    async for chunk in chunks:
        if chunk.choices and (content := chunk.choices[0].delta.content):
            pieces.append(content)
        if usage := getattr(chunk, "usage", None):
            tokens = usage.completion_tokens
    return "".join(pieces), tokens


# Turns


def _at_once(
    ask: _Ask, times: int, concurrency: int
) -> Callable[[], Coroutine[Any, Any, list[Answer]]]:
    """Make what asks so many times, and so many at any moment."""

    async def some() -> list[Answer]:
        return [await ask() for _ in range(times // concurrency)]

    async def everything() -> list[Answer]:
        found = await asyncio.gather(*(some() for _ in range(concurrency)))
        return [answer for answers in found for answer in answers]

    return everything


@contextmanager
def _clients(path: str) -> Iterator[tuple[_Clients, asyncio.Runner]]:
    async def make(url: str) -> _Clients:
        return _Clients(url)

    with child("_fake_llm") as server, asyncio.Runner() as runner:
        clients = runner.run(make(server.url + path))
        try:
            yield clients, runner
        finally:
            runner.run(clients.aclose())


def _measured(
    path: str,
    asks: Callable[[_Clients], dict[str, _Ask]],
    concurrency: int,
    answers: int,
    answer: Answer,
    units: int,
    effort: Effort,
) -> Costs:
    """Measure what a unit costs, of which each answer has so many."""
    with _clients(path) as (clients, runner):

        def turn(name: str, ask: _Ask) -> Turn:
            times = max(answers // _SLOW.get(name, 1), concurrency)
            work = _at_once(ask, times, concurrency)
            return checked_turn(lambda: runner.run(work()), [answer] * times, times * units)

        return measure({name: turn(name, ask) for name, ask in asks(clients).items()}, effort)


def _calls(concurrency: int, effort: Effort) -> Costs:
    answer = TEXT, COMPLETION_TOKENS
    return _measured("/v1", _Clients.calls, concurrency, _CALLS, answer, 1, effort)


def _streams(pace: str, concurrency: int, effort: Effort) -> Costs:
    answer = "".join(texts()), COMPLETION_TOKENS
    path = f"/{pace}/v1"
    return _measured(path, _Clients.streams, concurrency, _STREAMS, answer, CHUNKS, effort)


# Rows


def _call_rows(effort: Effort) -> list[Row]:
    rows = []
    for concurrency in (1, 50, 500):
        costs = _calls(concurrency, effort)
        where = f"CPU per call, {concurrency} at once: "
        rows += [
            compare(costs, _OURS, _RAW, _CALL_GOAL, where=where),
            compare(costs, _FUNCTION, _RAW, _FUNCTION_GOAL, where=where),
            compare(costs, _OPENAI, _RAW, where=where),
            compare(costs, _LITELLM, _RAW, where=where),
        ]
    return rows


def _stream_rows(effort: Effort) -> list[Row]:
    rows = []
    for pace, concurrency, words in (
        ("burst", 1, "in large reads"),
        ("paced", 2, "in small writes"),
    ):
        costs = _streams(pace, concurrency, effort)
        where = f"CPU per chunk, {words}: "
        rows += [
            compare(costs, _OURS, _RAW, _STREAM_GOAL, where=where),
            compare(costs, _OPENAI, _RAW, where=where),
            compare(costs, _LITELLM, _RAW, where=where),
        ]
    return rows


def _storm_rows(effort: Effort) -> list[Row]:
    """Count the requests of calls that a provider admits slowly, and measure their time."""

    async def calls(url: str) -> tuple[float, float]:
        requests: list[object] = []
        async with AsyncLLMClient(KEY, url, on_request=requests.append) as client:
            begun = time.monotonic()
            await asyncio.gather(*(client.generate(MESSAGES, MODEL) for _ in range(_CALLS)))
            return len(requests), time.monotonic() - begun

    with child("_fake_llm") as server:
        url = f"{server.url}/limited/v1"
        rounds = []
        for _ in range(effort.rounds):
            time.sleep(1.0)  # the calls before have used up a part of this second's requests
            rounds.append(asyncio.run(calls(url)))
    what = f"{_CALLS} calls, 100 admitted per second: "
    requests, times = ([one[place] for one in rounds] for place in (0, 1))
    return [
        amount(f"{what}requests", requests, "{:.0f}".format, at_most(700)),
        amount(f"{what}time", times, seconds, at_most(7.0, seconds)),
    ]


def _import_rows(effort: Effort) -> list[Row]:
    turns: dict[str, Turn] = {name: partial(_child_cpu, code) for name, code in _IMPORTS.items()}
    costs = measure(turns, effort)
    prices = [all_ - ours for all_, ours in zip(costs[_PRICES], costs[_OURS], strict=True)]
    where = "CPU of an import: "
    return [
        compare(costs, "coreason_client.llm", _BARE, _IMPORT_GOAL, where=where),
        compare(costs, _OURS, _BARE, _IMPORT_GOAL, where=where),
        compare(costs, _OURS, _BASE, where=where),
        compare(costs, _OPENAI, _BASE, where=where),
        compare(costs, _LITELLM, _BASE, where=where),
        amount("CPU of the price table, on the first call", prices, seconds),
    ]


def table(effort: Effort) -> Table:
    """Compare on calls, sync and with tools, on streams, and on imports."""
    some = effort.fewer(3)
    return Table(
        "Chat completions; CPU of the client's process",
        None,
        [
            *_call_rows(effort),  # of a few hundred microseconds, which vary most
            *sync_rows(some),
            *fake_model_rows(some),
            *tool_rows(effort),
            *_stream_rows(some),
            *_storm_rows(effort.fewer(5)),
            *_import_rows(effort.fewer(5)),
        ],
    )
