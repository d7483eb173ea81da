"""What a chat stream has received: its text and its events."""

from uuid import UUID

import pytest

from coreason_client.cap._chat_record import ChatRecord
from coreason_manifest.definitions.presentation import (
    ClosePacket,
    DeltaPacket,
    ErrorPacket,
    EventPacket,
    Packet,
)

EVENT = {"custom": 1}
ERROR = {"code": "busy", "message": "too much", "severity": "WARNING"}


def packet(kind: type[Packet], op: str, payload: object) -> Packet:
    fields = {"stream_id": UUID(int=1), "seq": 1, "op": op, "t": "2026-01-01T00:00:00Z"}
    return kind.model_validate({**fields, "p": payload})


DELTA = packet(DeltaPacket, "DELTA", "word")
OTHERS = [
    packet(ErrorPacket, "ERROR", ERROR),
    packet(ClosePacket, "CLOSE", {"reason": "done"}),
]


def test_a_record_begins_empty_and_not_exhausted() -> None:
    record = ChatRecord()
    assert (record.text, record.events, record.exhausted) == ("", [], False)


def test_the_text_is_what_was_added_in_order() -> None:
    record = ChatRecord()
    assert [record.add_text(piece) for piece in ("a", "", "b")] == ["a", "", "b"]
    assert record.text == "ab"


@pytest.mark.parametrize("text", ["word", ""])
def test_a_delta_has_text_which_the_caller_adds_when_it_is_delivered(text: str) -> None:
    record = ChatRecord()
    assert record.text_of(packet(DeltaPacket, "DELTA", text)) == text
    assert (record.text, record.events) == ("", [])


def test_events_are_recorded_in_order_and_have_no_text() -> None:
    record = ChatRecord()
    for number in (1, 2):
        assert record.text_of(packet(EventPacket, "EVENT", {"custom": number})) is None
    assert record.events == [{"custom": 1}, {"custom": 2}]


@pytest.mark.parametrize("other", OTHERS)
def test_other_packets_are_neither_text_nor_events(other: Packet) -> None:
    record = ChatRecord()
    assert record.text_of(other) is None
    assert (record.text, record.events) == ("", [])
