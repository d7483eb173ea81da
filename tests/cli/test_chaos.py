"""The proxy cuts connections at positions that follow from its seed."""

import itertools
import socket
import threading
from collections.abc import Iterator

import pytest

from coreason_client.cli.chaos import Cuts, CuttingProxy

PATIENCE = 10.0
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
    with CuttingProxy("127.0.0.1", source, 5) as proxy:
        for _ in range(8):
            assert fetch(proxy.port) == BODY[: cuts.next()]
            cuts.by_reset()
        assert proxy.cuts == 8
        while fetch(proxy.port) != BODY:
            pass


def test_a_service_that_is_not_there_ends_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with CuttingProxy("127.0.0.1", port, 1) as proxy:
        assert fetch(proxy.port) == b""
        assert proxy.cuts == 0
