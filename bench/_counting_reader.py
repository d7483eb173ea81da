"""A cheap reader: a plain socket that counts events."""

import selectors
import socket
import time

from ._request import chat_request

__all__ = ["CountingReader", "assist_request", "read", "read_all"]

_EVENT = b"\ndata: "
_LONGEST_WAIT = 120.0


def assist_request(message: str, number: int) -> bytes:
    """Return a request with a message in a new conversation."""
    body = chat_request(message, f"conversation {number}").to_json().encode()
    return (
        b"POST /assist HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    )


class CountingReader:
    """One response, whose events are only counted; `mark` is what each of them has once."""

    def __init__(self, port: int, request: bytes, mark: bytes = _EVENT) -> None:
        self._request = request
        self._mark = mark
        self.socket = socket.create_connection(("127.0.0.1", port), _LONGEST_WAIT)
        self._tail = b""
        self._sent_at = 0.0
        self.count = 0
        self.first_after = 0.0

    def ask(self) -> None:
        self._sent_at = time.monotonic()
        self.socket.sendall(self._request)
        self.socket.setblocking(False)

    def read(self) -> int | None:
        """Return the number of new events, or None at the end of the response."""
        received = self.socket.recv(262_144)
        if not received:
            return None
        data = self._tail + received
        found = data.count(self._mark)
        if found and not self.count:
            self.first_after = time.monotonic() - self._sent_at
        self.count += found
        self._tail = data[1 - len(self._mark) :]
        return found


def read_all(port: int, streams: int, packets: int) -> list[CountingReader]:
    """Send requests on many connections at once, and read all answers of `packets` packets."""
    requests = [assist_request("How are you?", number) for number in range(streams)]
    return read([CountingReader(port, request) for request in requests], packets)


def read(readers: list[CountingReader], packets: int) -> list[CountingReader]:
    """Send the requests at once, and read all answers of `packets` events."""
    with selectors.DefaultSelector() as selector:
        for reader in readers:
            reader.ask()
            selector.register(reader.socket, selectors.EVENT_READ, reader)
        deadline = time.monotonic() + _LONGEST_WAIT
        while selector.get_map():
            if time.monotonic() > deadline:
                raise AssertionError("the streams did not end")
            for key, _ in selector.select(1.0):
                if key.data.read() is None:
                    selector.unregister(key.fileobj)
                    key.data.socket.close()
    counts = {reader.count for reader in readers}
    if counts != {packets}:
        raise AssertionError(f"streams of {sorted(counts)} packets, not of {packets}")
    return readers
