"""Bytes to events: our decoder, httpx-sse, and the one inside httpx2."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from coreason_client.sse import SSEDecoder, parse_sse_stream

from ._measure import Costs, Effort, Table, at_least, compare, measure, timed
from ._peers import httpx2_events, httpx_sse_bare_events, httpx_sse_events
from ._wire import PACKET_BYTES, chunked, events, packets

__all__ = ["count_ours", "count_theirs", "table"]

_EVENTS = 10_000
_CHUNK_BYTES = 4096
_Reader = Callable[[Sequence[bytes]], Iterable[object]]


def count_ours(chunks: Sequence[bytes]) -> int:
    """Decode the chunks with our decoder and count the events."""
    decoder = SSEDecoder()
    count = 0
    for chunk in chunks:
        for _ in decoder.feed(chunk):
            count += 1
    return count


def _ours_as_text(chunks: Sequence[bytes]) -> int:
    count = 0
    for event in parse_sse_stream(chunks):
        if event.data:  # decoded here, when it is read
            count += 1
    return count


def count_theirs(reader: _Reader, chunks: Sequence[bytes]) -> int:
    """Decode the chunks with a peer's reader and count the events."""
    count = 0
    for _ in reader(chunks):
        count += 1
    return count


_CANDIDATES: dict[str, Callable[[Sequence[bytes]], int]] = {
    "ours": count_ours,
    "ours, iterated and read as text": _ours_as_text,
    "httpx-sse": partial(count_theirs, httpx_sse_events),
    "httpx-sse's bare decoders": partial(count_theirs, httpx_sse_bare_events),
    "httpx2": partial(count_theirs, httpx2_events),
}


def _costs(chunks: Sequence[bytes], effort: Effort) -> Costs:
    return measure(
        {name: timed(partial(work, chunks), _EVENTS) for name, work in _CANDIDATES.items()}, effort
    )


def table(effort: Effort) -> Table:
    """Compare at three ways in which events arrive."""
    payloads = packets(_EVENTS)
    plain = events(payloads)
    merged = _costs(chunked(plain, _CHUNK_BYTES), effort)
    with_ids = _costs(chunked(events(payloads, with_ids=True), _CHUNK_BYTES), effort)
    single = _costs(plain, effort)
    ours, as_text, bare = "ours", "ours, iterated and read as text", "httpx-sse's bare decoders"
    at_4k, ids_4k, alone = "4 KiB chunks: ", "4 KiB chunks, with ids: ", "an event per chunk: "
    return Table(
        f"Decoding events of {PACKET_BYTES}-byte packets",
        "event",
        [
            compare(merged, "httpx-sse", ours, at_least(4), where=at_4k),
            compare(merged, "httpx2", ours, at_least(5), where=at_4k),
            compare(merged, bare, ours, where=at_4k),
            compare(merged, "httpx-sse", as_text, where=at_4k),
            compare(with_ids, "httpx-sse", ours, where=ids_4k),
            compare(with_ids, "httpx2", ours, where=ids_4k),
            compare(single, "httpx-sse", ours, at_least(3.5), where=alone),
            compare(single, "httpx2", ours, where=alone),
            compare(single, bare, ours, where=alone),
            compare(single, "httpx-sse", as_text, where=alone),
        ],
    )
