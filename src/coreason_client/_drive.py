"""Steps and results: what stream machines and unary flows exchange with their shells.

A machine holds every rule of a stream and does no I/O. A shell (`_drive_async`, and `_drive_sync`
which is generated from it) asks it for the next step, takes that step, feeds it what came back, and
hands out what it makes of it. When a machine stops reading, a side call may be made while the
response stays open, after which it may read on. A unary call is a flow: a generator that yields
steps and is sent their results.
"""

import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from ._http._types import FailureKind, Request, ResponseHead, TransportFailure

__all__ = [
    "MAX_BODY_BYTES",
    "BodyTooLarge",
    "Flow",
    "Reply",
    "ReplyBody",
    "SideCall",
    "StreamMachine",
    "Wait",
    "no_side_call",
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


def no_side_call() -> SideCall[Item]:
    """Return a side call that asks nothing and gives nothing."""

    def nothing() -> Flow[Iterable[Item]]:
        return ()
        yield Wait(0)  # which makes it a generator

    return nothing(), 0


class StreamMachine(Protocol[Item_co]):
    """What a shell needs of a machine."""

    def next_step(self) -> Request | Wait | None:
        """Return the next step; None when the stream is over."""

    def accepts(self, head: ResponseHead) -> bool:
        """Return True if this response carries the stream."""

    def refused(self, head: ResponseHead, body: bytes) -> None:
        """Record a response that does not carry the stream, with its bounded body."""

    def receive(self, chunk: bytes) -> Iterator[Item_co]:
        """Take bytes of the stream and iterate over what they complete."""

    @property
    def reading(self) -> bool:
        """Whether more bytes of this response are wanted."""

    def lost(self, failure: TransportFailure | None) -> Iterable[Item_co]:
        """Record that the connection is gone, with a failure or with a clean end.

        Return what only the end completes.
        """


class BodyTooLarge(TransportFailure):
    """The response body exceeded the limit; a retry would not help."""

    def __init__(self, head: ResponseHead, limit: int) -> None:
        super().__init__(FailureKind.TOO_LARGE, f"the body is larger than {limit} bytes")
        self.head = head


class ReplyBody:
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
        """Return the reply with all of its body."""
        return Reply(self._head, bytes(self._pieces))
