"""Which deployments a call may use, in which order, and which models come after them. Pure."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ..errors import LLMContextLengthError, LLMError, LLMFilteredError, LLMRequestError
from .deployments import Deployment, Router

__all__ = ["Fallbacks", "select", "weighted_order"]


def select(
    name: str, deployments: Sequence[Deployment], tags: Collection[str]
) -> Sequence[Deployment]:
    """Return the deployments that have all tags.

    Raises:
        LLMRequestError: there is none.
    """
    if not tags:
        return deployments
    found = [one for one in deployments if set(tags) <= set(one.tags)]
    if not found:
        words = ", ".join(sorted(tags))
        raise LLMRequestError(f"no deployment of {name!r} has all of these tags: {words}")
    return found


def weighted_order(
    deployments: Iterable[Deployment], random: Callable[[], float]
) -> list[Deployment]:
    """Return deployments in random order; the chance to be first is proportional to the weight.

    Those with the weight 0 are last.
    """

    def rank(deployment: Deployment) -> tuple[bool, float]:
        # The first of exponential variables with these rates is each with that chance.
        draw = -math.log(1.0 - random())
        return deployment.weight == 0, draw / (deployment.weight or 1.0)

    return sorted(deployments, key=rank)


class Fallbacks:
    """The names that are tried after a failure; each is tried once.

    `usable` returns False for a name that the call may not use.
    """

    def __init__(
        self,
        first: str,
        router: Router | None,
        own: Sequence[str],
        usable: Callable[[str], bool] = lambda name: True,
    ) -> None:
        self._current = first
        self._tried = {first}
        self._queue: list[str] = list(own)
        self._router = router
        self._usable = usable
        self._own = bool(own)  # the call has its own fallbacks, which replace those of its model

    def next(self, error: LLMError) -> str | None:
        """Return the next name after an error, None if there is none."""
        self._queue = [*self._names_after(error), *self._queue]
        while self._queue:
            name = self._queue.pop(0)
            if name not in self._tried and self._usable(name):
                self._tried.add(name)
                self._current, self._own = name, False
                return name
        return None

    def exist(self, error: LLMError) -> bool:
        """Return True if there is another name after this error."""
        names = {*self._names_after(error), *self._queue} - self._tried
        return any(map(self._usable, names))

    def reachable(self) -> int:
        """Return the number of names that a call may try."""
        if self._router is None:
            return len({self._current, *self._queue})
        found, pending = {self._current, *self._queue}, [self._current, *self._queue]
        while pending:
            name = pending.pop()
            for table in _tables(self._router):
                new = [one for one in table.get(name, ()) if one not in found]
                found.update(new)
                pending += new
        return len(found)

    def _names_after(self, error: LLMError) -> Sequence[str]:
        router = self._router
        if router is None:
            return ()
        if isinstance(error, LLMContextLengthError):
            special = router.context_fallbacks.get(self._current)
        elif isinstance(error, LLMFilteredError):
            special = router.filter_fallbacks.get(self._current)
        else:
            special = None
        if special is not None:
            return special
        return () if self._own else router.fallbacks.get(self._current, ())


def _tables(router: Router) -> tuple[Mapping[str, Sequence[str]], ...]:
    return router.fallbacks, router.context_fallbacks, router.filter_fallbacks
