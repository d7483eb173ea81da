"""The actions that made a page, so that it can be made again without some of them. No I/O."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from rich.text import Text

from ._page import Page

__all__ = ["PageAction", "PageHistory"]

PageAction: TypeAlias = Callable[[Page], None]

_STARTS_AGAIN = "The agent was restarted. The text above is void; the answer starts again:"


class DrawnParts(Protocol):
    """The finished parts that were drawn, as a `Screen` has them."""

    def remove_from(self, part: int) -> bool:
        """Remove the parts from a number on; return False if that is not possible."""

    def restart(self) -> None:
        """Leave all parts where they are, and count them from 0 again."""


class _Done(NamedTuple):
    """An action, the packet that it belongs to, and the number of finished parts after it."""

    seq: int | None
    action: PageAction
    finished: int

    def is_void(self, to_seq: int) -> bool:
        return self.seq is not None and self.seq > to_seq


class PageHistory:
    """Changes a page, and undoes the changes of packets that become void."""

    def __init__(self, page: Page, drawn: DrawnParts) -> None:
        self._page = page
        self._drawn = drawn
        self._done: list[_Done] = []

    def do(self, seq: int | None, action: PageAction) -> None:
        """Perform an action for a packet; None if it does not belong to the answer."""
        action(self._page)
        self._done.append(_Done(seq, action, self._page.finished))

    def rewind(self, to_seq: int) -> None:
        """Make the page again without the packets after `to_seq`.

        If a part of them has scrolled away, all valid parts are drawn again, below a line that says
        so.
        """
        done = self._done
        first_void = next((n for n, each in enumerate(done) if each.is_void(to_seq)), None)
        if first_void is None:
            return
        valid = min(done[first_void - 1].finished if first_void else 0, self._page.taken)
        removed = self._drawn.remove_from(valid)
        self._done = []
        self._page.reset()
        if not removed:
            self._drawn.restart()
            self.do(None, _add_notice)
        for each in done:
            # What does not belong to the answer, such as a log line, is shown once.
            if not each.is_void(to_seq) and (removed or each.seq is not None):
                self.do(each.seq, each.action)
        if removed:
            self._page.skip(valid)


def _add_notice(page: Page) -> None:
    page.add(Text())
    page.add(Text(_STARTS_AGAIN, style="yellow"))
