"""The journal of one stream: the steps of its agent and its restarts, folded from notes. No I/O.

A step has a path: the names of the steps around it and its own, each with a number or a key, such
as `plan#1/search#2`. The body of the agent has the empty path.

A step that has written is the only writer until it ends, so the packets of a step are one range in
the log. Only the steps inside it may write meanwhile, under the same rule: see `Writers`.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID, uuid5

from ...errors import ArgumentError
from ._notes import (
    Begun,
    Checkpoint,
    Done,
    Failed,
    FirstPacket,
    Note,
    Policy,
    Released,
    Rewound,
    Started,
    Traced,
)

# The paths of steps: which call of an agent is which step of the journal. No I/O.

MAX_NAME = 200  # characters
_RESERVED = frozenset("/#@")


class Paths:
    """Gives each call of a step its path.

    The calls of one name inside one step are numbered, so they must come from one task (`caller`):
    otherwise a restarted agent might number them in another order.
    """

    __slots__ = ("_callers", "_counts", "_keyed")

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._callers: dict[str, Hashable] = {}
        self._keyed: set[str] = set()

    def take(self, parent: str, name: str, key: str | None, caller: Hashable) -> str:
        """Return the path of the next call.

        Raises:
            ArgumentError: the name or the key cannot be used.
            RuntimeError: several tasks call the same step without a key.
        """
        check_name("name", name)
        prefix = f"{parent}/{name}" if parent else name
        if key is not None:
            return self._take_keyed(f"{prefix}@{key}", name, key)
        if self._callers.setdefault(prefix, caller) != caller:
            raise RuntimeError(
                f"the step {name!r} is called in several tasks, so a restarted agent could mix "
                "them up: give each call its own key="
            )
        self._counts[prefix] += 1
        return f"{prefix}#{self._counts[prefix]}"

    def _take_keyed(self, path: str, name: str, key: str) -> str:
        check_name("key", key)
        if path in self._keyed:
            raise ArgumentError("key", f"must be different in each call of the step {name!r}", key)
        self._keyed.add(path)
        return path


def check_name(argument: str, value: object) -> None:
    """Check the name or the key of a step.

    Raises:
        ArgumentError: it cannot be used.
    """
    if not isinstance(value, str) or not value or len(value) > MAX_NAME or _RESERVED & set(value):
        rule = f"must be a string of 1 to {MAX_NAME} characters without / # @"
        raise ArgumentError(argument, rule, value)


def derived_uuid(stream_id: UUID, *parts: object) -> UUID:
    """Return an id that is the same in every run of the agent."""
    return uuid5(stream_id, "\n".join(map(str, parts)))


BODY: Final = ""
MAX_STARTS: Final = 20  # restarts of one stream in all, with and without progress


def is_inside(path: str, outer: str) -> bool:
    """Return True if a step is inside another one; every step is inside the body."""
    return path.startswith(f"{outer}/") if outer else bool(path)


@dataclass(slots=True)
class Step:
    """The journal's record of one step. `done` is None while it has not ended."""

    path: str
    policy: Policy
    function: str
    arguments: str
    first_seq: int | None = None
    done: Done | None = None
    # Each with the number of its packet, if it has one, and the run of the agent.
    checkpoints: list[tuple[int | None, int, Any]] = field(default_factory=list)

    @property
    def checkpoint(self) -> Any:
        """The last valid checkpoint, None if there is none."""
        return self.checkpoints[-1][2] if self.checkpoints else None

    def rewind(self, to_seq: int, attempt: int) -> None:
        """Drop the checkpoints that belong to what is void now.

        That may be one without a packet, if an earlier run has stored it.
        """
        self.checkpoints = [
            (seq, run, value)
            for seq, run, value in self.checkpoints
            if (run == attempt if seq is None else seq <= to_seq)
        ]

    @property
    def last_seq(self) -> int | None:
        """The number of its last packet, None if it wrote none or has not ended."""
        return None if self.done is None else self.done.last_seq

    def wrote_after(self, seq: int) -> bool:
        """Return True if it wrote a packet with a higher number; one that runs may write more."""
        if self.first_seq is None:
            return False
        return self.done is None or (self.last_seq or 0) > seq


class Restarts:
    """The restarts of a stream. A restart counts as failed until the stream makes progress.

    Progress is a new packet or a step that ended. The start after a hand-over is not a restart.
    """

    __slots__ = ("_expected", "_last_seq", "failed", "total")

    def __init__(self) -> None:
        self.total = 0
        self.failed = 0
        self._expected = False  # the stream was handed over
        self._last_seq = 0  # at the latest start

    def released(self) -> None:
        """Record a hand-over."""
        self._expected = True

    def started(self, last_seq: int) -> None:
        """Record a start with this number of packets in the log."""
        self.reached(last_seq)
        if not self._expected:
            self.total += 1
            self.failed += 1
        self._expected = False

    def reached(self, last_seq: int) -> None:
        """Record the number of packets in the log."""
        if last_seq > self._last_seq:
            self._last_seq = last_seq
            self.failed = 0

    def run_failed(self, last_seq: int, errors: int) -> None:
        """Record a run that failed, with so many TRANSIENT errors among its packets."""
        self.reached(last_seq - errors)
        self._last_seq = max(self._last_seq, last_seq)

    def step_ended(self) -> None:
        """Record the end of a step."""
        self.failed = 0

    @property
    def handed_over(self) -> bool:
        """True if the next start follows a hand-over."""
        return self._expected

    def may_start(self, max_failed: int) -> bool:
        """Return True if the agent may be started again."""
        return self._expected or (self.failed < max_failed and self.total < MAX_STARTS)


