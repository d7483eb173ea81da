"""The types of steps, which the type checker reads: a step has the result of its function."""

from functools import partial
from typing import assert_type

from coreason_client.server import AgentStream, SyncAgentStream, step

from ..aio import aio
from .test_steps import Life


async def search(query: str) -> list[str]:
    return [query]


def length(text: str, extra: int = 0) -> int:
    return len(text) + extra


class Shop:
    async def price(self, article: str) -> float:
        return float(len(article))

    @step(on_restart="fail")
    def pay(self, amount: int) -> str:
        return str(amount)


decorated_search = step(search)
decorated_length = step(timeout=9)(length)


async def agent(stream: AgentStream) -> None:
    assert_type(await stream.step("a", search, "x"), list[str])
    assert_type(await stream.step("a", length, "x"), int)
    assert_type(await stream.step("a", partial(length, "x", extra=1)), int)
    assert_type(await stream.step("a", Shop().price, "x", key="k", timeout=1), float)
    assert_type(await decorated_search("x"), list[str])
    assert_type(await decorated_length("x", extra=1), int)
    assert_type(await Shop().pay(3), str)


def plain_agent(stream: SyncAgentStream) -> None:
    assert_type(stream.step("a", search, "x"), list[str])
    assert_type(stream.step("a", length, "x"), int)


@aio
async def test_the_steps_of_these_types_run() -> None:
    await agent(await Life().run())
