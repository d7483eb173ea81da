"""A CLOSE and a FATAL error end a stream; a REWIND event makes packets before it void."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from coreason_manifest.definitions.presentation import StreamPacket
from coreason_manifest.definitions.rewind import valid_packets


@pytest.mark.parametrize(
    ("op", "payload", "ends"),
    [
        ("CLOSE", {"reason": "done"}, True),
        ("ERROR", "FATAL", True),
        ("ERROR", "TRANSIENT", False),
        ("ERROR", "WARNING", False),
        ("DELTA", "FATAL", False),
        ("EVENT", {"severity": "FATAL"}, False),
    ],
)
def test_the_last_packet(op: Any, payload: Any, ends: bool) -> None:
    error = {"code": "c", "message": "m", "severity": payload}
    p = error if op == "ERROR" else payload
    packet = StreamPacket(stream_id=UUID(int=1), seq=1, op=op, t=datetime.now(UTC), p=p)
    assert packet.is_last is ends


def _packet(seq: int, op: Any, p: Any) -> StreamPacket:
    return StreamPacket(stream_id=UUID(int=1), seq=seq, op=op, t=datetime.now(UTC), p=p)


def _rewind(seq: int, to_seq: int) -> StreamPacket:
    return _packet(seq, "EVENT", {"type": "REWIND", "data": {"to_seq": to_seq}})


def test_a_rewind_makes_the_packets_after_its_number_void() -> None:
    first, second = _packet(1, "DELTA", "a"), _packet(2, "EVENT", {"type": "OTHER"})
    third, last = _packet(5, "DELTA", "b"), _packet(7, "CLOSE", {})
    assert valid_packets([first, second, _packet(3, "DELTA", "x"), _rewind(4, 2), third, last]) == [
        *(first, second, third, last)
    ]
    assert valid_packets([first, second, _rewind(3, 0), third, _rewind(6, 3)]) == []
