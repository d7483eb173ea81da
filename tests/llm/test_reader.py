"""Deltas and the answer that they add up to."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from coreason_client.llm._adapter import AnswerReader, Piece
from coreason_client.llm._answer import ModelAnswer, RawToolCall, Tokens
from coreason_client.llm.types import (
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)

COUNTED = Tokens(150, 200)


class Pieces(AnswerReader):
    """A reader of the simplest format: the data of an event is text."""

    def read(self, data: bytes, event: bytes) -> Sequence[Piece]:
        return (self.add_text(data.decode()),)


def test_a_reader_that_has_read_nothing_has_an_empty_answer() -> None:
    reader = Pieces()
    assert not reader.started
    assert reader.answer() == ModelAnswer()
    assert (reader.end, reader.done, reader.tokens) == (None, False, None)
    assert (reader.response_id, reader.sequence) == (None, None)  # most formats have neither


def test_pieces_are_returned_and_accumulated() -> None:
    reader = Pieces()
    assert reader.add_reasoning("Hm") == ReasoningDelta("Hm")
    assert reader.started
    assert reader.read(b"Hel", b"") == (TextDelta("Hel"),)
    assert reader.read(b"lo", b"") == (TextDelta("lo"),)
    reader.add_reasoning(".")
    reader.end, reader.tokens = "length", COUNTED
    assert reader.answer() == ModelAnswer("Hello", [], "length", "Hm.", COUNTED)


def test_the_pieces_of_calls_are_put_together_by_their_index() -> None:
    reader = Pieces()
    deltas = [
        *reader.add_tool_call(1, id="b", name="g"),
        *reader.add_tool_call(0, id="a", name="f", arguments='{"x"'),
        *reader.add_tool_call(1, arguments="{}", signature="s"),
        *reader.add_tool_call(0, id="other", name="late", arguments=": 1}", signature=None),
    ]
    assert deltas == [
        ToolCallDelta(1, "b", "g", ""),
        ToolCallDelta(0, "a", "f", '{"x"'),
        ToolCallDelta(1, None, None, "{}"),
        ToolCallDelta(0, "other", "late", ": 1}"),
    ]
    assert reader.answer().calls == [
        RawToolCall("a", "f", '{"x": 1}'),
        RawToolCall("b", "g", "{}", "s"),
    ]


def test_a_call_that_comes_without_an_id_has_one_from_its_first_piece() -> None:
    reader = Pieces()
    [first] = reader.add_tool_call(0, name="f")
    assert first.id
    [second] = reader.add_tool_call(0, arguments="{}")
    assert second.id is None
    assert reader.answer().calls == [RawToolCall(first.id, "f", "{}")]
    [other] = Pieces().add_tool_call(0, name="f")
    assert other.id != first.id


def test_a_call_is_held_back_until_its_name_comes() -> None:
    reader = Pieces()
    assert not reader.add_tool_call(0, arguments='{"a"')
    assert not reader.add_tool_call(0, id="x", arguments=":")
    assert not reader.started
    assert reader.answer().calls == []
    assert reader.add_tool_call(0, name="f", arguments="1}") == (
        ToolCallDelta(0, "x", "f", '{"a":1}'),
    )
    assert reader.answer().calls == [RawToolCall("x", "f", '{"a":1}')]


@given(st.text(), st.lists(st.integers(0, 20)))
@example("a\U0001f600b", [2])
def test_halves_of_surrogate_pairs_come_together_whatever_the_pieces(
    text: str, at: list[int]
) -> None:
    wide = text.encode("utf-16-be")
    edges = [0, *sorted(2 * min(place, len(wide) // 2) for place in at), len(wide)]
    reader = Pieces()
    for start, end in pairwise(edges):
        reader.add_text(wide[start:end].decode("utf-16-be", "surrogatepass"))
    assert not reader.flush()
    assert (reader.answer().content or "") == text


def test_half_of_a_surrogate_pair_that_stays_alone_is_replaced() -> None:
    reader = Pieces()
    assert reader.add_text("a\ud83d") == TextDelta("a")
    assert reader.add_text("\ud83d") == TextDelta("\ufffd")
    assert reader.add_text("b\ude00") == TextDelta("\ufffdb\ufffd")
    reader.add_text("\ud83d")
    assert reader.flush() == (TextDelta("\ufffd"),)
    assert reader.add_reasoning("\ud83d") == ReasoningDelta("\ufffd")


def test_an_id_that_comes_late_counts() -> None:
    reader = Pieces()
    reader.add_tool_call(0, name="f")
    assert [delta.id for delta in reader.add_tool_call(0, id="late")] == ["late"]
    reader.add_tool_call(0, id="later")
    assert reader.answer().calls[0].id == "late"
