"""Replaces parts of a body in chunks, and keeps the boundaries of the chunks. Pure."""

from collections.abc import Iterable, Sequence
from itertools import accumulate

__all__ = ["Span", "merged_spans", "replace_spans", "spans_of"]

Span = tuple[int, int]
"""The first byte of a part, and the first one after it."""


def spans_of(body: bytes, part: bytes) -> list[Span]:
    """Return where a part occurs in a body."""
    found: list[Span] = []
    at = body.find(part) if part else -1
    while at >= 0:
        found.append((at, at + len(part)))
        at = body.find(part, at + len(part))
    return found


def merged_spans(spans: Iterable[Span]) -> list[Span]:
    """Return spans in their order, with those joined that overlap."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def replace_spans(
    chunks: Sequence[bytes], spans: Iterable[Span], replacement: bytes
) -> list[bytes]:
    """Return the chunks with each span of their joined bytes replaced.

    A boundary within a span stays at the same distance from its start, or at its end.
    """
    body = b"".join(chunks)
    pieces: list[bytes] = []
    moved: list[int] = []
    ends = [*accumulate(map(len, chunks))]
    done, size = 0, 0
    for start, end in [*merged_spans(spans), (len(body), len(body))]:
        while len(moved) < len(ends) and ends[len(moved)] <= start:
            moved.append(size + ends[len(moved)] - done)
        pieces.append(body[done:start])
        size += start - done
        if end > start:
            while len(moved) < len(ends) and ends[len(moved)] < end:
                moved.append(size + min(ends[len(moved)] - start, len(replacement)))
            pieces.append(replacement)
            size += len(replacement)
        done = end
    changed = b"".join(pieces)
    starts = [0, *moved][:-1]
    return [changed[start:end] for start, end in zip(starts, moved, strict=True)]
