"""The event that makes a part of a stream void, and the clients that understand it."""

from typing import Any

import pytest

from coreason_client.cap.rewound import WITH_REWINDS
from coreason_manifest.definitions.presentation import PresentationEvent, PresentationEventType
from coreason_manifest.definitions.rewind import REWIND, rewound_to


@pytest.mark.parametrize(
    ("event", "to_seq"),
    [
        ({"type": "REWIND", "data": {"to_seq": 3, "step": "s", "attempt": 2}}, 3),
        ({"type": "REWIND", "data": {"to_seq": 0}}, 0),
        ({"type": "REWIND", "data": {"to_seq": -1}}, None),
        ({"type": "REWIND", "data": {"to_seq": True}}, None),
        ({"type": "REWIND", "data": {"to_seq": "3"}}, None),
        ({"type": "REWIND", "data": [3]}, None),
        ({"type": "REWIND"}, None),
        ({"type": "USAGE", "data": {"to_seq": 3}}, None),
        ({}, None),
        (PresentationEvent(type=PresentationEventType.THOUGHT_TRACE, data={"to_seq": 3}), None),
    ],
)
def test_a_rewind_names_the_last_valid_packet(
    event: PresentationEvent | dict[str, Any], to_seq: int | None
) -> None:
    assert rewound_to(event) == to_seq


def test_a_client_with_rewinds_also_gets_all_other_events() -> None:
    assert set(WITH_REWINDS.supported_events) == {*PresentationEventType, REWIND}
