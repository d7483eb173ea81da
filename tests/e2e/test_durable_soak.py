"""The count of the durable part of the soak: each flaw, planted, is counted."""

import asyncio
from collections.abc import Sequence
from typing import cast
from uuid import UUID, uuid4

import pytest

from coreason_client.server import MemoryStreamLog
from coreason_client.server.engine._packets import Frames
from coreason_client.server.log.base import NewStream, StreamMeta
from coreason_client.sse import SSEDecoder
from coreason_manifest.definitions.presentation import (
    Packet,
    PresentationEvent,
    PresentationEventType,
    ProgressUpdate,
    StreamOpCode,
    parse_packet,
)

from ..server.aio import aio
from ..soak.content import REWIND, Order, ends_burst
from ..soak.durable_tally import (
    LOST,
    DifferingReading,
    differing_rows,
    hand_over_rows,
    hand_over_times,
)
from ..soak.logs import NotingLog
from ..soak.replica import DurableAgent
from ..soak.tally import Notes, Row

ORDER = Order("s", 30, 0.0, differs=True, rewinds=True)
FIRST = ORDER.parts.rerun[0]
STREAM = uuid4()


def packet(seq: int, op: StreamOpCode, payload: object) -> Packet:
    frame, _ = Frames(STREAM).packet(seq, op, payload)
    (event,) = SSEDecoder().feed(frame)
    return parse_packet(event.data_bytes)


def written(seq: int, index: int, run: int) -> Packet:
    text = ORDER.text_of(index, run)
    if ends_burst(index):
        progress = ProgressUpdate(label=text, status="running")
        kind = PresentationEventType.PROGRESS_INDICATOR
        return packet(seq, StreamOpCode.EVENT, PresentationEvent(type=kind, data=progress))
    return packet(seq, StreamOpCode.DELTA, text)


def rewind(seq: int, to_seq: int) -> Packet:
    data = {"to_seq": to_seq, "step": "rerun", "attempt": 2}
    return packet(seq, StreamOpCode.EVENT, {"type": REWIND, "data": data})


def close(seq: int) -> Packet:
    return packet(seq, StreamOpCode.CLOSE, {"reason": "complete"})


def read(packets: Sequence[Packet], order: Order = ORDER) -> DifferingReading:
    reading = DifferingReading.of(order)
    for one in packets:
        reading.take(one, 0.0)
    reading.complete()
    return reading


def interrupted(last_index: int, to_index: int) -> list[Packet]:
    """The first run writes up to an index; the second one rewinds and writes the rest."""
    first = [written(index, index, 1) for index in range(1, last_index + 1)]
    seq = last_index + 1
    rest = [
        written(seq + at, index, 2)
        for at, index in enumerate(range(to_index + 1, ORDER.packets + 1), 1)
    ]
    return [*first, rewind(seq, to_index), *rest, close(seq + len(rest) + 1)]


def test_a_text_that_is_written_anew_after_a_rewind_is_right() -> None:
    reading = read(interrupted(FIRST + 6, FIRST + 1))
    assert (reading.wrong, reading.doubled, reading.holes, reading.rewinds) == (0, 0, 0, 1)
    assert not reading.too_short


def test_two_runs_in_one_text_are_wrong() -> None:
    reading = read(interrupted(FIRST + 6, FIRST + 4))
    assert reading.wrong > 0


def test_a_rewind_that_goes_too_far_is_wrong() -> None:
    reading = read([one for one in interrupted(FIRST + 6, FIRST + 1) if one.seq != FIRST + 8])
    assert reading.wrong > 0
    assert reading.too_short
    assert reading.holes == 1


def test_a_client_that_does_not_understand_rewinds_must_not_get_one() -> None:
    unable = Order("s", 30, 0.0, differs=True)
    assert read(interrupted(FIRST + 6, FIRST + 1), unable).wrong == 1


def wrong(rows: Sequence[Row]) -> list[str]:
    return [row.name for row in rows if row.right is False]


@pytest.mark.parametrize(
    ("rewinds", "end", "row"),
    [
        (True, LOST, "of these not complete"),
        (False, "agent_error", "ended otherwise, without rewinds"),
    ],
)
def test_an_end_that_the_rules_do_not_allow_is_wrong(rewinds: bool, end: str, row: str) -> None:
    good = read(interrupted(FIRST + 6, FIRST + 1))
    lost, bad = (
        DifferingReading.of(Order("s", 30, 0.0, differs=True, rewinds=able))
        for able in (False, rewinds)
    )
    lost.ended_with(LOST, STREAM, 1, 0.0)
    assert wrong(differing_rows([good, lost])) == []
    bad.ended_with(end, STREAM, 1, 0.0)
    assert wrong(differing_rows([good, lost, bad])) == [row]


def test_the_time_without_a_producer_ends_with_the_first_packet_of_a_later_epoch() -> None:
    other = UUID(int=1)
    notes = Notes.parse(
        [
            f"released {STREAM} 1 10.0",
            f"continued {STREAM} 3 11.5",
            f"released {STREAM} 3 20.0",
            f"continued {STREAM} 5 20.5",
            f"released {other} 1 30.0",  # it ended without another packet
        ]
    )
    assert hand_over_times(notes) == [1.5, 0.5]
    assert wrong(hand_over_rows([], notes, 1.5)) == []
    assert wrong(hand_over_rows([], notes, 1.4)) == [
        "longest time without a producer (at most 1.4 s)"
    ]


class SlowHandOver(MemoryStreamLog):
    """Counts the looks at a stream; its hand-over takes as long as the test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = asyncio.Queue[None]()
        self.noted: list[object] = []

    async def meta(self, stream_id: UUID) -> StreamMeta:
        self.looks.put_nowait(None)
        return await super().meta(stream_id)

    def note(self, *words: object) -> None:
        self.noted.append(words)


@aio
async def test_the_late_append_waits_for_a_slow_hand_over() -> None:
    log = SlowHandOver()
    await log.open(NewStream(STREAM, "p", uuid4(), "print"), "one")
    late = asyncio.ensure_future(DurableAgent(cast("NotingLog", log))._write_late(STREAM))
    for _ in range(2):
        await log.looks.get()
    assert not late.done()
    await log.release(STREAM, 1)
    await late
    assert ((await log.meta(STREAM)).last_seq, log.noted) == (0, [])
