"""The content that a chat stream has received: text and events, without what became void."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.cap._resume import rewind_to_start
from coreason_client.cap.answer import ChatRecord, Rewound
from coreason_manifest.definitions.presentation import (
    ClosePacket,
    DeltaPacket,
    ErrorPacket,
    EventPacket,
    Packet,
)

ERROR = {"code": "busy", "message": "too much", "severity": "WARNING"}


def packet(kind: type[Packet], op: str, payload: object, seq: int = 1) -> Packet:
    fields = {"stream_id": UUID(int=1), "seq": seq, "op": op, "t": "2026-01-01T00:00:00Z"}
    return kind.model_validate({**fields, "p": payload})


def text(seq: int, words: str) -> Packet:
    return packet(DeltaPacket, "DELTA", words, seq)


def event(seq: int, payload: object) -> Packet:
    return packet(EventPacket, "EVENT", payload, seq)


def rewind(seq: int, to_seq: object) -> Packet:
    return event(seq, {"type": "REWIND", "data": {"to_seq": to_seq, "step": "s", "attempt": 2}})


def read(record: ChatRecord, packets: list[Packet]) -> list[str | Rewound]:
    """Hand out the pieces of packets, as a chat stream does."""
    pieces = []
    for one in packets:
        piece = record.piece_of(one)
        if piece is not None:
            record.add(piece)
            pieces.append(piece)
    return pieces


OTHERS = [
    packet(ErrorPacket, "ERROR", ERROR),
    packet(ClosePacket, "CLOSE", {"reason": "done"}),
]


def test_a_record_begins_empty_and_not_exhausted() -> None:
    record = ChatRecord()
    assert (record.text, record.events, record.exhausted) == ("", [], False)


def test_the_text_is_what_was_added_in_order() -> None:
    record = ChatRecord()
    for piece in ("a", "", "b"):
        record.add(piece)
    assert record.text == "ab"


@pytest.mark.parametrize("words", ["word", ""])
def test_a_delta_has_text_which_is_recorded_when_it_is_delivered(words: str) -> None:
    record = ChatRecord()
    assert record.piece_of(text(1, words)) == words
    assert (record.text, record.events) == ("", [])


def test_events_are_recorded_in_order_and_are_not_handed_out() -> None:
    record = ChatRecord()
    assert read(record, [event(number, {"custom": number}) for number in (1, 2)]) == []
    assert record.events == [{"custom": 1}, {"custom": 2}]


@pytest.mark.parametrize("other", OTHERS)
def test_other_packets_are_neither_text_nor_events(other: Packet) -> None:
    record = ChatRecord()
    assert record.piece_of(other) is None
    assert (record.text, record.events) == ("", [])


# Rewinds.


def test_a_rewind_drops_the_text_and_the_events_after_its_packet() -> None:
    record = ChatRecord()
    packets = [text(1, "a"), event(2, {"n": 2}), text(3, "b"), event(4, {"n": 4}), text(5, "c")]
    pieces = read(record, [*packets, rewind(6, 3), text(7, "d")])
    assert pieces == ["a", "b", "c", Rewound("ab", 3), "d"]
    assert record.text == "abd"
    assert record.events == [{"n": 2}]


def test_a_rewind_to_the_start_drops_everything() -> None:
    record = ChatRecord()
    assert read(record, [text(1, "a"), rewind(2, 0), text(3, "b")]) == ["a", Rewound("", 0), "b"]
    assert record.text == "b"


def test_a_stream_that_was_resumed_after_the_valid_packet_starts_over() -> None:
    record = ChatRecord(start=5)
    pieces = read(record, [text(6, "f"), rewind(7, 4)])
    assert pieces == ["f", Rewound("", 0, whole=True)]
    assert record.text == ""
    again = [text(1, "a"), text(5, "e"), text(6, "f"), rewind(7, 4), text(8, "g")]
    # Still `whole`: the text from before the resume stays void.
    assert read(record, again) == ["a", "e", "f", Rewound("a", 4, whole=True), "g"]
    assert record.text == "ag"


@pytest.mark.parametrize("start", [0, 5])
def test_a_stream_that_is_read_again_makes_everything_void(start: int) -> None:
    record = ChatRecord(start)
    first = text(1, "A")
    pieces = read(record, [text(6, "f"), rewind_to_start(first), first])
    assert pieces == ["f", Rewound("", 0, whole=True), "A"]
    assert record.text == "A"


def test_a_stream_that_was_resumed_at_the_valid_packet_goes_on() -> None:
    record = ChatRecord(start=5)
    assert read(record, [text(6, "f"), rewind(7, 5)]) == ["f", Rewound("", 5)]


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "REWIND"},
        {"type": "REWIND", "data": None},
        {"type": "REWIND", "data": {"to_seq": "3"}},
        {"type": "REWIND", "data": {"to_seq": -1}},
        {"type": "REWIND", "data": {"to_seq": True}},
        {"type": "rewind", "data": {"to_seq": 1}},
    ],
)
def test_anything_else_is_an_event_like_others(payload: object) -> None:
    record = ChatRecord()
    assert read(record, [text(1, "a"), event(2, payload)]) == ["a"]
    assert record.events == [payload]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=12))
def test_the_text_is_what_is_left_of_the_packets(steps: list[tuple[bool, int]]) -> None:
    record = ChatRecord()
    left: list[int] = []
    for seq, (rewinds, number) in enumerate(steps, 1):
        if rewinds:
            to_seq = min(number, seq - 1)
            [piece] = read(record, [rewind(seq, to_seq)])
            left = [kept for kept in left if kept <= to_seq]
            assert piece == Rewound("".join(f"<{kept}>" for kept in left), to_seq)
        else:
            read(record, [text(seq, f"<{seq}>")])
            left.append(seq)
        assert record.text == "".join(f"<{kept}>" for kept in left)
