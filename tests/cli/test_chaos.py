"""`coreason chat --chaos` cuts connections at positions that follow from its seed."""

import itertools
import socket
import threading
from collections.abc import Iterator

import pytest

from coreason_client.cli.chat._service import cut_plans
from coreason_client.testing import ChaosProxy

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


def fetch(url: str) -> bytes:
    received = bytearray()
    port = int(url.rpartition(":")[2])
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as sock:
            sock.sendall(b"please")
            while data := sock.recv(65536):
                received += data
    except (BrokenPipeError, ConnectionResetError):
        pass  # the proxy may be faster than the connection, the request and the response
    return bytes(received)


def test_a_seed_is_a_sequence_of_cuts_that_grows() -> None:
    first, again, other = (cut_plans(seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert min(plan.after for plan in first) >= 100
    assert max(plan.after for plan in first[:30]) > 100_000
    assert {plan.fault for plan in first} == {"cut", "reset"}


def test_every_connection_is_cut_after_its_bytes_until_one_is_not(source: int) -> None:
    plans = cut_plans(5)
    with ChaosProxy(f"http://127.0.0.1:{source}", plan=plans) as proxy:
        for plan in plans[:8]:
            assert fetch(proxy.url) == BODY[: plan.after]
        assert proxy.faults == 8
        while fetch(proxy.url) != BODY:
            pass


def test_a_service_that_is_not_there_ends_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with ChaosProxy(f"http://127.0.0.1:{port}", plan=cut_plans(1)) as proxy:
        assert fetch(proxy.url) == b""
        assert proxy.faults == 0
