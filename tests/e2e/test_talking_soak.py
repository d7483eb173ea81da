"""The talking part of the soak: a small run, and its count, in which each planted flaw shows."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from coreason_manifest.definitions.presentation import ErrorSeverity, StreamError

from ..server.log.valkey_server import ValkeyServer
from ..soak.site import Settings
from ..soak.talking import talking_under_faults
from ..soak.talking_tally import (
    BEGIN,
    CALLED,
    END,
    NOTHING,
    READY,
    Answer,
    Approval,
    Effect,
    Said,
    Talk,
    approval_rows,
    echo,
    inbox_rows,
    order_rows,
)
from ..soak.tally import COMPLETE, Row


def wrong(rows: Sequence[Row]) -> list[str]:
    return [row.name for row in rows if row.right is False]


@pytest.mark.timeout(120)
def test_nothing_that_was_said_is_lost_or_doubled(tmp_path: Path) -> None:
    settings = Settings(
        seed=21,
        streams=40,
        replicas=2,
        seconds=5.0,
        lease=1.5,
        faults={"kill": 2},
        cut_every=0.4,
        cuts_store=True,
    )
    with ValkeyServer(keep=True) as store:
        rows, errors = asyncio.run(talking_under_faults(tmp_path, store, settings, long=False))
    table = {row.name: row.value for row in rows}
    assert len(table) == len(rows)
    assert wrong(rows) == [], errors
    assert (table["approvals"], table["streams with messages"], table["turns"]) == ("5", "4", "4")
    assert table["kills"] == "2"


def answer(text: str, *texts: str, end: str = COMPLETE) -> Answer:
    answer = Answer.of(Said.of("s", text))
    answer.texts, answer.end = [*texts], end
    return answer


# Approvals.


def approved(paid: str | None = "a", *texts: str, end: str = COMPLETE) -> Approval:
    asked = answer("pay a", 'May I call pay with {"name":"a"}?')
    answers = [answer("yes", text, end=end) for text in texts or ("Paid a.",)]
    return Approval("a", paid, asked, answers)


CALL = Effect(CALLED, "a", 1.0, 7)


@pytest.mark.parametrize(
    ("approval", "effects", "flaws"),
    [
        (approved(), [CALL], []),
        (approved("a", "Paid a.", NOTHING), [CALL], []),
        (approved("a", "", end="step_uncertain"), [CALL], []),
        (approved(None, "Not done: not today."), [], ["calls made"]),
        (approved(), [CALL, CALL], ["doubled: calls made twice"]),
        (approved(), [], ["calls made", "lost: complete without the call"]),
        (approved("a", NOTHING), [CALL], ["lost: answers without effect"]),
        (
            approved(None, "Not done: not today."),
            [CALL],
            ["mixed: calls made that were not approved"],
        ),
        (approved("a", "Paid a.", "Paid a."), [CALL], ["doubled: answers that counted twice"]),
        (approved("a", "Paid b."), [CALL], ["approvals with wrong texts"]),
        (approved("a", "", end="agent_error"), [CALL], ["approvals that ended otherwise"]),
    ],
)
def test_a_flaw_of_an_approval_is_counted(
    approval: Approval, effects: list[Effect], flaws: list[str]
) -> None:
    assert wrong(approval_rows([approval], effects, long=False)) == flaws


def test_a_question_that_differs_is_counted() -> None:
    approval = approved()
    approval.asked.texts = ["May I?"]
    assert wrong(approval_rows([approval], [CALL], long=False)) == ["questions wrong"]


# Messages.


def talk(repeated: str, named: str = "", ends: str = "returns") -> Talk:
    said = [echo(one, f"text of {one}") for one in repeated]
    asks = ["More?"] if ends == "asks" else []
    found = answer("", READY, *said, *asks, end="enough" if ends == "fails" else COMPLETE)
    late: dict[str, Any] = {"not_delivered": [*named]} if named else {}
    found.closed = late
    if ends == "fails":
        severity = ErrorSeverity.FATAL
        found.error = StreamError(code="enough", message="x", severity=severity, details=late)
    following = answer("", *(f"text of {one} " for one in named)) if named else None
    following = None if ends == "asks" else following
    return Talk(found, ends, ["0", "1", "2"], ["3"], next_turn=following)


LOST = "lost: accepted and neither repeated nor named"
MIXED = "mixed: refused and yet delivered or named"


@pytest.mark.parametrize("ends", ["returns", "asks", "fails"])
@pytest.mark.parametrize(
    ("repeated", "named", "flaws"),
    [
        ("012", "", []),
        ("01", "2", []),
        ("01", "", [LOST]),
        ("0112", "", ["doubled: messages"]),
        ("012", "2", ["doubled: messages"]),
        ("021", "", ["out of order: messages"]),
        ("0123", "", [MIXED]),
        ("012", "3", [MIXED]),
    ],
)
def test_a_flaw_of_messages_is_counted(
    repeated: str, named: str, flaws: list[str], ends: str
) -> None:
    assert wrong(inbox_rows([talk(repeated, named, ends)], long=False)) == flaws


def test_a_message_whose_sender_gave_up_may_have_arrived() -> None:
    arrived = talk("0124")
    assert wrong(inbox_rows([arrived], long=False)) == [MIXED]
    arrived.unknown.append("4")
    assert wrong(inbox_rows([arrived], long=False)) == []


@pytest.mark.parametrize("texts", [None, [], ["text of 1 "], ["text of 2 ", "text of 1 "]])
def test_a_next_turn_without_what_was_not_delivered_is_counted(texts: list[str] | None) -> None:
    late = talk("0", "12")
    assert late.next_turn is not None
    if texts is None:
        late.next_turn = None
    else:
        late.next_turn.texts = texts
    lost = "lost: next turns without these messages, in order"
    assert wrong(inbox_rows([late], long=False)) == [lost]


def test_a_stream_with_messages_that_says_something_else_is_counted() -> None:
    other = talk("012")
    other.answer.texts[1] = "0=something else "
    other.answer.end = "producer_lost"
    assert wrong(inbox_rows([other], long=False)) == [
        "messages repeated with wrong texts",
        "streams with messages that ended otherwise",
    ]


# Turns.


def conversation() -> list[Answer]:
    """Return two turns, of which the second was sent when the first had been accepted."""
    first, second = answer("a", "a"), answer("b", "b a")
    first.sent_at, first.accepted_at, second.sent_at, second.accepted_at = 1.0, 2.0, 3.0, 4.0
    return [first, second]


def ran(*times: tuple[str, float, float]) -> list[Effect]:
    return [
        effect
        for name, begin, end in times
        for effect in (Effect(BEGIN, name, begin, 7), Effect(END, name, end, 7))
    ]


def test_turns_one_after_the_other_are_right() -> None:
    effects = ran(("a", 5.0, 6.0), ("b", 7.0, 8.0))
    assert wrong(order_rows([conversation()], effects)) == []
    again = [Effect(BEGIN, "a", 4.5, 6), *effects]  # its process died
    assert wrong(order_rows([conversation()], again)) == []


def end_otherwise(turns: list[Answer]) -> None:
    turns[1].end = "producer_lost"


def forget_what_was_before(turns: list[Answer]) -> None:
    turns[1].texts = ["b"]


def swap_texts(turns: list[Answer]) -> None:
    turns[0].texts, turns[1].texts = ["a b"], ["b"]


@pytest.mark.parametrize(
    ("spoil", "effects", "flaw"),
    [
        (None, ran(("a", 5.0, 7.5), ("b", 7.0, 8.0)), "overlapping turns"),
        (swap_texts, ran(("b", 5.0, 6.0), ("a", 7.0, 8.0)), "out of order: turns"),
        (
            forget_what_was_before,
            ran(("a", 5.0, 6.0), ("b", 7.0, 8.0)),
            "mixed: turns that did not see those before",
        ),
        (None, ran(("a", 5.0, 6.0)), "lost: turns that never ran"),
        (end_otherwise, ran(("a", 5.0, 6.0), ("b", 7.0, 8.0)), "turns that ended otherwise"),
    ],
)
def test_a_flaw_of_turns_is_counted(
    spoil: Callable[[list[Answer]], None] | None, effects: list[Effect], flaw: str
) -> None:
    turns = conversation()
    if spoil is not None:
        spoil(turns)
    assert wrong(order_rows([turns], effects)) == [flaw]
