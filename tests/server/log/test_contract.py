"""The contract of `coreason_client.server.log.base`, held against every log."""

import asyncio
import tempfile
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coreason_client.server.errors import (
    Fenced,
    OutOfSequence,
    PositionGone,
    RequestConflict,
    UnknownStream,
)
from coreason_client.server.log import Claim, DurableLog, LeaseState
from coreason_client.testing.contracts._log_tests import entries
from coreason_client.testing.contracts._log_tests import new_stream as new
from coreason_client.testing.contracts.log_contract import DurableLogContract
from tests.fuzz.strategies import examples

from .backends import BACKENDS, Clock

PROVED = {
    "test_opens_reads_and_closes": pytest.mark.proves("RES2-4a", "RES2-4b"),
    "test_a_known_request_gives_the_same_stream": pytest.mark.proves("R02g", "RES2-1d"),
    "test_an_append_follows_the_last_entry": pytest.mark.proves("RES2-1b"),
    "test_a_repeated_append_of_another_epoch_is_refused": pytest.mark.proves("DUR-9-epochs"),
    "test_reads_pages": pytest.mark.proves("RES2-3"),
    "test_a_lost_stream_is_claimed_once_and_its_producer_fenced": pytest.mark.proves("RES2-4a"),
    "test_a_cancel_reaches_the_producer_both_ways": pytest.mark.proves("RES2-9d"),
    "test_entries_expire_before_the_description": pytest.mark.proves(
        "RES2-7a", "RES2-7b", "RES2-7c"
    ),
    "test_a_repeated_append_with_notes_has_no_effect": pytest.mark.proves("DUR-2-empty-append"),
    "test_notes_are_fenced_and_never_overtake_packets": pytest.mark.proves("DUR-2-empty-append"),
    "test_the_end_drops_the_journal": pytest.mark.proves("DUR-7-request"),
    "test_only_a_process_of_the_same_agent_continues_a_stream": pytest.mark.proves("DUR-8-claims"),
    "test_another_version_waits_one_lease_longer": pytest.mark.proves("DUR-8-claims"),
    "test_any_process_ends_a_stream_that_is_not_continued": pytest.mark.proves("DUR-8-claims"),
    "test_a_released_stream_is_claimed_at_once": pytest.mark.proves("DUR-11-hand-over"),
    "test_the_turn_of_the_latest_epoch_counts": pytest.mark.proves("DUR-12-turns"),
}
for _name, _mark in PROVED.items():
    _mark(getattr(DurableLogContract, _name))


def contract_of(backend: str) -> type[DurableLogContract]:
    """Return the tests of the contract for one of the logs."""

    class Tests(DurableLogContract):
        def make_log(self, clock: Clock, folder: Path) -> DurableLog:
            return BACKENDS[backend](clock, folder)

    return Tests


TestMemory = contract_of("memory")
TestSQLite = contract_of("sqlite")
TestSQLiteUncached = contract_of("sqlite-uncached")
TestSQLiteMoving = contract_of("sqlite-moving")
TestValkey = contract_of("valkey")
TestValkeyCluster = contract_of("valkey-cluster")
TestPostgres = contract_of("postgres")
TestPostgresPooled = contract_of("postgres-pooled")


def test_every_log_has_its_tests() -> None:
    assert len(BACKENDS) == 8


# Whatever happens, in whatever order: a log is a list with an owner.


class _Model:
    def __init__(self, fingerprint: str, request: UUID) -> None:
        self.fingerprint = fingerprint
        self.request = request
        self.entries: list[bytes] = []
        self.epochs: list[tuple[int, int]] = [(1, 1)]  # first number, epoch
        self.lease_until = 0.0
        self.ended_at: float | None = None
        self.cancel = False
        self.gone = False

    @property
    def epoch(self) -> int:
        return self.epochs[-1][1]

    def epoch_of(self, seq: int) -> int:
        return [epoch for first, epoch in self.epochs if first <= max(seq, 1)][-1]

    def is_gone(self, seq: int, epoch: int) -> bool:
        """Return True if a position must not be read."""
        ended, last = self.ended_at is not None, len(self.entries)
        wrong = seq > 0 and (self.epoch_of(seq) != epoch or (ended and seq > last))
        return wrong or (self.gone and seq < last)


