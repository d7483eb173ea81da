"""The contract of a log finds what a wrong log does wrong."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import UUID

import pytest

from coreason_client.server import MemoryStreamLog
from coreason_client.server.log import Claim, DurableLog, LeaseState, Notes, Page
from coreason_client.testing.contracts.log_contract import (
    DurableLogContract,
    LogContract,
    ManualClock,
)

WRONG = (AssertionError, ValueError, pytest.fail.Exception, TimeoutError)


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


class Generous(MemoryStreamLog):
    """Never takes a lease away."""

    async def claim_lost(self, owner: str, limit: int) -> Sequence[Claim]:
        return []

    async def renew(self, held: Mapping[UUID, int]) -> Mapping[UUID, LeaseState]:
        return dict.fromkeys(held, LeaseState.HELD)


class Greedy(MemoryStreamLog):
    """Returns one entry more than asked for."""

    async def read(self, stream_id: UUID, after_seq: int, limit: int, wait: float) -> Page:
        return await super().read(stream_id, after_seq, limit + 1, wait)


class Keeping(MemoryStreamLog):
    """Drops nothing."""

    async def expire(self, retention: float, final_retention: float) -> None:
        """Do nothing."""


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


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (Forgetful, "test_a_repeated_append_is_acknowledged_without_a_second_copy"),
        (Generous, "test_a_lost_stream_is_claimed_once_and_its_producer_fenced"),
        (Greedy, "test_reads_pages"),
        (Keeping, "test_entries_expire_before_the_description"),
        (Unreleased, "test_a_released_stream_is_claimed_at_once"),
    ],
)
def test_a_wrong_log_fails(kind: type[MemoryStreamLog], found: str, tmp_path: Path) -> None:
    with pytest.raises(WRONG):
        getattr(contract(kind), found)(tmp_path)


def test_the_durable_contract_has_all_tests_of_the_other() -> None:
    plain, durable = set(vars_of(LogContract)), set(vars_of(DurableLogContract))
    assert plain < durable
    assert (len(plain), len(durable)) == (33, 49)


def test_a_class_without_a_log_cannot_be_used() -> None:
    with pytest.raises(TypeError, match="make_log"):
        LogContract()  # type: ignore[abstract]
