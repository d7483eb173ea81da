"""Whatever the cuts, snapshots and replays: the text is the task's, nothing twice, nothing lost."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coreason_client._http._types import Request
from coreason_client._retry import Backoff
from coreason_client.a2a._call import Settings
from coreason_client.a2a.types import Event
from tests.a2a.numbered import NumberedAgent, shown, texts_after
from tests.a2a.paper import (
    SHELLS,
    Leg,
    Outcome,
    PaperAgent,
    Server,
    chunk,
    machine_for,
    route_to,
    sse,
    status,
    story,
    task,
)
from tests.cap.scripted import Connection, Network

# A letter alone, so that a chunk told twice or in the wrong place cannot look right by chance
# less often than it would in real text; doubled letters, U+2028 and empty chunks on purpose.
texts = st.lists(st.sampled_from(["a", "b", "aa", "ab", " ", "\u2028", "é\n", ""]), max_size=8)
legs = st.lists(
    st.builds(
        Leg,
        told=st.integers(0, 6),
        missed=st.integers(0, 4),
        inside=st.integers(0, 60),
        breaks=st.booleans(),
        manner=st.sampled_from(["snapshot", "joined", "replay", "bare"]),
    ),
    max_size=6,
)


def run(shell: str, version: str, agent: Server) -> Outcome:
    # Enough for legs that bring nothing, one after the other: the budget is not the matter here.
    settings = Settings(max_retries=10, backoff=Backoff())
    machine = machine_for(route_to(version, settings=settings)[0])
    return SHELLS[shell](machine, Network(agent))


def assert_exact(outcome: Outcome, text: str) -> None:
    assert outcome.error is None
    assert outcome.text == text
    assert outcome.machine.assembly.text == text
    assert outcome.states[-1] == "COMPLETED"
    assert outcome.states.count("COMPLETED") == 1
    assert outcome.machine.assembly.task is not None
    assert outcome.machine.assembly.task.text == text


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@settings(max_examples=60)
@given(texts=texts, first=st.integers(1, 8), legs=legs, shell=st.sampled_from(sorted(SHELLS)))
def test_the_printed_text_is_the_text_of_the_task(
    version: str, texts: list[str], first: int, legs: list[Leg], shell: str
) -> None:
    agent = PaperAgent(story(texts), [Leg(told=first), *legs], version)
    assert_exact(run(shell, version, agent), "".join(texts))


@pytest.mark.parametrize("manner", ["snapshot", "joined", "replay", "bare"])
def test_a_cut_after_every_event_of_a_long_stream(manner: str) -> None:
    texts = [f"{i % 7}{'x' * (i % 3)}" for i in range(50)]
    events = story(texts)
    for position in range(1, len(events)):
        for missed, shell in ((0, "sync"), (1 + position % 3, "async"), (len(events), "sync")):
            legs = [Leg(told=position), Leg(told=99, missed=missed, manner=manner)]
            outcome = run(shell, "1.0", PaperAgent(list(events), legs))
            assert_exact(outcome, "".join(texts))
            assert len(outcome.network.requests) >= 2


def test_cuts_after_every_single_event_of_one_stream() -> None:
    texts = [f"{i}," for i in range(20)]
    events = story(texts)
    legs = [Leg(told=1) for _ in events]
    outcome = run("sync", "1.0", PaperAgent(events, legs))
    assert_exact(outcome, "".join(texts))
    assert outcome.machine.reconnects == len(events) - 1


@settings(max_examples=60)
@given(
    texts=texts,
    bare=st.lists(st.booleans(), min_size=11, max_size=11),
    cuts=st.lists(st.integers(1, 300), max_size=20),
    version=st.sampled_from(["1.0", "0.3"]),
    shell=st.sampled_from(sorted(SHELLS)),
)
def test_the_shape_of_each_event_decides_how_it_is_read(
    texts: list[str], bare: list[bool], cuts: list[int], version: str, shell: str
) -> None:
    events = story(texts)

    def agent(request: Request) -> Connection:
        shapes = zip(events, bare, strict=False)
        told = b"".join(sse(request, e, version="0.3" if old else "1.0") for e, old in shapes)
        pieces = []
        for size in cuts:
            pieces.append(told[:size])
            told = told[size:]
        return Connection([*pieces, told])

    outcome = SHELLS[shell](machine_for(route_to(version)[0]), Network(agent))
    assert_exact(outcome, "".join(texts))
    assert len(outcome.network.requests) == 1


# Agents that number their events


def generation(event: Event) -> int | None:
    """Return the number of an event; what the client makes of a snapshot has none."""
    metadata: dict[str, Any] = getattr(event, "metadata", None) or {}
    return metadata.get("generation")


updates = st.lists(
    st.builds(
        chunk,
        st.sampled_from(["a", "b", "aa", "ab", ""]),
        append=st.booleans(),
        artifact=st.sampled_from(["a", "b"]),
    ),
    max_size=8,
)
connections = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), max_size=6)


def numbered_story(updates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events of a task; the first update of an artifact does not append."""
    known: set[str] = set()
    events = [task(), status("WORKING")]
    for update in updates:
        name = update["artifactUpdate"]["artifact"]["artifactId"]
        known_one = name in known
        known.add(name)
        content = dict(update["artifactUpdate"])
        if not known_one:
            content.pop("append", None)
        events.append({"artifactUpdate": content})
    return [*events, chunk("", append=True, last=True), status("COMPLETED")]


@settings(max_examples=150)
@given(
    updates=updates,
    first=st.integers(1, 6),
    connections=connections,
    unnamed=st.frozensets(st.integers(2, 11), max_size=4),
    honours_cursor=st.booleans(),
    with_artifacts=st.booleans(),
    shell=st.sampled_from(sorted(SHELLS)),
)
def test_the_numbers_of_changes_make_a_stream_exact(
    updates: list[dict[str, Any]],
    first: int,
    connections: list[tuple[int, int]],
    unnamed: frozenset[int],
    honours_cursor: bool,
    with_artifacts: bool,
    shell: str,
) -> None:
    if unnamed.issuperset(range(2, first + 1)):
        # The cursor is that of the first event, so the content decides, and that does not show
        # whether an artifact that begins anew is repeated or gets shorter.
        for update in updates:
            update["artifactUpdate"]["append"] = True
    events = numbered_story([chunk("x", append=False), *updates])
    agent = NumberedAgent(
        list(events),
        [(0, first), *connections],
        unnamed,
        honours_cursor=honours_cursor,
        with_artifacts=with_artifacts,
    )
    outcome = run(shell, "1.0", agent)
    assert outcome.error is None
    assert shown(outcome.events) == texts_after(events)
    assert outcome.machine.assembly.task is not None
    assert outcome.states[-1] == "COMPLETED"
    assert outcome.states.count("COMPLETED") == 1
    numbers = [number for event in outcome.events if (number := generation(event)) is not None]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("counting", ["each connection", "constant"])
@settings(max_examples=60)
@given(
    texts=texts,
    connections=connections,
    unnamed=st.frozensets(st.integers(2, 11), max_size=4),
    honours_cursor=st.booleans(),
    with_artifacts=st.booleans(),
    shell=st.sampled_from(sorted(SHELLS)),
)
def test_other_numbers_do_no_harm(
    counting: str,
    texts: list[str],
    connections: list[tuple[int, int]],
    unnamed: frozenset[int],
    honours_cursor: bool,
    with_artifacts: bool,
    shell: str,
) -> None:
    agent = NumberedAgent(
        story(texts), list(connections), unnamed, counting, honours_cursor, with_artifacts
    )
    assert_exact(run(shell, "1.0", agent), "".join(texts))
