"""The thin shells, sync and async, around any stream machine and any unary flow.

A machine holds every rule of a stream and does no I/O. The shell asks it for the next step, takes
that step, feeds it what came back, and hands out what it makes of it. When a machine stops reading,
a side call may be made while the response stays open, after which it may read on. A unary call is
a flow: a generator that yields steps and is sent what came of them. The shells of a pair are the
same lines; what differs is the word `await`.
"""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from ._http._types import FailureKind, Request, ResponseHead, TransportFailure

__all__ = [
    "BodyTooLarge",
    "Flow",
    "Reply",
    "SideCall",
    "StreamMachine",
    "Wait",
    "drive",
    "drive_async",
    "run",
    "run_async",
]

# Of a body that is no stream: enough for any problem document, and a bound on what a broken
# server can make us keep.
MAX_BODY_BYTES = 65_536

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Wait:
    """A step: wait so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back for a request of a flow: all of it, or of a refusal what fits a bound."""

    head: ResponseHead
    body: bytes


Flow: TypeAlias = Generator[Request | Wait, Reply | TransportFailure | None, Item]
"""A unary call: is sent a reply or a failure for a request, None for a wait; returns its value."""


SideCall: TypeAlias = tuple[Flow[Iterable[Item]], int]
"""A call beside a stream, whose value is handed out, and the largest body of its answer."""


def _no_side_call() -> SideCall[Item]:
    def nothing() -> Flow[Iterable[Item]]:
        return ()
        yield Wait(0)  # which makes it a generator

    return nothing(), 0


class StreamMachine(Protocol[Item_co]):
    """What a shell needs of a machine."""

    def next_step(self) -> Request | Wait | None:
        """Say what to do next; None when the stream is over."""

    def accepts(self, head: ResponseHead) -> bool:
        """Say whether this is the response that carries the stream."""

    def refused(self, head: ResponseHead, body: bytes) -> None:
        """Take note of a response that does not carry the stream, with its bounded body."""

    def receive(self, chunk: bytes) -> Iterator[Item_co]:
        """Take bytes of the stream and hand out what they complete."""

    @property
    def reading(self) -> bool:
        """Whether more bytes of this response are wanted."""

    def lost(self, failure: TransportFailure | None) -> Iterable[Item_co]:
        """Take note that the connection is gone, with a failure or with a clean end.

        Hands out what only the end completes.
        """


class _SyncResponse(Protocol):
    head: ResponseHead

    def chunks(self) -> Generator[bytes]: ...
    def read(self, limit: int) -> bytes: ...
    def close(self) -> None: ...


class SyncOpener(Protocol):
    """What the sync shell needs of a sender."""

    def open(self, request: Request) -> _SyncResponse: ...
    def sleep(self, seconds: float) -> None: ...


class _AsyncResponse(Protocol):
    head: ResponseHead

    def chunks(self) -> AsyncGenerator[bytes]: ...
    def read(self, limit: int) -> Awaitable[bytes]: ...
    def aclose(self) -> Awaitable[None]: ...


class AsyncOpener(Protocol):
    """What the async shell needs of a sender."""

    def open(self, request: Request) -> Awaitable[_AsyncResponse]: ...
    def sleep(self, seconds: float) -> Awaitable[None]: ...


def _opened(
    machine: StreamMachine[Item], sender: SyncOpener, step: Request | Wait
) -> _SyncResponse | None:
    """Take a step; return the response that carries the stream, None where there is none."""
    if isinstance(step, Wait):
        sender.sleep(step.seconds)
        return None
    response = sender.open(step)
    accepted = False
    try:
        accepted = machine.accepts(response.head)
        if not accepted:
            machine.refused(response.head, response.read(MAX_BODY_BYTES))
        return response if accepted else None
    finally:
        if not accepted:
            response.close()


def drive(
    machine: StreamMachine[Item],
    sender: SyncOpener,
    side_call: Callable[[], SideCall[Item]] = _no_side_call,
) -> Generator[Item]:
    """Run a machine to its end and yield what it hands out."""
    while (step := machine.next_step()) is not None:
        failure: TransportFailure | None = None
        try:
            if (response := _opened(machine, sender, step)) is None:
                continue
            try:
                with closing(response.chunks()) as chunks:
                    for chunk in chunks:
                        yield from machine.receive(chunk)
                        if not machine.reading:
                            flow, limit = side_call()
                            yield from run(flow, sender, limit)
                            if not machine.reading:
                                break
            finally:
                response.close()
        except TransportFailure as raised:
            failure = raised
        yield from machine.lost(failure)


