"""The failover part of the soak: each flaw, planted, is counted, and a small failover runs."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from coreason_client import CAPConnectionError, CAPProtocolError, CAPRuntimeError, Rewound
from coreason_client.server.engine._packets import Frames
from coreason_client.sse import SSEDecoder
from coreason_manifest.definitions.presentation import (
    ErrorSeverity,
    StreamError,
    StreamOpCode,
    parse_packet,
)

from ..soak.content import REWIND, Order
from ..soak.failover import FAILOVERS, Size, failover_rows
from ..soak.failover_tally import GONE, SAME, ChatText, RawText, Reading, end_of, judge, word
from ..soak.tally import COMPLETE, HUNG, Row

STREAM = uuid4()
WORDS = 6
SMALL = Size(copies=1, replicas=(1, 2), words=30, spread=0.5, away=(0.2, 1.0), limit=30.0)


def reading_of(text: str = "", end: str | None = None, *, rewinds: bool = False) -> Reading:
    order = Order("s", WORDS, 0.0, rewinds=rewinds)
    return Reading(order, "raw", durable=True, text=text, end=end)


def words(run: str, start: int = 1, end: int = WORDS) -> str:
    return "".join(word(index, run) for index in range(start, end + 1))


def wrong(rows: Sequence[Row]) -> list[str]:
    return [row.name for row in rows if row.right is False]


def judged(*readings: Reading, seams: int = 0, confirmed: bool = False) -> list[str]:
    good = reading_of(words("a"), COMPLETE)
    return wrong(judge([good, *readings], seams, confirmed=confirmed))


@pytest.mark.parametrize(
    ("reading", "row"),
    [
        (reading_of(words("a", 1, 3) + words("b", 4), COMPLETE), "mixed: text of two runs"),
        (reading_of(words("a", 1, 3) + words("a", 3), COMPLETE), "doubled"),
        (
            reading_of(words("a", 1, 3) + words("a", 5), COMPLETE),
            "lost: complete without all words",
        ),
        (reading_of(words("a", 1, 5), COMPLETE), "lost: complete without all words"),
        (reading_of(words("a", 2, 5), GONE), "lost: complete without all words"),
        (reading_of(words("a", 1, 3), HUNG), "hung"),
        (reading_of(words("a", 1, 3), "400"), "untyped errors"),
        (reading_of(words("a", 1, 3), "packet 5 after 3"), "untyped errors"),
        (reading_of(words("a", 1, 3)), "untyped errors"),
    ],
)
def test_a_flaw_is_counted(reading: Reading, row: str) -> None:
    assert judged(reading) == [row]


def test_a_typed_end_and_the_words_that_all_runs_share_are_right() -> None:
    shared = reading_of(words(SAME, 1, 3) + words("b", 4), COMPLETE)
    assert judged(shared, *(reading_of(words("a", 1, 3), end) for end in (GONE, "reset"))) == []
    assert judged(seams=1) == ["mixed: epochs that do not follow"]


def test_a_reader_may_be_ahead_of_the_store_only_without_confirmation() -> None:
    assert judged(reading_of(words("a", 1, 3), GONE), confirmed=True) == ["ended with 410"]


def test_a_chat_shows_the_text_that_a_rewind_leaves() -> None:
    reading = reading_of("1.a ")
    text = ChatText(reading, before=reading.text)
    for piece in ("2.a ", "3.a ", Rewound("2.a ", 2), "3.b "):
        text.take(piece)
    assert reading.text == "1.a 2.a 3.b "
    text.take(Rewound("", 0, whole=True))
    assert (reading.text, reading.rewinds) == ("", 2)


def stream_error(code: str) -> StreamError:
    return StreamError(code=code, message="m", severity=ErrorSeverity.FATAL)


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (CAPConnectionError("c"), None),
        (CAPRuntimeError("r", status_code=503), None),
        (CAPRuntimeError("r", status_code=410), GONE),
        (CAPRuntimeError("r", stream_error=stream_error("producer_lost")), "producer_lost"),
        (CAPProtocolError("p"), "CAPProtocolError: p"),
    ],
)
def test_an_error_of_the_client_is_an_end_or_a_reason_to_retry(error: Any, end: str | None) -> None:
    assert end_of(error) == end


def taken(
    *packets: tuple[int, StreamOpCode, object], ids: Callable[[int], str], rewinds: bool = False
) -> RawText:
    """Give packets to a raw reader; `ids` returns what follows the stream in the id of a number."""
    text = RawText(reading_of(rewinds=rewinds))
    for packet in packets:
        frame, _ = Frames(STREAM).packet(*packet)
        (event,) = SSEDecoder().feed(frame)
        text.take(parse_packet(event.data_bytes), f"{STREAM}:{ids(packet[0])}")
    return text


def deltas(*numbers: int, run: str = "a") -> Iterator[tuple[int, StreamOpCode, object]]:
    return ((seq, StreamOpCode.DELTA, word(seq, run)) for seq in numbers)


def rewind(seq: int, to_seq: int) -> tuple[int, StreamOpCode, object]:
    data = {"to_seq": to_seq, "step": "rerun", "attempt": 2}
    return seq, StreamOpCode.EVENT, {"type": REWIND, "data": data}


def test_the_raw_reader_follows_rewinds_and_ends() -> None:
    close = (7, StreamOpCode.CLOSE, {"reason": "complete"})
    packets = (*deltas(1, 2, 3, 4), rewind(5, 2), *deltas(6, run="b"), close)
    text = taken(*packets, ids=str, rewinds=True)
    assert (text.reading.text, text.reading.end) == ("1.a 2.a 6.b ", COMPLETE)
    assert (text.reading.rewinds, text.cursor) == (1, f"{STREAM}:7")
    assert taken(*packets[:5], ids=str).reading.untyped  # its client did not ask for rewinds
    lost = (2, StreamOpCode.ERROR, stream_error("producer_lost"))
    assert taken(*deltas(1), lost, ids=str).reading.end == "producer_lost"


def test_the_raw_reader_is_strict_about_numbers_streams_and_ids() -> None:
    assert taken(*deltas(1, 3), ids=str).reading.end == "packet 3 after 1"
    assert taken(*deltas(1, 1), ids=str).reading.end == "packet 1 after 1"
    assert taken(*deltas(1), ids=lambda _: "2").reading.untyped
    text = taken(*deltas(1), ids=str)
    frame, _ = Frames(other := UUID(int=1)).packet(1, StreamOpCode.DELTA, "x")
    (event,) = SSEDecoder().feed(frame)
    text.take(parse_packet(event.data_bytes), f"{other}:1")
    assert text.reading.end == "reset"


@pytest.mark.parametrize(
    ("later", "seams"),
    [
        ("{seq}", 0),
        ("{seq}:9:3", 0),  # the epoch 9 began with 3, which is the first packet of it here
        ("{seq}:9:2", 1),  # it began earlier, so this reader misses its beginning
        ("{seq}:9", 0),  # cannot be told
    ],
)
def test_an_epoch_must_begin_with_the_packet_that_follows(later: str, seams: int) -> None:
    def id_of(seq: int) -> str:
        return str(seq) if seq < 3 else later.format(seq=seq)

    assert taken(*deltas(1, 2, 3, 4), ids=id_of).seams == seams


def test_the_opener_does_not_follow_a_later_epoch() -> None:
    assert taken(*deltas(1, 2, 3), ids={1: "1", 2: "2:9:2", 3: "3"}.__getitem__).seams == 1


def test_a_failover_that_loses_nothing_is_not_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "coreason_client.cap")
    (kind,) = [kind for kind in FAILOVERS if kind.title == "not held back"]
    rows, errors = asyncio.run(failover_rows(tmp_path, 1, SMALL, [kind]))
    table = {row.name.removeprefix(f"failover, {kind.title}: "): row for row in rows}
    # On uvloop the log reports a connection that breaks during its login with a traceback.
    table.pop("tracebacks of replicas")
    assert wrong(list(table.values())) == [], errors
    assert table["readers"].value == table["complete"].value == "36"
