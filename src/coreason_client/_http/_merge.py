"""Merges the chunk framing of an HTTP/1.1 response that has already arrived. Pure.

A streaming server flushes every packet as an HTTP chunk of its own, and httpx2 pays h11 and five
generators for each of them: that is most of what a packet costs. This filter stands between the
socket and h11. Of a chunked body it writes the chunks that one read brought as one chunk, so that
they are paid once. Everything else goes through untouched.
Once h11 has seen that a body has begun, it can be left out of the middle of it altogether.

It must never change the outcome: the body, its end, or how it fails. So it only takes over where
nothing is in doubt (a plain HTTP/1.1 200 head that says `Transfer-Encoding: chunked` and no more)
and only reads plain chunk headers. At the first byte that is not as expected it hands h11 the
original bytes from there on and stays out of the way until the next response. Data is never held
back, only the framing around it.
"""

import re
from collections.abc import Callable

__all__ = ["ChunkMerger"]

_HEAD = re.compile(rb"HTTP/1\.1 200(?: [^\r\n\0]*)?\r\n(?:[!-9;-~]+:[^\r\n\0]*\r\n)*\r\n")
_STATUS = b"HTTP/1.1 200"
_LONGEST_HEAD = 65_536
_FRAMING = re.compile(
    rb"\r\n(transfer-encoding|content-length):[ \t]*([^\r\n]*?)[ \t]*(?=\r\n)", re.IGNORECASE
)

# A joint is what stands between the data of two chunks: the CRLF that ends one, and the header of
# the next. The first chunk has a header only. More hex digits than this, an extension or a space
# are legal and rare, and left to h11.
_FIRST_JOINT = re.compile(rb"([0-9A-Fa-f]{1,15})\r\n")
_JOINT = re.compile(rb"\r\n([0-9A-Fa-f]{1,15})\r\n")
_PART_OF_FIRST_JOINT = re.compile(rb"[0-9A-Fa-f]{0,15}\r?")
_PART_OF_JOINT = re.compile(rb"\r?|\r\n[0-9A-Fa-f]{0,15}\r?")


class ChunkMerger:
    """Filters what arrives on one connection: `sent` takes what goes out, `receive` what comes.

    A response is only looked at when the connection is clean: when it is the first one, or the
    one before it was followed to its end and not a byte came behind that. On any other connection
    h11 may have bytes that this object has not seen the meaning of.
    """

    __slots__ = ("_begun", "_clean", "_held", "_left", "_step")

    def __init__(self) -> None:
        self._step: Callable[[bytes], bytes] = _as_it_is
        self._clean = True
        self._held = b""  # a copy of the head so far, later the part of a joint that has arrived
        self._left = 0  # bytes of the present chunk or body that are still to come
        self._begun = False  # h11 has read the data of a chunk, and waits for the CRLF behind it

    def sent(self, data: bytes) -> None:
        """Take note of what goes out: the next thing to arrive may be a response."""
        if not self._clean:
            return
        if data.startswith((b"HEAD ", b"CONNECT ")):
            # Their responses have no body, whatever the headers say.
            self._leave_alone()
        elif data:
            self._step = self._receive_head

    @property
    def is_over(self) -> bool:
        """Whether the last response was followed to its end, and nothing came behind it."""
        return self._clean and self._step is _as_it_is

    def receive(self, data: bytes) -> bytes:
        """Return what h11 is to read; empty while only a part of a joint has arrived."""
        if self._clean and self._step is _as_it_is:
            self._clean = False  # nobody asked for this
        return self._step(data)

    @property
    def in_body(self) -> bool:
        """Whether h11 has read some of a chunked body, and the rest may pass it by."""
        return self._begun and self._step == self._receive_body

    def unframe(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the chunks' data in these bytes of the body, and what h11 has to read itself.

        h11 may be left out for as long as `in_body` holds: it waits for the CRLF behind a chunk,
        and what it has to read begins with one.
        """
        data = self._held + data
        self._held = b""
        pieces: list[bytes] = []
        rest = self._take_chunks(data, pieces)
        return b"".join(pieces), rest

    def _leave_alone(self) -> None:
        self._clean = False
        self._step = _as_it_is

    def _end_with(self, rest: bytes) -> None:
        """Take note that the response is over; what stands behind it makes it unclean."""
        self._clean = not rest
        self._step = _as_it_is
        self._begun = False

    def _receive_head(self, data: bytes) -> bytes:
        self._clean = False
        seen = len(self._held)
        head = self._held + data
        end = head.find(b"\r\n\r\n") + 4
        if end < 4 and len(head) <= _LONGEST_HEAD and _STATUS.startswith(head[: len(_STATUS)]):
            self._held = head
            return data
        self._held = b""
        if end < 4 or not _HEAD.fullmatch(head, 0, end):
            self._leave_alone()
            return data
        return head[seen:end] + self._begin_body(head, end)

    def _begin_body(self, head: bytes, end: int) -> bytes:
        """Decide by the head how the body is read; return what h11 is to read of it."""
        framing = [(name.lower(), value) for name, value in _FRAMING.findall(head, 0, end)]
        body = head[end:]
        match framing:
            case [(b"transfer-encoding", value)] if value.lower() == b"chunked":
                self._step = self._receive_body
            case [(b"content-length", value)] if value.isdigit() and len(value) < 16:
                self._left = int(value)
                self._step = self._receive_counted
            case _:
                self._leave_alone()
        return self._step(body)

    def _receive_counted(self, data: bytes) -> bytes:
        """Let a body of known length through, to know where it ends."""
        self._left -= len(data)
        if self._left <= 0:
            self._end_with(data[self._left :] if self._left else b"")
            self._left = 0
        return data

    def _receive_end(self, data: bytes) -> bytes:
        """Let the end of a chunked body through: the empty line after the last chunk."""
        self._held += data
        if len(self._held) >= 2:
            self._end_with(self._held.removeprefix(b"\r\n"))
            self._held = b""
        elif self._held != b"\r"[: len(self._held)]:
            self._leave_alone()
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
        """Move chunk data into `pieces`; return what h11 has to read for itself."""
        position = 0
        left = self._left
        while True:
            if left:
                piece = data[position : position + left]
                if piece:
                    pieces.append(piece)
                    position += len(piece)
                    left -= len(piece)
                    self._begun = True
                if left:
                    self._left = left
                    return b""
            joint = (_JOINT if self._begun else _FIRST_JOINT).match(data, position)
            left = int(joint[1], 16) if joint else 0
            if joint is None or left == 0:
                self._left = 0
                return self._stop_at(data[position:], joint is None)
            position = joint.end()

    def _stop_at(self, rest: bytes, unreadable: bool) -> bytes:
        """Hold the part of a joint whose rest may still come; leave anything else to h11."""
        if not unreadable:  # the last chunk
            joint = (_JOINT if self._begun else _FIRST_JOINT).match(rest)
            end = joint.end() if joint else 0
            self._step = self._receive_end
            return rest[:end] + self._receive_end(rest[end:])
        part = _PART_OF_JOINT if self._begun else _PART_OF_FIRST_JOINT
        if part.fullmatch(rest):
            self._held = rest
            return b""
        self._leave_alone()
        return rest


def _as_it_is(data: bytes) -> bytes:
    return data