async def _opened_async(
    machine: StreamMachine[Item], sender: AsyncOpener, step: Request | Wait
) -> _AsyncResponse | None:
    """Take a step; return the response that carries the stream, None where there is none."""
    if isinstance(step, Wait):
        await sender.sleep(step.seconds)
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


async def drive_async(
    machine: StreamMachine[Item],
    sender: AsyncOpener,
    side_call: Callable[[], SideCall[Item]] = _no_side_call,
) -> AsyncGenerator[Item]:
    """Run a machine to its end and yield what it hands out."""
    while (step := machine.next_step()) is not None:
        failure: TransportFailure | None = None
        try:
            if (response := await _opened_async(machine, sender, step)) is None:
                continue
            try:
                async with aclosing(response.chunks()) as chunks:
                    async for chunk in chunks:
                        for item in machine.receive(chunk):
                            yield item
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
        for item in machine.lost(failure):
            yield item


class BodyTooLarge(TransportFailure):
    """The response body exceeded the limit; a retry would not help."""

    def __init__(self, head: ResponseHead, limit: int) -> None:
        super().__init__(FailureKind.TOO_LARGE, f"the body is larger than {limit} bytes")
        self.head = head


class _Body:
    """Gathers the body of an answer, which counts only when it is complete."""

    def __init__(self, request: Request, head: ResponseHead, limit: int, start: float) -> None:
        self._head = head
        self._limit = limit
        read = None if request.timeouts is None else request.timeouts.read
        self._deadline = None if read is None else start + read
        self._pieces = bytearray()

    def add(self, chunk: bytes) -> None:
        """Add bytes.

        Raises:
            TransportFailure: the bound in size or in time is passed.
        """
        self._pieces += chunk
        if len(self._pieces) > self._limit:
            raise BodyTooLarge(self._head, self._limit)
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise TransportFailure(FailureKind.TIMEOUT, "the answer was not complete in time")

    def reply(self) -> Reply:
        return Reply(self._head, bytes(self._pieces))


def run(flow: Flow[Item], sender: SyncOpener, limit: int = MAX_BODY_BYTES) -> Item:
    """Run a flow to its end and return its value; answers may have bodies up to the limit."""
    result: Reply | TransportFailure | None = None
    try:
        while True:
            step = flow.send(result)
            try:
                result = None
                if isinstance(step, Wait):
                    sender.sleep(step.seconds)
                    continue
                start = time.monotonic()
                response = sender.open(step)
                try:
                    if response.head.status >= 300:  # of which the beginning is enough
                        result = Reply(response.head, response.read(MAX_BODY_BYTES))
                        continue
                    body = _Body(step, response.head, limit, start)
                    with closing(response.chunks()) as chunks:
                        for chunk in chunks:
                            body.add(chunk)
                    result = body.reply()
                finally:
                    response.close()
            except TransportFailure as failure:
                result = failure
    except StopIteration as done:
        value: Item = done.value
        return value


async def run_async(flow: Flow[Item], sender: AsyncOpener, limit: int = MAX_BODY_BYTES) -> Item:
    """Run a flow to its end and return its value; answers may have bodies up to the limit."""
    result: Reply | TransportFailure | None = None
    try:
        while True:
            step = flow.send(result)
            try:
                result = None
                if isinstance(step, Wait):
                    await sender.sleep(step.seconds)
                    continue
                start = time.monotonic()
                response = await sender.open(step)
                try:
                    if response.head.status >= 300:  # of which the beginning is enough
                        result = Reply(response.head, await response.read(MAX_BODY_BYTES))
                        continue
                    body = _Body(step, response.head, limit, start)
                    async with aclosing(response.chunks()) as chunks:
                        async for chunk in chunks:
                            body.add(chunk)
                    result = body.reply()
                finally:
                    await response.aclose()
            except TransportFailure as failure:
                result = failure
    except StopIteration as done:
        value: Item = done.value
        return value
