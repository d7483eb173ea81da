"""Streams of an earlier release on Valkey, which counted epochs: alone, and beside this release.

Its claims count up the field `epoch`, set `base` to the number of the last entry, and for a durable
stream add the next number to `starts`. It does not know the field `epochs`.
"""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.errors import PositionGone
from coreason_client.server.log import AgentVersion, EpochStart, NewStream, ValkeyStreamLog
from coreason_client.server.log.valkey._keys import parse_epochs
from coreason_client.server.log.valkey._scripts import _EPOCHS

from ..aio import aio
from .backends import Clock
from .valkey_logs import logs
from .valkey_server import shared_server

AGENT = AgentVersion("writer", "1")


def command(*arguments: Any) -> Any:
    """Ask the store something, past the log."""
    return shared_server().command(*arguments)


class Stream:
    """A stream, the entries in it and its epochs as they really were."""

    def __init__(self, log: ValkeyStreamLog, clock: Clock, *, durable: bool) -> None:
        self._log = log
        self._clock = clock
        self._durable = durable
        self.id = uuid4()
        self.key = log._keys.meta(self.id)
        self.epochs = [EpochStart(1, 1)]
        self.last = 0

    async def open(self) -> None:
        agent = AGENT if self._durable else None
        await self._log.open(NewStream(self.id, "ann", uuid4(), "f", b"q", agent), "me")

    async def write(self, count: int) -> None:
        entries = [b"%d" % seq for seq in range(self.last + 1, self.last + count + 1)]
        await self._log.append(self.id, self.epochs[-1].epoch, self.last + 1, entries)
        self.last += count

    def claim_by_an_earlier_release(self) -> None:
        epoch = command("HINCRBY", self.key, "epoch", 1)
        command("HSET", self.key, "base", self.last, "note_base", 0, "claim", uuid4().hex)
        if self._durable:
            starts = command("HGET", self.key, "starts") or b""
            command("HSET", self.key, "starts", starts + b" %d" % (self.last + 1))
        self.epochs.append(EpochStart(self.last + 1, int(epoch)))

    async def claim(self) -> None:
        self._clock.forward(self._log.lease + 1)
        if self._durable:
            [claim] = await self._log.claim_durable("me", AGENT, 10)
        else:
            [claim] = await self._log.claim_lost("me", 10)
        assert (claim.last_seq, claim.question) == (self.last, b"q")
        assert claim.epoch > 2**32
        assert claim.epoch > self.epochs[-1].epoch
        self.epochs.append(EpochStart(self.last + 1, claim.epoch))

    async def check(self) -> None:
        """Check the description of the stream, and every position in it."""
        meta = await self._log.meta(self.id)
        assert (meta.epoch, meta.last_seq) == (self.epochs[-1].epoch, self.last)
        assert meta.epochs == tuple(self.epochs[1:])
        numbers = {epoch for _, epoch in self.epochs}
        for seq in range(1, self.last + 1):
            [*_, right] = [epoch for first, epoch in self.epochs if first <= seq]
            page = await self._log.read(self.id, seq, 100, 0, right)
            assert list(page.entries) == [b"%d" % one for one in range(seq + 1, self.last + 1)]
            for wrong in numbers - {right}:
                with pytest.raises(PositionGone):
                    await self._log.read(self.id, seq, 100, 0, wrong)


@pytest.mark.parametrize(
    ("durable", "claims"),
    [
        *((durable, "old") for durable in (True, False)),
        *((durable, "old new") for durable in (True, False)),
        *((durable, "new old") for durable in (True, False)),
        *((durable, "old new old new new old") for durable in (True, False)),
        (True, "old old old"),
    ],
)
@aio
async def test_streams_of_both_releases(durable: bool, claims: str) -> None:
    clock = Clock()
    async with logs(clock=clock) as (log,):
        stream = Stream(log, clock, durable=durable)
        await stream.open()
        await stream.write(3)
        for claim in claims.split():
            if claim == "old":
                stream.claim_by_an_earlier_release()
            else:
                await stream.claim()
            await stream.check()
            await stream.write(2)
            await stream.check()
        await stream.claim()
        await stream.check()
        # From now on nothing has to be counted.
        stored = command("HMGET", stream.key, "starts", "epochs")
        firsts, numbers = ([int(word) for word in field.split()] for field in stored)
        assert list(zip(firsts, numbers, strict=True)) == [tuple(one) for one in stream.epochs[1:]]


@aio
async def test_a_plain_stream_that_an_earlier_release_claimed_twice_still_has_one_order() -> None:
    """It does not store where the first of both began: no entry was written in it."""
    clock = Clock()
    async with logs(clock=clock) as (log,):
        stream = Stream(log, clock, durable=False)
        await stream.open()
        await stream.write(3)
        stream.claim_by_an_earlier_release()
        stream.claim_by_an_earlier_release()
        del stream.epochs[1]
        await stream.check()
        await stream.claim()
        await stream.write(1)
        await stream.check()


@aio
async def test_a_stream_that_an_earlier_release_gave_away_is_claimed() -> None:
    clock = Clock()
    async with logs(clock=clock) as (log,):
        stream = Stream(log, clock, durable=True)
        await stream.open()
        await stream.write(2)
        stream.claim_by_an_earlier_release()  # a release does the same
        await stream.check()
        await stream.claim()
        await stream.write(1)
        epoch = stream.epochs[-1].epoch
        await log.release(stream.id, epoch)
        await log.release(stream.id, epoch)


# The rule in Python and the one in the store.


def in_the_store(epoch: int, *fields: bytes | None) -> list[tuple[int, int]]:
    """Return the epochs as the scripts of the store find them."""
    script = (
        _EPOCHS
        + """
local given = {}
for i = 2, 4 do given[i] = ARGV[i] ~= 'none' and ARGV[i] or false end
local firsts, numbers = epochs_of(ARGV[1], given[2], given[3], given[4])
return {firsts, numbers}
"""
    )
    words: list[Any] = [b"none" if field is None else field for field in fields]
    firsts, numbers = command("EVAL", script, 0, epoch, *words)
    return list(zip(map(int, firsts), map(int, numbers), strict=True))


def as_field(numbers: Sequence[int]) -> bytes | None:
    return b"".join(b" %d" % number for number in numbers) or None


NUMBERS = st.integers(1, 2**53 - 10)


@given(
    st.lists(st.integers(1, 10**9), max_size=6).map(sorted),
    st.lists(NUMBERS.filter(lambda number: number > 1), max_size=6, unique=True).map(sorted),
    st.integers(0, 3) | NUMBERS,
    st.none() | st.integers(0, 10**9),
    st.booleans(),
)
def test_the_store_and_the_description_agree(
    firsts: list[int], numbers: list[int], extra: int, base: int | None, current: bool
) -> None:
    numbers = numbers[: len(firsts)]  # both fields are written together, or `starts` alone
    counted = (numbers[-1] if numbers else 1) + len(firsts) - len(numbers)
    epoch = counted if current else counted + extra
    stored_base = None if base is None else b"%d" % base
    fields = (stored_base, as_field(firsts), as_field(numbers))
    found = parse_epochs(epoch, *fields)
    assert in_the_store(epoch, *fields) == [tuple(one) for one in found]
    assert (found[-1].epoch if found else 1) == epoch
    epochs = [1, *(one.epoch for one in found)]
    assert epochs == sorted(set(epochs))
