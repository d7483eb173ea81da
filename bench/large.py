"""Large events: does the time per byte stay the same as the event grows?

The allocator has a part in it. The one of glibc keeps freed blocks of up to 32 MiB for the next
event and takes larger ones from the system, page by page, each time. So the growth is measured
twice: as it is, and with every large block taken from the system whatever the size of the event,
which leaves the growth that is the decoder's own. Only that has a goal.
"""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from coreason_client.sse import SSEDecoder

from ._measure import Effort, Row, Table, at_most, compare, measure, timed
from ._process import in_new_process

__all__ = ["table"]

_KIB = 1024
_MIB = 1024 * _KIB
_CHUNK_BYTES = 64 * _KIB
_MOST_GROWTH = 1.5
_FRESH_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(128 * _KIB)}  # the default, but kept
_TEXT = b"The time per byte of a large event must not depend on how large the event is. "


@dataclass(frozen=True, slots=True)
class _Series:
    """Sizes that are compared, the smallest first."""

    where: str
    sizes: tuple[int, ...]
    chunk_bytes: int
    most_growth: float | None

    def named(self, size: int) -> str:
        return f"{size // _MIB} MiB" if size >= _MIB else f"{size // _KIB} KiB"


_LARGE = _Series(
    "64 KiB chunks: ", tuple(size * _MIB for size in (4, 8, 16, 32, 64)), _CHUNK_BYTES, None
)
_BYTEWISE = _Series(
    "1-byte chunks: ", tuple(size * _KIB for size in (64, 128, 256)), 1, _MOST_GROWTH
)
_FRESH = _Series("64 KiB chunks, fresh memory: ", (4 * _MIB, 64 * _MIB), _CHUNK_BYTES, _MOST_GROWTH)


def _event(size: int) -> bytes:
    """Return an event of so many bytes on the wire."""
    room = size - len(b"data: \n\n")
    return b"data: " + (_TEXT * (room // len(_TEXT) + 1))[:room] + b"\n\n"


def _cut(text: bytes, size: int) -> list[bytes]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _decode(chunks: Sequence[bytes], times: int, limit: int) -> int:
    """Decode the same event several times, each on a new connection; return the bytes done."""
    done = 0
    for _ in range(times):
        decoder = SSEDecoder(limit)
        for chunk in chunks:
            for event in decoder.feed(chunk):
                done += len(event.data_bytes) + len(b"data: \n\n")
    return done


def _growth(series: _Series, effort: Effort) -> list[Row]:
    """Decode as many bytes at every size, and compare each size with the smallest."""
    most = max(series.sizes)
    goal = None if series.most_growth is None else at_most(series.most_growth)
    turns = {
        series.named(size): timed(
            partial(_decode, _cut(_event(size), series.chunk_bytes), most // size, most), most
        )
        for size in series.sizes
    }
    costs = {
        name: [cost * _MIB for cost in of_a_byte]
        for name, of_a_byte in measure(turns, effort).items()
    }
    return [
        compare(
            costs,
            series.named(size),
            series.named(series.sizes[0]),
            goal if size == most else None,
            where=series.where,
        )
        for size in series.sizes[1:]
    ]


def table(effort: Effort) -> Table:
    """Let an event grow, in large chunks and in the smallest."""
    rows = [row for series in (_LARGE, _BYTEWISE) for row in _growth(series, effort)]
    if platform.libc_ver()[0] == "glibc":
        rows += in_new_process(_growth, _FRESH_MEMORY)(_FRESH, effort)
    return Table("One large event, the limit raised", "MiB", rows)
