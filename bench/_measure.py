"""The measurements: turns, rounds, ratios and goals.

CPU time, because other processes may share the machine. The candidates run in turns, one round
after the other, each round from another candidate on; a ratio is taken within a round, so that
what slows the machine for a while slows both sides of it, and the median of the rounds counts.
The garbage collector runs before each turn and never within one.
"""

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median, quantiles
from typing import TypeAlias

__all__ = [
    "Costs",
    "Effort",
    "Goal",
    "Ratio",
    "Row",
    "Table",
    "Turn",
    "amount",
    "at_least",
    "at_most",
    "compare",
    "fact",
    "measure",
    "seconds",
    "timed",
]

Turn: TypeAlias = Callable[[], float]
"""Does its work once and returns the cost of a unit, usually in seconds of CPU."""

Costs: TypeAlias = Mapping[str, list[float]]
"""The cost of a unit in each round, by candidate."""


@dataclass(frozen=True, slots=True)
class Effort:
    """The number of rounds."""

    rounds: int

    @classmethod
    def quick(cls) -> "Effort":
        return cls(rounds=5)

    @classmethod
    def full(cls) -> "Effort":
        return cls(rounds=15)

    def fewer(self, divisor: int) -> "Effort":
        """Return a smaller effort, for a subject with long rounds."""
        return Effort(rounds=max(1, self.rounds // divisor))


def timed(work: Callable[[], int], units: int) -> Turn:
    """Make a turn of work that returns how many units it did, which must be `units`."""

    def turn() -> float:
        gc.collect()
        gc.disable()
        try:
            start = time.process_time()
            done = work()
            spent = time.process_time() - start
        finally:
            gc.enable()
        if done != units:
            raise AssertionError(f"{done} units of work were done, expected {units}")
        return spent / units

    return turn


def measure(turns: Mapping[str, Turn], effort: Effort) -> Costs:
    """Run the candidates in turns, after one turn each that does not count."""
    for turn in turns.values():
        turn()
    costs: dict[str, list[float]] = {name: [] for name in turns}
    names = list(turns)
    for number in range(effort.rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            costs[name].append(turns[name]())
    return costs


@dataclass(frozen=True, slots=True)
class Ratio:
    """The median of the rounds, and the bounds of the middle half of them."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, above: list[float], below: list[float]) -> "Ratio":
        return cls(*_quartiles([a / b for a, b in zip(above, below, strict=True)]))


def _quartiles(rounds: list[float]) -> tuple[float, float, float]:
    """Return the median, the lower quartile and the upper quartile."""
    if len(rounds) == 1:
        return rounds[0], rounds[0], rounds[0]
    low, middle, high = quantiles(rounds, n=4, method="inclusive")
    return middle, low, high


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal for a ratio or an amount."""

    words: str
    is_met: Callable[[float], bool]


def at_least(bound: float) -> Goal:
    return Goal(f"at least {bound:g}", lambda seen: seen >= bound)


def at_most(bound: float, shown: Callable[[float], str] = "{:g}".format) -> Goal:
    return Goal(f"at most {shown(bound)}", lambda seen: seen <= bound)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table; `met` is None when there is no goal."""

    what: str
    cost: str
    seen: str
    middle_half: str
    goal: str
    met: bool | None


def seconds(value: float) -> str:
    """Format a time in a suitable unit."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def compare(
    costs: Costs,
    above: str,
    below: str,
    goal: Goal | None = None,
    *,
    where: str = "",
    shown: Callable[[float], str] = seconds,
) -> Row:
    """Compare two candidates: the cost of the one over that of the other."""
    ratio = Ratio.of(costs[above], costs[below])
    return Row(
        what=f"{where}{above} : {below}",
        cost=f"{shown(median(costs[above]))} : {shown(median(costs[below]))}",
        seen=f"{ratio.median:.2f}",
        middle_half=f"{ratio.low:.2f} to {ratio.high:.2f}",
        goal="" if goal is None else goal.words,
        met=None if goal is None else goal.is_met(ratio.median),
    )


def amount(
    what: str, rounds: list[float], shown: Callable[[float], str], goal: Goal | None = None
) -> Row:
    """Make a row for a measurement without a comparison."""
    middle, low, high = _quartiles(rounds)
    return Row(
        what=what,
        cost="",
        seen=shown(middle),
        middle_half=f"{shown(low)} to {shown(high)}",
        goal="" if goal is None else goal.words,
        met=None if goal is None else goal.is_met(middle),
    )


def fact(what: str, seen: str, goal: str = "") -> Row:
    """Make a row for something that is counted, not measured."""
    return Row(
        what, cost="", seen=seen, middle_half="", goal=goal, met=seen == goal if goal else None
    )


@dataclass(frozen=True, slots=True)
class Table:
    """The results of a subject; `unit` is the unit of all costs, if they have the same."""

    title: str
    unit: str | None
    rows: list[Row]

    @property
    def missed(self) -> int:
        """The number of missed goals."""
        return sum(row.met is False for row in self.rows)

    def as_text(self) -> str:
        cells = self._cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = (
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in cells
        )
        return "\n".join((self.title, *lines))

    def as_markdown(self) -> str:
        head, *body = self._cells()
        rule = ["---"] * len(head)
        lines = (f"| {' | '.join(line)} |" for line in (head, rule, *body))
        return "\n".join((f"{self.title}.", "", *lines))

    def _cells(self) -> list[tuple[str, ...]]:
        cost = "cost" if self.unit is None else f"CPU per {self.unit}"
        head = ("compared", cost, "result", "middle half", "goal", "")
        results = {None: "", True: "met", False: "MISSED"}
        return [
            head,
            *(
                (row.what, row.cost, row.seen, row.middle_half, row.goal, results[row.met])
                for row in self.rows
            ),
        ]
