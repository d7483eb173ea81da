"""`Routing`: the router, the budgets and the state of one client; makes the gate of each call."""

import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...errors import ArgumentError
from .._attempts import Attempts
from .._call import ModelCall
from .._continuation import check_resume
from .._embed import EmbedPlan
from .._plan import CallPlan
from .._route import ModelRoute, Target, provider_prefix
from ..errors import LLMRequestError
from ._cached_answer import CachedAnswer
from ._call_gate import CallGate, Option, Stage, Terms
from ._state import MemoryState, RouterState
from .budgets import Budget, check_budgets
from .cache import ResponseCache
from .deployments import Deployment, Fallbacks, Router, check_tags, select, weighted_order


class Routing:
    """The router, the budgets and the state of one client.

    `route` returns the route of a model that has no deployment.

    Raises:
        ArgumentError: an argument is invalid.
        LLMError: a deployment or a fallback has no key or no base URL.
    """

    def __init__(
        self, router: Any, budgets: Any, cache: Any, state: Any, route: Callable[[str], ModelRoute]
    ) -> None:
        if router is not None and not isinstance(router, Router):
            raise ArgumentError("router", "must be a Router", router)
        if state is not None and not isinstance(state, RouterState):
            raise ArgumentError("state", "must be a MemoryState or a ValkeyState", state)
        if cache is not None and not isinstance(cache, ResponseCache):
            raise ArgumentError("cache", "must be a ResponseCache", cache)
        self.router: Router | None = router
        self.cache: ResponseCache | None = cache
        self.budgets: Sequence[Budget] = check_budgets(budgets)
        self.state: RouterState = MemoryState() if state is None else state
        self._route = route
        self._routes: Mapping[str, ModelRoute] = {}
        self._random = random.random
        self._wall = time.time
        if router is not None:
            self._routes = {
                one.id: self._deployment_route(one)
                for some in router.deployments.values()
                for one in some
            }
            for model in router.models():  # a missing key is found now, not in an emergency
                route(model)

    def gate(
        self,
        call: ModelCall,
        fallbacks: Sequence[str] = (),
        budget_key: str | None = None,
        tags: Collection[str] = (),
    ) -> CallGate[CallPlan] | None:
        """Return the gate of a call, None if nothing has to be decided.

        `call.model` is the name that the caller used.

        Raises:
            LLMRequestError: an argument of the call is wrong.
        """
        router = self.router
        _check_tags(tags)
        if router is None and not self.budgets and not tags:
            return None
        if tags and (router is None or call.model not in router.deployments):
            raise LLMRequestError(
                f"tags select deployments of a router, but the router has none for {call.model!r}"
            )
        for name in fallbacks:
            if router is None or name not in router.deployments:
                self._route(name)
        if call.resume:
            for one in self._open_stage(call, tags, call.model).options:
                check_resume(call, one.route)
        terms = self._terms(budget_key)
        open_stage = partial(self._open_stage, call, tags)
        usable = partial(self._has_tags, tags)
        names = Fallbacks(call.model, router, fallbacks, usable)
        return CallGate(call.model, open_stage, names, terms)

    def embed_gate(self, plan: EmbedPlan, budget_key: str | None) -> CallGate[EmbedPlan] | None:
        """Return the gate of a request for embeddings, None if there is no budget.

        Raises:
            LLMRequestError: an argument of the call is wrong.
        """
        if not self.budgets:
            return None
        name = plan.requested_model
        option = Option(None, plan.route, lambda: plan)
        stage = Stage(name, [option], option)
        return CallGate(name, lambda _: stage, Fallbacks(name, None, ()), self._terms(budget_key))

    def cached_answer(
        self, attempts: Attempts[CallPlan], budget_key: str | None, parse_as: Any
    ) -> CachedAnswer | None:
        """Return the answer of a call in the cache, None if there is no cache."""
        if self.cache is None:
            return None
        return CachedAnswer(self.cache, self.state, attempts, budget_key, parse_as)

    def _terms(self, budget_key: str | None) -> Terms:
        for budget in self.budgets:
            budget.account(budget_key, 0.0)  # raises if the key is missing
        cooldown = 0.0 if self.router is None else self.router.cooldown
        return Terms(self.state, self.budgets, budget_key, cooldown, self._wall)

    def _open_stage(self, call: ModelCall, tags: Collection[str], name: str) -> Stage[CallPlan]:
        """Return a stage with its options in random order.

        Raises:
            LLMRequestError: it has no deployment with these tags.
        """
        if self.router is None or name not in self.router.deployments:
            option = _option(call, None, self._route(name), name)
            return Stage(name, [option], option)
        found = select(name, self.router.deployments[name], tags)
        options = {one.id: _option(call, one, self._routes[one.id], one.model) for one in found}
        order = weighted_order(found, self._random)
        return Stage(name, [options[one.id] for one in order], options[found[0].id])

    def _has_tags(self, tags: Collection[str], name: str) -> bool:
        """Return True if a name has a deployment with these tags; a plain model has no tags."""
        if not tags:
            return True
        some = () if self.router is None else self.router.deployments.get(name, ())
        return any(set(tags) <= set(one.tags) for one in some)

    def _deployment_route(self, deployment: Deployment) -> ModelRoute:
        base_url, key, model = deployment.base_url, deployment.api_key, deployment.model
        if base_url is None and key is None:
            return self._route(model)
        provider = deployment.provider
        if base_url is None and provider is None:  # the key belongs to the provider of the model
            provider = provider_prefix(model)
        headers, wire = dict(deployment.headers), deployment.wire
        return Target(base_url, key, {}, provider, headers, wire).route(model)


def _option(
    call: ModelCall, deployment: Deployment | None, route: ModelRoute, model: str
) -> Option[CallPlan]:
    def make_plan() -> CallPlan:
        own = call if route.model == call.model else replace(call, model=route.model)
        return CallPlan(own, route, model)

    return Option(deployment, route, make_plan, "" if deployment is None else deployment.id)


def _check_tags(tags: Any) -> None:
    if tags:
        try:
            check_tags(tags)
        except ArgumentError as error:
            raise LLMRequestError(str(error), argument_error=error) from None
