"""A packet from the wire, or a ValidationError; and the client that reads a stream of them."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from coreason_manifest.definitions._base import explain
from coreason_manifest.definitions.presentation import Packet, StreamPacket, parse_packet
from tests.cap.scripted import KEY, SHELLS, Connection, Network, failure, machine_for
from tests.fuzz.corpus import JSON_TEXTS, PACKETS, STREAM_ID
from tests.fuzz.strategies import CANARY, anything, damaged, examples, mutated, wire

REAL = [wire(packet) for packet in PACKETS]
PACKET_BYTES = st.one_of(
    mutated(PACKETS).map(wire),
    damaged(REAL),
    anything("stream_id", "seq", "op", "t", "p").map(wire),
    st.binary(max_size=100),
)


def assert_short(words: str) -> None:
    """The name of an unknown field may stand in it, and that may be of any length."""
    assert len(words) < 2_000


def read(data: bytes) -> Packet | None:
    try:
        return parse_packet(data)
    except ValidationError as error:
        assert_short(explain(error))
        return None


@given(PACKET_BYTES)
@example(wire({**PACKETS[0], "op": CANARY}))
@example(wire({**PACKETS[0], "seq": True}))
@example(wire({**PACKETS[0], "seq": 10**400}))
@example(wire({**PACKETS[0], "t": 10**400}))
@example(wire({**PACKETS[0], "t": float("nan")}))
@example(wire({**PACKETS[0], "t": "+999999-12-31T00:00:00Z"}))
@example(wire({**PACKETS[3], "p": {CANARY: CANARY}}))
@example(wire({**PACKETS[1], "p": {**PACKETS[1]["p"], "data": None}}))
@example(wire({**PACKETS[1], "p": {**PACKETS[1]["p"], "type": ["CITATION_BLOCK"]}}))
@example(wire({**PACKETS[1], "p": {**PACKETS[1]["p"], "type": {}}}))
def test_a_packet_or_a_validation_error(data: bytes) -> None:
    packet = read(data)
    if packet is not None:
        assert isinstance(packet, StreamPacket)
        assert type(packet.seq) is int
        assert packet.seq >= 0


@pytest.mark.parametrize("text", JSON_TEXTS, ids=range(len(JSON_TEXTS)))
def test_the_seeds(text: bytes) -> None:
    assert read(text) is None
    for packet in REAL:
        read(packet.replace(b'"p": ', b'"p": ' + text + b', "q": '))
        read(packet[:-1] + b', "x": ' + text + b"}")


def block(data: bytes, event_id: bytes | None) -> bytes:
    lines = b"".join(b"data: " + line + b"\n" for line in data.splitlines() or [b""])
    return (b"" if event_id is None else b"id: " + event_id + b"\n") + lines + b"\n"


IDS = st.one_of(
    st.none(),
    st.integers(0, 9).map(lambda seq: f"{STREAM_ID}:{seq}".encode()),
    st.binary(max_size=20).map(lambda raw: raw.replace(b"\n", b"").replace(b"\r", b"")),
)
CONNECTIONS = st.lists(
    st.tuples(
        st.lists(st.tuples(PACKET_BYTES | st.sampled_from(REAL), IDS), max_size=5), st.booleans()
    ),
    min_size=1,
    max_size=4,
)


@examples(30)
@given(script=CONNECTIONS, shell=st.sampled_from(sorted(SHELLS)))
@example(script=[([(REAL[0], b"\xff\x80")], True)], shell="sync")
@example(script=[([(REAL[0], b" x ")], True), ([(REAL[0], None)], False)], shell="async")
@example(script=[([(REAL[0], "\x9b\u202e".encode())], True)], shell="sync")
def test_a_stream_of_them_ends_with_packets_or_a_typed_error(script: list[Any], shell: str) -> None:
    """The shells let nothing through but a CAPError, and no id becomes a second header."""
    connections = [
        Connection([block(*one) for one in told], failure() if broken else None)
        for told, broken in script
    ]
    network = Network(lambda _: connections.pop(0) if connections else Connection())
    outcome = SHELLS[shell](machine_for(), network)
    # An id that is accepted within a stream is above all before it.
    of_stream: dict[Any, int] = {}
    for packet in outcome.packets:
        assert packet.seq > of_stream.get(packet.stream_id, -1)
        of_stream[packet.stream_id] = packet.seq
    assert outcome.error is not None or outcome.packets[-1].op == "CLOSE"
    assert KEY not in f"{outcome.error!s}{outcome.error!r}"
    for cursor in network.cursors:
        assert cursor is None or (cursor.isprintable() and cursor == cursor.strip())