class LogMachine(RuleBasedStateMachine):
    """Does anything to a log and to a model of it, and compares what they say."""

    backend = "memory"
    RETENTION, FINAL = 50.0, 200.0

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.clock = Clock()
        self.log = BACKENDS[self.backend](self.clock, Path(self.folder.name))
        self.runner = asyncio.Runner()
        self.runner.run(self.log.start("me"))
        self.model: dict[UUID, _Model] = {}
        self.by_request: dict[UUID, UUID] = {}

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.run(self.log.stop("me"))
            self.runner.close()
            self.folder.cleanup()

    requests = st.sampled_from([UUID(int=number) for number in range(1, 5)])

    @rule(request=requests, body=st.sampled_from("ab"))
    def open(self, request: UUID, body: str) -> None:
        stream = new(request_id=request, body=body, question=request.bytes)
        known = self.by_request.get(request)
        if known is not None and self.model[known].fingerprint != body:
            with pytest.raises(RequestConflict):
                self.runner.run(self.log.open(stream, "me"))
            return
        opened = self.runner.run(self.log.open(stream, "me"))
        assert opened.created == (known is None)
        if known is None:
            self.by_request[request] = stream.stream_id
            self.model[stream.stream_id] = made = _Model(body, request)
            made.lease_until = self.clock.now + self.log.lease
        else:
            assert opened.meta.stream_id == known

    @rule(
        request=requests,
        back=st.integers(0, 1),
        first=st.integers(-1, 1),
        count=st.integers(1, 3),
        ends=st.booleans(),
    )
    def append(self, request: UUID, back: int, first: int, count: int, ends: bool) -> None:
        id_ = self.by_request.get(request)
        if id_ is None:
            return
        model = self.model[id_]
        last = len(model.entries)
        if back >= len(model.epochs) or (first_seq := last + 1 + first) < 1:
            return
        epoch = model.epochs[-1 - back][1]
        batch = entries(*range(first_seq, first_seq + count))
        call = (
            self.log.close(id_, epoch, first_seq, batch, "done")
            if ends
            else self.log.append(id_, epoch, first_seq, batch)
        )
        repeated = model.epochs[-1][0] <= first_seq <= first_seq + count - 1 <= last
        if back or (model.ended_at is not None and not repeated):
            with pytest.raises(Fenced):
                self.runner.run(call)
        elif repeated:
            self.runner.run(call)
        elif first_seq != last + 1:
            with pytest.raises(OutOfSequence):
                self.runner.run(call)
        else:
            cancel = self.runner.run(call)
            model.entries += batch
            if ends:
                model.ended_at = self.clock.now
            else:
                assert cancel == model.cancel

    @rule(request=requests)
    def cancel(self, request: UUID) -> None:
        if (id_ := self.by_request.get(request)) is not None:
            self.runner.run(self.log.request_cancel(id_))
            if self.model[id_].ended_at is None:
                self.model[id_].cancel = True

    @rule(request=requests)
    def renew(self, request: UUID) -> None:
        if (id_ := self.by_request.get(request)) is None:
            return
        model = self.model[id_]
        states = self.runner.run(self.log.renew({id_: model.epoch}))
        if model.ended_at is not None:
            assert states == {id_: LeaseState.LOST}
        else:
            model.lease_until = self.clock.now + self.log.lease
            wanted = LeaseState.CANCEL_REQUESTED if model.cancel else LeaseState.HELD
            assert states == {id_: wanted}

    @rule()
    def claim(self) -> None:
        claims = {claim.stream_id: claim for claim in self.runner.run(self.log.claim_lost("h", 99))}
        for id_, model in self.model.items():
            lost = model.ended_at is None and model.lease_until <= self.clock.now
            assert (id_ in claims) == lost
            if lost:
                self.claimed(id_, claims[id_])

    @rule(request=requests, back=st.integers(0, 1))
    def claim_held(self, request: UUID, back: int) -> None:
        id_ = self.by_request.get(request)
        if id_ is None or back >= len(self.model[id_].epochs):
            return
        model = self.model[id_]
        call = self.log.claim_held(id_, model.epochs[-1 - back][1], "h")
        if back or model.ended_at is not None:
            with pytest.raises(Fenced):
                self.runner.run(call)
        else:
            self.claimed(id_, self.runner.run(call))

    def claimed(self, id_: UUID, claim: Claim) -> None:
        model = self.model[id_]
        assert claim.epoch > model.epoch
        assert claim == Claim(id_, claim.epoch, len(model.entries), model.request.bytes)
        model.epochs.append((len(model.entries) + 1, claim.epoch))
        model.lease_until = self.clock.now + self.log.lease

    @rule(seconds=st.sampled_from([1.0, 6.0, 60.0, 150.0]))
    def wait(self, seconds: float) -> None:
        self.clock.forward(seconds)

    @rule()
    def expire(self) -> None:
        self.runner.run(self.log.expire(self.RETENTION, self.FINAL))
        for request, id_ in list(self.by_request.items()):
            model = self.model[id_]
            age = 0.0 if model.ended_at is None else self.clock.now - model.ended_at
            model.gone = model.gone or age >= self.RETENTION
            if age >= self.FINAL:
                del self.by_request[request], self.model[id_]
                with pytest.raises(UnknownStream):
                    self.runner.run(self.log.meta(id_))

    @rule()
    def restart(self) -> None:
        self.runner.run(self.log.stop("me"))
        self.runner.run(self.log.start("me"))
        if self.backend == "sqlite":  # another process might have been the one before
            for model in self.model.values():
                model.lease_until = 0.0

    @invariant()
    def reads_what_was_appended(self) -> None:
        for id_, model in getattr(self, "model", {}).items():
            last = len(model.entries)
            for after in {0, last // 2, last, last + 1}:
                for epoch in {1, model.epoch, model.epoch_of(after)}:
                    self.reads(id_, after, epoch)

    def reads(self, id_: UUID, after: int, epoch: int) -> None:
        model = self.model[id_]
        call = self.log.read(id_, after, 100, 0, epoch)
        if model.is_gone(after, epoch):
            with pytest.raises(PositionGone):
                self.runner.run(call)
            return
        page = self.runner.run(call)
        assert list(page.entries) == model.entries[after:]
        assert page.ended == (model.ended_at is not None)
        assert page.epoch == (model.epoch_of(len(model.entries)) if page.entries else epoch)


class SQLiteMachine(LogMachine):
    backend = "sqlite"


class ValkeyMachine(LogMachine):
    backend = "valkey"


class PostgresMachine(LogMachine):
    backend = "postgres"


MACHINE_SETTINGS = settings(
    examples(40),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestMemoryMachine = LogMachine.TestCase
TestMemoryMachine.settings = MACHINE_SETTINGS
TestSQLiteMachine = SQLiteMachine.TestCase
TestSQLiteMachine.settings = MACHINE_SETTINGS
TestValkeyMachine = ValkeyMachine.TestCase
TestValkeyMachine.settings = MACHINE_SETTINGS
TestPostgresMachine = PostgresMachine.TestCase
TestPostgresMachine.settings = MACHINE_SETTINGS
