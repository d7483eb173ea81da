"""The async shells, which run a stream machine or a unary flow (`_drive`) on a sender.

They contain no protocol rules. `drive_async` asks a machine for its next step, performs it, passes
the result to the machine, and yields the items that the machine returns. `run_async` does the same
for a flow, which returns one value. `AsyncClosing` and `close_items_async` close what they run on.
"""

import time

# async only: begin
from asyncio import _get_running_loop

# async only: end
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Protocol, Self, TypeVar, cast

from ._drive import (
    MAX_BODY_BYTES,
    Action,
    Flow,
    Reading,
    Reply,
    ReplyBody,
    SideCall,
    Step,
    StreamMachine,
    Wait,
    is_running,
    no_side_call,
)
from ._http._types import Request, ResponseHead, TransportFailure

Item = TypeVar("Item")


class _AsyncResponse(Protocol):
    head: ResponseHead

    def chunks(self) -> AsyncGenerator[bytes]: ...
    def collect(self, add: Callable[[bytes], None]) -> Awaitable[None]: ...
    def read(self, limit: int) -> Awaitable[bytes]: ...
    def aclose(self) -> Awaitable[None]: ...


class AsyncOpener(Protocol):
    """The methods of a sender that the async shell calls."""

    def open(self, request: Request) -> Awaitable[_AsyncResponse]: ...
    def sleep(self, seconds: float) -> Awaitable[None]: ...


async def _wait_or_act(sender: AsyncOpener, step: Wait | Action) -> None:
    """Perform a step that is not a request."""
    if isinstance(step, Wait):
        await sender.sleep(step.seconds)
    else:
        await step.perform_async()


async def _perform_step(
    machine: StreamMachine[Item], sender: AsyncOpener, step: Step
) -> _AsyncResponse | None:
    """Perform a step; return the response if it carries the stream, else None."""
    if not isinstance(step, Request):
        await _wait_or_act(sender, step)
        return None
    response = await sender.open(step)
    accepted = False
    try:
        accepted = machine.accepts(response.head)
        if not accepted:
            machine.refused(response.head, await response.read(MAX_BODY_BYTES))
        return response if accepted else None
    finally:
        if not accepted:
            await response.aclose()


async def drive_async(  # noqa: C901 - one loop, step by step
    machine: StreamMachine[Item],
    sender: AsyncOpener,
    side_call: Callable[[], SideCall[Item]] = no_side_call,
    reading: Reading | None = None,
) -> AsyncGenerator[Item]:
    """Run a machine to its end and yield its items; `reading` can stop it between two reads."""
    reading = reading or Reading()
    while (step := None if reading.stopped else machine.next_step()) is not None:
        failure: TransportFailure | None = None
        # async only: begin
        reading.loop = _get_running_loop()
        # async only: end
        try:
            if (response := await _perform_step(machine, sender, step)) is None:
                continue
            try:
                async with aclosing(response.chunks()) as chunks:
                    async for chunk in chunks:
                        if reading.stopped:
                            break
                        for item in machine.receive(chunk):
                            yield item
                        # async only: begin
                        # Not an exception: it would end this generator in the wrong loop.
                        while (
                            _get_running_loop() is not reading.loop and reading.process.is_current
                        ):
                            yield cast("Item", None)
                        # async only: end
                        if not machine.reading:
                            flow, limit = side_call()
                            for item in await run_async(flow, sender, limit):
                                yield item
                            if not machine.reading:
                                break
            finally:
                await response.aclose()
        except TransportFailure as raised:
            failure = raised
        for item in () if reading.stopped else machine.lost(failure):
            yield item


async def run_async(flow: Flow[Item], sender: AsyncOpener, limit: int = MAX_BODY_BYTES) -> Item:
    """Run a flow to its end and return its value; `limit` bounds the body of each success."""
    result: Reply | TransportFailure | None = None
    try:
        while True:
            step = flow.send(result)
            try:
                result = None
                if not isinstance(step, Request):
                    await _wait_or_act(sender, step)
                    continue
                start = time.monotonic()
                step.whole = True
                response = await sender.open(step)
                try:
                    if response.head.status >= 300:  # error bodies are truncated
                        result = Reply(response.head, await response.read(MAX_BODY_BYTES))
                        continue
                    body = ReplyBody(step, response.head, limit, start)
                    await response.collect(body.add)
                    result = body.reply()
                finally:
                    await response.aclose()
            except TransportFailure as failure:
                result = failure
    except StopIteration as done:
        value: Item = done.value
        return value
    finally:
        flow.close()  # others may wait for the end of a flow whose caller was cancelled


class AsyncClosing:
    """An async context manager that calls `aclose` on exit."""

    async def aclose(self) -> None:
        """Release all resources; may be called more than once."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def close_items_async(items: AsyncGenerator[Any], reading: Reading) -> None:
    """Close the generator of a stream; while it is running, it ends with the next bytes.

    Raises:
        OtherLoopError: the stream belongs to another event loop, and is not running there.
    """
    # async only: begin
    if not is_running(items) and getattr(items, "ag_frame", None) is not None:
        reading.check_loop()
    # async only: end
    reading.stopped = True
    if is_running(items):
        return
    try:
        await items.aclose()
    except (RuntimeError, ValueError):
        if not is_running(items):  # else a read has begun meanwhile, and will end
            raise
