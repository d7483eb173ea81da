"""The shells of a unary call that need the whole body of an answer, sync and async.

`_drive.run` is for answers of which the beginning is enough; here an answer counts only when it
is complete. So a break in the middle is a failure, and a body is bounded by size and by time. The
shells of the pair are the same lines; what differs is the word `await`.
"""

import time
from contextlib import aclosing, closing
from typing import TypeVar

from .._drive import MAX_BODY_BYTES, AsyncOpener, Flow, Reply, SyncOpener, Wait
from .._http._types import FailureKind, Request, ResponseHead, TransportFailure
from ._call import BodyTooLarge

__all__ = ["exchange", "exchange_async"]

Value = TypeVar("Value")


class _Body:
    """Gathers a body within its bounds."""

    def __init__(self, request: Request, head: ResponseHead, limit: int, start: float) -> None:
        self._head = head
        self._limit = limit
        read = None if request.timeouts is None else request.timeouts.read
        self._deadline = None if read is None else start + read
        self._pieces = bytearray()

    def add(self, chunk: bytes) -> None:
        """Add bytes.

        Raises:
            TransportFailure: one bound or the other is passed.
        """
        self._pieces += chunk
        if len(self._pieces) > self._limit:
            raise BodyTooLarge(self._head, self._limit)
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise TransportFailure(FailureKind.TIMEOUT, "the answer was not complete in time")

    def reply(self) -> Reply:
        """Return the complete answer."""
        return Reply(self._head, bytes(self._pieces))


def exchange(flow: Flow[Value], sender: SyncOpener, limit: int) -> Value:
    """Run a flow to its end and return its value."""
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
                    if response.head.status >= 300:
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
        value: Value = done.value
        return value


async def exchange_async(flow: Flow[Value], sender: AsyncOpener, limit: int) -> Value:
    """Run a flow to its end and return its value."""
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
                    if response.head.status >= 300:
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
        value: Value = done.value
        return value
