"""The types of answers as type checkers see them: mypy in `make check`, pyright in `test_types.py`.

Nothing here is run.
"""

from dataclasses import dataclass
from typing import Any, assert_type

from pydantic import BaseModel
from typing_extensions import TypedDict

from coreason_client import AsyncLLMClient, LLMClient, generate, generate_sync, stream_sync
from coreason_client.llm import AsyncLLMStream, LLMStream, Response

MESSAGES = [{"role": "user", "content": "How many people live in Oslo?"}]


class City(BaseModel):
    name: str
    people: int


@dataclass
class Place:
    name: str


class Point(TypedDict):
    x: int


def answers_of_any_type(client: LLMClient) -> None:
    assert_type(client.generate("?", response_format=list[City]), Response[list[City]])
    assert_type(client.generate("?", response_format=Place)["data"]["parsed"].name, str)
    assert_type(client.generate("?", response_format=Point)["data"]["parsed"]["x"], int)
    assert_type(client.generate("?", response_format=bool)["data"]["parsed"], bool)
    client.generate("?", response_format=City | None)  # for mypy, a union is its first class
    assert_type(client.stream("?", response_format=list[City]), LLMStream[list[City]])
    assert_type(client.run("?", response_format=list[City]).parsed, list[City])
    client.generate("?", reasoning_effort="low", top_p=0.5, seed=7, parallel_tool_calls=False)


def sync_answers(client: LLMClient) -> None:
    response = client.generate(MESSAGES, "gpt-4o", response_format=City)
    assert_type(response, Response[City])
    assert_type(response["data"]["parsed"], City)
    assert_type(response["data"]["parsed"].people, int)
    assert_type(client.generate(MESSAGES), Response[Any])
    assert_type(client.generate(MESSAGES, response_format={"type": "object"}), Response[Any])
    stream = client.stream(MESSAGES, response_format=City)
    assert_type(stream, LLMStream[City])
    assert_type(stream.result(), Response[City])
    assert_type(generate_sync(MESSAGES, response_format=City), Response[City])
    assert_type(stream_sync(MESSAGES, response_format=City), LLMStream[City])


async def async_answers(client: AsyncLLMClient) -> None:
    response = await client.generate(MESSAGES, response_format=City)
    assert_type(response, Response[City])
    assert_type(response["data"]["parsed"], City)
    stream = client.stream(MESSAGES, response_format=City, on_break="restart")
    assert_type(stream, AsyncLLMStream[City])
    assert_type((await stream.result())["data"]["parsed"], City)
    assert_type(await stream.result(), Response[City])
    assert_type(await generate(MESSAGES, response_format=City), Response[City])
    async for text in client.stream(MESSAGES).text():
        assert_type(text, str)
