"""A position in a stream, saved as JSON."""

from uuid import UUID

import pytest
from pydantic import ValidationError

from coreason_client.cap.position import Position

STREAM = UUID("11111111-2222-3333-4444-555555555555")


@pytest.mark.parametrize("cursor", [None, "", "a:4", "ü"])
def test_a_position_survives_json(cursor: str | None) -> None:
    position = Position(stream_id=STREAM, seq=4, cursor=cursor)
    assert Position.model_validate_json(position.to_json()) == position


def test_a_position_is_one_phrase_for_messages() -> None:
    position = Position(stream_id=STREAM, seq=4, cursor="a:4")
    assert str(position) == f"seq 4 of stream {STREAM}"


def test_a_position_cannot_be_changed() -> None:
    position = Position(stream_id=STREAM, seq=4)
    with pytest.raises(ValidationError):
        position.seq = 5  # type: ignore[misc] # frozen


def test_members_of_a_later_version_are_ignored() -> None:
    saved = f'{{"stream_id": "{STREAM}", "seq": 4, "new": true}}'
    assert Position.model_validate_json(saved) == Position(stream_id=STREAM, seq=4)
