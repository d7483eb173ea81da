"""The commands of the state, and their replies. Plain data, so that they can be sent to Valkey.

Times are whole milliseconds and amounts are whole nanodollars, so sums are exact in Python and in
the scripts of Valkey.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = [
    "NANODOLLARS",
    "Account",
    "Acquire",
    "Acquired",
    "Candidate",
    "Delayed",
    "Granted",
    "Learned",
    "Refused",
    "Settle",
]

NANODOLLARS = 1_000_000_000  # in a dollar


@dataclass(frozen=True, slots=True)
class Account:
    """The account of a budget in one period; `ends` is the end of the period in ms since 1970."""

    name: str
    limit: int
    ends: int | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A deployment that may get the request, with the amount to reserve in each account."""

    deployment: str
    tokens: int = 0
    amounts: tuple[int, ...] = ()
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class Acquire:
    """Reserve money and capacity for one attempt, at the first candidate that has capacity.

    Repeating the command has no further effect. A reservation that is not settled within `ms`
    milliseconds counts as spent.
    """

    id: str
    candidates: Sequence[Candidate]
    accounts: Sequence[Account]
    ms: int


@dataclass(frozen=True, slots=True)
class Granted:
    """The attempt may be sent to the candidate at this index."""

    index: int


@dataclass(frozen=True, slots=True)
class Delayed:
    """No candidate has capacity; the first one has it after so many milliseconds."""

    ms: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The account at this index does not have the amount; nothing was reserved."""

    account: int
    spent: int
    reserved: int


Acquired: TypeAlias = Granted | Delayed | Refused


@dataclass(frozen=True, slots=True)
class Learned:
    """A limit that a provider reported: so many requests or tokens remain.

    `missing` is the number that returns evenly until the limit is reset in `ms` milliseconds.
    """

    kind: Literal["requests", "tokens"]
    remaining: int
    missing: int
    ms: int


@dataclass(frozen=True, slots=True)
class Settle:
    """Settle a reservation: replace the reserved amounts and tokens by the real ones.

    None means that the real ones are not known: the reserved ones count. `success` ends a series of
    failures. A failure begins a cooldown of `cooldown` milliseconds, or with None of a second that
    doubles with each failure in a row, up to `longest`. Repeating the command has no effect.
    """

    id: str
    candidate: Candidate
    accounts: Sequence[Account]
    amounts: tuple[int | None, ...] | None = None
    tokens: int | None = None
    outcome: Literal["success", "failure", "neutral"] = "neutral"
    cooldown: int | None = None
    longest: int = 0
    learned: Sequence[Learned] = ()
