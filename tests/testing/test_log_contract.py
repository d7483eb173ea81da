"""The contract of a log finds what a wrong log does wrong."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from coreason_client.server import Fenced, LogError, MemoryStreamLog, PositionGone
from coreason_client.server.log import Claim, DurableLog, EpochStart, LeaseState, Notes, Page
from coreason_client.server.log.base import Follower
from coreason_client.testing.contracts.log_contract import (
    DurableLogContract,
    LogContract,
    ManualClock,
)

WRONG = (AssertionError, ValueError, pytest.fail.Exception, TimeoutError, LogError)


class Forgetful(MemoryStreamLog):
    """Stores a repeated append once more, as the next entries."""

    async def append(
        self,
        stream_id: UUID,
        epoch: int,
        first_seq: int,
        entries: Sequence[bytes],
        notes: Notes | None = None,
    ) -> bool:
        first_seq = (await self.meta(stream_id)).last_seq + 1
        return await super().append(stream_id, epoch, first_seq, entries, notes)


class Careless(MemoryStreamLog):
    """Does not look for missing notes if an append has none."""

    async def append(
        self,
        stream_id: UUID,
        epoch: int,
        first_seq: int,
        entries: Sequence[bytes],
        notes: Notes | None = None,
    ) -> bool:
        named = notes if notes and notes.notes else None
        return await super().append(stream_id, epoch, first_seq, entries, named)


class Generous(MemoryStreamLog):
    """Never takes a lease away."""

    async def claim_lost(self, owner: str, limit: int) -> Sequence[Claim]:
        return []

    async def renew(self, held: Mapping[UUID, int]) -> Mapping[UUID, LeaseState]:
        return dict.fromkeys(held, LeaseState.HELD)


class Greedy(MemoryStreamLog):
    """Returns one entry more than asked for."""

    async def read(
        self, stream_id: UUID, after_seq: int, limit: int, wait: float, after_epoch: int = 1
    ) -> Page:
        return await super().read(stream_id, after_seq, limit + 1, wait, after_epoch)


class Keeping(MemoryStreamLog):
    """Drops nothing."""

    async def expire(self, retention: float, final_retention: float) -> None:
        """Do nothing."""


class Counting(MemoryStreamLog):
    """Counts epochs, so a state that is put back counts them again."""

    def _claim(self, *arguments: Any) -> list[Claim]:
        claims = super()._claim(*arguments)
        for number, claim in enumerate(claims):
            stream = self._store.streams[claim.stream_id]
            *before, (first, _) = stream.epochs
            stream.epoch = before[-1][1] + 1 if before else 2
            stream.epochs = (*before, EpochStart(first, stream.epoch))
            claims[number] = replace(claim, epoch=stream.epoch)
        return claims


class Trusting(MemoryStreamLog):
    """Takes every position for that of the entry it has."""

    async def read(
        self, stream_id: UUID, after_seq: int, limit: int, wait: float, after_epoch: int = 1
    ) -> Page:
        epoch = (await self.meta(stream_id)).epoch_of(after_seq)
        return await super().read(stream_id, after_seq, limit, wait, epoch)


class Waiting(MemoryStreamLog):
    """Lets a reader that is open wait, whatever happens to its position."""

    def follow(self, stream_id: UUID, after_seq: int, after_epoch: int = 1) -> Follower:
        return Patient(super().follow(stream_id, after_seq, after_epoch))


class Patient(Follower):
    """A follower to which nothing is ever gone."""

    def __init__(self, inner: Follower) -> None:
        self._inner = inner
        self.position, self.epoch = inner.position, inner.epoch

    async def next(
        self, limit: int, wait: float, write: Callable[[bytes], bool] | None = None
    ) -> Page:
        try:
            page = await self._inner.next(limit, wait, write)
        except PositionGone:
            return Page([], False, self.epoch)
        self.position, self.epoch = self._inner.position, self._inner.epoch
        return page

    def close(self) -> None:
        self._inner.close()


class Unheld(MemoryStreamLog):
    """Lets anybody begin the next epoch."""

    async def claim_held(self, stream_id: UUID, epoch: int, owner: str) -> Claim:
        return await super().claim_held(stream_id, (await self.meta(stream_id)).epoch, owner)


class Impatient(MemoryStreamLog):
    """Refuses a repeated release."""

    async def release(self, stream_id: UUID, epoch: int) -> None:
        if (await self.meta(stream_id)).epoch != epoch:
            raise Fenced(stream_id, epoch)
        await super().release(stream_id, epoch)


class Unreleased(MemoryStreamLog):
    """Ignores releases."""

    async def release(self, stream_id: UUID, epoch: int) -> None:
        """Do nothing."""


def contract(kind: type[MemoryStreamLog]) -> DurableLogContract:
    class Tests(DurableLogContract):
        def make_log(self, clock: ManualClock, folder: Path) -> DurableLog:
            return kind(clock=clock)

    return Tests()


def failing(kind: type[MemoryStreamLog], folder: Path) -> set[str]:
    """Return the names of the tests that fail."""
    tests, failed = contract(kind), set()
    for name in sorted(vars_of(DurableLogContract)):
        try:
            getattr(tests, name)(folder)
        except WRONG:
            failed.add(name)
    return failed


def vars_of(kind: type) -> list[str]:
    return [name for name in dir(kind) if name.startswith("test_")]


def test_a_right_log_passes(tmp_path: Path) -> None:
    assert failing(MemoryStreamLog, tmp_path) == set()


@pytest.mark.proves("KIT-log-contract")
@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (Forgetful, "test_a_repeated_append_is_acknowledged_without_a_second_copy"),
        (Careless, "test_an_append_without_notes_may_name_the_next_one"),
        (Generous, "test_a_lost_stream_is_claimed_once_and_its_producer_fenced"),
        (Greedy, "test_reads_pages"),
        (Keeping, "test_entries_expire_before_the_description"),
        (Unreleased, "test_a_released_stream_is_claimed_at_once"),
        (Counting, "test_the_number_of_an_epoch_is_not_counted"),
        (Trusting, "test_a_position_of_another_epoch_is_gone"),
        (Waiting, "test_a_position_of_another_epoch_is_gone"),
        (Unheld, "test_only_the_holder_of_a_running_stream_claims_it"),
        (Impatient, "test_a_repeated_release_has_no_effect_until_the_stream_is_claimed"),
    ],
)
def test_a_wrong_log_fails(kind: type[MemoryStreamLog], found: str, tmp_path: Path) -> None:
    with pytest.raises(WRONG):
        getattr(contract(kind), found)(tmp_path)


def test_the_durable_contract_has_all_tests_of_the_other() -> None:
    plain, durable = set(vars_of(LogContract)), set(vars_of(DurableLogContract))
    assert plain < durable
    assert (len(plain), len(durable)) == (46, 65)


def test_a_class_without_a_log_cannot_be_used() -> None:
    with pytest.raises(TypeError, match="make_log"):
        LogContract()  # type: ignore[abstract]
