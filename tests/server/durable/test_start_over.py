"""Steps that are called to continue and cannot: they are compared, as steps that run again."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.durable._journal import Journal
from coreason_client.server.durable._notes import Begun, Done, FirstPacket
from coreason_client.server.durable._replay import (
    LIVE,
    SKIP,
    Finished,
    Logged,
    Replay,
    Resume,
    Rewind,
)
from tests.fuzz.strategies import examples

from .simulated import Action, Step, Write, answer
from .test_properties import by_owner, deaths, inner, rewinds, shown, valid_packets, writes

over = st.builds(
    Step,
    st.just("answer"),
    st.just("resume"),
    st.lists(writes | inner, max_size=4).map(tuple),
    starts_over=st.just(value=True),
)
agents = st.lists(writes | over, max_size=5)


@examples(200)
@given(agents, deaths)
def test_the_same_answer_goes_on(agent: list[Action], dying: list[tuple[int, bool]]) -> None:
    expected = asyncio.run(answer(agent, []))
    got = asyncio.run(answer(agent, dying))
    assert got.outcome == "complete"
    assert by_owner(shown(got.packets)) == by_owner(shown(expected.packets))
    assert len(got.packets) == len(expected.packets)


random_over = st.builds(
    Step,
    st.just("answer"),
    st.just("resume"),
    st.lists(writes, max_size=3).map(tuple),
    random=st.just(value=True),
    starts_over=st.just(value=True),
)


@examples(200)
@given(st.lists(writes | random_over, max_size=4), deaths)
def test_another_answer_rewinds_or_ends_the_stream(
    agent: list[Action], dying: list[tuple[int, bool]]
) -> None:
    without = asyncio.run(answer(agent, dying))
    got = asyncio.run(answer(agent, dying, rewinds=True))
    assert got.outcome == "complete"
    assert without.outcome == ("producer_lost" if rewinds(got.packets) else "complete")
    expected = by_owner(shown(asyncio.run(answer(agent, [])).packets))
    for number, action in enumerate(agent):
        path = str(number)
        if isinstance(action, Step) and got.world.calls[path] > 1:
            first = f"DELTA <{path}/run:{got.world.calls[path]}>"
            expected[path] = [first, *expected.get(path, [])]
    assert by_owner(shown(valid_packets(got.packets))) == expected


def test_one_death_in_the_middle() -> None:
    """Without hypothesis, so that a failure is easy to read."""
    agent = [Step("answer", "resume", (Write("a"), Write("b")), random=True, starts_over=True)]
    # The appends: the beginning of the step, its first packet.
    got = asyncio.run(answer(agent, [(2, False)], rewinds=True))
    assert got.outcome == "complete"
    assert [payload for op, payload in valid_packets(got.packets) if op == "DELTA"] == [
        "<0/run:2>",
        "<0/0:a>",
        "<0/1:b>",
    ]


# The rule itself.


def replay(*more: Any) -> Replay:
    notes = [Begun("answer#1", "resume", "f", "d"), FirstPacket("answer#1", 1), *more]
    return Replay(Journal(notes), [Logged(1, "DELTA", "a"), Logged(2, "DELTA", "b")])


def test_a_step_that_starts_over_is_compared_and_rewound() -> None:
    compared = replay()
    assert isinstance(compared.begin_step("answer#1", "resume", "f", "d"), Resume)
    assert not compared.complete
    assert compared.start_over("answer#1")
    assert compared.write("answer#1", "DELTA", "a") is SKIP
    assert compared.write("answer#1", "DELTA", "c") == Rewind("answer#1", 1)
    assert compared.complete


def test_a_step_that_has_gone_on_cannot_start_over() -> None:
    compared = replay()
    compared.begin_step("answer#1", "resume", "f", "d")
    assert compared.write("answer#1", "DELTA", "c") is LIVE
    assert compared.complete
    assert not compared.start_over("answer#1")


def test_a_step_that_has_called_another_cannot_start_over() -> None:
    compared = replay()
    compared.begin_step("answer#1", "resume", "f", "d")
    compared.begin_step("answer#1/search#1", "rerun", "f", "d")
    assert not compared.start_over("answer#1")


def test_steps_inside_that_have_ended_are_not_run_again() -> None:
    inside = Begun("answer#1/search#1", "rerun", "g", "d", 2)
    compared = replay(inside, Done("answer#1/search#1", "result", 7, 2))
    compared.begin_step("answer#1", "resume", "f", "d")
    assert compared.start_over("answer#1")
    assert compared.write("answer#1", "DELTA", "a") is SKIP
    action = compared.begin_step("answer#1/search#1", "rerun", "g", "d")
    assert isinstance(action, Finished)
    assert action.done.value == 7
    assert compared.complete


@pytest.mark.parametrize("policy", ["rerun", "fail"])
def test_only_a_step_that_continues_can_start_over(policy: Any) -> None:
    compared = Replay(Journal(), [])
    compared.begin_step("answer#1", policy, "f", "d")
    assert not compared.start_over("answer#1")
