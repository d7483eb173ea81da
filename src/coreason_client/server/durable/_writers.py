"""The order of writers: which step may write to a stream now. No I/O.

A step that has written is the only writer until it ends, so the packets of a step are one range in
the log. Only the steps inside it may write meanwhile, under the same rule.
"""

from collections.abc import Iterable

from ._journal import BODY, is_inside

__all__ = ["Writers"]


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
