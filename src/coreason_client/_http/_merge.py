"""Merges the HTTP/1.1 chunks that one read received into one chunk. Pure.

A streaming server sends every packet as a separate HTTP chunk, and httpx2 runs h11 and five
generators for each chunk: that is most of the cost of a packet. This filter sits between the socket
and h11. It combines all chunks of a chunked body that one read received into one chunk, and passes
everything else through unchanged. After h11 has read the beginning of a body, the middle of the
body can bypass h11 completely.

The filter must never change the body, its end, or its failures. So it is used only in unambiguous
cases (a plain HTTP/1.1 200 head whose only framing header is `Transfer-Encoding: chunked`) and
parses only plain chunk headers. From the first unexpected byte on it passes the original bytes to
h11, until the next response. Data is never delayed, only the framing around it.
"""

import re
from collections.abc import Callable

_HEAD = re.compile(rb"HTTP/1\.1 200(?: [^\r\n\0]*)?\r\n(?:[!-9;-~]+:[^\r\n\0]*\r\n)*\r\n")
_STATUS = b"HTTP/1.1 200"
_MAX_HEAD_BYTES = 65_536
_FRAMING = re.compile(
    rb"\r\n(transfer-encoding|content-length):[ \t]*([^\r\n]*?)[ \t]*(?=\r\n)", re.IGNORECASE
)

# A separator is the text between the data of two chunks: the CRLF that ends one, and the header of
# the next. Before the first chunk there is only a header. More hex digits, an extension or a space
# are valid but rare, and left to h11.
_FIRST_SEPARATOR = re.compile(rb"([0-9A-Fa-f]{1,15})\r\n")
_SEPARATOR = re.compile(rb"\r\n([0-9A-Fa-f]{1,15})\r\n")
_PARTIAL_FIRST_SEPARATOR = re.compile(rb"[0-9A-Fa-f]{0,15}\r?")
_PARTIAL_SEPARATOR = re.compile(rb"\r?|\r\n[0-9A-Fa-f]{0,15}\r?")


