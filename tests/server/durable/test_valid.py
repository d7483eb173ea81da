"""The valid part of a stream after rewinds."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.durable._packets import ValidText, follow_text, logged_packets
from coreason_client.server.durable._replay import Logged
from coreason_client.server.engine._packets import Frames
from coreason_manifest.definitions.presentation import StreamOpCode


@given(st.lists(st.text(max_size=9), max_size=6))
def test_the_text_is_that_of_the_delta_packets(texts: list[str]) -> None:
    frames, entries, text = Frames(UUID(int=1)), list[bytes](), ValidText()
    for piece in texts:
        entries.append(frames.delta(len(entries) + 1, piece))
        event, _ = frames.packet(len(entries) + 1, StreamOpCode.EVENT, {"content": "not text"})
        entries.append(event)
    for packet in logged_packets(1, entries):
        follow_text(text, packet)
    assert "".join(text.values) == "".join(texts)


@given(st.lists(st.none() | st.integers(0, 9), max_size=12))
def test_a_rewind_drops_what_came_after_its_packet(steps: list[int | None]) -> None:
    frames, text, left = Frames(UUID(int=1)), ValidText(), list[int]()
    for seq, to_seq in enumerate(steps, 1):
        if to_seq is None:
            entry = frames.delta(seq, f"<{seq}>")
            left.append(seq)
        else:
            payload = {"type": "REWIND", "data": {"to_seq": to_seq}}
            entry, _ = frames.packet(seq, StreamOpCode.EVENT, payload)
            left = [kept for kept in left if kept <= to_seq]
        for packet in logged_packets(seq, [entry]):
            follow_text(text, packet)
        assert "".join(text.values) == "".join(f"<{kept}>" for kept in left)


@pytest.mark.parametrize("data", [None, 7, {}, {"to_seq": None}, {"to_seq": "1"}, {"to_seq": -1}])
def test_an_event_of_an_agent_that_only_has_the_name_is_no_rewind(data: object) -> None:
    text = ValidText()
    text.by_seq[1] = "a"
    follow_text(text, Logged(2, "EVENT", {"type": "REWIND", "data": data}))
    follow_text(text, Logged(3, "EVENT", {"type": "REWIND"}))
    assert "".join(text.values) == "a"
