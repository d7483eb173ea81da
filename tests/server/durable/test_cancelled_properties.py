"""Any agent that cancels its steps, or goes on while they run, killed at any append."""

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.engine import _durable_writer
from tests.fuzz.strategies import examples

from .simulated import (
    Action,
    Answer,
    Cancel,
    Event,
    Hurry,
    SlowLog,
    Step,
    Together,
    Write,
    answer,
)
from .test_properties import by_owner, deaths, has_begun_once, shown, valid_packets, writes


@pytest.fixture(autouse=True, scope="module")
def _short_wait() -> Iterator[None]:
    """Do not wait long for a step that a restarted agent does not call again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_durable_writer, "_MISSING_STEP_SECONDS", 0.01)
        yield


def steps(body: st.SearchStrategy[Action]) -> st.SearchStrategy[Step]:
    return st.builds(
        Step,
        st.sampled_from(["search", "plan"]),
        st.sampled_from(["rerun", "rerun", "fail"]),
        st.lists(body, max_size=3).map(tuple),
        fails=st.booleans(),
        random=st.booleans(),
    )


def more(body: st.SearchStrategy[Action]) -> st.SearchStrategy[Action]:
    several = st.lists(steps(body), max_size=3).map(tuple)
    return (
        steps(body)
        | st.builds(Together, several)
        | st.builds(Cancel, steps(body), st.integers(0, 12))
        | steps(st.builds(Hurry, several) | body)
    )


def may_differ(action: Action) -> bool:
    """Return True if a step that has called others may do something else when it runs again."""
    match action:
        case Step(body=body, random=random):
            calls = any(not isinstance(one, Write | Event) for one in body)
            return (random and calls) or any(map(may_differ, body))
        case Together(steps) | Hurry(steps):
            return any(map(may_differ, steps))
        case Cancel(step):
            return may_differ(step)
        case _:
            return False


agents = st.lists(st.recursive(writes, more, max_leaves=8), max_size=4)


@pytest.mark.proves("DUR-3-failures")
@examples(300)
@given(agents, deaths, st.integers(1, 3))
def test_no_packet_is_lost_or_repeated(
    agent: list[Action], dying: list[tuple[int, bool]], turns: int
) -> None:
    log = SlowLog(dying, turns)
    got = asyncio.run(answer(agent, dying, rewinds=True, log=log))
    if got.outcome == "step_uncertain":
        assert has_begun_once(got.remains[-1])
    elif got.outcome == "replay_diverged":
        assert got.remains
        assert any(map(may_differ, agent))
    else:
        assert got.outcome == "complete"
    valid = by_owner(shown(valid_packets(got.packets)))
    for packets in valid.values():
        assert len(packets) == len(set(packets))
    if got.outcome == "complete":
        undisturbed: Answer = asyncio.run(answer(agent, []))
        assert valid.get("") == by_owner(shown(undisturbed.packets)).get("")