class Journal:
    """The steps of a stream by path, in the order in which they began, and its restarts.

    `attempt` is 1 for the first run of the agent. `span` is that of the latest run whose span is
    known, as a `traceparent` header. `voids` are the packets that a REWIND has made
    void, as pairs of numbers: those after the first and up to the second.
    """

    def __init__(self, notes: Iterable[Note] = ()) -> None:
        self.steps: dict[str, Step] = {}
        # Those that have not ended: an agent that calls steps in a loop has few of them at once.
        self._open: dict[str, Step] = {}
        self.restarts = Restarts()
        self.voids: list[tuple[int, int]] = []
        self.attempt = 1
        self.span: str | None = None
        self.count = 0
        for note in notes:
            self.add(note)

    def add(self, note: Note) -> None:
        """Add the next note.

        Raises:
            ValueError: it does not follow from the notes before it.
        """
        self.count += 1
        match note:
            case Begun():
                self.steps[note.path] = self._open[note.path] = Step(
                    note.path, note.policy, note.function, note.arguments, note.first_seq
                )
            case FirstPacket():
                self._step(note.path).first_seq = note.first_seq
            case Checkpoint():
                kept = (note.seq, self.attempt, note.value)
                self._step(note.path).checkpoints.append(kept)
            case Done():
                self._end(note)
            case Rewound():
                self._rewind(note)
            case Started():
                self.attempt = note.attempt
                self.restarts.started(note.last_seq)
            case Traced():
                self.span = note.span
            case Released():
                self.restarts.released()
            case Failed():
                self.restarts.run_failed(note.last_seq, note.errors)

    def _step(self, path: str) -> Step:
        try:
            return self.steps[path]
        except KeyError:
            raise ValueError(f"the journal has no beginning of the step {path}") from None

    def _end(self, note: Done) -> None:
        self._step(note.path).done = note
        self._open.pop(note.path, None)
        # What it has started may go on, but writes no more.
        for step in self._open_inside(note.path):
            step.done = Done(step.path, "cancelled", last_seq=note.last_seq)
            del self._open[step.path]
        self.restarts.step_ended()

    def _rewind(self, note: Rewound) -> None:
        self.voids.append((note.to_seq, note.seq))
        if (rewound := self.steps.get(note.path)) is not None:
            rewound.rewind(note.to_seq, self.attempt)
        # The step runs again and may call its steps with other arguments. Those that ended are
        # never void.
        for step in self._open_inside(note.path):
            if step.wrote_after(note.to_seq):
                del self.steps[step.path], self._open[step.path]

    def _open_inside(self, path: str) -> list[Step]:
        return [step for step in self._open.values() if is_inside(step.path, path)]

    def runs_once(self) -> bool:
        """Return True if a step runs that must not run twice."""
        return any(step.policy == "fail" for step in self._open.values())

    def has_unfinished_inside(self, path: str) -> bool:
        """Return True if a step inside the given one has not ended."""
        return bool(self._open_inside(path))

    def writers(self) -> list[str]:
        """Return the steps that have written and not ended, the outermost first."""
        wrote = [step for step in self._open.values() if step.first_seq is not None]
        return [step.path for step in sorted(wrote, key=lambda step: step.first_seq or 0)]

    def is_void(self, seq: int) -> bool:
        """Return True if a packet was made void, or is a REWIND packet."""
        return any(after < seq <= until for after, until in self.voids)

    def wrote_inside(self, path: str, seq: int) -> list[Step]:
        """Return the steps inside a step that wrote a packet with a higher number."""
        return [
            step
            for step in self.steps.values()
            if is_inside(step.path, path) and step.wrote_after(seq)
        ]


class Writers:
    """The steps that have written and not ended, the outermost first."""

    __slots__ = ("_outer", "current")

    def __init__(self, writing: Iterable[str] = ()) -> None:
        self._outer = [BODY, *writing]
        self.current = self._outer.pop()
        """The innermost step that has written and not ended, the body if there is none."""

    def may_write(self, path: str) -> bool:
        """Return True if a step, or the body, may write now."""
        return path == self.current or is_inside(path, self.current)

    def blocker(self, path: str) -> str:
        """Return the outermost step that must end before a step may write, the body if none."""
        for writer in (*self._outer, self.current):
            if writer != path and not is_inside(path, writer):
                return writer
        return BODY

    def wrote(self, path: str) -> bool:
        """Record a packet; return True if it is the first one of a step."""
        if path == self.current:
            return False
        self._outer.append(self.current)
        self.current = path
        return True

    def is_writing(self, path: str) -> bool:
        """Return True if a step, or one inside it, has written and not ended."""
        writing = (*self._outer, self.current)
        return path != BODY and any(one == path or is_inside(one, path) for one in writing)

    def ended(self, path: str) -> bool:
        """Record the end of a step and of those inside it; return True if others may write now."""
        if not self.is_writing(path):
            return False
        while self.current == path or is_inside(self.current, path):
            self.current = self._outer.pop()
        return True

    def rewound(self, path: str) -> None:
        """Forget the steps inside a step: their packets are void."""
        while is_inside(self.current, path):
            self.current = self._outer.pop()
