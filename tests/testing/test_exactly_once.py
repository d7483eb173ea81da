"""The findings of `assert_exactly_once`, and its words."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.cap.answer import Answer
from coreason_client.testing import assert_exactly_once
from coreason_manifest.definitions.presentation import StreamPacket
from coreason_manifest.definitions.rewind import REWIND

STREAM, OTHER = UUID(int=1), UUID(int=2)
NOW = datetime(2025, 1, 1, tzinfo=UTC)


def packet(seq: int, op: str = "DELTA", p: Any = None, stream_id: UUID = STREAM) -> StreamPacket:
    payload = {"DELTA": f"w{seq} ", "CLOSE": {"reason": "done"}}.get(op) if p is None else p
    return StreamPacket(stream_id=stream_id, seq=seq, op=op, t=NOW, p=payload)


def stream(*numbers: int, end: int | None = None) -> list[StreamPacket]:
    last = end or max(numbers, default=0) + 1
    return [*map(packet, numbers), packet(last, "CLOSE")]


def problems(packets: Sequence[Any], expected: Any = None, **options: Any) -> list[str]:
    with pytest.raises(AssertionError) as raised:
        assert_exactly_once(packets, expected, **options)
    first, *lines = str(raised.value).splitlines()
    assert first == "the stream was not delivered exactly once:"
    return [line.strip() for line in lines]


def test_a_complete_stream_passes() -> None:
    assert_exactly_once(stream(1, 2, 3))
    assert_exactly_once(iter(stream(1, 2, 3)), "w1 w2 w3 ")
    assert_exactly_once(stream(1, 2, 3), ["w1 ", "w2 ", "w3 "])
    fatal = packet(2, "ERROR", {"code": "a", "message": "b", "severity": "FATAL"})
    assert_exactly_once([packet(1), fatal], "w1 ")


def test_a_stream_that_was_left_has_no_end() -> None:
    left = [packet(1), packet(2)]
    assert_exactly_once(left, "w1 w2 ", ended=False)
    assert_exactly_once([], ended=False)
    assert problems(left) == ["no end: the last packet is DELTA 2, neither CLOSE nor a FATAL error"]
    assert problems([]) == ["no packet was received"]


def test_it_says_what_is_lost() -> None:
    assert problems(stream(2, 3)) == ["lost: packet 1, before 2"]
    assert problems(stream(1, 5, 7)) == [
        "lost: packets 2 to 4, between 1 and 5",
        "lost: packet 6, between 5 and 7",
    ]


def test_it_says_what_is_doubled_and_reordered() -> None:
    assert problems(stream(1, 2, 2, 3, 2)) == [
        "doubled: packet 2 was received 3 times, as the 2nd, 3rd and 5th packet"
    ]
    assert problems(stream(1, 3, 2)) == [
        "reordered: packet 2 was received after packet 3, as the 3rd packet"
    ]
    [zero] = problems(stream(0, 1))
    assert zero == "packet 0 was received, as the 1st packet; numbers start with 1"


def test_it_names_another_stream_and_what_follows_the_end() -> None:
    mixed = [packet(1), packet(2, stream_id=OTHER), packet(3, "CLOSE")]
    assert problems(mixed) == [
        f"the 2nd packet belongs to another stream: {OTHER}, but the first packet to {STREAM}"
    ]
    assert problems([packet(1), packet(2, "CLOSE"), packet(3), packet(4, "CLOSE")]) == [
        "2 packets follow the end of the stream, which is the 2nd packet"
    ]


def test_a_warning_and_a_transient_error_do_not_end_a_stream() -> None:
    errors = [
        packet(seq, "ERROR", {"code": "a", "message": "b", "severity": severity})
        for seq, severity in ((1, "WARNING"), (2, "TRANSIENT"))
    ]
    assert_exactly_once([*errors, packet(3), packet(4, "CLOSE")], "w3 ")


@pytest.mark.proves("KIT-once-text")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("one three", "4 characters are lost at character 5"),
        ("one two", "6 characters are lost at character 7"),
        ("one two two three", "4 characters are doubled at character 9"),
        ("one two four three", "5 characters are too many at character 8"),
        ("one TWO three", "the text differs at character 4"),
    ],
)
def test_text_says_what_is_wrong_and_where(text: str, words: str) -> None:
    [problem] = problems(text, "one two three")
    assert problem.startswith(f"text: {words}: expected ")


def test_answers_pieces_and_chat_streams_are_compared_as_text() -> None:
    assert_exactly_once(Answer("Hi", conversation_id="c", events=[]), "Hi")
    assert_exactly_once(["H", "i"], ["Hi"])
    with pytest.raises(TypeError, match="text has no numbers"):
        assert_exactly_once("Hi")
    with pytest.raises(TypeError, match="takes packets or text"):
        assert_exactly_once([packet(1), "Hi"], "Hi")


def test_text_that_was_taken_back_does_not_count() -> None:
    rewind = packet(3, "EVENT", {"type": REWIND, "data": {"to_seq": 1}})
    assert_exactly_once([packet(1), packet(2), rewind, packet(4), packet(5, "CLOSE")], "w1 w4 ")


@pytest.mark.proves("KIT-once")
@given(st.lists(st.integers(1, 8), min_size=1, max_size=12))
def test_only_the_numbers_from_one_in_order_pass(numbers: list[int]) -> None:
    packets = [*map(packet, numbers), packet(max(numbers) + 1, "CLOSE")]
    if numbers == list(range(1, len(numbers) + 1)):
        assert_exactly_once(packets)
    else:
        found = problems(packets)
        counted = sum(line.split(":")[0] in ("lost", "doubled", "reordered") for line in found)
        assert counted == len(found) >= 1
