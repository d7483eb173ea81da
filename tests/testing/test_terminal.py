"""A CLOSE and a FATAL error end a stream, and nothing else does."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from coreason_client.testing._exactly_once import is_terminal
from coreason_manifest.definitions.presentation import StreamPacket


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
    assert is_terminal(packet) is ends
