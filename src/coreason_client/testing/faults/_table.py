"""The table of faults: the script of each, its options and the packets that it is made for.

A script answers one request. A fault that affects single attempts, which is the default, takes two
options besides its own: `times`, the number of attempts that are affected (1), and `every`, how
many packets more each of them receives than the one before (0). Later attempts are answered
correctly. A script marked `always` answers every attempt and takes only its own options.

The option `how` is the way in which a connection ends: `fin`, `rst`, or `end`, which is a complete
body on a connection that stays open.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, Literal, Protocol, get_args, get_origin, get_type_hints

from ...errors import ArgumentError
from ._logs import LogPlan, plain_log
from ._wire import Packet

Script = Callable[..., Awaitable[None]]
LogBuilder = Callable[..., list[Packet]]

FOREVER: Final = 10**9
"""As `times`: every attempt is affected."""


class _FaultAttempt(Protocol):
    """The part of an `Exchange` that a fault decides by."""

    options: Mapping[str, Any]

    @property
    def has_fault(self) -> bool: ...

    async def serve_rest(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its name, a sentence about it, and whether it affects every attempt."""

    name: str
    summary: str
    script: Script
    log: LogBuilder
    always: bool

    @property
    def options(self) -> list[str]:
        """The options that `FaultServer.run` accepts for this fault."""
        common = set() if self.always else {"times", "every"}
        return sorted(common | _keywords(self.script) | _keywords(self.log))

    def check(self, options: Mapping[str, Any]) -> None:
        """Refuse an option that the fault does not have, or a value that it cannot take.

        Raises:
            TypeError: the fault does not have this option.
            ArgumentError: the option does not have this value.
        """
        if unknown := sorted(set(options) - set(self.options)):
            takes = ", ".join(self.options) or "no options"
            raise TypeError(f"{self.name} takes {takes}, got {', '.join(unknown)}")
        for name, value in options.items():
            choice = _choices(self.script).get(name)
            if choice is not None and value not in choice:
                listed = ", ".join(map(repr, choice))
                raise ArgumentError(name, f"of {self.name} must be one of {listed}", value)

    def build(self, plan: LogPlan, options: Mapping[str, Any]) -> list[Packet]:
        """Build the packets of the stream."""
        return self.log(plan, **_chosen(self.log, options))

    async def play(self, attempt: _FaultAttempt) -> None:
        """Answer one request, with the fault if this attempt has it."""
        if self.always or attempt.has_fault:
            await self.script(attempt, **_chosen(self.script, attempt.options))
        else:
            await attempt.serve_rest()


FAULTS: Final[dict[str, Fault]] = {}
"""The faults by name."""


def fault(*, always: bool = False, log: LogBuilder = plain_log) -> Callable[[Script], Script]:
    """Add a script to `FAULTS` under its own name."""

    def add(script: Script) -> Script:
        name = script.__name__
        FAULTS[name] = Fault(name, (script.__doc__ or "").strip(), script, log, always)
        return script

    return add


def describe() -> dict[str, str]:
    """Return one sentence for each fault, by name."""
    return {name: fault.summary for name, fault in FAULTS.items()}


def find_fault(name: str) -> Fault:
    """Return the fault of a name.

    Raises:
        ArgumentError: there is no such fault; the message has the closest names.
    """
    if name in FAULTS:
        return FAULTS[name]
    close = get_close_matches(name, FAULTS, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else "see coreason_client.testing.FAULTS"
    raise ArgumentError("name", f"must be the name of a fault ({hint})", name)


def _keywords(function: Callable[..., object]) -> set[str]:
    parameters = inspect.signature(function).parameters.values()
    return {item.name for item in parameters if item.kind is item.KEYWORD_ONLY}


def _choices(script: Script) -> dict[str, tuple[object, ...]]:
    hints = get_type_hints(script)
    return {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}


def _chosen(function: Callable[..., object], options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in _keywords(function) & set(options)}
