"""Any agent, killed at any append, any number of times: its reader gets one answer."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.durable._notes import Begun, Done, Started
from coreason_client.server.engine import _durable_writer
from tests.fuzz.strategies import examples

from .simulated import (
    Action,
    Answer,
    Die,
    Event,
    Loop,
    MortalLog,
    Raise,
    Remains,
    Step,
    Together,
    Write,
    answer,
    answers,
)


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
    """Steps with a key, whose errors are caught."""
    bodies = st.lists(body, max_size=3).map(tuple)
    return st.builds(
        Step, st.sampled_from(["search", "plan"]), st.just("rerun"), bodies, st.booleans()
    ) | st.builds(
        Step,
        st.just("answer"),
        st.just("resume"),
        st.lists(st.builds(Write, texts), max_size=4).map(tuple),
    )


def numbered(step: Step, keyed: bool, caught: bool) -> Step:
    return replace(step, keyed=keyed, caught=caught)


def any_action(body: st.SearchStrategy[Action]) -> st.SearchStrategy[Action]:
    """Steps with keys and numbers, with errors that are caught and not, loops, and all at once."""
    return (
        st.builds(numbered, steps(body), st.booleans(), st.sampled_from([True, True, False]))
        | st.builds(Loop, st.integers(0, 3), st.lists(body, max_size=2).map(tuple))
        | st.builds(Together, st.lists(steps(body), max_size=3).map(tuple))
    )


inner = steps(writes)
leaves = writes | any_action(writes) | st.builds(Raise)
agents = st.lists(st.recursive(leaves, any_action, max_leaves=6), max_size=5)
# Many processes die early, so that some streams use all their restarts.
when = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 4, 5, 7, 9, 12])
deaths = st.lists(st.tuples(when, st.booleans()), max_size=6)
some_deaths = st.lists(st.tuples(when, st.booleans()), min_size=1, max_size=6)


def by_owner(packets: Sequence[str]) -> dict[str, list[str]]:
    """Return the packets of each step, and of the body; their texts begin with the path."""
    owners: dict[str, list[str]] = {}
    for packet in packets:
        owners.setdefault("/".join(path_of(packet)[:-1]), []).append(packet)
    return owners


class Failed(Exception):
    """The agent, or a step of it, raises an error."""


@dataclass
class Expected:
    """The output of an agent in an undisturbed run."""

    packets: list[str] = field(default_factory=list)

    def run(self, actions: Sequence[Action]) -> str:
        """Return the outcome of the stream."""
        try:
            self._body(actions, "")
        except Failed:
            return "agent_error"
        return "complete"

    def _body(self, actions: Sequence[Action], prefix: str) -> None:
        for number, action in enumerate(actions):
            here = f"{prefix}{number}"
            match action:
                case Write(text):
                    self.packets.append(f"DELTA <{here}:{text}>")
                case Event(text):
                    self.packets.append(f"EVENT <{here}:{text}>")
                case Step():
                    self._step(action, here)
                case Loop(times, body):
                    for turn in range(times):
                        self._body(body, f"{here}~{turn}~")
                case Together(several):
                    for at, one in enumerate(several):
                        self._step(one, f"{here}.{at}")
                case _:
                    raise Failed

    def _step(self, step: Step, here: str) -> None:
        try:
            self._body(step.body, f"{here}/")
            if step.fails:
                raise Failed
        except Failed:
            if not step.caught:
                raise


def shown(packets: Sequence[tuple[str, Any]]) -> list[str]:
    """Return the packets of the agent, with their texts."""
    return [
        f"DELTA {payload}" if op == "DELTA" else f"EVENT <{payload['shown']}>"
        for op, payload in packets
        if op in ("DELTA", "EVENT")
    ]


def in_order(paths: list[list[str]]) -> bool:
    """Return True if what an agent wrote is in the order of its actions.

    Steps that run at the same time may write in any order. But from its first packet on, a step
    writes alone.
    """
    before: list[int] = []
    for number, group in groupby(paths, lambda path: number_of(path[0])):
        if number <= before:
            return False
        before, several = number, list(group)
        for head in {path[0] for path in several}:
            own = [at for at, path in enumerate(several) if path[0] == head]
            alone = [at for at in own if len(several[at]) == 2]
            if alone and own[own.index(alone[0]) :] != list(range(alone[0], own[-1] + 1)):
                return False
            if not in_order([several[at][1:] for at in own if len(several[at]) > 1]):
                return False
    return True


def number_of(action: str) -> list[int]:
    """Return the number of an action, with those of the loops around it and of their turns."""
    return [int(number) for number in action.partition(".")[0].split("~")]


def path_of(packet: str) -> list[str]:
    return packet.partition("<")[2].partition(":")[0].split("/")


def used_up(remains: Remains, max_restarts: int) -> bool:
    """Return True if a stream may not be started again."""
    failed = total = reached = 0
    for note in remains.notes:
        if isinstance(note, Started):
            if note.last_seq > reached:
                reached, failed = note.last_seq, 0
            failed, total = failed + 1, total + 1
        elif isinstance(note, Done):
            failed = 0
    if len(remains.packets) > reached:
        failed = 0
    return failed >= max_restarts or total >= 20


def finished(remains: Remains) -> set[str]:
    """Return the steps that had ended, by the result or the error that they have named."""
    values = [note.value for note in remains.notes if isinstance(note, Done)]
    return {
        value["message"] if isinstance(value, dict) else value.removeprefix("result of ")
        for value in values
        if isinstance(value, dict | str)
    }


def check_answer(actions: Sequence[Action], got: Answer, max_restarts: int) -> None:
    """Check that the answer is that of an undisturbed run, or the beginning of it."""
    expected = Expected()
    outcome = expected.run(actions)
    lost = bool(got.remains) and used_up(got.remains[-1], max_restarts)
    assert got.outcome == ("producer_lost" if lost else outcome)
    for remains, later in pairwise(got.remains):  # it ends, and that may take several processes
        assert not used_up(remains, max_restarts) or remains == later
    packets = shown(got.packets)
    assert in_order([path_of(packet) for packet in packets])
    if lost:
        wanted = by_owner(expected.packets)
        assert all(wanted[owner][: len(some)] == some for owner, some in by_owner(packets).items())
    else:
        assert by_owner(packets) == by_owner(expected.packets)
    if not any("." in packet for packet in expected.packets):  # nothing runs at the same time
        assert packets == expected.packets[: len(packets)]
    last_op, last = got.packets[-1]
    assert len(got.packets) == len(packets) + 1
    assert last_op == "CLOSE" if got.outcome == "complete" else last["code"] == got.outcome
    for path, calls in got.world.calls.items():
        assert calls <= 1 + sum(path not in finished(remains) for remains in got.remains)


class EverywhereMortal(MortalLog):
    everywhere = True


@pytest.mark.proves("DUR-compare", "DUR-10-restarts")
@examples(1000)
@given(st.lists(agents, min_size=1, max_size=2), some_deaths, st.integers(1, 4))
def test_the_answers_are_those_of_an_undisturbed_run(
    programs: list[list[Action]], dying: list[tuple[int, bool]], max_restarts: int
) -> None:
    log = EverywhereMortal(dying)
    got = asyncio.run(answers(programs, dying, log=log, max_restarts=max_restarts))
    for program, one in zip(programs, got, strict=True):
        check_answer(program, one, max_restarts)


@pytest.mark.proves("DUR-10-restarts")
@examples(100)
@given(st.lists(agents, max_size=5), agents, st.integers(0, 5), st.integers(1, 4))
def test_a_stream_that_kills_its_process_harms_no_other_stream(
    programs: list[list[Action]], poison: list[Action], at: int, max_restarts: int
) -> None:
    poison = [*(action for action in poison if not fails(action)), Die()]
    at = min(at, len(programs))
    programs = [*programs[:at], poison, *programs[at:]]
    got = asyncio.run(answers(programs, [], max_restarts=max_restarts))
    for number, (program, one) in enumerate(zip(programs, got, strict=True)):
        if number == at:
            assert one.outcome == "producer_lost"
        else:
            assert one.outcome == Expected().run(program)
            check_answer(program, one, max_restarts)


def test_a_few_streams_of_a_dead_process_are_started_at_a_time() -> None:
    """The simulated processes check it whenever they have continued streams."""
    program = [Write("a")] * 20
    got = asyncio.run(answers([[Die()], *[program] * 7], [], max_restarts=3))
    assert [one.outcome for one in got] == ["producer_lost", *["complete"] * 7]
    for one in got[1:]:
        check_answer(program, one, 3)


def fails(action: Action) -> bool:
    return Expected().run([action]) != "complete"


fail_steps = st.builds(
    Step, st.just("pay"), st.just("fail"), st.lists(writes, max_size=2).map(tuple), st.booleans()
)
with_fail = st.lists(writes | fail_steps | steps(writes | fail_steps), max_size=5)


@pytest.mark.proves("DUR-policies")
@examples(200)
@given(with_fail, deaths)
def test_a_step_that_must_not_run_twice_does_not(
    agent: list[Action], dying: list[tuple[int, bool]]
) -> None:
    got = asyncio.run(answer(agent, dying))
    uncertain = bool(got.remains) and has_begun_once(got.remains[-1])
    assert got.outcome == ("step_uncertain" if uncertain else "complete")
    for path in paths_of(agent, "fail"):
        assert got.world.calls[path] <= 1
    expected, packets = Expected(), shown(got.packets)
    expected.run(agent)
    assert packets == expected.packets[: len(packets) if uncertain else None]


def has_begun_once(remains: Remains) -> bool:
    """Return True if a step had not ended that must not run twice."""
    begun = [note for note in remains.notes if isinstance(note, Begun)]
    ended = {note.path for note in remains.notes if isinstance(note, Done)}
    return any(note.policy == "fail" and note.path not in ended for note in begun)


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
@examples(200)
@given(st.lists(writes | nested_random, max_size=4), deaths)
def test_steps_inside_a_step_that_differs(
    agent: list[Action], dying: list[tuple[int, bool]]
) -> None:
    got = asyncio.run(answer(agent, dying, rewinds=True))
    if got.remains and differs_before_an_end(agent, got.remains[-1]):
        assert got.outcome == "replay_diverged"
        return
    assert got.outcome == "complete"
    expected = Expected()
    expected.run(agent)
    valid = by_owner(shown(valid_packets(got.packets)))
    assert without_run_numbers(valid) == by_owner(expected.packets)


def differs_before_an_end(agent: Sequence[Action], remains: Remains, prefix: str = "") -> bool:
    """Return True if an agent that goes on must take back what a step wrote that has ended.

    A step that differs writes something else first. What it wrote itself is taken back from there,
    or from a step on that it had called and that had not ended. A step that has ended is final.
    """
    ended = finished(remains)
    for number, action in enumerate(agent):
        path = f"{prefix}{number}"
        if not isinstance(action, Step) or path in ended:
            continue
        if action.random and (seq := first_to_take_back(path, remains)):
            return any(
                later >= seq and any(f"{owner}/".startswith(f"{one}/") for one in ended)
                for later, owner in owners_of(remains)
                if owner.startswith(f"{path}/")
            )
        return differs_before_an_end(action.body, remains, f"{path}/")
    return False


def first_to_take_back(path: str, remains: Remains) -> int | None:
    """Return the number of the first packet that a step which differs takes back, if any."""
    ended, inside = finished(remains), []
    for seq, owner in owners_of(remains):
        if owner == path:
            return seq
        if owner.startswith(f"{path}/"):
            inside.append((seq, owner))
    for seq, owner in inside:
        if f"{path}/{owner.removeprefix(f'{path}/').split('/')[0]}" not in ended:
            return seq
    return None


def owners_of(remains: Remains) -> list[tuple[int, str]]:
    """Return the numbers of the valid packets of an agent, and the step that wrote each."""
    return [
        (seq, "/".join(path_of(packet)[:-1]))
        for seq, one in valid_with_numbers(remains.packets)
        for packet in shown([one])
    ]


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
    assert by_owner(shown(valid_packets(got.packets))) == {
        "0": ["DELTA <0/run:2>", *(f"DELTA <0/0:{write.text}>" for write in before)],
        path: [f"DELTA <{path}/{at}:{letter}>" for at, letter in enumerate("abc")],
    }


def without_run_numbers(owners: dict[str, list[str]]) -> dict[str, list[str]]:
    """Leave out the packets that a random step writes only in its later runs."""
    left = {path: [t for t in texts if "/run:" not in t] for path, texts in owners.items()}
    return {path: texts for path, texts in left.items() if texts}


@pytest.mark.proves("DUR-rewind")
@examples(200)
@given(with_random, deaths)
def test_a_step_that_differs_is_rewound_or_ends_the_stream(
    agent: list[Action], dying: list[tuple[int, bool]]
) -> None:
    # Not compared with each other: a slow machine appends packets together, and dies elsewhere.
    without = asyncio.run(answer(agent, dying))
    assert not rewinds(without.packets)
    assert without.outcome == ("producer_lost" if must_rewind(agent, without) else "complete")
    got = asyncio.run(answer(agent, dying, rewinds=True))
    assert got.outcome == "complete"
    assert bool(rewinds(got.packets)) == must_rewind(agent, got)
    valid = valid_packets(got.packets)
    expected = by_owner(shown(asyncio.run(answer(agent, [])).packets))
    for number, action in enumerate(agent):
        path = str(number)
        if isinstance(action, Step) and action.random and got.world.calls[path] > 1:
            first = f"DELTA <{path}/run:{got.world.calls[path]}>"
            expected[path] = [first, *expected.get(path, [])]
    assert by_owner(shown(valid)) == expected


def must_rewind(agent: Sequence[Action], got: Answer) -> bool:
    """Return True if a process died in a step that differs, after a packet of it."""
    return any(
        isinstance(action, Step)
        and action.random
        and str(number) not in finished(remains)
        and first_to_take_back(str(number), remains) is not None
        for remains in got.remains
        for number, action in enumerate(agent)
    )


def rewinds(packets: Sequence[tuple[str, Any]]) -> int:
    """Return the number of REWIND packets."""
    return sum(op == "EVENT" and p.get("type") == "REWIND" for op, p in packets)


def valid_packets(packets: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return what is left after the REWIND packets, as a client does."""
    return [packet for _, packet in valid_with_numbers(packets)]


def valid_with_numbers(packets: Sequence[tuple[str, Any]]) -> list[tuple[int, tuple[str, Any]]]:
    valid: list[tuple[int, tuple[str, Any]]] = []
    for seq, (op, payload) in enumerate(packets, 1):
        if op == "EVENT" and payload.get("type") == "REWIND":
            assert payload["data"]["to_seq"] in {0, *(at for at, _ in valid)}
            valid = [kept for kept in valid if kept[0] <= payload["data"]["to_seq"]]
        else:
            valid.append((seq, (op, payload)))
    return valid
