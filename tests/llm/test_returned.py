"""The sync client used like the async one fails with a sentence that names the async one."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coreason_client.llm import AsyncLLMClient, LLMClient
from coreason_client.llm.types import Response

MESSAGES = [{"role": "user", "content": "Hi"}]
RESPONSE: Any = {"status": "success", "data": {}, "usage": {}}


async def enter_client(client: Any) -> None:
    async with client:
        pass


async def enter_stream(client: Any) -> None:
    async with client.stream(MESSAGES):
        pass


async def iterate(client: Any) -> None:
    async for _ in client.stream(MESSAGES):
        pass


async def await_stream(client: Any) -> None:
    await client.stream(MESSAGES)


async def await_response(client: Any) -> None:
    await client._returned(RESPONSE)


@pytest.mark.proves("R36")
@pytest.mark.parametrize("use", [enter_client, enter_stream, iterate, await_stream, await_response])
def test_async_use_of_the_sync_client(use: Callable[[Any], Awaitable[None]]) -> None:
    async def go() -> None:
        with LLMClient("a-key-for-tests") as client:
            await use(client)

    with pytest.raises(TypeError, match=r"is sync: .*AsyncLLMClient"):
        asyncio.run(go())


def test_a_response_is_an_ordinary_dict_otherwise() -> None:
    with LLMClient("a-key-for-tests") as client:
        response: Response = client._returned(RESPONSE)
    assert response == RESPONSE
    assert isinstance(response, dict)
    assert json.loads(json.dumps(response)) == RESPONSE
    assert AsyncLLMClient("a-key-for-tests")._returned(RESPONSE) is RESPONSE
