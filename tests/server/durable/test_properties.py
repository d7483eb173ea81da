"""Any agent, killed at any append, any number of times: its reader gets one answer."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.engine import _durable_writer
from tests.fuzz.strategies import examples

from .simulated import Action, Event, Step, Together, Write, answer


@pytest.fixture(autouse=True, scope="module")
def _short_wait() -> Iterator[None]:
    """Do not wait long for a step that a restarted agent does not call again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_durable_writer, "_MISSING_STEP_SECONDS", 0.01)
        yield


texts = st.sampled_from(["a", "b", "word"])
writes = st.builds(Write, texts) | st.builds(Event, texts)
policies = st.sampled_from(["rerun", "rerun", "resume"])


def steps(body: st.SearchStrategy[Action]) -> st.SearchStrategy[Step]:
    bodies = st.lists(body, max_size=3).map(tuple)
    return st.builds(
        Step, st.sampled_from(["search", "plan"]), st.just("rerun"), bodies, st.booleans()
    ) | st.builds(
        Step,
        st.just("answer"),
        st.just("resume"),
        st.lists(st.builds(Write, texts), max_size=4).map(tuple),
    )


inner = steps(writes)
actions = st.recursive(
    writes | inner,
    lambda body: steps(body) | st.builds(Together, st.lists(steps(body), max_size=3).map(tuple)),
    max_leaves=6,
)
agents = st.lists(actions, max_size=5)
deaths = st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=5)


def by_owner(packets: Sequence[tuple[str, Any]]) -> dict[str, list[str]]:
    """Return the packets of each step, and of the body; their texts begin with the path."""
    owners: dict[str, list[str]] = {}
    for op, payload in packets:
        if op in ("DELTA", "EVENT"):
            text = payload if op == "DELTA" else f"<{payload['shown']}>"
            path = text[1:].partition(":")[0]
            owners.setdefault(path.rpartition("/")[0], []).append(f"{op} {text}")
    return owners


@pytest.mark.proves("DUR-compare")
@examples(700)
@given(agents, deaths)
def test_the_answer_is_that_of_an_undisturbed_run(
    agent: list[Action], dying: list[tuple[int, bool]]
) -> None:
    expected = asyncio.run(answer(agent, []))
    got = asyncio.run(answer(agent, dying))
    assert expected.outcome == got.outcome == "complete"
    assert by_owner(got.packets) == by_owner(expected.packets)
    assert len(got.packets) == len(expected.packets)


fail_steps = st.builds(
    Step, st.just("pay"), st.just("fail"), st.lists(writes, max_size=2).map(tuple), st.booleans()
)
with_fail = st.lists(writes | fail_steps | steps(writes | fail_steps), max_size=5)


@pytest.mark.proves("DUR-policies")
@examples(350)
@given(with_fail, deaths)
def test_a_step_that_must_not_run_twice_does_not(
    agent: list[Action], dying: list[tuple[int, bool]]
) -> None:
    expected = asyncio.run(answer(agent, []))
    got = asyncio.run(answer(agent, dying))
    assert got.outcome in ("complete", "step_uncertain")
    for path in paths_of(agent, "fail"):
        assert got.world.calls[path] <= 1
    if got.outcome == "complete":
        assert by_owner(got.packets) == by_owner(expected.packets)


def paths_of(agent: Sequence[Action], policy: str, prefix: str = "") -> list[str]:
    """Return the paths of the steps with a policy; they are not concurrent."""
    found = []
    for number, action in enumerate(agent):
        if isinstance(action, Step):
            if action.policy == policy:
                found.append(f"{prefix}{number}")
            found += paths_of(action.body, policy, f"{prefix}{number}/")
    return found


random_steps = st.builds(
    Step,
    st.just("model"),
    st.just("rerun"),
    st.lists(writes, max_size=3).map(tuple),
    st.just(value=False),
    st.just(value=True),
)
with_random = st.lists(writes | random_steps | inner, max_size=5)
# Steps inside a step that differs.
nested_random = st.builds(
    Step,
    st.just("model"),
    st.just("rerun"),
    st.lists(writes | random_steps | inner, max_size=3).map(tuple),
    st.just(value=False),
    st.booleans(),
)


