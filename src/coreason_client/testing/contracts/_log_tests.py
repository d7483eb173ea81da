"""The base class and the helper functions of the tests of a log."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

from ...server.log import Claim, EpochStart, NewStream, StreamLog

LONG: Final = 60.0  # a wait that is always ended by something else
_LIMIT: Final = 30.0  # seconds for one test


class ManualClock:
    """A clock for the log under test: its time changes only when a test moves it forward."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now

    def forward(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


class LogTests(ABC):
    """Tests that each get their own log.

    Attributes:
        clock: the clock of the log.
    """

    clock: ManualClock

    @abstractmethod
    def make_log(self, clock: ManualClock, folder: Path) -> StreamLog:
        """Return a new, empty log that has not been started.

        It must take the time of leases and retention from `clock`. It may store files in `folder`,
        which is empty.
        """

    async def run_test(self, test: Callable[..., Coroutine[Any, Any, None]], folder: Path) -> None:
        """Run a test with a log that is started before it and stopped after it."""
        self.clock = ManualClock()
        log = self.make_log(self.clock, folder)
        await log.start("me")
        try:
            await test(self, log)
        finally:
            await log.stop("me")


def contract_test(
    test: Callable[..., Coroutine[Any, Any, None]],
) -> Callable[[LogTests, Path], None]:
    """Make a method with a log one that pytest calls with a folder."""

    # Not `functools.wraps`: pytest would take the arguments of the wrapped method for fixtures.
    def run(self: LogTests, tmp_path: Path) -> None:
        asyncio.run(asyncio.wait_for(self.run_test(test, tmp_path), _LIMIT))

    run.__name__, run.__qualname__, run.__doc__ = test.__name__, test.__qualname__, test.__doc__
    return run


def new_stream(
    principal: str = "ann", request_id: UUID | None = None, body: str = "b", question: bytes = b""
) -> NewStream:
    """Return the arguments for a stream."""
    return NewStream(uuid4(), principal, request_id or uuid4(), body, question)


async def open_stream(log: StreamLog, stream: NewStream | None = None) -> UUID:
    """Open a stream, and return its id."""
    return (await log.open(stream or new_stream(), "me")).meta.stream_id


def entries(*numbers: int) -> list[bytes]:
    """Return entries that show their numbers."""
    return [b"entry %d" % number for number in numbers]


async def read(
    log: StreamLog, id_: UUID, after: int = 0, limit: int = 100, epoch: int = 1
) -> list[bytes]:
    """Return entries that are already there; `epoch` is that of the position."""
    return list((await log.read(id_, after, limit, 0, epoch)).entries)


async def check_claim(
    log: StreamLog, claims: Sequence[Claim], id_: UUID, last_seq: int, question: bytes = b""
) -> int:
    """Check that a stream, and no other one, was claimed; return the epoch of the claim."""
    [claim] = claims
    assert claim == Claim(id_, claim.epoch, last_seq, question)
    meta = await log.meta(id_)
    assert (meta.epoch, meta.epochs[-1]) == (claim.epoch, EpochStart(last_seq + 1, claim.epoch))
    numbers = [1, *(start.epoch for start in meta.epochs)]
    assert numbers == sorted(set(numbers))
    return claim.epoch


async def let_run(turns: int = 20) -> None:
    """Let the tasks run that are ready."""
    for _ in range(turns):
        await asyncio.sleep(0)
