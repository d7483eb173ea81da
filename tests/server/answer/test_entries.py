"""Entries of a log are read without a parser, and mean the same as with one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from coreason_client.server.answer._entries import (
    as_packet,
    delta_json,
    has_rewind,
    split_entries,
    valid_entries,
)
from coreason_client.server.engine._packets import Frames
from coreason_manifest.definitions.presentation import StreamOpCode, parse_packet
from coreason_manifest.definitions.rewind import valid_packets

from .packets import ANSWERS, STREAM, Packet, entries_of, packets_of


@given(ANSWERS)
def test_a_text_is_cut_out_of_its_entry(answer: list[Packet]) -> None:
    entries = entries_of(answer)
    for entry, packet in zip(entries, packets_of(entries), strict=True):
        assert as_packet(entry) == packet
        text = delta_json(entry)
        if packet["op"] == "DELTA":
            assert text is not None
            assert from_json(text) == packet["p"]
        else:
            assert text is None


@pytest.mark.parametrize("epoch", [1, 5])
@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize(
    "text", ["", '"', ',"op":"CLOSE","t":"x","p":1}', "}\n\n", "\u2028é\\", ',"p":']
)
def test_no_text_is_taken_for_a_member(text: str, durable: bool, epoch: int) -> None:
    frames = Frames(STREAM, epoch=epoch, first_seq=7, durable=durable)
    found = delta_json(frames.delta(7, text))
    assert found is not None
    assert from_json(found) == text
    for payload in ({"x": ',"op":"DELTA","t":"'}, {"x": 1, "op": "DELTA", "t": "t", "p": "p"}):
        event, _ = frames.packet(7, StreamOpCode.EVENT, payload)
        assert delta_json(event) is None


@given(ANSWERS)
def test_joined_entries_are_split(answer: list[Packet]) -> None:
    entries = entries_of(answer)
    split = split_entries(b"".join(entries))
    assert [as_packet(entry) for entry in split] == packets_of(entries)
    assert [delta_json(entry) for entry in split] == [delta_json(entry) for entry in entries]
    assert split_entries(b"") == []


@given(ANSWERS, st.data())
def test_entries_are_void_after_a_rewind_as_packets_are(
    answer: list[Packet], data: st.DataObject
) -> None:
    for place in data.draw(st.lists(st.integers(0, len(answer) - 1), max_size=3)):
        to_seq = data.draw(st.integers(0, place))
        answer.insert(place, ("EVENT", {"type": "REWIND", "data": {"to_seq": to_seq}}))
    entries = entries_of(answer)
    packets = [parse_packet(entry.partition(b"\ndata: ")[2]) for entry in entries]
    valid = valid_packets(packets)
    found = valid_entries(entries)
    assert [as_packet(entry)["seq"] for _, entry in found] == [p.seq for p in valid]
    assert [seq for seq, _ in found] == [p.seq for p in valid]
    assert has_rewind(entries) == (len(valid) != len(packets))