@pytest.mark.proves("DUR-4-nested")
@examples(350)
@given(st.lists(writes | nested_random, max_size=4), deaths)
def test_steps_inside_a_step_that_differs(
    agent: list[Action], dying: list[tuple[int, bool]]
) -> None:
    got = asyncio.run(answer(agent, dying, rewinds=True))
    # A rewind never passes a finished step, so some differences end the stream.
    assert got.outcome in ("complete", "replay_diverged")
    if got.outcome == "complete":
        valid = by_owner(valid_packets(got.packets))
        runs = without_run_numbers(valid)
        assert runs == without_run_numbers(by_owner(asyncio.run(answer(agent, [])).packets))


@pytest.mark.parametrize(("before", "death"), [((), (0, True)), ((Write("before"),), (1, False))])
def test_a_packet_where_an_interrupted_step_was_rewinds_it(
    before: tuple[Write, ...], death: tuple[int, bool]
) -> None:
    """The step around it writes something else before it calls the step again."""
    inner_step = Step("search", "rerun", (Write("a"), Write("b"), Write("c")))
    agent = [Step("model", "rerun", (*before, inner_step), random=True)]
    got = asyncio.run(answer(agent, [death], rewinds=True))
    assert got.outcome == "complete"
    [rewind] = [p for op, p in got.packets if op == "EVENT"]
    assert rewind["data"] == {"to_seq": 0, "step": "model", "attempt": 2}
    path = f"0/{len(before)}"
    assert by_owner(valid_packets(got.packets)) == {
        "0": ["DELTA <0/run:2>", *(f"DELTA <0/0:{write.text}>" for write in before)],
        path: [f"DELTA <{path}/{at}:{letter}>" for at, letter in enumerate("abc")],
    }


def without_run_numbers(owners: dict[str, list[str]]) -> dict[str, list[str]]:
    """Leave out the packets that a random step writes only in its later runs."""
    left = {path: [t for t in texts if "/run:" not in t] for path, texts in owners.items()}
    return {path: texts for path, texts in left.items() if texts}


@pytest.mark.proves("DUR-rewind")
@examples(350)
@given(with_random, deaths)
def test_a_step_that_differs_is_rewound_or_ends_the_stream(
    agent: list[Action], dying: list[tuple[int, bool]]
) -> None:
    without = asyncio.run(answer(agent, dying))
    assert not rewinds(without.packets)
    got = asyncio.run(answer(agent, dying, rewinds=True))
    assert got.outcome == "complete"
    assert without.outcome == ("producer_lost" if rewinds(got.packets) else "complete")
    valid = valid_packets(got.packets)
    expected = by_owner(asyncio.run(answer(agent, [])).packets)
    for number, action in enumerate(agent):
        path = str(number)
        if isinstance(action, Step) and action.random and got.world.calls[path] > 1:
            first = f"DELTA <{path}/run:{got.world.calls[path]}>"
            expected[path] = [first, *expected.get(path, [])]
    assert by_owner(valid) == expected


def rewinds(packets: Sequence[tuple[str, Any]]) -> int:
    """Return the number of REWIND packets."""
    return sum(op == "EVENT" and p.get("type") == "REWIND" for op, p in packets)


def valid_packets(packets: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return what is left after the REWIND packets, as a client does."""
    valid: list[tuple[int, tuple[str, Any]]] = []
    for seq, (op, payload) in enumerate(packets, 1):
        if op == "EVENT" and payload.get("type") == "REWIND":
            assert payload["data"]["to_seq"] in {0, *(at for at, _ in valid)}
            valid = [kept for kept in valid if kept[0] <= payload["data"]["to_seq"]]
        else:
            valid.append((seq, (op, payload)))
    return [packet for _, packet in valid]
