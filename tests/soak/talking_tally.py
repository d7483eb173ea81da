"""What was said to agents and what they did, and the errors in it. No I/O."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Any, NamedTuple
from uuid import UUID

from coreason_manifest.definitions.presentation import (
    ClosePacket,
    DeltaPacket,
    Packet,
)
from coreason_manifest.definitions.service import ServiceRequest

from ..server.peer import envelope
from .content import Order
from .tally import COMPLETE, HUNG, Reading, Row, plain, some, zero

APPROVAL, INBOX, ORDER = "approval", "inbox", "order"  # the beginnings of sessions
PAY = "pay"
CALLED, BEGIN, END = "called", "begin", "end"  # the kinds of effects
UNCERTAIN = "step_uncertain"
NOTHING = "Nothing to do."
READY = "ready "
UNREAD = "text of"  # the beginning of each message


def echo(message_id: str, text: str) -> str:
    """Return what the agent writes for a message."""
    return f"{message_id}={text} "


@dataclass(frozen=True, slots=True)
class Said(Order):
    """One message of a conversation; its packets are looked at when all of them are there."""

    session: str = ""
    text: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, session: str, text: str, **metadata: Any) -> "Said":
        """Return a message."""
        return cls(f"{session} {text}", 0, 0.0, session=session, text=text, metadata=metadata)

    def request(self) -> ServiceRequest:
        body = envelope(self.text, session=self.session)
        body["payload"]["metadata"] = dict(self.metadata)
        return ServiceRequest.model_validate(body)

    def is_right(self, packet: Packet) -> bool:
        return True


@dataclass(slots=True)
class Answer(Reading):
    """One stream as one reader received it, with its texts and its end.

    Some wait long: behind other messages, whose processes die, and behind other restarts, of which
    a process begins two per second if their agents wait for messages.
    """

    hung_after: float = 120.0
    texts: list[str] = field(default_factory=list)
    closed: Any = None  # the payload of a CLOSE
    sent_at: float = 0.0
    accepted_at: float = inf

    def take(self, packet: Packet, now: float) -> None:
        """Count one packet, and keep what it says."""
        Reading.take(self, packet, now)
        if isinstance(packet, DeltaPacket):
            self.texts.append(packet.p)
        elif isinstance(packet, ClosePacket):
            self.closed = packet.p

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def too_short(self) -> bool:
        """True if the stream counts as complete without a CLOSE."""
        return self.end == COMPLETE and self.closed is None


class Effect(NamedTuple):
    """Something that an agent did outside of its stream."""

    kind: str
    name: str
    at: float
    pid: int


# Approvals.


@dataclass(slots=True)
class Approval:
    """A question of the agent, and the answers to it; `paid` is what may be paid then."""

    name: str
    paid: str | None
    asked: Answer
    answers: list[Answer] = field(default_factory=list)
    after_kill: bool = False

    @property
    def question(self) -> str:
        return f'May I call {PAY} with {{"name":"{self.name}"}}?'

    @property
    def text(self) -> str:
        """The end of the text of the turn that goes on at the call."""
        return f"Paid {self.paid}."


def approval_rows(
    approvals: Sequence[Approval], effects: Sequence[Effect], *, long: bool = True
) -> list[Row]:
    """Return what came of the approvals; in a `long` run, some are answered after a kill."""
    called = Counter(effect.name for effect in effects if effect.kind == CALLED)
    allowed = {one.paid for one in approvals}
    went_on = [[one for one in each.answers if _goes_on(one)] for each in approvals]
    complete = [
        each
        for each, turns in zip(approvals, went_on, strict=True)
        if any(turn.end == COMPLETE for turn in turns) and each.paid is not None
    ]
    ends = [turn.end for each in approvals for turn in (each.asked, *each.answers)]
    return [
        plain("approvals", len(approvals)),
        zero("questions wrong", sum(each.asked.text != each.question for each in approvals)),
        (some if long else plain)(
            "answered after a kill", sum(each.after_kill for each in approvals)
        ),
        some("calls made", sum(called.values())),
        zero("doubled: calls made twice", sum(number > 1 for number in called.values())),
        zero("mixed: calls made that were not approved", len(called.keys() - allowed)),
        zero("lost: complete without the call", sum(not called[str(e.paid)] for e in complete)),
        zero("lost: answers without effect", sum(not turns for turns in went_on)),
        zero("doubled: answers that counted twice", sum(len(turns) > 1 for turns in went_on)),
        zero("approvals with wrong texts", sum(_wrong_text(each) for each in approvals)),
        plain(f"approvals that ended with {UNCERTAIN}", ends.count(UNCERTAIN)),
        zero(
            "approvals that ended otherwise",
            sum(end not in (COMPLETE, UNCERTAIN, HUNG) for end in ends),
        ),
    ]


def _goes_on(turn: Answer) -> bool:
    """Return True if a turn went on at the call; one that is a new message did not."""
    return turn.text != NOTHING


def _wrong_text(approval: Approval) -> bool:
    texts = [one.text for one in approval.answers if one.end == COMPLETE and _goes_on(one)]
    if approval.paid is None:
        return any("not today" not in text for text in texts)
    return any(not text.endswith(approval.text) for text in texts)


# Messages to a running agent.


@dataclass(slots=True)
class Talk:
    """A stream, and the messages that were sent to it; the sender counts them from 0."""

    answer: Answer
    ends: str
    accepted: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)  # the sender gave up
    sent_again: int = 0
    next_turn: Answer | None = None  # with what was not delivered

    @property
    def echoed(self) -> list[str]:
        """The ids of the messages that the agent has repeated."""
        texts = self.answer.texts[1:] if self.ends != "asks" else self.answer.texts[1:-1]
        return [text.partition("=")[0] for text in texts]

    @property
    def expected_texts(self) -> list[str]:
        """What the agent should have written for the messages it has repeated."""
        said = [echo(name, f"text of {name}") for name in self.echoed]
        return [READY, *said, *(["More?"] if self.ends == "asks" else [])]

    @property
    def not_delivered(self) -> list[str]:
        """The ids of the messages that the last packet names."""
        return list(self._said_at_end.get("not_delivered", []))

    @property
    def next_stream(self) -> UUID | None:
        """The stream of the turn that the last packet names."""
        named = self._said_at_end.get("next_stream")
        return UUID(named) if named else None

    @property
    def _said_at_end(self) -> dict[str, Any]:
        error = self.answer.error
        return (self.answer.closed if error is None else error.details) or {}


def inbox_rows(talks: Sequence[Talk], *, long: bool = True) -> list[Row]:
    """Return what came of the messages; in a `long` run, some come too late."""
    known = [Counter([*talk.echoed, *talk.not_delivered]) for talk in talks]
    right = {"returns": COMPLETE, "asks": COMPLETE, "fails": "enough"}
    return [
        plain("streams with messages", len(talks)),
        some("messages accepted", sum(len(talk.accepted) for talk in talks)),
        some("messages repeated", sum(len(talk.echoed) for talk in talks)),
        (some if long else plain)(
            "messages named as not delivered", sum(len(talk.not_delivered) for talk in talks)
        ),
        plain("next turns of such messages", sum(talk.next_turn is not None for talk in talks)),
        zero("lost: next turns without these messages, in order", sum(map(_wrong_turn, talks))),
        plain("messages refused", sum(len(talk.refused) for talk in talks)),
        plain("messages sent again", sum(talk.sent_again for talk in talks)),
        zero("lost: accepted and neither repeated nor named", sum(map(_lost, talks, known))),
        zero("doubled: messages", sum(n > 1 for each in known for n in each.values())),
        zero("mixed: refused and yet delivered or named", sum(map(_mixed, talks, known))),
        zero("out of order: messages", sum(_out_of_order(talk) for talk in talks)),
        zero(
            "messages repeated with wrong texts",
            sum(talk.answer.texts != talk.expected_texts for talk in talks),
        ),
        zero(
            "streams with messages that ended otherwise",
            sum(talk.answer.end != right[talk.ends] for talk in talks),
        ),
    ]


def _lost(talk: Talk, known: Counter[str]) -> int:
    return sum(name not in known for name in talk.accepted)


def _wrong_turn(talk: Talk) -> bool:
    if talk.next_turn is None:  # what comes before the answer to a question has no turn
        return bool(talk.not_delivered) and talk.ends != "asks"
    said = [f"{UNREAD} {name} " for name in talk.not_delivered]
    turn = talk.next_turn
    return (turn.stream_id, turn.texts, turn.end) != (talk.next_stream, said, COMPLETE)


def _mixed(talk: Talk, known: Counter[str]) -> int:
    return len(known.keys() - {*talk.accepted, *talk.unknown})


def _out_of_order(talk: Talk) -> bool:
    found = [*talk.echoed, *talk.not_delivered]
    return found != sorted(found, key=int)


# Several messages of one conversation.


def order_rows(conversations: Sequence[Sequence[Answer]], effects: Iterable[Effect]) -> list[Row]:
    """Return how the turns of conversations followed each other."""
    begins: dict[str, list[float]] = defaultdict(list)
    ends: dict[str, list[float]] = defaultdict(list)
    for effect in effects:
        if effect.kind in (BEGIN, END):
            (begins if effect.kind == BEGIN else ends)[effect.name].append(effect.at)
    turns = [turn for each in conversations for turn in each]
    names = [_name(turn) for turn in turns]
    orders = [_in_order(each, begins) for each in conversations]
    return [
        plain("conversations", len(conversations)),
        plain("turns", len(turns)),
        plain("turns that began again", sum(len(begins[name]) > 1 for name in names)),
        zero("lost: turns that never ran", sum(not ends[name] for name in names)),
        zero("overlapping turns", sum(_overlaps(each, begins, ends) for each in orders)),
        zero("out of order: turns", sum(_overtaken(each) for each in orders)),
        zero("mixed: turns that did not see those before", sum(map(_blind, orders))),
        zero("turns that ended otherwise", sum(turn.end not in (COMPLETE, HUNG) for turn in turns)),
    ]


def _name(turn: Answer) -> str:
    assert isinstance(turn.order, Said)
    return turn.order.text


def _in_order(turns: Iterable[Answer], begins: Mapping[str, list[float]]) -> list[Answer]:
    """Return turns in the order in which they began."""
    ran = [turn for turn in turns if begins[_name(turn)]]
    return sorted(ran, key=lambda turn: min(begins[_name(turn)]))


def _overlaps(
    turns: Sequence[Answer],
    begins: Mapping[str, list[float]],
    ends: Mapping[str, list[float]],
) -> int:
    """Count turns that began before the one before them had ended."""
    names = [_name(turn) for turn in turns]
    return sum(
        not ends[first] or min(begins[second]) < max(ends[first])
        for first, second in pairwise(names)
    )


def _overtaken(turns: Sequence[Answer]) -> int:
    """Count turns that were accepted before another one was sent, and began after it."""
    return sum(
        any(later.accepted_at < turn.sent_at for later in turns[index + 1 :])
        for index, turn in enumerate(turns)
    )


def _blind(turns: Sequence[Answer]) -> int:
    """Count turns whose history was not exactly the turns before them."""
    return sum(
        turn.text.split() != [_name(turn), *map(_name, turns[:index])]
        for index, turn in enumerate(turns)
        if turn.end == COMPLETE
    )
