"""Packets of a log, as a replay compares them."""

from uuid import UUID

import pytest

from coreason_client.server.durable._packets import comparable, logged_packets
from coreason_client.server.durable._replay import Logged
from coreason_client.server.engine._packets import Frames
from coreason_manifest.definitions.presentation import (
    PresentationEvent,
    PresentationEventType,
    StreamOpCode,
)


def test_packets_are_read_from_the_frames_of_a_stream() -> None:
    frames = Frames(UUID(int=1), epoch=2)
    event = PresentationEvent(
        type=PresentationEventType.THOUGHT_TRACE, data={"content": "hm\ndata: x"}
    )
    entries = [
        frames.delta(4, "a\n\ndata: b"),
        frames.packet(5, StreamOpCode.EVENT, event)[0],
        frames.packet(6, StreamOpCode.EVENT, {"id": 1, "free": True})[0],
    ]
    packets = list(logged_packets(4, entries))
    assert packets[0] == Logged(4, "DELTA", "a\n\ndata: b")
    assert packets[1] == Logged(
        5, "EVENT", {"type": "THOUGHT_TRACE", "data": {"content": "hm\ndata: x"}}
    )
    assert packets[2] == Logged(6, "EVENT", {"id": 1, "free": True})


def test_only_the_generated_fields_of_an_event_are_left_out() -> None:
    assert comparable("EVENT", {"id": 1, "timestamp": 2, "x": 3}) == {"x": 3}
    assert comparable("EVENT", {"id": 1, "x": 3}) == {"id": 1, "x": 3}
    assert comparable("ERROR", {"id": 1, "timestamp": 2}) == {"id": 1, "timestamp": 2}
    assert comparable("DELTA", "text") == "text"


@pytest.mark.parametrize(
    "entry", [b"", b"data: {}\n\n", b"id: 1\ndata: no\n\n", b"id: 1\ndata: 3\n\n"]
)
def test_an_entry_that_is_not_a_packet_is_refused(entry: bytes) -> None:
    with pytest.raises(ValueError, match=r"not a packet|expected|JSON"):
        list(logged_packets(1, [entry]))
