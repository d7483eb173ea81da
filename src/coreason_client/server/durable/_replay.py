"""The replay of a restarted agent: what it does again is compared with the log. No I/O.

The agent runs again from its start. Each packet belongs to the step that wrote it, or to the body,
and is compared with the packets of the same owner in the log: an equal packet is not written again.
When the packets of an owner are used up, it writes live.

TRANSIENT errors need not come again: the agent is started again so that it does not fail again.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ._journal import BODY, Journal, Step, is_inside
from ._notes import Done, Policy


class ReplayError(Exception):
    """The replay cannot go on."""


class ReplayDiverged(ReplayError):
    """The restarted agent did something else than before."""


class StepUncertain(ReplayError):
    """A step that must not run twice was interrupted."""


class Logged(NamedTuple):
    """A packet in the log: `content` is what a replay compares."""

    seq: int
    op: str
    content: Any


@dataclass(frozen=True, slots=True)
class Rewind:
    """Write a REWIND packet first: the packets after `to_seq` become void."""

    step: str
    to_seq: int


class _Verdict(NamedTuple):
    name: str


SKIP = _Verdict("skip")
"""The log has this packet."""
LIVE = _Verdict("live")
"""The packet is new."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The step has ended in an earlier run, with this outcome.

    `error` is the last TRANSIENT error that it wrote: no restart calls the step again.
    """

    done: Done
    error: Any = None


@dataclass(frozen=True, slots=True)
class Run:
    """Call the function of the step; `known` is True if the journal has its beginning."""

    known: bool


@dataclass(frozen=True, slots=True)
class Resume:
    """Call the function to continue after these packets, with its last checkpoint."""

    packets: tuple[Logged, ...]
    checkpoint: Any


class _Owned:
    """The packets of one owner, and how many of them were written again."""

    __slots__ = ("errors", "packets", "used")

    def __init__(self) -> None:
        self.packets: list[Logged] = []
        self.errors: list[Logged] = []  # the TRANSIENT ones, which are not among the packets
        self.used = 0

    @property
    def next(self) -> Logged | None:
        return self.packets[self.used] if self.used < len(self.packets) else None


class Replay:
    """Compares one run of an agent with the log and the journal of its stream."""

    def __init__(self, journal: Journal, logged: Iterable[Logged]) -> None:
        self._journal = journal
        self._earlier = dict(journal.steps)  # those of earlier runs that were not called yet
        self._resumed: set[str] = set()  # steps that were called to continue and did nothing yet
        self._compared: set[str] = set()  # steps that run again and may differ
        self._ended_inside: dict[str, Step] = {}  # inside those that continue; may be called again
        self._owned = _by_owner(journal, logged)
        self._valid = sorted(p.seq for owned in self._owned.values() for p in owned.packets)
        self._inner = _inner_steps(journal)
        self.left = sum(len(owned.packets) for owned in self._owned.values())
        """Packets in the log that the agent has not written again."""

    @property
    def complete(self) -> bool:
        """True if everything in the log and the journal was done again."""
        return not (self.left or self._earlier or self._resumed or self._ended_inside)

    def is_missing(self, path: str) -> bool:
        """Return True if a step of the journal was not called yet."""
        return path in self._earlier

    # Packets.

    def write(self, owner: str, op: str, content: Any) -> _Verdict | Rewind:
        """Return what to do with a packet of the agent.

        Raises:
            ReplayDiverged: the log has another packet, which cannot be made void.
            StepUncertain: it cannot be made void because of a step that must not run twice.
        """
        self._goes_on(owner)
        owned = self._owned.get(owner)
        if owned is None or (expected := owned.next) is None:
            return LIVE
        if is_transient(op, content):
            return SKIP  # the run before this one has got over it
        if (expected.op, expected.content) == (op, content):
            owned.used += 1
            self.left -= 1
            return SKIP
        difference = f"packet {expected.seq} is another {expected.op} packet in the log"
        return self._rewind(owner, expected.seq, difference)

    def write_instead(self, owner: str, missing: str) -> Rewind:
        """Return the rewind for a packet that comes instead of a step, which was not called again.

        Raises:
            ReplayDiverged, StepUncertain: as in `write`.
        """
        first_seq = self._journal.steps[missing].first_seq
        return self._rewind(owner, first_seq or 0, _not_called(missing))

    def _rewind(self, owner: str, seq: int, difference: str) -> Rewind:
        """Drop the packets of a step from the first difference on, the packet `seq`.

        Raises:
            ReplayDiverged, StepUncertain: that is not possible.
        """
        if owner not in self._compared:
            raise ReplayDiverged(difference)
        before = bisect_left(self._valid, seq)
        to_seq = self._valid[before - 1] if before else 0
        for step in self._journal.wrote_inside(owner, to_seq):
            if step.done is None and step.policy == "fail":
                raise StepUncertain(step.path)
            if step.done is not None or step.path not in self._earlier:
                state = "runs" if step.done is None else "has ended"
                raise ReplayDiverged(
                    f"{difference}, and the step {step.path}, which wrote after it, {state}"
                )
        for path in self._with_inner(owner):
            self._drop(path)
        for path in self._inner[owner]:
            if path in self._earlier and self._journal.steps[path].wrote_after(to_seq):
                del self._earlier[path]
        return Rewind(owner, to_seq)

    def _drop(self, owner: str) -> None:
        """Regard the packets of an owner as written again."""
        owned = self._owned.get(owner)
        if owned is not None:
            self.left -= len(owned.packets) - owned.used
            owned.used = len(owned.packets)

    # Steps.

    def begin_step(
        self, path: str, policy: Policy, function: str, arguments: str
    ) -> Finished | Run | Resume:
        """Return what to do for a step that the agent calls.

        Raises:
            ReplayDiverged: the journal has this step with another function, arguments or policy.
            StepUncertain: it was interrupted and must not run again.
        """
        self._goes_on(path)
        if policy == "rerun":
            self._compared.add(path)
        step = self._earlier.get(path)
        if step is None:
            return self._begin_other(path, policy, function, arguments)
        _check_same(step, policy, function, arguments)
        if step.done is not None:
            self._use_up(path)
            return Finished(step.done, self._error_inside(path))
        del self._earlier[path]
        if policy == "rerun" or self._journal.has_unfinished_inside(path):
            return Run(known=True)
        if policy == "fail":
            raise StepUncertain(path)
        written = self._written_inside(path)
        self._use_up(path)
        self._resumed.add(path)
        self._ended_inside |= {inner: self._journal.steps[inner] for inner in self._inner[path]}
        return Resume(written, step.checkpoint)

    def _begin_other(
        self, path: str, policy: Policy, function: str, arguments: str
    ) -> Finished | Run:
        """Return what to do for a step that need not be called again.

        A step that continues may go on after the steps that it has called, so their numbers may
        stand for others now.
        """
        step = self._ended_inside.pop(path, None)
        if step is None or step.done is None:
            return Run(known=False)
        same = (step.policy, step.function, step.arguments) == (policy, function, arguments)
        return Finished(step.done, self._error_inside(path)) if same else Run(known=False)

    def _forget_inside(self, path: str) -> None:
        for inner in self._inner[path]:
            self._ended_inside.pop(inner, None)

    def start_over(self, path: str) -> bool:
        """Compare a step that was called to continue, as one with the policy "rerun".

        Return False if it has already written or called a step.
        """
        if path not in self._resumed:
            return False
        self._resumed.discard(path)
        self._compared.add(path)
        self._forget_inside(path)
        for owner, owned in self._owned.items():
            if owner == path or is_inside(owner, path):
                self.left += owned.used
                owned.used = 0
        steps = self._journal.steps.items()
        self._earlier |= {other: step for other, step in steps if is_inside(other, path)}
        return True

    def _goes_on(self, path: str) -> None:
        """Record that a step, or one inside it, does something."""
        if self._resumed:
            self._resumed = {
                open_ for open_ in self._resumed if open_ != path and not is_inside(path, open_)
            }

    def end_step(self, path: str) -> Rewind | None:
        """Return the rewind that is needed before a step ends, None if it needs none.

        Raises:
            ReplayDiverged: it has not called a step of the journal, or has not written a packet of
                the log that cannot be made void.
            StepUncertain: it has not called a step again that was interrupted and must not run
                twice.
        """
        self._goes_on(path)
        self._forget_inside(path)
        missing = [self._earlier[inner] for inner in self._inner[path] if inner in self._earlier]
        for step in missing:
            if step.done is not None or path not in self._compared:
                raise ReplayDiverged(_not_called(step.path))
            if step.policy == "fail":
                raise StepUncertain(step.path)
        rewind = self._rewind_unwritten(path, missing)
        for step in missing:
            self._earlier.pop(step.path, None)
        return rewind

    def _rewind_unwritten(self, path: str, missing: Iterable[Step]) -> Rewind | None:
        """Return the rewind for packets that a step, and those inside it, did not write again."""
        left = [(step.first_seq, _not_called(step.path)) for step in missing if step.first_seq]
        owned = self._owned.get(path)
        if owned is not None and (expected := owned.next) is not None:
            left.append((expected.seq, _not_written(expected.seq)))
        return self._rewind(path, *min(left)) if left else None

    def end(self) -> None:
        """Check that everything was done again.

        Raises:
            ReplayDiverged: the log has more packets, or the journal more steps.
        """
        for owned in self._owned.values():
            if (expected := owned.next) is not None:
                raise ReplayDiverged(_not_written(expected.seq))
        for path in self._earlier:
            raise ReplayDiverged(_not_called(path))

    def _use_up(self, path: str) -> None:
        """Regard a step and all steps inside it as done again."""
        for step in self._with_inner(path):
            self._drop(step)
            self._earlier.pop(step, None)

    def _with_inner(self, path: str) -> list[str]:
        return [path, *self._inner[path]]

    def _written_inside(self, path: str) -> tuple[Logged, ...]:
        return tuple(sorted(packet for one in self._owned_inside(path) for packet in one.packets))

    def _error_inside(self, path: str) -> Any:
        """Return the last TRANSIENT error of a step and those inside it, None if there is none."""
        errors = [error for one in self._owned_inside(path) for error in one.errors]
        return max(errors).content if errors else None

    def _owned_inside(self, path: str) -> list[_Owned]:
        return [self._owned[owner] for owner in self._with_inner(path) if owner in self._owned]


def is_transient(op: str, content: Any) -> bool:
    """Return True if a packet is an error that a restart of the agent may get over."""
    return op == "ERROR" and content.get("severity") == "TRANSIENT"


def _not_called(path: str) -> str:
    return f"the step {path} was not called again"


def _not_written(seq: int) -> str:
    return f"packet {seq} in the log was not written again"


def _check_same(step: Step, policy: Policy, function: str, arguments: str) -> None:
    for name, before, now in (
        ("function", step.function, function),
        ("on_restart", step.policy, policy),
    ):
        if before != now:
            raise ReplayDiverged(
                f"the step {step.path} was called with another {name}: {before} before, {now} now"
            )
    if step.arguments != arguments:
        raise ReplayDiverged(f"the step {step.path} was called with other arguments")


def _by_owner(journal: Journal, logged: Iterable[Logged]) -> Mapping[str, _Owned]:
    """Return the valid packets of each owner.

    A step writes alone from its first packet to its end, so its packets are one range, with those
    of its inner steps inside.
    """
    begins = {step.first_seq: step for step in journal.steps.values() if step.first_seq is not None}
    owned: dict[str, _Owned] = {}
    open_steps: list[Step] = []
    for packet in logged:
        while open_steps and open_steps[-1].done and (open_steps[-1].last_seq or 0) < packet.seq:
            open_steps.pop()
        if (step := begins.get(packet.seq)) is not None:
            open_steps.append(step)
        if journal.voids and journal.is_void(packet.seq):
            continue
        path = open_steps[-1].path if open_steps else BODY
        if path not in owned:
            owned[path] = _Owned()
        one = owned[path]
        (one.errors if is_transient(packet.op, packet.content) else one.packets).append(packet)
    return owned


def _inner_steps(journal: Journal) -> defaultdict[str, list[str]]:
    """Return the steps inside each step, at any depth, in the order in which they began."""
    inner: defaultdict[str, list[str]] = defaultdict(list)
    for path in journal.steps:
        outer, slash, _ = path.rpartition("/")
        while slash:
            inner[outer].append(path)
            outer, slash, _ = outer.rpartition("/")
    return inner
