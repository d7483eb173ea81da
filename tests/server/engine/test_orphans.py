"""Orphaned streams: each one ends, with its reason and its turn."""

import logging
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest

from coreason_client.server import AgentApp, LogUnavailable, MemoryStreamLog
from coreason_client.server.engine import _orphans
from coreason_client.server.engine._conversation import (
    dump_question,
    parse_history,
    waiting_request,
)
from coreason_client.server.engine._orphans import Orphans, UnwrittenEnd
from coreason_client.server.engine._packets import CANCELLED, SERVER_STOPPED, Frames
from coreason_client.server.errors import Fenced
from coreason_client.server.log import Claim, Conversation, EpochStart, NewStream
from coreason_client.server.observe._metrics import (
    NO_METRICS,
    NOT_METERED,
    Metrics,
    StreamMeter,
)
from coreason_manifest.definitions.presentation import StreamOpCode
from coreason_manifest.definitions.service import ServiceRequest

from ..aio import aio, turns
from ..faulty_log import WRITES, Faulty, runtime_of, silent, start_stream
from ..log.backends import Clock
from ..peer import LIMIT, envelope

TALK = Conversation("p", "s")


class CountedMetrics(Metrics):
    """Metrics that count the streams that were taken over."""

    def __init__(self) -> None:
        self.count = 0

    def taken_over(self) -> None:
        self.count += 1


