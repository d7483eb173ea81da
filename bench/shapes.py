"""Bytes to events for each common shape of an event: our decoder and httpx-sse."""

from collections.abc import Callable
from functools import partial
from itertools import cycle

from ._measure import Effort, Row, Table, at_least, compare, measure, timed
from ._peers import httpx_sse_events
from ._wire import PACKET_BYTES, chunked, packets
from .decode import count_ours, count_theirs

__all__ = ["table"]

_EVENTS = 5_000
_CHUNK_BYTES = 4096
_STREAM = b"0197a3c2-5be1-7d40-9f0e-6c1d2a8b4e57"

# A block before its empty line. %(i)d is the number of the event, %(d)b its data.
_SHAPES: dict[str, bytes] = {
    "data": b"data: %(d)b\n",
    "id, data": b"id: %(s)b:%(i)d\ndata: %(d)b\n",
    "event, data": b"event: message\ndata: %(d)b\n",
    "event, id, data": b"event: message\nid: %(s)b:%(i)d\ndata: %(d)b\n",
    "id, event, data": b"id: %(s)b:%(i)d\nevent: message\ndata: %(d)b\n",
    "data, CRLF": b"data: %(d)b\r\n",
    "event, data, CRLF": b"event: message\r\ndata: %(d)b\r\n",
    "id, event, data, CRLF": b"id: %(s)b:%(i)d\r\nevent: message\r\ndata: %(d)b\r\n",
    "data without a space": b"data:%(d)b\n",
    "comment, data": b": comment\ndata: %(d)b\n",
    "data, id": b"data: %(d)b\nid: %(s)b:%(i)d\n",
    "event, data, id": b"event: message\ndata: %(d)b\nid: %(s)b:%(i)d\n",
    "retry, id, data": b"retry: 3000\nid: %(s)b:%(i)d\ndata: %(d)b\n",
    "two lines of data": b"data: %(d1)b\ndata: %(d2)b\n",
}
_TYPES = (b"message_start", b"content_block_start", b"ping", *[b"content_block_delta"] * 20)
# At 4 KiB chunks; the goal of every other shape is 3, that of mixed streams 1.8.
_GOALS = {"data": 3.8, "data without a space": 2.8, "two lines of data": 2.8}


def _block(shape: bytes, number: int, data: bytes) -> bytes:
    half = len(data) // 2
    end = b"\r\n" if b"\r\n" in shape else b"\n"
    return (
        shape
        % {
            b"i": number,
            b"s": _STREAM,
            b"d": data,
            b"d1": data[:half],
            b"d2": data[half:],
        }
        + end
    )


def _one_shape(shape: bytes) -> list[bytes]:
    return [_block(shape, number, data) for number, data in enumerate(packets(_EVENTS))]


def _mixed_shapes(*, with_crlf: bool) -> list[bytes]:
    """Every event has another shape than the one before."""
    shapes = cycle(s for s in _SHAPES.values() if with_crlf or b"\r" not in s)
    return [_block(next(shapes), number, data) for number, data in enumerate(packets(_EVENTS))]


def _mixed_types() -> list[bytes]:
    """Named events of several types, most of them of one, as model providers send them."""
    types = cycle(_TYPES)
    return [b"event: %b\ndata: %b\n\n" % (next(types), data) for data in packets(_EVENTS)]


def _with_keep_alive() -> list[bytes]:
    """Named events, and a comment between every ten of them.

    Without ids: httpx-sse makes an event of a comment that follows an id.
    """
    stream = _one_shape(_SHAPES["event, data"])
    stream[::10] = [b": ping\n\n" + block for block in stream[::10]]
    return stream


_MIXED: dict[str, Callable[[], list[bytes]]] = {
    "mixed: all shapes in turn, LF": partial(_mixed_shapes, with_crlf=False),
    "mixed: all shapes in turn, LF and CRLF": partial(_mixed_shapes, with_crlf=True),
    "mixed: event, data with several types": _mixed_types,
    "mixed: event, data with comments between": _with_keep_alive,
}


def _row(name: str, stream: list[bytes], merged: bool, effort: Effort) -> Row:
    chunks = chunked(stream, _CHUNK_BYTES) if merged else stream
    costs = measure(
        {
            "httpx-sse": timed(partial(count_theirs, httpx_sse_events, chunks), _EVENTS),
            "ours": timed(partial(count_ours, chunks), _EVENTS),
        },
        effort,
    )
    goal = 1.8 if name in _MIXED else _GOALS.get(name, 3) if merged else 3
    where = "4 KiB chunks" if merged else "an event per chunk"
    return compare(costs, "httpx-sse", "ours", at_least(goal), where=f"{where}, {name}: ")


def table(effort: Effort) -> Table:
    """Compare for each shape, at 4 KiB chunks and at an event per chunk."""
    streams = {name: _one_shape(shape) for name, shape in _SHAPES.items()}
    streams |= {name: make() for name, make in _MIXED.items()}
    return Table(
        f"Decoding events of {PACKET_BYTES}-byte packets in the common shapes",
        "event",
        [
            _row(name, stream, merged, effort)
            for merged in (True, False)
            for name, stream in streams.items()
        ],
    )
