"""The core that both clients share: checked arguments, routes and attempts. No I/O."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from .._drive import Flow
from .._http._checks import check_headers
from ..errors import ArgumentError
from ._answer import Tokens
from ._argument_errors import invalid, unknown_option
from ._attempts import BACKOFF, AnyResponse, Attempts, Policy
from ._call import DEFAULT_MODEL, KEEP_INVALID_CALLS, ModelCall
from ._check_call import check_budget_key, check_call, check_flag, check_on_break
from ._continuation import accepts_prefix, check_resume, has_background
from ._cost import DeferredPrice, cost, prices_loaded
from ._limits import PlanT, RateLimits
from ._pacing import Paces
from ._plan import CallPlan, SidePlan
from ._reply import generate_flow
from ._route import (
    ModelRoute,
    Target,
    Wire,
    check_base_url,
    check_by_provider,
    check_provider,
    check_wire,
)
from .credentials import KeyLike, check_key_like
from .errors import LLMRequestError
from .observe._observation import Observation
from .types import CallOptions, OnBreak, Response

if TYPE_CHECKING:
    from ._embed import EmbedPlan
    from .observe.hooks import RequestHook, ResponseHook
    from .observe.telemetry import Telemetry
    from .router._cached_answer import CachedAnswer
    from .router._call_gate import CallGate
    from .router._routing import Routing
    from .router._state import RouterState
    from .router.budgets import Budget
    from .router.cache import ResponseCache
    from .router.deployments import Router

_MAX_ROUTES = 256
_OPTIONS = frozenset(CallOptions.__annotations__)
_WAIT_ALLOWANCE = 60.0  # seconds for waits, in the default deadline


class ClientCore:
    """Turns the arguments of a call into the attempts to send it.

    `AsyncLLMClient` describes the arguments.

    Raises:
        ValueError: an argument is invalid.
    """

    _last_policy: tuple[tuple[object, ...], Policy] | None = None

    def __init__(
        self,
        api_key: KeyLike | None = None,
        base_url: str | None = None,
        default_model: str = DEFAULT_MODEL,
        timeout: float = 60.0,
        max_retries: int = 3,
        *,
        deadline: float | None = None,
        keys: Mapping[str, KeyLike] | None = None,
        base_urls: Mapping[str, str] | None = None,
        provider: str | None = None,
        wire: Wire | None = None,
        headers: Mapping[str, str] | None = None,
        first_wait: float = 1.0,
        max_concurrency: int | None = None,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        router: "Router | None" = None,
        budgets: "Budget | Sequence[Budget] | None" = None,
        cache: "ResponseCache | None" = None,
        state: "RouterState | None" = None,
        telemetry: "Telemetry | bool | None" = None,
        on_request: "RequestHook | None" = None,
        on_response: "ResponseHook | None" = None,
    ) -> None:
        self.base_url = None if base_url is None else check_base_url(base_url)
        self.default_model = check_model_name("default_model", default_model)
        self.timeout = _positive_number("timeout", timeout)
        self.max_retries = _whole_number("max_retries", max_retries, 0)
        self.deadline = None if deadline is None else _positive_number("deadline", deadline)
        self._target = _target(self.base_url, api_key, provider, headers, wire, keys, base_urls)
        self._backoff = replace(BACKOFF, first=_positive_number("first_wait", first_wait))
        self._limits, self._paces = _limits(requests_per_minute, tokens_per_minute), Paces()
        self._routes: dict[str, ModelRoute] = {}
        self._observation = Observation(telemetry, on_request, on_response)
        self._routing = _new_routing(router, budgets, cache, state, self._route)
        self._connect(_optional_number("max_concurrency", max_concurrency))

    def __repr__(self) -> str:
        name, model = type(self).__name__, str(self.default_model)
        return f"{name}(base_url={self.base_url!r}, default_model={model!r})"

    def accepts_prefix(self, model: str = DEFAULT_MODEL) -> bool:
        """Return True if a model can continue the beginning of an answer.

        The beginning is the last message: `{"role": "assistant", "content": …, "prefix": True}`.

        Raises:
            LLMRequestError: the model has no name, or its provider no base URL.
            LLMAuthenticationError: there is no key.
        """
        route = self._route(self._model_or_default(model))
        return accepts_prefix(route.profile, route.model)

    def _connect(self, max_concurrency: int | None) -> None:
        """Create the connections of the client."""

    def _returned(self, response: AnyResponse) -> AnyResponse:
        """Return a response as the client returns it."""
        return response

    def _attempts(
        self,
        messages: Any,
        model: Any,
        tools: Any,
        temperature: Any,
        max_tokens: Any,
        options: dict[str, Any],
        response_format: Any = None,
        *,
        stream: bool = False,
    ) -> Attempts[CallPlan]:
        """Check the arguments of a call and return the attempts to send it.

        Raises:
            LLMRequestError: an argument is wrong.
            LLMAuthenticationError: there is no key.
            TypeError: there is no such option.
        """
        own = take_own_options(options) if options else NO_OPTIONS
        call = check_call(
            messages,
            self._model_or_default(model),
            tools,
            temperature,
            max_tokens,
            response_format=response_format,
            stream=stream,
            keep_invalid_calls=own.keep_invalid_calls,
            **options,
        )
        return self._attempts_of(call, own)

    def _attempts_of(self, call: ModelCall, own: "_OwnOptions") -> Attempts[CallPlan]:
        reask = own.reask and (not call.stream or own.on_break == "restart")
        if self._routing is not None:
            fallbacks = _check_fallbacks(own.fallbacks)
            gate = self._routing.gate(call, fallbacks, own.budget_key, own.tags)
            if gate is not None:
                models = gate.fallbacks.reachable()
                return self._new_attempts(
                    [gate.plan], models, on_break=own.on_break, reask=reask, gate=gate
                )
        elif own.tags:
            raise LLMRequestError("tags select deployments of a router, but there is no router")
        if call.resume:
            check_resume(call, self._route(call.model))
        plans = self._plans(call, own.fallbacks)
        return self._new_attempts(plans, on_break=own.on_break, reask=reask)

    def _background_attempts(
        self, response_id: Any, model: Any, response_format: Any
    ) -> Attempts[CallPlan]:
        """Return the attempts to read a background response.

        Raises:
            LLMRequestError: an argument is wrong, or the provider has no background responses.
            LLMAuthenticationError: there is no key.
        """
        if not isinstance(response_id, str) or not response_id:
            raise invalid("response_id", "must be the id of a background response", response_id)
        messages, own = [{"role": "user", "content": response_id}], {"reask": False}
        attempts = self._attempts(messages, model, None, None, None, own, response_format)
        route = attempts.plan.route
        if not has_background(route.profile):
            raise route.error(
                LLMRequestError,
                f"{route.profile.name} has no background responses in this format: create the "
                'client with wire="responses", for a provider that has them',
            )
        attempts.plan = attempts.plan.polled(response_id)
        return attempts

    def _flow(
        self, attempts: Attempts[CallPlan], response_format: Any, options: CallOptions
    ) -> Flow[Response]:
        """Return the flow of `generate`, which may look for the answer in the cache first."""
        flow = generate_flow(attempts, response_format)
        cached = self._cached_answer(attempts, response_format, options)
        return flow if cached is None else cached.flow(flow)

    def _cached_answer(
        self, attempts: Attempts[CallPlan], response_format: Any, options: CallOptions
    ) -> "CachedAnswer | None":
        """Return the answer of a call in the cache, None if no cache is used."""
        if self._routing is None or not options.get("cache", True):
            return None
        return self._routing.cached_answer(attempts, options.get("budget_key"), response_format)

    def _price(self, model: str, tokens: Tokens) -> float | None:
        """Return the price of tokens; without a call before, this loads the price table."""
        route = self._route(model)
        return cost(route.profile.prices, route.model, tokens)

    def _model_or_default(self, model: Any) -> Any:
        return self.default_model if model is DEFAULT_MODEL else model

    def _plans(self, call: ModelCall, fallbacks: Any) -> Sequence[CallPlan]:
        plans: tuple[CallPlan, ...] = (self._plan(call, call.model),)
        if fallbacks:
            plans += tuple(self._plan(call, name) for name in _check_fallbacks(fallbacks))
        if not prices_loaded():
            deferred = DeferredPrice()
            for plan in plans:
                plan.pricing = deferred
        return plans

    def _plan(self, call: ModelCall, model: str) -> CallPlan:
        route = self._route(model)
        if route.model != call.model:
            call = replace(call, model=route.model)
        return CallPlan(call, route, model)

    def _route(self, model: str) -> ModelRoute:
        route = self._routes.get(model)
        if route is None:
            if len(self._routes) >= _MAX_ROUTES:
                self._routes.clear()
            route = self._routes[model] = self._target.route(model)
        return route

    def _embed_plans(
        self, texts: Any, model: Any, dimensions: Any, extra: Any
    ) -> "list[EmbedPlan]":
        """Return the requests for embeddings, each with as many texts as the provider accepts.

        Raises:
            LLMRequestError: an argument is wrong, or the provider has no embeddings.
            LLMAuthenticationError: there is no key.
        """
        from ._embed import EmbedPlan, check_embed, embed_format  # most programs do not need them

        call = check_embed(texts, model, dimensions, extra)
        route = self._route(call.model)
        size = embed_format(route).texts_per_request(route.model)
        parts = [call.texts[start : start + size] for start in range(0, len(call.texts), size)]
        plans = [
            EmbedPlan(replace(call, model=route.model, texts=part), route, call.model)
            for part in parts
        ]
        if not prices_loaded():
            for plan in plans:
                plan.pricing = DeferredPrice()
        return plans

    def _embed_attempts(
        self, plans: "Sequence[EmbedPlan]", budget_key: str | None
    ) -> "Attempts[EmbedPlan]":
        """Return the attempts to send the requests for embeddings.

        Raises:
            LLMRequestError: `budget_key` is wrong, or a budget needs one.
        """
        key = check_budget_key(budget_key)
        gate = None if self._routing is None else self._routing.embed_gate(plans[0], key)
        return self._new_attempts(plans[:1], len(plans), gate=gate)

    def _models_plan(self, provider: Any) -> SidePlan:
        """Return the request for the models of a provider, None for that of the default model.

        Raises:
            LLMRequestError: there is no such provider, or the base URL belongs to another one.
            LLMAuthenticationError: there is no key.
        """
        from ._models import models_plan  # most programs do not need it

        if provider is None:
            return models_plan(self._route(self.default_model))
        try:
            route = self._route(f"{check_provider(provider)}/models")
        except ArgumentError as error:
            raise LLMRequestError(str(error), argument_error=error) from None
        if route.profile.name != provider:
            raise route.profile.rejected(
                f"the base URL belongs to {route.profile.name}: create a client for {provider}"
            )
        return models_plan(route)

    def _new_attempts(
        self,
        plans: Sequence[PlanT],
        requests: int = 0,
        *,
        on_break: OnBreak = "error",
        reask: bool = True,
        gate: "CallGate[PlanT] | None" = None,
    ) -> Attempts[PlanT]:
        """Return the attempts for plans; `requests` is their number, if there will be others."""
        policy = self._policy(requests or len(plans), on_break, reask)
        attempts = Attempts(plans, policy, gate)
        attempts.observer = self._observation.observer(plans[0])
        return attempts

    def _policy(self, requests: int, on_break: OnBreak, reask: bool) -> Policy:
        """Return the policy of a call; nearly all calls of a client have the same one."""
        own = self.timeout, self.max_retries, self.deadline, self._limits
        chosen = (*own, requests, on_break, reask)
        if self._last_policy is not None and self._last_policy[0] == chosen:
            return self._last_policy[1]
        count = (self.max_retries + 1) * requests
        deadline = self.deadline or count * self.timeout + _WAIT_ALLOWANCE
        limits = self._backoff, self._limits
        policy = Policy(
            self.timeout, self.max_retries, deadline, *limits, on_break, reask, self._paces
        )
        self._last_policy = chosen, policy
        return policy


# Requests that are not for an answer.


def side_route(client: ClientCore, model: Any) -> ModelRoute:
    """Return the route of a model for a batch, a file or a count.

    Raises:
        LLMRequestError: the model has no name, or is one of the router.
        LLMAuthenticationError: there is no key.
    """
    name = client._model_or_default(model)
    if not isinstance(name, str) or not name.strip():
        raise invalid("model", "must be the name of a model", name)
    router = None if client._routing is None else client._routing.router
    if router is not None and name in router.deployments:
        raise LLMRequestError(f"model {name!r} is a name of the router: pass a model itself")
    return client._route(name)


class _OwnOptions(NamedTuple):
    """The options of a call that are not part of its request."""

    fallbacks: Any = ()
    tags: Any = ()
    budget_key: str | None = None
    on_break: OnBreak = "error"
    reask: bool = True
    keep_invalid_calls: bool = False


NO_OPTIONS = _OwnOptions()
_OWN = frozenset({*_OwnOptions._fields, "cache"})


def take_own_options(options: dict[str, Any]) -> _OwnOptions:
    """Check the names of all options, and remove those that are not part of the request.

    Raises:
        LLMRequestError: a value is wrong.
        TypeError: there is no such option.
    """
    keep_invalid_calls = options.pop(KEEP_INVALID_CALLS, False)
    if not options.keys() <= _OPTIONS:
        raise unknown_option(options.keys() - _OPTIONS, _OPTIONS)
    if options.keys().isdisjoint(_OWN):  # as in every turn of a run
        return _OwnOptions(keep_invalid_calls=keep_invalid_calls)
    fallbacks, tags = options.pop("fallbacks", ()), options.pop("tags", ())
    budget_key = check_budget_key(options.pop("budget_key", None))
    check_flag("cache", options.pop("cache", True))
    on_break = check_on_break(options.pop("on_break", "error"))
    reask = check_flag("reask", options.pop("reask", True))
    return _OwnOptions(fallbacks, tags, budget_key, on_break, reask, keep_invalid_calls)


def _target(
    base_url: str | None,
    api_key: KeyLike | None,
    provider: str | None,
    headers: Mapping[str, str] | None,
    wire: Wire | None,
    keys: Mapping[str, KeyLike] | None,
    base_urls: Mapping[str, str] | None,
) -> Target:
    check_headers(headers or {})
    return Target(
        base_url,
        None if api_key is None else check_key_like(api_key),
        check_by_provider("keys", keys, check_key_like),
        None if provider is None else check_provider(provider),
        dict(headers or {}),
        check_wire(wire),
        check_by_provider("base_urls", base_urls, check_base_url),
    )


def _new_routing(
    router: Any, budgets: Any, cache: Any, state: Any, route: Callable[[str], ModelRoute]
) -> "Routing | None":
    """Return the router, budgets, cache and state of a client, None if it has none."""
    if router is None and budgets is None and cache is None and state is None:
        return None
    from .router._routing import Routing  # most programs do not need it

    return Routing(router, budgets, cache, state, route)


def _limits(requests: float | None, tokens: float | None) -> RateLimits | None:
    for name, limit in (("requests_per_minute", requests), ("tokens_per_minute", tokens)):
        if limit is not None:
            _positive_number(name, limit)
    return None if requests is None and tokens is None else RateLimits(requests, tokens)


def _check_fallbacks(fallbacks: Any) -> Sequence[str]:
    if not isinstance(fallbacks, list | tuple) or not all(isinstance(f, str) for f in fallbacks):
        raise invalid("fallbacks", "must be a list of model names", fallbacks)
    return fallbacks


def _positive_number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise ArgumentError(name, "must be a number greater than 0", value)
    return value


def _whole_number(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(name, f"must be a whole number, {least} or more", value)
    return value


def _optional_number(name: str, value: Any) -> int | None:
    return None if value is None else _whole_number(name, value, 1)


def check_model_name(name: str, value: Any) -> str:
    """Return the value if it is the name of a model; `name` is the argument.

    Raises:
        ArgumentError: it is not.
    """
    if not isinstance(value, str) or not value.strip():
        raise ArgumentError(name, "must be the name of a model", value)
    return value
