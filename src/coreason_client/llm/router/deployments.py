"""`Router` and `Deployment`: several deployments behind one name."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from ..._http._checks import check_headers
from ...errors import ArgumentError
from .._argument_errors import is_number
from .._route import Wire, check_base_url, check_provider, check_wire
from ..credentials import KeyLike, check_key_like
from ..errors import LLMContextLengthError, LLMError, LLMFilteredError, LLMRequestError

__all__ = ["Deployment", "Router", "check_tags"]


@dataclass(frozen=True, slots=True)
class Deployment:
    """One place where a model runs: the model, and optionally its own URL, key and limits.

    Without `base_url` and `api_key`, the request is sent as by a client without a router: to the
    provider of the model, with the key of the client.

    Args:
        model: the model, optionally as `provider/model`.
        weight: the share of the requests, relative to the other deployments of the name. One with
            the weight 0 is used only while no other is available.
        base_url: the base URL of the provider.
        api_key: the key for `base_url`, or without one for the provider of the model; also AWS
            credentials, or a callable that returns the key.
        provider: the provider at `base_url`, if its host does not show it.
        headers: headers that are added to each request.
        requests_per_minute: the limit in every window of 60 seconds.
        tokens_per_minute: the limit in every window of 60 seconds.
        tags: words by which the `tags` of a call select deployments.
        name: the name in the state; deployments with the same name share cooldown and limits. By
            default it is made from the model, the URL and the key.
        wire: the wire format, if the provider has several: "chat" or "responses".

    Attributes:
        id: the name in the state.

    Raises:
        ValueError: an argument is invalid.
    """

    model: str
    weight: float = 1.0
    base_url: str | None = None
    api_key: KeyLike | None = field(default=None, repr=False)
    provider: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    tags: Collection[str] = ()
    name: str = ""
    wire: Wire | None = None
    id: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_name("model", self.model)
        if not is_number(self.weight) or not 0 <= self.weight < 1e9:
            raise ArgumentError("weight", "must be a number, 0 or more", self.weight)
        if self.base_url is not None:
            check_base_url(self.base_url)
        if self.provider is not None:
            check_provider(self.provider)
        check_headers(self.headers)
        if self.api_key is not None:
            check_key_like(self.api_key)
        check_wire(self.wire)
        self._check_own_place()
        for name in ("requests_per_minute", "tokens_per_minute"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise ArgumentError(name, "must be a whole number, 1 or more", value)
        check_tags(self.tags)
        object.__setattr__(self, "id", self.name or self._digest())

    def _check_own_place(self) -> None:
        if self.base_url is None and self.api_key is None:
            for name in ("provider", "headers", "wire"):
                if getattr(self, name):
                    raise ArgumentError(name, "needs base_url or api_key")

    def _digest(self) -> str:
        """Return a name that does not reveal the key."""
        key = self.api_key if isinstance(self.api_key, str) else ""
        parts = "\0".join((self.model, self.base_url or "", self.provider or "", key))
        return f"{self.model}@{sha256(parts.encode()).hexdigest()[:16]}"


class Router:
    """Selects a deployment for each attempt of a call.

    Pass it to a client as `router`; `model="fast"` of a call is then the name of a list of
    deployments. A model that is not such a name is called as without a router.

    Args:
        deployments: the deployments of each name.
        fallbacks: for a name, the names or models that are tried after all of its deployments
            failed, or at once while none of them is available.
        context_fallbacks: the same for a request that is too long for the model.
        filter_fallbacks: the same for an answer that the provider withheld.
        cooldown: the longest pause of a failing deployment, in seconds. The pause begins at one
            second and doubles with each failure in a row; a longer delay that the provider asks for
            is used instead. After a wrong key, a missing model or an exhausted quota it is ten
            times as long.

    Raises:
        ValueError: an argument is invalid.
    """

    def __init__(
        self,
        deployments: Mapping[str, Sequence[Deployment | str]],
        *,
        fallbacks: Mapping[str, Sequence[str]] | None = None,
        context_fallbacks: Mapping[str, Sequence[str]] | None = None,
        filter_fallbacks: Mapping[str, Sequence[str]] | None = None,
        cooldown: float = 30.0,
    ) -> None:
        if not _check_mapping("deployments", "must name lists of deployments", deployments):
            raise ArgumentError("deployments", "must name at least one list of deployments")
        self.deployments: Mapping[str, Sequence[Deployment]] = {
            _check_name("each name in deployments", name): _check_deployments(name, some)
            for name, some in deployments.items()
        }
        self.fallbacks = _check_fallbacks("fallbacks", fallbacks)
        self.context_fallbacks = _check_fallbacks("context_fallbacks", context_fallbacks)
        self.filter_fallbacks = _check_fallbacks("filter_fallbacks", filter_fallbacks)
        if not is_number(cooldown) or not 0 <= cooldown < 1e6:
            raise ArgumentError("cooldown", "must be a number of seconds, 0 or more", cooldown)
        self.cooldown = cooldown

    def __repr__(self) -> str:
        return f"Router({list(self.deployments)!r})"

    def models(self) -> Iterator[str]:
        """Yield the models in the fallbacks that are not names of deployments."""
        for table in (self.fallbacks, self.context_fallbacks, self.filter_fallbacks):
            for names in table.values():
                yield from (name for name in names if name not in self.deployments)


def check_tags(tags: Any) -> Collection[str]:
    """Return tags if they are a collection of words.

    Raises:
        ArgumentError: they are not.
    """
    is_collection = isinstance(tags, list | tuple | set | frozenset)
    if not is_collection or not all(isinstance(tag, str) and tag for tag in tags):
        raise ArgumentError("tags", "must be a list of words", tags)
    result: Collection[str] = tags
    return result


def _check_name(argument: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ArgumentError(argument, "must be a name", value)
    return value


def _check_mapping(argument: str, rule: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ArgumentError(argument, rule, value)
    return value


def _check_deployments(name: str, some: Any) -> Sequence[Deployment]:
    listed = some if isinstance(some, list | tuple) else ()
    made = [Deployment(one) if isinstance(one, str) else one for one in listed]
    if not made or not all(isinstance(one, Deployment) for one in made):
        raise ArgumentError(f"deployments[{name!r}]", "must be a list of deployments", some)
    if len({one.id for one in made}) < len(made):
        raise ArgumentError(
            f"deployments[{name!r}]", "must not have the same deployment twice; use weight"
        )
    return tuple(made)


def _check_fallbacks(argument: str, table: Any) -> Mapping[str, Sequence[str]]:
    checked: dict[str, Sequence[str]] = {}
    given = _check_mapping(argument, "must map names to lists of names", table or {})
    for name, names in given.items():
        if not isinstance(names, list | tuple) or not all(isinstance(one, str) for one in names):
            raise ArgumentError(f"{argument}[{name!r}]", "must be a list of names", names)
        checked[name] = tuple(names)
    return checked


# Which deployments a call may use, in which order, and which models come after them.


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
        special = None
        if isinstance(error, LLMContextLengthError):
            special = router.context_fallbacks.get(self._current)
        elif isinstance(error, LLMFilteredError):
            special = router.filter_fallbacks.get(self._current)
        if special is not None:
            return special
        return () if self._own else router.fallbacks.get(self._current, ())


def _tables(router: Router) -> tuple[Mapping[str, Sequence[str]], ...]:
    return router.fallbacks, router.context_fallbacks, router.filter_fallbacks
