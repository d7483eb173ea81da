"""Writes that a durable stream refuses: the journal has nothing of them."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import pytest

from coreason_client.server import AgentStream, StepFailed

from ..aio import aio
from .test_steps import Life

Write = Callable[[AgentStream], Awaitable[None]]

REFUSED: dict[str, tuple[Literal["rerun", "resume"], Write]] = {
    "a checkpoint in a step that does not resume": (
        "rerun",
        lambda stream: stream.write("x", checkpoint=1),
    ),
    "a checkpoint that is not JSON": (
        "resume",
        lambda stream: stream.write("x", checkpoint=object()),
    ),
    "the code of a warning": ("rerun", lambda stream: stream.warn("Not snake", "message")),
    "the code of an error": ("rerun", lambda stream: stream.fail("Not snake", "message")),
    "a payload": ("rerun", lambda stream: stream.write_packet("EVENT", 5)),
    "text that is not a string": ("rerun", lambda stream: stream.write(5)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", REFUSED)
@aio
async def test_a_refused_write_of_a_step_owns_no_packet(name: str) -> None:
    policy, write = REFUSED[name]

    async def body(stream: AgentStream) -> None:
        with pytest.raises(StepFailed):
            await stream.step("refused", write, stream, on_restart=policy)
        await stream.write("sorry ")

    life = Life()
    for _ in range(2):
        await body(await life.run())
        await life.writer.flush()
    assert (await life.texts(), life.stops) == (["sorry "], [])


@aio
async def test_a_refused_write_of_the_body_is_refused_in_every_run() -> None:
    wrong: Any = 5
    life = Life()
    for _ in range(2):
        stream = await life.run()
        with pytest.raises(TypeError):
            await stream.write(wrong)
        await stream.write("5")
        await life.writer.flush()
    assert (await life.texts(), life.stops) == (["5"], [])


@aio
async def test_a_refused_checkpoint_names_the_rule_and_the_step() -> None:
    async def store(stream: AgentStream, value: Any) -> None:
        await stream.checkpoint(value)

    stream = await Life().run()
    with pytest.raises(RuntimeError, match=r'on_restart="resume", but .* outside steps'):
        await stream.checkpoint(1)
    with pytest.raises(StepFailed, match=r'on_restart="resume", but .* in the step store#1'):
        await stream.step("store", store, stream, 1)
    with pytest.raises(StepFailed, match="checkpoint must be JSON, got a value of type object"):
        await stream.step("store", store, stream, object(), on_restart="resume")


@aio
async def test_a_checkpoint_is_the_value_at_the_time_of_the_call() -> None:
    async def store(stream: AgentStream) -> None:
        value = {"done": 1}
        await stream.write("a", checkpoint=value)
        value["done"] = 2
        await stream.write("b")
        raise KeyboardInterrupt  # the process dies

    async def read(stream: AgentStream) -> Any:
        assert stream.resumed is not None
        return stream.resumed.checkpoint

    store.__qualname__ = read.__qualname__ = "work"
    life = Life()
    stream = await life.run()
    with pytest.raises(KeyboardInterrupt):
        await stream.step("work", store, stream, on_restart="resume")
    await life.writer.flush()
    stream = await life.run()
    assert await stream.step("work", read, stream, on_restart="resume") == {"done": 1}
