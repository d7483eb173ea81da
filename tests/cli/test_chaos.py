"""The proxy cuts where its seed says, and the delivery counts."""

import itertools
import socket
import threading
from collections.abc import Iterator
from uuid import UUID

import pytest

from coreason_client.cli._delivery import compare
from coreason_client.cli.chaos import ChaosProxy, Cuts
from coreason_manifest.definitions._base import utc_now
from coreason_manifest.definitions.presentation import DeltaPacket, StreamOpCode

PATIENCE = 10.0
NOW = utc_now()
BODY = bytes(itertools.islice(itertools.cycle(range(256)), 200_000))


@pytest.fixture
def source() -> Iterator[int]:
    """A server that answers every connection with the same bytes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.recv(100)
                    connection.sendall(BODY)
                except OSError:
                    pass

    thread = threading.Thread(target=serve)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(PATIENCE)


def fetch(port: int) -> bytes:
    received = bytearray()
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as sock:
        sock.sendall(b"please")
        try:
            while data := sock.recv(65536):
                received += data
        except ConnectionResetError:
            pass
    return bytes(received)


def test_a_seed_is_a_sequence_of_cuts_that_grows() -> None:
    first, again, other = (Cuts(seed) for seed in (1, 1, 2))
    drawn = [first.next() for _ in range(30)]
    assert drawn == [again.next() for _ in range(30)]
    assert drawn != [other.next() for _ in range(30)]
    assert min(drawn) >= 100
    assert max(drawn) > 100_000


def test_every_connection_is_cut_after_its_bytes_until_one_is_not(source: int) -> None:
    cuts = Cuts(5)
    with ChaosProxy("127.0.0.1", source, 5) as proxy:
        for _ in range(8):
            assert fetch(proxy.port) == BODY[: cuts.next()]
            cuts.by_reset()
        assert proxy.cuts == 8
        while fetch(proxy.port) != BODY:
            pass


def test_a_service_that_is_not_there_ends_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with ChaosProxy("127.0.0.1", port, 1) as proxy:
        assert fetch(proxy.port) == b""
        assert proxy.cuts == 0


def packets(*seqs: int, stream: int = 1, text: str = "x") -> list[DeltaPacket]:
    return [
        DeltaPacket(stream_id=UUID(int=stream), seq=seq, op=StreamOpCode.DELTA, t=NOW, p=text)
        for seq in seqs
    ]


def test_a_whole_answer_is_intact() -> None:
    delivery = compare(packets(1, 2, 3), packets(1, 2, 3))
    assert delivery.intact
    assert delivery.summary(cuts=2, reconnects=2) == (
        "Resumed after 2 cuts, nothing lost or duplicated: 3 packets received, 3 logged."
    )
    assert "Resumed after 1 cut (1 more came after the last packet)" in delivery.summary(2, 1)


@pytest.mark.parametrize(
    ("received", "says"),
    [
        (packets(1, 3), "1 lost, 0 duplicated, 0 changed"),
        (packets(1, 2, 2, 3), "0 lost, 1 duplicated, 0 changed"),
        (packets(1, 2) + packets(3, text="y"), "0 lost, 0 duplicated, 1 changed"),
        (packets(1, 2, 3, 4), "0 lost, 0 duplicated, 1 changed"),
        (packets(1, 3, 2), "0 lost, 0 duplicated, 1 changed"),
    ],
)
def test_damage_is_counted(received: list[DeltaPacket], says: str) -> None:
    delivery = compare(received, packets(1, 2, 3))
    assert not delivery.intact
    assert says in delivery.summary(cuts=1, reconnects=1)


def test_another_stream_cannot_be_compared() -> None:
    delivery = compare(packets(1, 2), packets(1, 2, stream=2))
    assert not delivery.intact
    assert "cannot be checked" in delivery.summary(cuts=1, reconnects=1)
