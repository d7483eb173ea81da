"""A server on loopback that sends its response one byte at a time, for as long as anybody reads."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

__all__ = ["BODY", "ERROR_BODY", "HEAD_WITHOUT_END", "dripping"]

HEAD_WITHOUT_END = b"HTTP/1.1 200 OK\r\nX-Slow: "
ERROR_BODY = (
    b'HTTP/1.1 503 Busy\r\nContent-Type: text/plain\r\nContent-Length: 9999\r\n\r\n{"detail":'
)
BODY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n{"


@contextmanager
def dripping(beginning: bytes, every: float = 0.05) -> Iterator[str]:
    """Answer with a beginning, and then with one byte now and then; yield the URL."""
    over = threading.Event()
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        listener.settimeout(0.05)
        thread = threading.Thread(target=_serve, args=(listener, beginning, every, over))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            thread.join(10)
            assert not thread.is_alive()


def _serve(listener: socket.socket, beginning: bytes, every: float, over: threading.Event) -> None:
    threads = []
    while not over.is_set():
        with suppress(TimeoutError):
            peer, _ = listener.accept()
            threads.append(threading.Thread(target=_drip, args=(peer, beginning, every, over)))
            threads[-1].start()
    for thread in threads:
        thread.join(10)


def _drip(peer: socket.socket, beginning: bytes, every: float, over: threading.Event) -> None:
    with closing(peer), suppress(OSError):
        peer.recv(65_536)
        peer.sendall(beginning)
        while not over.wait(every):
            peer.sendall(b"a")
