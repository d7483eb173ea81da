"""Turns of conversations: as rows and back, and as the messages of the next question."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.cli.llm._turns import (
    COLUMNS,
    SavedTurn,
    context_messages,
    system_prompt,
    text_of,
    turn_of,
    turn_row,
)

texts = st.text(st.characters(codec="utf-8"))
scalars = st.none() | st.booleans() | st.integers() | st.text()
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool"]), "content": json_values},
    optional={"tool_calls": json_values},
)
turns = st.builds(
    SavedTurn,
    conversation=texts,
    time=texts,
    model=texts,
    provider=st.none() | texts,
    base_url=st.none() | texts,
    system=st.none() | texts,
    messages=st.lists(messages),
    usage=st.dictionaries(st.text(), st.integers() | st.none()),
    seconds=st.none() | st.floats(allow_nan=False),
    complete=st.booleans(),
)


@given(turns)
def test_a_turn_is_restored_from_its_row(turn: SavedTurn) -> None:
    row, blobs = turn_row(turn)
    assert len(row) == len(COLUMNS)
    assert turn_of(row, blobs) == turn
    for value in row:
        if isinstance(value, str):
            value.encode()  # SQLite stores UTF-8


def turn(*messages: dict[str, Any], **fields: Any) -> SavedTurn:
    return SavedTurn(conversation="c", time="t", model="m", messages=messages, **fields)


ASKED = {"role": "user", "content": "Why?"}
ANSWERED = {"role": "assistant", "content": "So."}


@pytest.mark.parametrize("damaged", ["{", "[1", ""])
def test_a_damaged_row_is_noticed(damaged: str) -> None:
    row = list(turn_row(turn(ASKED))[0])
    row[COLUMNS.index("messages")] = damaged
    with pytest.raises(ValueError):
        turn_of(row, {})


@pytest.mark.parametrize(
    ("stored", "given", "prompt"),
    [
        ([], None, None),
        ([], "new", "new"),
        (["old"], None, "old"),
        (["old"], "new", "new"),
        (["old", None], None, None),
        (["old", "newer"], None, "newer"),
        (["old"], "", ""),
    ],
)
def test_the_latest_system_prompt_applies(
    stored: list[str | None], given: str | None, prompt: str | None
) -> None:
    assert system_prompt([turn(ASKED, system=one) for one in stored], given) == prompt


def test_all_turns_precede_the_question() -> None:
    turns = [turn(ASKED, ANSWERED), turn(ANSWERED)]
    assert context_messages(turns, None) == [ASKED, ANSWERED, ANSWERED]
    assert context_messages(turns[:1], "Be brief.") == [
        {"role": "system", "content": "Be brief."},
        ASKED,
        ANSWERED,
    ]
    assert context_messages([], None) == []


def test_question_and_answer_are_the_texts_of_all_messages() -> None:
    parts = [{"type": "image_url", "image_url": {}}, {"type": "text", "text": "a"}, "?"]
    asked = {"role": "user", "content": [*parts, {"type": "text", "text": "b"}]}
    called = {"role": "assistant", "content": None}
    found = turn(asked, called, {"role": "tool", "content": "result"}, ANSWERED, ANSWERED)
    assert (found.question, found.answer) == ("a\n\nb", "So.\n\nSo.")
    assert text_of(None) == text_of(7) == ""