class ChunkMerger:
    """Filters the received bytes of one connection.

    `request_sent` takes the bytes that are sent, `receive` the bytes that are received. A response
    is parsed only if the connection is clean: it is the first response, or the one before was
    parsed to its end and no byte followed. Otherwise h11 may be holding bytes that were not parsed
    here.
    """

    __slots__ = ("_begun", "_clean", "_handler", "_held", "_remaining")

    def __init__(self) -> None:
        self._handler: Callable[[bytes], bytes] = _pass_through
        self._clean = True
        self._held = b""  # a copy of the head so far; later an incomplete separator
        self._remaining = 0  # bytes of the current chunk or body that have not arrived
        self._begun = False  # h11 has read the data of a chunk and expects the CRLF after it

    def request_sent(self, data: bytes) -> None:
        """Record sent bytes: the next received bytes may be a response."""
        if not self._clean:
            return
        if data.startswith((b"HEAD ", b"CONNECT ")):
            # Their responses have no body, regardless of the headers.
            self._stop_merging()
        elif data:
            self._handler = self._receive_head

    @property
    def response_complete(self) -> bool:
        """True if the last response was parsed to its end and no byte followed."""
        return self._clean and self._handler is _pass_through

    def receive(self, data: bytes) -> bytes:
        """Return the bytes for h11; empty while only a part of a separator has arrived."""
        if self._clean and self._handler is _pass_through:
            self._clean = False  # unsolicited bytes
        return self._handler(data)

    @property
    def in_body(self) -> bool:
        """True if h11 has read a part of a chunked body, and the rest may bypass it."""
        return self._begun and self._handler == self._receive_body

    def unframe(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the data of the chunks in these bytes, and the bytes that h11 has to read itself.

        h11 may be bypassed while `in_body` is True: it expects the CRLF after a chunk, and the
        bytes that it has to read begin with one.
        """
        data = self._held + data
        self._held = b""
        pieces: list[bytes] = []
        rest = self._take_chunks(data, pieces)
        return b"".join(pieces), rest

    def _stop_merging(self) -> None:
        self._clean = False
        self._handler = _pass_through

    def _end_response(self, rest: bytes) -> None:
        """Record the end of the response; further bytes make the connection unclean."""
        self._clean = not rest
        self._handler = _pass_through
        self._begun = False

    def _receive_head(self, data: bytes) -> bytes:
        self._clean = False
        seen = len(self._held)
        head = self._held + data
        end = head.find(b"\r\n\r\n") + 4
        if end < 4 and len(head) <= _MAX_HEAD_BYTES and _STATUS.startswith(head[: len(_STATUS)]):
            self._held = head
            return data
        self._held = b""
        if end < 4 or not _HEAD.fullmatch(head, 0, end):
            self._stop_merging()
            return data
        return head[seen:end] + self._begin_body(head, end)

    def _begin_body(self, head: bytes, end: int) -> bytes:
        """Choose the handler for the body by the head; return the bytes of the body for h11."""
        framing = [(name.lower(), value) for name, value in _FRAMING.findall(head, 0, end)]
        body = head[end:]
        match framing:
            case [(b"transfer-encoding", value)] if value.lower() == b"chunked":
                self._handler = self._receive_body
            case [(b"content-length", value)] if value.isdigit() and len(value) < 16:
                self._remaining = int(value)
                self._handler = self._receive_sized_body
            case _:
                self._stop_merging()
        return self._handler(body)

    def _receive_sized_body(self, data: bytes) -> bytes:
        """Pass a body of known length through and detect its end."""
        self._remaining -= len(data)
        if self._remaining <= 0:
            self._end_response(data[self._remaining :] if self._remaining else b"")
            self._remaining = 0
        return data

    def _receive_end(self, data: bytes) -> bytes:
        """Pass the end of a chunked body through: the empty line after the last chunk."""
        self._held += data
        if len(self._held) >= 2:
            self._end_response(self._held.removeprefix(b"\r\n"))
            self._held = b""
        elif self._held != b"\r"[: len(self._held)]:
            self._stop_merging()
        return data

    def _receive_body(self, data: bytes) -> bytes:
        data = self._held + data
        self._held = b""
        begun_before = self._begun
        pieces: list[bytes] = []
        rest = self._take_chunks(data, pieces)
        if not pieces:
            return rest
        merged = b"".join(pieces)
        footer = b"\r\n" if begun_before else b""
        return b"%b%x\r\n%b%b" % (footer, len(merged), merged, rest)

    def _take_chunks(self, data: bytes, pieces: list[bytes]) -> bytes:
        """Move chunk data into `pieces`; return the bytes that h11 has to read itself."""
        position = 0
        remaining = self._remaining
        while True:
            if remaining:
                piece = data[position : position + remaining]
                if piece:
                    pieces.append(piece)
                    position += len(piece)
                    remaining -= len(piece)
                    self._begun = True
                if remaining:
                    self._remaining = remaining
                    return b""
            separator = (_SEPARATOR if self._begun else _FIRST_SEPARATOR).match(data, position)
            remaining = int(separator[1], 16) if separator else 0
            if separator is None or remaining == 0:
                self._remaining = 0
                return self._handle_unparsed(data[position:], is_last_chunk=separator is not None)
            position = separator.end()

    def _handle_unparsed(self, rest: bytes, *, is_last_chunk: bool) -> bytes:
        """Hold an incomplete separator; pass everything else to h11."""
        if is_last_chunk:
            separator = (_SEPARATOR if self._begun else _FIRST_SEPARATOR).match(rest)
            end = separator.end() if separator else 0
            self._handler = self._receive_end
            return rest[:end] + self._receive_end(rest[end:])
        partial = _PARTIAL_SEPARATOR if self._begun else _PARTIAL_FIRST_SEPARATOR
        if partial.fullmatch(rest):
            self._held = rest
            return b""
        self._stop_merging()
        return rest


def _pass_through(data: bytes) -> bytes:
    return data
