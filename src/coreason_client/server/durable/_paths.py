"""The paths of steps: which call of an agent is which step of the journal. No I/O."""

from collections import Counter
from collections.abc import Hashable
from uuid import UUID, uuid5

from ...errors import ArgumentError

__all__ = ["Paths", "check_name", "derived_uuid"]

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
