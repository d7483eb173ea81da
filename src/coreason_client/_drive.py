"""Steps and results that stream machines and unary flows exchange with their shells.

A stream machine contains all rules of a stream and does no I/O. A shell (`_drive_async`, and
`_drive_sync`, which is generated from it) asks the machine for the next step, performs it, passes
the result to the machine and yields the items that the machine returns. When a machine stops
reading, the shell may make a side call while the response stays open, and then continue reading.
A unary call is a flow: a generator that yields steps and receives their results.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from . import _ownership
from ._http._types import FailureKind, Request, ResponseHead, TransportFailure

# What a stream shares with the shell that reads it: whether to go on, and in which event loop.


def is_running(generator: object) -> bool:
    """Return True if another thread or task is reading from a generator, sync or async."""
    return any(getattr(generator, name, False) for name in ("gi_running", "ag_running"))


class OtherLoopError(RuntimeError):
    """A stream was read or closed in another event loop than that of its connection."""


class Reading:
    """The state of reading one stream; `to_continue` says how to continue it elsewhere.

    Attributes:
        stopped: the caller wants no more; another thread or task may be waiting for bytes.
        loop: the event loop of the connection; None in sync streams and under trio.
        process: the process that opened the stream; in a forked child there is another error.
    """

    __slots__ = ("_to_continue", "loop", "process", "stopped")

    def __init__(self, to_continue: str = "") -> None:
        self._to_continue = to_continue
        self.stopped = False
        self.loop: Any = None
        self.process = _ownership.OwnerProcess()

    def check_loop(self) -> None:
        """Raise an error in another event loop than that of the connection.

        The stream is not changed: its own loop can read it further, and must close it.

        Raises:
            OtherLoopError: this is another event loop.
        """
        if self.loop is None or not self.process.is_current:
            return
        import asyncio  # slow to import; already loaded when there is a loop

        if asyncio._get_running_loop() is self.loop:
            return
        if self.loop.is_closed():
            where, cure = "an event loop that is closed by now", ""
        else:
            where, cure = "another event loop", "read and close it in that loop, or "
        raise OtherLoopError(
            f"this stream was opened in {where}; {cure}open a new stream in this loop"
            f"{self._to_continue}"
        )


# The limit for bodies that are not streams: enough for any problem document, and a bound on the
# memory that a broken server can use.
MAX_BODY_BYTES = 65_536

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Wait:
    """A step: wait for this number of seconds."""

    seconds: float


class Action(ABC):
    """A step that is neither a request nor a wait, such as asking for a token.

    A shell performs it and goes on; the result, or the failure, is stored in the action.
    """

    __slots__ = ()

    @abstractmethod
    def perform(self) -> None:
        """Perform the action; may block."""

    @abstractmethod
    async def perform_async(self) -> None:
        """Perform the action without blocking the event loop."""


Step: TypeAlias = Request | Wait | Action
"""A request of a machine or a flow to its shell."""


@dataclass(slots=True)  # not frozen: that would double the cost of creating one
class Reply:
    """The response to a request of a flow; error bodies are truncated to MAX_BODY_BYTES."""

    head: ResponseHead
    body: bytes


Flow: TypeAlias = Generator[Step, Reply | TransportFailure | None, Item]
"""A unary call: receives a reply or failure per request, else None; returns its value."""


SideCall: TypeAlias = tuple[Flow[Iterable[Item]], int]
"""A call during a stream: a flow that returns items of the stream, and its body size limit."""


def no_side_call() -> SideCall[Item]:
    """Return a side call that sends no request and returns no items."""

    def empty_flow() -> Flow[Iterable[Item]]:
        return ()
        yield Wait(0)  # makes this function a generator

    return empty_flow(), 0


class StreamMachine(Protocol[Item_co]):
    """The methods of a stream machine that a shell calls."""

    def next_step(self) -> Step | None:
        """Return the next step; None when the stream is over."""

    def accepts(self, head: ResponseHead) -> bool:
        """Return True if this response carries the stream."""

    def refused(self, head: ResponseHead, body: bytes) -> None:
        """Record a response that does not carry the stream; its body may be truncated."""

    def receive(self, chunk: bytes) -> Iterator[Item_co]:
        """Process bytes of the stream and iterate over the items that they complete."""

    @property
    def reading(self) -> bool:
        """True if the current response is to be read further."""

    def lost(self, failure: TransportFailure | None) -> Iterable[Item_co]:
        """Record that the connection ended, with a failure or cleanly (None).

        Return the items that are complete only at the end.
        """


class BodyTooLarge(TransportFailure):
    """The response body exceeded the limit; a retry would not help."""

    def __init__(self, head: ResponseHead, limit: int) -> None:
        super().__init__(FailureKind.TOO_LARGE, f"the body is larger than {limit} bytes")
        self.head = head


class ReplyBody:
    """Collects a response body, which is used only if it is complete."""

    __slots__ = ("_body", "_deadline", "_head", "_limit")

    def __init__(self, request: Request, head: ResponseHead, limit: int, start: float) -> None:
        self._head = head
        self._limit = limit
        read = None if request.timeouts is None else request.timeouts.read
        self._deadline = None if read is None else start + read
        self._body: bytes | bytearray = b""

    def add(self, chunk: bytes) -> None:
        """Add bytes.

        Raises:
            TransportFailure: the body exceeds its size limit or its time limit.
        """
        if not self._body:
            self._body = chunk  # most bodies arrive in one chunk, which is not copied
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += chunk
        if len(self._body) > self._limit:
            raise BodyTooLarge(self._head, self._limit)
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise TransportFailure(
                FailureKind.TIMEOUT, "the response body was not complete in time"
            )

    def reply(self) -> Reply:
        """Return the reply with its complete body."""
        return Reply(self._head, bytes(self._body))