class Meter(StreamMeter):
    """A meter that records its calls."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def appended(
        self, first_seq: int, count: int, other_ops: Sequence[StreamOpCode], *_: float
    ) -> None:
        self.calls.append((first_seq, count, list(other_ops)))

    def ended(self, outcome: str) -> None:
        self.calls.append(outcome)


async def lost_stream(log: MemoryStreamLog, *texts: str, question: bytes | None = None) -> UUID:
    """Open a stream, append its text, and let its lease run out."""
    request = ServiceRequest.model_validate(envelope())
    if question is None:
        question = dump_question("p", request)
    stream_id = uuid4()
    await log.open(NewStream(stream_id, "p", request.request_id, "f", question), "dead")
    if texts:
        frames = Frames(stream_id)
        await log.append(
            stream_id, 1, 1, [frames.delta(seq, text) for seq, text in enumerate(texts, 1)]
        )
    log._store.streams[stream_id].lease_until = 0.0
    return stream_id


# Streams whose lease has run out.


@aio
async def test_a_lost_stream_ends_with_its_text_in_the_conversation() -> None:
    log, metrics = Faulty(), CountedMetrics()
    stream_id = await lost_stream(log, "one ", "two")
    log.calls.clear()
    await Orphans(log, "me", metrics).close_lost()
    assert log.calls.index("add_turn") < log.calls.index("close")  # before a reader sees the end
    meta = await log.meta(stream_id)
    assert (meta.outcome, meta.last_seq, metrics.count) == ("producer_lost", 3, 1)
    [turn] = await log.turns(TALK, 10)
    assert (
        parse_history([turn]).turns[0].outcome,
        parse_history([turn]).turns[0].messages[-1].text,
    ) == (
        "producer_lost",
        "one two",
    )


@aio
async def test_more_streams_than_a_batch_and_more_entries_than_a_page_are_handled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_orphans, "_BATCH", 2)
    monkeypatch.setattr(_orphans, "_PAGE", 2)
    log, metrics = MemoryStreamLog(), CountedMetrics()
    ids = [await lost_stream(log, *"01234") for _ in range(5)]
    await Orphans(log, "me", metrics).close_lost()
    assert [(await log.meta(id_)).outcome for id_ in ids] == ["producer_lost"] * 5
    assert metrics.count == 5
    texts = [parse_history([turn]).turns[0].messages[-1].text for turn in await log.turns(TALK, 10)]
    assert texts == ["01234"] * 5


@aio
async def test_a_lost_stream_that_was_cancelled_ends_as_cancelled() -> None:
    log = MemoryStreamLog()
    cancelled, lost = await lost_stream(log, "text"), await lost_stream(log, "text")
    await log.request_cancel(cancelled)
    await Orphans(log, "me", NO_METRICS).close_lost()
    outcomes = [(await log.meta(id_)).outcome for id_ in (cancelled, lost)]
    assert outcomes == ["cancelled", "producer_lost"]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        pytest.param(b"", [], id="of an older release"),
        pytest.param(b'{"of the user": 1}', ["is damaged (ValueError)"], id="damaged"),
    ],
)
@aio
async def test_a_stream_whose_turn_cannot_be_stored_ends_all_the_same(
    question: bytes, words: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    log = MemoryStreamLog()
    stream_id = await lost_stream(log, "text", question=question)
    with caplog.at_level(logging.WARNING, "coreason_client.server"):
        await Orphans(log, "me", NO_METRICS).close_lost()
    assert (await log.meta(stream_id)).outcome == "producer_lost"
    assert list(await log.turns(TALK, 10)) == []
    lines = [line for record in caplog.records if "turn" in (line := record.getMessage())]
    assert lines == [
        f"the turn of stream {stream_id} was not stored: its stored question or text {word}"
        for word in words  # without what the user wrote
    ]


@aio
async def test_a_damaged_text_is_not_quoted_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    log = MemoryStreamLog()
    stream_id = await lost_stream(log)
    damaged = b'id: 1\ndata: {"op":"DELTA","text":"a secret"}\n\n'
    await log.append(stream_id, 1, 1, [damaged])
    await Orphans(log, "me", NO_METRICS).close_lost()
    assert (await log.meta(stream_id)).outcome == "producer_lost"
    assert "is damaged (ValueError)" in caplog.text
    assert "a secret" not in caplog.text


@aio
async def test_a_turn_that_was_not_stored_before_the_end_is_stored_after_it() -> None:
    class Full(MemoryStreamLog):
        async def add_turn(self, *args: Any) -> None:
            if (await self.meta(stream_id)).outcome is None:
                raise LogUnavailable("full")
            await super().add_turn(*args)

    log = Full()
    stream_id = await lost_stream(log, "text")
    await Orphans(log, "me", NO_METRICS).close_lost()
    [turn] = await log.turns(TALK, 10)
    assert parse_history([turn]).turns[0].messages[-1].text == "text"


@aio
async def test_a_stream_that_another_process_claims_meanwhile_is_left_to_it() -> None:
    class Contested(MemoryStreamLog):
        async def close(self, stream_id: UUID, epoch: int, *rest: Any) -> None:
            self._store.streams[stream_id].epoch = epoch + 1
            await super().close(stream_id, epoch, *rest)

    log, metrics = Contested(), CountedMetrics()
    stream_id = await lost_stream(log)
    await Orphans(log, "me", metrics).close_lost()
    assert ((await log.meta(stream_id)).outcome, metrics.count) == (None, 0)


# Ends that the log did not accept.


def unwritten(stream_id: UUID, meter: StreamMeter = NOT_METERED) -> UnwrittenEnd:
    return UnwrittenEnd(Claim(stream_id, 1, 0), bytes, CANCELLED, meter)


@aio
async def test_a_claimed_stream_of_this_process_ends_with_its_own_reason() -> None:
    log, metrics, meter = MemoryStreamLog(), CountedMetrics(), Meter()
    stream_id = await lost_stream(log, "a", "b")
    orphans = Orphans(log, "me", metrics)
    orphans.add(unwritten(stream_id, meter))
    await orphans.close_lost()
    assert ((await log.meta(stream_id)).outcome, len(orphans)) == ("cancelled", 0)
    assert meter.calls == [(3, 1, [StreamOpCode.ERROR]), "cancelled"]
    assert metrics.count == 0


@aio
async def test_a_log_that_still_fails_is_asked_once_and_each_time_for_another_stream() -> None:
    log = Faulty(clock=Clock())
    ids = [await lost_stream(log) for _ in range(3)]
    orphans = Orphans(log, "me", NO_METRICS)
    for stream_id in ids:
        orphans.add(unwritten(stream_id))
    log.fail("close")
    asked: list[UUID] = []
    for _ in range(3):
        log.calls.clear()
        with pytest.raises(LogUnavailable):
            await orphans.write_ends()
        assert log.calls.count("close") == 1
        asked.append(list(orphans._unwritten)[-1])
    assert asked == ids
    log.repair()
    await orphans.write_ends()
    assert len(orphans) == 0
    assert [(await log.meta(id_)).outcome for id_ in ids] == ["cancelled"] * 3


@aio
async def test_an_end_is_written_when_the_log_works_again_with_its_reason_and_its_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = Faulty()
    app = AgentApp(silent, log=log, drain_timeout=0.0)
    async with app.lifespan():
        runtime = runtime_of(app)
        metas = [await start_stream(app, log) for _ in range(3)]
        log.fail(*WRITES)
        for meta in metas:
            producer = runtime.producers.get(meta.stream_id)
            assert producer is not None
            producer.stop(CANCELLED)
        await runtime.producers.wait(LIMIT)
        await turns()
        assert len(runtime.orphans) == 3
        # One was ended by another process meanwhile, and one was dropped with its store.
        other, gone, own = metas
        log.repair()
        log._store.streams[other.stream_id].epoch = 2
        await log.close(other.stream_id, 2, 2, [b"end"], "producer_lost")
        del log._store.streams[gone.stream_id]
        with caplog.at_level(logging.INFO, "coreason_client.server"):
            await runtime.orphans.write_ends()
        assert len(runtime.orphans) == 0
        ended = await log.meta(own.stream_id)
        assert (ended.outcome, ended.last_seq) == ("cancelled", 2)
        assert (await log.meta(other.stream_id)).outcome == "producer_lost"
        [turn] = await log.turns(Conversation("silent/anybody", "s"), 10)
        assert (
            parse_history([turn]).turns[0].outcome,
            parse_history([turn]).turns[0].messages[-1].text,
        ) == ("cancelled", "a")
    [record] = [r for r in caplog.records if getattr(r, "event", "") == "stream_end_written"]
    assert record.__dict__["stream_id"] == str(own.stream_id)


@pytest.mark.parametrize("before", [True, False])
@aio
async def test_a_late_packet_is_not_taken_for_the_end(before: bool) -> None:
    """The end is written under a new claim, after the late packet or instead of it."""
    late: list[Exception | None] = []

    class Late(Faulty):
        async def append_late(self, stream_id: UUID, epoch: int) -> None:
            try:
                await self.append(stream_id, epoch, 2, [b"late"])
                late.append(None)
            except Fenced as error:
                late.append(error)

        async def claim_held(self, stream_id: UUID, epoch: int, owner: str) -> Claim:
            if before:
                await self.append_late(stream_id, epoch)
            claim = await super().claim_held(stream_id, epoch, owner)
            if not before:
                await self.append_late(stream_id, epoch)
            return claim

    log = Late()
    app = AgentApp(silent, log=log, drain_timeout=0.0)
    async with app.lifespan():
        runtime = runtime_of(app)
        meta = await start_stream(app, log)
        log.fail(*WRITES)
        runtime.producers.hand_over_or_stop(SERVER_STOPPED)
        await runtime.producers.wait(LIMIT)
        await turns()
        log.repair()
        await runtime.orphans.write_ends()
        assert len(runtime.orphans) == 0
        ended = await log.meta(meta.stream_id)
        assert (ended.outcome, ended.last_seq) == ("server_stopped", 3 if before else 2)
        assert ended.epochs == (EpochStart(ended.last_seq, ended.epoch),)
        assert [error is None for error in late] == [before]
        [*_, end] = (await log.read(meta.stream_id, 0, 10, 0)).entries
        assert b":%d:%d:%d\n" % (ended.last_seq, ended.epoch, ended.last_seq) in end


@aio
async def test_ends_that_wait_for_the_log_take_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_orphans, "_MAX_UNWRITTEN", 2)
    orphans = Orphans(MemoryStreamLog(), "owner", NO_METRICS)
    ids = [uuid4() for _ in range(5)]
    for stream_id in ids:
        orphans.add(unwritten(stream_id))
    assert [stream_id in orphans for stream_id in ids] == [False, False, False, True, True]
    await orphans.write_ends()  # the log does not know them
    assert len(orphans) == 0


@pytest.mark.parametrize("stored", [b"", b"\xff", b"7", b"[]", b'{"waits": true}'])
def test_a_damaged_question_does_not_stop_the_others(stored: bytes) -> None:
    """Orphans are ended together, so what cannot be read must not raise an error."""
    assert waiting_request(stored) is None
