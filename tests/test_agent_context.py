"""The stream of the agent that calls."""

import asyncio
import contextvars
from typing import Any

import pytest

from coreason_client._context import (
    current_stream,
    durable_stream,
    durable_sync_stream,
    set_current_stream,
    set_current_sync_stream,
)


@pytest.mark.parametrize("durable", [False, True])
def test_the_stream_of_an_agent(*, durable: bool) -> None:
    async def agent() -> None:
        assert current_stream() is durable_stream() is durable_sync_stream() is None
        set_current_stream("stream", durable=durable)
        assert current_stream() == "stream"
        assert durable_stream() == ("stream" if durable else None)
        assert durable_sync_stream() is None
        set_current_sync_stream("sync stream")
        assert durable_sync_stream() == ("sync stream" if durable else None)

    asyncio.run(agent())
    assert current_stream() is None


def test_another_event_loop_is_not_that_of_the_agent() -> None:
    async def inner() -> Any:
        return durable_stream()

    async def agent() -> None:
        set_current_stream("stream", durable=True)
        assert await asyncio.to_thread(asyncio.run, inner()) is None
        assert await asyncio.create_task(inner()) == "stream"

    contextvars.copy_context().run(asyncio.run, agent())
