"""A run with one tool call against two bare calls, and against pydantic-ai."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any, TypeAlias

import aiohttp
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from coreason_client.llm import AsyncLLMClient

from ._child import child
from ._fake_llm import COMPLETION_TOKENS, MODEL, TEXT
from ._llm_answers import BODY, KEY, MESSAGES, Answer, checked_turn
from ._measure import Effort, Row, Turn, at_most, compare, measure

__all__ = ["tool_rows"]

_RUNS = 100
_SLOW = {"pydantic-ai": 10}  # by how much less it does in a turn
_RAW, _OURS, _PEER = "two aiohttp calls", "run()", "pydantic-ai"
_TOKENS = 2 * COMPLETION_TOKENS
_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Return the weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "unit": {"type": "string"}},
            "required": ["city"],
        },
    },
}

_Ask: TypeAlias = Callable[[], Coroutine[Any, Any, Answer]]


async def get_weather(city: str, unit: str = "celsius") -> str:
    """Return the weather in a city."""
    return f"sunny in {city}, 7 {unit}"


class _Clients:
    """A client of each kind for one address."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/chat/completions"
        self._http = aiohttp.ClientSession()
        self._ours = AsyncLLMClient(KEY, url)
        model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=url, api_key=KEY))
        prompt = MESSAGES[0]["content"]
        self._agent = Agent(model, tools=[get_weather], system_prompt=prompt)

    async def aclose(self) -> None:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._http.close)
            stack.push_async_callback(self._ours.aclose)

    def runs(self) -> dict[str, _Ask]:
        return {_RAW: self._raw, _OURS: self._our_run, _PEER: self._peer}

    async def _post(self, body: dict[str, Any]) -> Any:
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        content = json.dumps(body).encode()
        async with self._http.post(self._url, data=content, headers=headers) as response:
            return json.loads(await response.read())

    async def _raw(self) -> Answer:
        body = {**BODY, "tools": [_TOOL]}
        asked = await self._post(body)
        message = asked["choices"][0]["message"]
        call = message["tool_calls"][0]
        result = await get_weather(**json.loads(call["function"]["arguments"]))
        told = {"role": "tool", "tool_call_id": call["id"], "content": result}
        answered = await self._post({**body, "messages": [*MESSAGES, message, told]})
        tokens = asked["usage"]["completion_tokens"] + answered["usage"]["completion_tokens"]
        return answered["choices"][0]["message"]["content"], tokens

    async def _our_run(self) -> Answer:
        result = await self._ours.run(MESSAGES, MODEL, tools=[get_weather])
        content = result.response["data"]["content"]
        return content or "", result.usage["completion_tokens"]

    async def _peer(self) -> Answer:
        result = await self._agent.run(MESSAGES[1]["content"])
        return result.output, result.usage.output_tokens


@contextmanager
def _clients() -> Iterator[tuple[_Clients, asyncio.Runner]]:
    async def make(url: str) -> _Clients:
        return _Clients(url)

    with child("_fake_llm") as server, asyncio.Runner() as runner:
        clients = runner.run(make(f"{server.url}/v1"))
        try:
            yield clients, runner
        finally:
            runner.run(clients.aclose())


def tool_rows(effort: Effort) -> list[Row]:
    """Compare runs, one after the other."""
    with _clients() as (clients, runner):

        def turn(name: str, ask: _Ask) -> Turn:
            times = _RUNS // _SLOW.get(name, 1)

            async def several() -> list[Answer]:
                return [await ask() for _ in range(times)]

            expected = [(TEXT, _TOKENS)] * times
            return checked_turn(lambda: runner.run(several()), expected, times)

        costs = measure({name: turn(name, ask) for name, ask in clients.runs().items()}, effort)
    where = "CPU per run with one tool call: "
    return [
        compare(costs, _OURS, _RAW, at_most(1.4), where=where),
        compare(costs, _OURS, _PEER, at_most(0.2), where=where),
    ]
