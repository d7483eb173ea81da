"""A request starts, joins, resumes or is refused: a table of facts and decisions."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server import AgentApp
from coreason_client.server.http._cursor import Cursor
from coreason_client.server.http._decision import (
    Find,
    Join,
    Need,
    Refuse,
    RequestFacts,
    Resume,
    ServerFacts,
    Start,
    decide,
)
from coreason_client.server.http._problems import as_problem
from coreason_client.server.log import AgentVersion, Opened, StreamMeta
from coreason_client.server.log.base import EpochStart
from coreason_manifest.definitions.service import ServiceRequest

ASKED, OTHER, STREAM = UUID(int=1), UUID(int=2), UUID(int=3)
META = StreamMeta(
    stream_id=STREAM,
    principal="ann",
    request_id=ASKED,
    fingerprint="f",
    epoch=1,
    last_seq=5,
    opened_at=0.0,
    outcome=None,
    ended_at=None,
    cancel_requested=False,
    body_gone=False,
)
ENDED = replace(META, outcome="complete", ended_at=9.0)
CLAIMED = replace(META, epoch=2, epochs=(EpochStart(4, 2),))
DURABLE = replace(CLAIMED, agent=AgentVersion("a", "1"))
OF_BOB = replace(META, principal="bob")
OF_ANOTHER_REQUEST = replace(META, request_id=OTHER)
WAIT = 2_500_000_000  # nanoseconds


async def agent(request: ServiceRequest) -> str:
    return "hello"


OPTIONS = AgentApp(agent, max_requests_per_minute=60)._options
NOTHING: dict[str, Any] = {}
CLOSING = {"closing": True}
FULL = {"may_start": False}
TOO_MANY_READERS = {"may_read": False}
# What is known once each fact has been gathered.
HEAD = {"wait": 0, "tries": 1}
LATE = {"wait": WAIT, "tries": 1}
READING = {"reads": STREAM}
AT_4 = Cursor(STREAM, 4)
RESUMING = {"cursor": AT_4}
FOUND = {"known": META, "looked_up": True}
MISSING = {"known": None, "looked_up": True}
NAMED = {"named": ASKED}
BODY = {"request_id": ASKED, "fingerprint": "f"}


def ask(facts: dict[str, Any], server: dict[str, Any]) -> object:
    """Decide; `server` has its state, and the limits if the principal has reached them."""
    limits = {"may_read": True, "may_start": True}
    limits |= {name: server[name] for name in limits.keys() & server.keys()}
    here = ServerFacts(OPTIONS, closing=server.get("closing", False))
    return decide(RequestFacts("ann", **limits | facts), here)


TABLE: list[tuple[str, dict[str, Any], dict[str, Any], object]] = [
    # Before the token.
    ("nothing is known", {"may_read": None}, NOTHING, Need.READER),
    ("a reader", {}, NOTHING, Need.TOKEN),
    ("too many readers", {}, TOO_MANY_READERS, (429, "too-many-readers", "1")),
    ("readers come first", RESUMING, CLOSING | TOO_MANY_READERS, (429, "too-many-readers")),
    # A new request, before its body.
    ("a token", HEAD, NOTHING, Need.BODY),
    ("a token, too many streams", HEAD, FULL, Need.BODY),
    ("a token and a name", HEAD | NAMED, NOTHING, Need.BODY),
    ("no token", LATE, NOTHING, (429, "too-many-requests", "3")),
    ("no token but a name", LATE | NAMED, NOTHING, Need.NAMED_REQUEST),
    ("no token, a new name", LATE | NAMED | MISSING, NOTHING, (429, "too-many-requests")),
    ("no token, a known name", LATE | NAMED | FOUND, NOTHING, Need.BODY),
    ("closing", HEAD, CLOSING, (503, "shutting-down", "1")),
    ("closing, a name", HEAD | NAMED, CLOSING, Need.NAMED_REQUEST),
    ("closing, a new name", HEAD | NAMED | MISSING, CLOSING, (503, "shutting-down")),
    ("closing, a known name", HEAD | NAMED | FOUND, CLOSING, Need.BODY),
    ("closing counts before the rate", LATE, CLOSING, (503, "shutting-down")),
    # A resume, before its body.
    ("a position", RESUMING | HEAD, NOTHING, Need.STREAM),
    ("a position, no token", RESUMING | LATE, NOTHING, Need.STREAM),
    ("a position, closing", RESUMING | HEAD, CLOSING, Need.STREAM),
    ("an unknown stream", RESUMING | HEAD | MISSING, NOTHING, (404, "stream-not-found")),
    ("unknown, closing", RESUMING | HEAD | MISSING, CLOSING, (404, "stream-not-found")),
    ("unknown, no token", RESUMING | LATE | MISSING, NOTHING, (429, "too-many-requests")),
    (
        "somebody else's stream",
        RESUMING | HEAD | FOUND | {"known": OF_BOB},
        NOTHING,
        (404, "stream-not-found"),
    ),
    (
        "somebody else's, no token",
        RESUMING | LATE | FOUND | {"known": OF_BOB},
        NOTHING,
        (429, "too-many-requests"),
    ),
    ("a known stream", RESUMING | HEAD | FOUND, NOTHING, Need.BODY),
    ("a known stream, no token", RESUMING | LATE | FOUND, NOTHING, Need.BODY),
    ("a known stream, closing", RESUMING | HEAD | FOUND, CLOSING | FULL, Need.BODY),
    ("at the end", FOUND | HEAD | {"cursor": Cursor(STREAM, 5)}, NOTHING, Need.BODY),
    # The store has lost packets, and the producer may send them again.
    ("beyond the last", FOUND | HEAD | {"cursor": Cursor(STREAM, 6)}, NOTHING, Need.BODY),
    (
        "beyond the end",
        FOUND | HEAD | {"known": ENDED, "cursor": Cursor(STREAM, 6)},
        NOTHING,
        (410, "position-gone"),
    ),
    # Epoch 2 began with packet 4, because the store lost packets of epoch 1.
    *(
        (f"{kind}, {name}", FOUND | HEAD | {"known": meta, "cursor": at}, NOTHING, then)
        for kind, meta in (("durable", DURABLE), ("claimed", CLAIMED))
        for name, at, then in (
            ("the same packet", Cursor(STREAM, 3, 1), Need.BODY),
            ("the same packet of the next epoch", Cursor(STREAM, 4, 2), Need.BODY),
            ("a position without an epoch", Cursor(STREAM, 3), Need.BODY),
            ("from the start", Cursor(STREAM, 0), Need.BODY),
            ("from the start, another epoch", Cursor(STREAM, 0, 9), Need.BODY),
            ("without an epoch, replaced", Cursor(STREAM, 4), (410, "position-gone")),
            ("a packet that was lost and replaced", Cursor(STREAM, 4, 1), (410, "position-gone")),
            ("a packet that was lost", Cursor(STREAM, 9, 1), (410, "position-gone")),
            ("one that may be sent again", Cursor(STREAM, 9, 2), Need.BODY),
            ("an invented epoch", Cursor(STREAM, 3, 2), (410, "position-gone")),
            ("a later epoch", Cursor(STREAM, 4, 3), (410, "position-gone")),
        )
    ),
    # A resume with its body.
    ("resumes", RESUMING | HEAD | FOUND | BODY, NOTHING, Resume(META, AT_4, True)),
    ("resumes without a token", RESUMING | LATE | FOUND | BODY, NOTHING, Resume(META, AT_4, False)),
    ("resumes while closing", RESUMING | HEAD | FOUND | BODY, CLOSING, Resume(META, AT_4, True)),
    (
        "resumes with another request",
        RESUMING | HEAD | FOUND | BODY | {"request_id": OTHER},
        NOTHING,
        (409, "request-conflict"),
    ),
    (
        "resumes with another body",
        RESUMING | HEAD | FOUND | BODY | {"fingerprint": "g"},
        NOTHING,
        (409, "request-conflict"),
    ),
    # A GET of a stream.
    ("reads", READING, NOTHING, Need.TOKEN),
    ("reads, too many readers", READING, TOO_MANY_READERS, (429, "too-many-readers", "1")),
    (
        "reads, a position elsewhere",
        READING | {"cursor": Cursor(OTHER, 1)},
        TOO_MANY_READERS,
        (400, "bad-position"),
    ),
    ("reads with a token", READING | HEAD, NOTHING, Need.STREAM),
    ("reads without a token", READING | LATE, CLOSING, Need.STREAM),
    ("reads nothing", READING | HEAD | MISSING, NOTHING, (404, "stream-not-found")),
    ("reads nothing, no token", READING | LATE | MISSING, NOTHING, (429, "too-many-requests")),
    (
        "reads somebody else's",
        READING | HEAD | FOUND | {"known": OF_BOB},
        NOTHING,
        (404, "stream-not-found"),
    ),
    ("reads from the start", READING | HEAD | FOUND, NOTHING, Join(META, True)),
    ("reads, though late", READING | LATE | FOUND, CLOSING | FULL, Join(META, False)),
    ("reads on", READING | RESUMING | HEAD | FOUND, NOTHING, Resume(META, AT_4, True)),
    ("reads on, late", READING | RESUMING | LATE | FOUND, CLOSING, Resume(META, AT_4, False)),
    (
        "reads beyond the last",
        READING | HEAD | FOUND | {"cursor": Cursor(STREAM, 6)},
        NOTHING,
        Resume(META, Cursor(STREAM, 6), True),
    ),
    (
        "reads beyond the end",
        READING | HEAD | FOUND | {"known": ENDED, "cursor": Cursor(STREAM, 6)},
        NOTHING,
        (410, "position-gone"),
    ),
    (
        "reads a packet that was lost and replaced",
        READING | HEAD | FOUND | {"known": DURABLE, "cursor": Cursor(STREAM, 4, 1)},
        NOTHING,
        (410, "position-gone"),
    ),
    # A new request with its body.
    ("all is well", HEAD | BODY, NOTHING, Need.OPENED),
    ("full", HEAD | BODY, FULL, Find),
    ("closing since", HEAD | BODY, CLOSING, Find),
    ("full, but a known name", LATE | NAMED | FOUND | BODY, FULL, Need.OPENED),
    ("closing, but a known name", HEAD | NAMED | FOUND | BODY, CLOSING, Need.OPENED),
    (
        "the name was another request's",
        LATE | FOUND | BODY | {"known": OF_ANOTHER_REQUEST},
        NOTHING,
        Need.TOKEN,
    ),
    (
        "another's, and still no token",
        LATE | FOUND | BODY | {"known": OF_ANOTHER_REQUEST, "tries": 2},
        NOTHING,
        (429, "too-many-requests", "3"),
    ),
    (
        "another's, and a token now",
        HEAD | FOUND | BODY | {"known": OF_ANOTHER_REQUEST, "tries": 2},
        NOTHING,
        Need.OPENED,
    ),
    ("another's, closing", HEAD | FOUND | BODY | {"known": OF_ANOTHER_REQUEST}, CLOSING, Find),
    # The log has answered.
    ("made now", HEAD | BODY | {"opened": Opened(META, True)}, NOTHING, Start(META)),
    ("made, though full since", HEAD | BODY | {"opened": Opened(META, True)}, FULL, Start(META)),
    ("made before", HEAD | BODY | {"opened": Opened(META, False)}, NOTHING, Join(META, True)),
    (
        "joined without a token",
        LATE | NAMED | FOUND | BODY | {"opened": Opened(META, False)},
        NOTHING,
        Join(META, False),
    ),
]


@pytest.mark.proves("R13f")
@pytest.mark.parametrize(
    ("facts", "server", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_a_decision(facts: dict[str, Any], server: dict[str, Any], expected: object) -> None:
    decision = ask(facts, server)
    if isinstance(expected, tuple):
        assert isinstance(decision, Refuse)
        problem = as_problem(decision.error)
        status, slug, *retry_after = expected
        assert (problem.status, problem.slug) == (status, slug)
        for seconds in retry_after:
            assert problem.headers is not None
            assert problem.headers["Retry-After"] == seconds
    elif expected is Find:
        assert isinstance(decision, Find)
    else:
        assert decision == expected


@pytest.mark.parametrize("server", [FULL, CLOSING, FULL | CLOSING])
def test_a_request_for_which_there_is_no_room_is_looked_up_once(server: dict[str, Any]) -> None:
    find = ask(HEAD | BODY, server)
    assert isinstance(find, Find)
    assert find.refusal.slug == ("shutting-down" if "closing" in server else "too-many-streams")
    looked_up = HEAD | BODY | {"refusal": find.refusal}
    # The refusal stands, whatever has changed meanwhile; a known request is joined.
    for now in (NOTHING, server):
        assert ask(looked_up | {"found": None}, now) == Refuse(find.refusal)
        assert ask(looked_up | {"found": META}, now) is Need.OPENED


METAS = st.sampled_from([None, META, OF_BOB, OF_ANOTHER_REQUEST])


@given(
    st.sampled_from([None, Cursor(STREAM, 0), Cursor(STREAM, 5), Cursor(STREAM, 6)]),
    st.sampled_from([None, ASKED, OTHER]),
    st.sampled_from([None, None, STREAM, OTHER]),
    METAS,
    METAS,
    st.booleans(),
    st.lists(st.sampled_from([0, WAIT]), min_size=2, max_size=2),
    st.tuples(st.booleans(), st.booleans()),
    st.lists(st.booleans(), min_size=11, max_size=11),
)
def test_every_request_comes_to_a_decision(
    cursor: Cursor | None,
    named: UUID | None,
    reads: UUID | None,
    known: StreamMeta | None,
    found: StreamMeta | None,
    created: bool,
    waits: list[int],
    limits: tuple[bool, bool],
    moments: list[bool],
) -> None:
    """Whatever the server does meanwhile: no fact is asked for twice, and a resume never starts."""
    facts, asked_for = RequestFacts("ann", cursor, named, reads), []
    answers: dict[Need, dict[str, Any]] = {
        Need.READER: {"may_read": limits[0]},
        Need.START: {"may_start": limits[1]},
        Need.BODY: {"request_id": ASKED, "fingerprint": "f"},
        Need.OPENED: {"opened": Opened(META, created)},
        Need.STREAM: {"known": known, "looked_up": True},
        Need.NAMED_REQUEST: {"known": known, "looked_up": True},
    }
    for closing in moments:
        decision = decide(facts, ServerFacts(OPTIONS, closing))
        if isinstance(decision, Find):
            asked_for.append("find")
            facts.refusal, facts.found = decision.refusal, found
        elif not isinstance(decision, Need):
            break
        else:
            asked_for.append(decision.name)
            if decision is Need.TOKEN:
                answers[decision] = {"wait": waits[facts.tries], "tries": facts.tries + 1}
            facts = replace(facts, **answers[decision])
    else:
        pytest.fail(f"no decision after {asked_for}")
    names = [name for name in asked_for if name != "TOKEN"]
    assert len(names) == len(set(names))
    if cursor is not None:
        assert isinstance(decision, Resume | Refuse)
        assert "OPENED" not in asked_for
    if reads is not None:
        check_read(decision, asked_for)
    if isinstance(decision, Start):
        assert not facts.wait or (facts.known is not None and facts.known.request_id == ASKED)


def check_read(decision: object, asked_for: list[str]) -> None:
    """A GET needs no body, opens nothing, and reads only its own stream."""
    assert not {"BODY", "OPENED"} & set(asked_for)
    assert isinstance(decision, Join | Resume | Refuse)
    if not isinstance(decision, Refuse):
        assert decision.meta.principal == "ann"
