"""`assert_exactly_once`: every packet of a stream was delivered, once and in order. Pure."""

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Any

from coreason_manifest.definitions.presentation import StreamOpCode, StreamPacket
from coreason_manifest.definitions.rewind import valid_packets

_MAX_NAMED = 5  # of one kind of problem; a stream that is lost as a whole has thousands
_AROUND = 20  # characters that are shown on each side of a difference


def assert_exactly_once(
    received: Any, expected: str | Sequence[str] | None = None, *, ended: bool = True
) -> None:
    """Check that a stream was delivered exactly once: nothing lost, duplicated or reordered.

    Args:
        received: packets, such as `client.assist(...)` yields; a stream is read to its end. Or
            text: an `Answer`, the pieces of a chat, or a chat stream that was read. Text has no
            numbers, so it can only be compared with `expected`.
        expected: the text, or the pieces of text in order. Text that a durable agent has taken
            back does not count.
        ended: False for a stream that was left or that failed, so that its end may be missing.

    Raises:
        AssertionError: with a line for each problem, which says what is wrong and where.
        TypeError: text without `expected`, or something that is neither packets nor text.
    """
    whole = _text_of(received)
    items = [] if whole is not None else list(received)
    if all(isinstance(item, StreamPacket) for item in items) and whole is None:
        problems = [*_packet_problems(items, ended=ended)]
        pieces = [packet.p for packet in valid_packets(items) if packet.op is StreamOpCode.DELTA]
    elif all(isinstance(item, str) for item in items):
        if expected is None:
            raise TypeError("text has no numbers: pass `expected`, or the packets of the stream")
        problems, pieces = [], items if whole is None else [whole]
    else:
        raise TypeError("assert_exactly_once takes packets or text, not both and nothing else")
    if expected is not None:
        problems += _text_problems(pieces, expected)
    if problems:
        raise AssertionError("\n  ".join(["the stream was not delivered exactly once:", *problems]))


def _text_of(received: object) -> str | None:
    """Return the text of an answer or of a chat stream that was read; None for anything else."""
    if isinstance(received, str):
        return received
    text = getattr(received, "text", None)
    return text if isinstance(text, str) else None


# Packets


def _packet_problems(packets: Sequence[StreamPacket], *, ended: bool) -> Iterator[str]:
    if not packets:
        if ended:
            yield "no packet was received"
        return
    yield from _stream_problems(packets)
    numbers = [packet.seq for packet in packets]
    yield from _lost(numbers)
    yield from _doubled(numbers)
    yield from _reordered(numbers)
    yield from _end_problems(packets, ended=ended)


def _stream_problems(packets: Sequence[StreamPacket]) -> Iterator[str]:
    first = packets[0].stream_id
    for place, packet in enumerate(packets, 1):
        if packet.stream_id != first:
            yield (
                f"the {_ordinal(place)} packet belongs to another stream: {packet.stream_id}, "
                f"but the first packet to {first}"
            )
            return


def _lost(numbers: Sequence[int]) -> Iterator[str]:
    missing = sorted(set(range(1, max(numbers) + 1)) - set(numbers))
    for first, last in islice(_ranges(missing), _MAX_NAMED):
        before, after = first - 1, last + 1
        where = f"between {before} and {after}" if before else f"before {after}"
        yield f"lost: {_packets(first, last)}, {where}"


def _doubled(numbers: Sequence[int]) -> Iterator[str]:
    places: dict[int, list[int]] = {}
    for place, number in enumerate(numbers, 1):
        places.setdefault(number, []).append(place)
    doubled = ((number, found) for number, found in places.items() if len(found) > 1)
    for number, found in islice(doubled, _MAX_NAMED):
        yield f"doubled: packet {number} was received {len(found)} times, {_at(*found)}"


def _reordered(numbers: Sequence[int]) -> Iterator[str]:
    seen: set[int] = set()
    found = 0
    for place, (earlier, later) in enumerate(pairwise(numbers), 2):
        seen.add(earlier)
        if later < earlier and later not in seen and found < _MAX_NAMED:
            found += 1
            yield f"reordered: packet {later} was received after packet {earlier}, {_at(place)}"
    if 0 in numbers:
        yield f"packet 0 was received, {_at(numbers.index(0) + 1)}; numbers start with 1"


def _end_problems(packets: Sequence[StreamPacket], *, ended: bool) -> Iterator[str]:
    ends = [place for place, packet in enumerate(packets, 1) if packet.is_last]
    if not ends:
        if ended:
            last = packets[-1]
            yield (
                f"no end: the last packet is {last.op} {last.seq}, neither CLOSE nor a FATAL error"
            )
    elif ends != [len(packets)]:
        count = len(packets) - ends[0]
        noun = "packet follows" if count == 1 else "packets follow"
        yield f"{count} {noun} the end of the stream, which is the {_ordinal(ends[0])} packet"


# Text


def _text_problems(pieces: Sequence[str], expected: str | Sequence[str]) -> Iterator[str]:
    wanted = expected if isinstance(expected, str) else "".join(expected)
    text = "".join(pieces)
    if text == wanted:
        return
    at = _first_difference(text, wanted)
    yield (
        f"text: {_difference(text, wanted, at)} at character {at}: "
        f"expected {_excerpt(wanted, at)}, got {_excerpt(text, at)}"
    )


def _first_difference(text: str, wanted: str) -> int:
    pairs = enumerate(zip(text, wanted, strict=False))
    return next((at for at, (got, want) in pairs if got != want), min(len(text), len(wanted)))


def _difference(text: str, wanted: str, at: int) -> str:
    """Return what is probably wrong at the first character that differs."""
    rest, wanted_rest = text[at:], wanted[at:]
    if not rest or (wanted_rest.endswith(rest) and len(rest) < len(wanted_rest)):
        return f"{len(wanted_rest) - len(rest)} characters are lost"
    extra = len(rest) - len(wanted_rest)
    if extra > 0 and rest.endswith(wanted_rest):
        repeated = text[max(at - extra, 0) : at] == rest[:extra]
        return f"{extra} characters are {'doubled' if repeated else 'too many'}"
    return "the text differs"


def _excerpt(text: str, at: int) -> str:
    start, stop = max(at - _AROUND, 0), at + _AROUND
    cut = text[start:stop]
    return f"{'…' if start else ''}{cut!r}{'…' if stop < len(text) else ''}"


# Words


def _at(*places: int) -> str:
    words = [_ordinal(place) for place in places]
    listed = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
    return f"as the {listed} packet"


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def _packets(first: int, last: int) -> str:
    return f"packet {first}" if first == last else f"packets {first} to {last}"


def _ranges(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of consecutive numbers."""
    start = 0
    for index in range(1, len(numbers) + 1):
        if index == len(numbers) or numbers[index] != numbers[index - 1] + 1:
            yield numbers[start], numbers[index - 1]
            start = index
