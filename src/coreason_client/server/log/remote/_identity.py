"""The server that a log talks to: whether it is still the same one.

A replica that was promoted, and a server that was restarted, may show an earlier state of the
store. When one connection finds another server than before, or a server that is no longer a
primary, all others are opened again: they would read what a lagging replica still shows.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

__all__ = ["ServerIdentity"]

logger = logging.getLogger("coreason_client.server")


class ServerIdentity:
    """The server of one event loop; `generation` changes when connections must be opened again.

    `changes` is how often it was another server than before, or had been restarted; the functions
    `on_another` are called each time. `shown` is its address, without credentials.
    """

    def __init__(self, shown: str, on_another: Sequence[Callable[[], None]] = ()) -> None:
        self.shown = shown
        self.generation = 0
        self.changes = 0
        self._on_another = on_another
        self._loop = asyncio.get_running_loop()
        self._identity: object = None
        self._changed_at: float | None = None
        self._listeners: list[Callable[[], None]] = []

    @property
    def identity(self) -> object:
        """What tells the server from another one, None if it is not known yet."""
        return self._identity

    def listen(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` when all connections must be opened again."""
        self._listeners.append(on_change)

    def identify(self, identity: object) -> None:
        """Compare the server with the one that was seen before; None means unknown."""
        known, self._identity = self._identity, identity or self._identity
        if identity is None or known in (None, identity):
            return
        self.changes += 1
        self._changed_at = self._loop.time()
        for report in self._on_another:
            report()
        logger.warning(
            "the store %s is another server than before, or was restarted; it may have lost its "
            "latest state",
            self.shown,
        )
        self.demoted()

    def demoted(self) -> None:
        """Open all connections again: the server may no longer be the primary."""
        self.generation += 1
        for on_change in self._listeners:
            on_change()

    def changed_within(self, seconds: float) -> bool:
        """Return True if another server became the primary less than so many seconds ago."""
        return self._changed_at is not None and self._loop.time() - self._changed_at < seconds
