"""The plans of a `ChaosProxy`: the fault of each connection, from a seed. Pure."""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from ..errors import ArgumentError

__all__ = ["ALL_FAULTS", "ChaosFault", "ChaosPlan", "ConnectionPlan", "FixedPlan"]

ChaosFault: TypeAlias = Literal["cut", "delay", "reset", "split", "stall"]

ALL_FAULTS: Final[tuple[ChaosFault, ...]] = get_args(ChaosFault)

# A client that retries three times gets through: no more than two connections in a row fail.
_WHOLE_EVERY: Final = 3
_AFTER: Final = (5, 12)  # exponents of 2: faults occur after 32 to 4,096 bytes
_MAX_PIECE: Final = 16


@dataclass(frozen=True, slots=True)
class ConnectionPlan:
    """The plan of one connection; `str()` describes it.

    Attributes:
        fault: how the connection ends: "cut" (FIN), "reset" (RST), "stall" (silence, then FIN), or
            None if it stays whole.
        after: the bytes from the server after which that happens.
        pieces: the largest size of the pieces in which the first bytes are sent; 0 does not split.
        delay: the seconds before the first byte from the server is sent.
    """

    fault: Literal["cut", "reset", "stall"] | None = None
    after: int = 0
    pieces: int = 0
    delay: float = 0.0

    def __str__(self) -> str:
        words = [f"{self.fault} after {self.after} bytes" if self.fault else "whole"]
        if self.pieces:
            words.append(f"in pieces of {self.pieces} bytes")
        if self.delay:
            words.append(f"delayed by {self.delay:.3f} s")
        return ", ".join(words)


class ChaosPlan:
    """The plans of all connections: the same for the same arguments.

    The plan of a connection depends on its number alone, not on the connections before it.
    """

    def __init__(
        self, seed: int, faults: Collection[str] = ALL_FAULTS, max_delay: float = 0.05
    ) -> None:
        if unknown := sorted(set(faults) - set(ALL_FAULTS)):
            raise ArgumentError("faults", f"must be of {', '.join(ALL_FAULTS)}", unknown[0])
        self.seed = seed
        self._endings = [name for name in ("cut", "reset", "stall") if name in faults]
        self._splits = "split" in faults
        self._max_delay = max_delay if "delay" in faults else 0.0

    def connection(self, number: int) -> ConnectionPlan:
        """Return the plan of a connection, counted from 1."""
        draw = random.Random(f"{self.seed}:{number}")
        # All numbers are drawn in any case, so that `faults` changes nothing else of a plan.
        ending, after = draw.random(), int(2 ** draw.uniform(*_AFTER))
        split, piece = draw.random(), draw.randint(1, _MAX_PIECE)
        late, delay = draw.random(), round(draw.random() * self._max_delay, 3)
        fails = self._endings and number % _WHOLE_EVERY != 0
        return ConnectionPlan(
            fault=self._endings[int(ending * len(self._endings))] if fails else None,  # type: ignore[arg-type]
            after=after if fails else 0,
            pieces=piece if self._splits and split < 0.5 else 0,
            delay=delay if late < 0.3 else 0.0,
        )


class FixedPlan:
    """Plans that were given one by one; connections after the last one stay whole."""

    def __init__(self, plans: Sequence[ConnectionPlan]) -> None:
        self._plans = tuple(plans)

    def connection(self, number: int) -> ConnectionPlan:
        """Return the plan of a connection, counted from 1."""
        return self._plans[number - 1] if number <= len(self._plans) else ConnectionPlan()
