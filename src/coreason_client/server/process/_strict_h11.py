"""A stricter h11: it refuses requests that a proxy in front may read differently.

If a proxy and a server read a head differently, an attacker can smuggle a second request past the
proxy. RFC 9112 allows a
server to accept a bare LF (section 2.2) and `Transfer-Encoding` together with `Content-Length`
(section 6.3), and h11 accepts both. httptools refuses both.
"""

import re
from collections.abc import Iterable
from typing import Any

import h11

__all__ = ["StrictConnection", "has_bare_lf", "has_two_lengths"]

_END_OF_HEAD = re.compile(rb"\n\r?\n")
_BARE_LF = re.compile(rb"(?:^|[^\r])\n")


def has_bare_lf(data: bytes) -> bool:
    """Return True if a line of the head at the start of `data` ends without a carriage return."""
    end = _END_OF_HEAD.search(data)
    return _BARE_LF.search(data, 0, end.end() if end else len(data)) is not None


def has_two_lengths(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return True if the headers, with lower-case names, give the length of the body twice."""
    return {b"content-length", b"transfer-encoding"} <= {name for name, _ in headers}


class StrictConnection(h11.Connection):
    """A server connection; it keeps the bytes of a head until h11 has parsed it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head = bytearray()

    def receive_data(self, data: bytes) -> None:
        """Receive bytes from the network."""
        if self.their_state is h11.IDLE:
            self._head += data
        super().receive_data(data)

    def start_next_cycle(self) -> None:
        """Prepare for the next request; some of its bytes may have arrived already."""
        super().start_next_cycle()
        self._head = bytearray(self.trailing_data[0])

    def next_event(self) -> Any:
        """Return the next event.

        Raises:
            h11.RemoteProtocolError: the bytes are not HTTP, or are ambiguous.
        """
        event = super().next_event()
        if isinstance(event, h11.Request):
            head, self._head = bytes(self._head), bytearray()
            if has_bare_lf(head):
                raise h11.RemoteProtocolError("a line of the head ends with a bare LF")
            if has_two_lengths(event.headers):
                raise h11.RemoteProtocolError("Transfer-Encoding together with Content-Length")
        return event
