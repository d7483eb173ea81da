"""The numbers of packets in the bytes of a response."""

from uuid import UUID

from coreason_client.testing._received import last_packet, packet_of, split_events

ID = str(UUID(int=7)).encode()


def test_the_number_of_a_packet_is_not_its_epoch() -> None:
    for end in (b"", b":1", b":12"):
        assert packet_of(b"id: " + ID + b":3" + end + b"\ndata: {}\n\n") == 3
    assert packet_of(b"id: 2:9\r\ndata: {}\r\n\r\n") == 9
    for other in (b": ping\n\n", b"id: " + ID + b"\n\n", b"data: id: 1:2\n\n", b""):
        assert packet_of(other) is None


def test_events_are_split_without_a_loss() -> None:
    data = b"id: 1:1\ndata: a\n\nid: 1:2\ndata: b\n\n: pi"
    events = split_events(data)
    assert b"".join(events) == data
    assert [packet_of(event) for event in events] == [1, 2, None]
    assert (last_packet(data), last_packet(b": ping\n\n")) == (2, None)
