"""The AI client: one interface for every provider."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, Unpack
from weakref import finalize

from .._closing_async import AsyncClosing
from .._drive_async import drive_async, run_async
from .._http._checks import check_headers, check_key
from ..errors import ArgumentError, MissingExtraError
from ._answer import Tokens
from ._answer_machine import AnswerMachine
from ._attempts import BACKOFF, Attempts, Policy
from ._call import Call
from ._check_call import check_call
from ._continuation import accepts_prefix
from ._cost import cost
from ._generate import generate_flow
from ._limits import Limits
from ._plan import Plan
from ._price_table import DeferredPrice, load_prices, prices_loaded
from ._route import Route, Target, check_base_url, check_provider, known_host
from .errors import LLMConnectionError, LLMError, LLMRequestError
from .providers.profiles import PROFILES
from .streams import LLMStream
from .types import CallOptions, Delta, Response, UsageDelta

if TYPE_CHECKING:
    from ._session import Session, Sessions
    from .settings import Configuration

__all__ = ["DEFAULT_MODEL", "LLMClient", "generate", "generate_sync", "stream"]


class _DefaultModel(str):
    """A separate type, so that the default is distinct from equal text passed by a caller."""

    __slots__ = ()


DEFAULT_MODEL: str = _DefaultModel("gpt-4-turbo")
"""The model of calls without `model`, unless the variable `DEFAULT_MODEL` sets another one."""

_MAX_ANSWER_BYTES = 64 * 1024 * 1024
_MAX_ROUTES = 256
_WAIT_ALLOWANCE = 60.0  # seconds for waits, in the default deadline


class LLMClient(AsyncClosing):
    """A client for the models of any provider; it keeps only connections between calls.

    Args:
        api_key: the key for `base_url`; it is never sent anywhere else.
        base_url: the base URL of the provider; without one, the model selects the provider.
        default_model: the model of calls without `model`.
        timeout: seconds for one attempt.
        max_retries: retries for each model.
        deadline: seconds for a whole call with its retries, waits and fallbacks. The default
            allows every attempt to time out, and a minute of waits.
        keys: keys of other providers, by provider name, for models such as `anthropic/…` and for
            fallbacks.
        provider: the provider at `base_url`, if its host does not show it.
        headers: headers that are added to each request to `base_url`.
        first_wait: seconds before the first retry; each further wait is twice as long.
        max_concurrency: the maximum number of calls at a time; further calls wait.
        requests_per_minute: the limit in every window of 60 seconds.
        tokens_per_minute: the limit in every window of 60 seconds.

    Raises:
        ValueError: an argument is invalid.
    """

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        default_model: str = DEFAULT_MODEL,
        timeout: float = 60.0,
        max_retries: int = 3,
        *,
        deadline: float | None = None,
        keys: Mapping[str, str] | None = None,
        provider: str | None = None,
        headers: Mapping[str, str] | None = None,
        first_wait: float = 1.0,
        max_concurrency: int | None = None,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
    ) -> None:
        self.base_url = None if base_url is None else check_base_url(base_url)
        self.default_model = _model_name("default_model", default_model)
        self.timeout = _positive_number("timeout", timeout)
        self.max_retries = _whole_number("max_retries", max_retries, 0)
        self.deadline = None if deadline is None else _positive_number("deadline", deadline)
        if max_concurrency is not None:
            _whole_number("max_concurrency", max_concurrency, 1)
        check_headers(headers or {})
        self._target = Target(
            self.base_url,
            None if api_key is None else check_key(api_key),
            {
                check_provider(name, "each name in keys"): check_key(key, name)
                for name, key in (keys or {}).items()
            },
            None if provider is None else check_provider(provider),
            dict(headers or {}),
        )
        self._backoff = replace(BACKOFF, first=_positive_number("first_wait", first_wait))
        self._limits = _limits(requests_per_minute, tokens_per_minute)
        self._routes: dict[str, Route] = {}
        self._sessions = sessions = _sessions(max_concurrency)
        # A client that is garbage-collected without being closed closes its connections silently.
        self._abandon = finalize(self, sessions.abandon)
        self._abandon.atexit = False

    @classmethod
    def from_env(cls, **options: Any) -> Self:
        """Create a client from the environment and `.env`; `options` take precedence.

        Raises:
            LLMRequestError: a variable has an invalid value.
        """
        configuration = _read_configuration()
        return cls(
            **_arguments(configuration, options.get("base_url", configuration.base_url)) | options
        )

    def __repr__(self) -> str:
        return f"LLMClient(base_url={self.base_url!r}, default_model={str(self.default_model)!r})"

    async def generate(
        self,
        messages: Sequence[Mapping[str, Any]],
        model: str = DEFAULT_MODEL,
        tools: Sequence[Mapping[str, Any]] | None = None,
        temperature: float = 0.7,
        max_tokens: int = 2000,
        *,
        tool_choice: str | Mapping[str, Any] | None = None,
        response_format: Any = None,
        stop: str | Sequence[str] | None = None,
        fallbacks: Sequence[str] = (),
        extra: Mapping[str, Any] | None = None,
    ) -> Response:
        """Send messages to a model and return its answer as the standard response object.

        Args:
            messages: the conversation; each message has a `role` and `content`.
            model: the model, optionally as `provider/model`.
            tools: the functions that the model may call, in the format of OpenAI.
            temperature: the sampling temperature, 0 to 1.
            max_tokens: the maximum length of the answer.
            tool_choice: "auto", "none", "required", or one function in the format of OpenAI.
            response_format: a JSON schema or a pydantic model for the answer.
            stop: text, or a list of texts, at which the answer ends.
            fallbacks: other models, tried in order if the first one fails.
            extra: further fields of the request body, for this provider only.

        Raises:
            LLMRequestError: an argument is wrong, or the provider rejected the request.
            LLMError: there is no answer; the class and the fields of the error give the reason.
        """
        call = check_call(
            messages,
            self._model_or_default(model),
            tools,
            temperature,
            max_tokens,
            tool_choice=tool_choice,
            response_format=response_format,
            stop=stop,
            extra=extra,
        )
        attempts = self._new_attempts(self._plans(call, fallbacks))
        session = await self._session()
        async with session.slot(attempts.seconds_left, attempts.deadline_error):
            flow = generate_flow(attempts, response_format)
            response = await run_async(flow, session.sender(whole=True), _MAX_ANSWER_BYTES)
        if isinstance(attempts.plan.pricing, DeferredPrice):
            await attempts.plan.pricing.set(response["usage"])
        return response

    def stream(
        self,
        messages: Sequence[Mapping[str, Any]],
        model: str = DEFAULT_MODEL,
        tools: Sequence[Mapping[str, Any]] | None = None,
        temperature: float = 0.7,
        max_tokens: int = 2000,
        *,
        tool_choice: str | Mapping[str, Any] | None = None,
        response_format: Any = None,
        stop: str | Sequence[str] | None = None,
        fallbacks: Sequence[str] = (),
        extra: Mapping[str, Any] | None = None,
    ) -> LLMStream:
        """Send messages to a model and return a stream of deltas; arguments as for `generate`.

        Raises:
            LLMRequestError: an argument is wrong.
            LLMAuthenticationError: there is no key.
        """
        call = check_call(
            messages,
            self._model_or_default(model),
            tools,
            temperature,
            max_tokens,
            tool_choice=tool_choice,
            response_format=response_format,
            stop=stop,
            extra=extra,
            stream=True,
        )
        attempts = self._new_attempts(self._plans(call, fallbacks))
        machine = AnswerMachine(attempts, response_format)
        return LLMStream(machine, self._deltas(attempts, machine))

    def accepts_prefix(self, model: str = DEFAULT_MODEL) -> bool:
        """Return True if a model can continue the beginning of an answer.

        The beginning is the last message: `{"role": "assistant", "content": …, "prefix": True}`.

        Raises:
            LLMRequestError: the model has no name, or its provider no base URL.
            LLMAuthenticationError: there is no key.
        """
        route = self._route(self._model_or_default(model))
        return accepts_prefix(route.profile, route.model)

    async def aclose(self) -> None:
        """Close the connections; may be called twice."""
        await self._sessions.aclose()

    async def _deltas(self, attempts: Attempts, machine: AnswerMachine) -> AsyncGenerator[Delta]:
        session = await self._session()
        received = drive_async(machine, session.sender(whole=False))
        if isinstance(attempts.plan.pricing, DeferredPrice):
            received = _with_price(received, attempts.plan.pricing)
        slot = session.slot(attempts.seconds_left, attempts.deadline_error)
        async with slot, aclosing(received) as deltas:
            async for delta in deltas:
                yield delta

    def _price(self, model: str, tokens: Tokens) -> float | None:
        """Return the price of tokens; without a call before, this loads the price table."""
        route = self._route(model)
        return cost(route.profile.prices, route.model, tokens)

    def _model_or_default(self, model: Any) -> Any:
        return self.default_model if model is DEFAULT_MODEL else model

    def _plans(self, call: Call, fallbacks: Any) -> list[Plan]:
        plans = [self._plan(call, call.model)]
        if fallbacks:
            plans += [self._plan(call, name) for name in _check_fallbacks(fallbacks)]
        if not prices_loaded():
            deferred = DeferredPrice()
            for plan in plans:
                plan.pricing = deferred
        return plans

    def _plan(self, call: Call, model: str) -> Plan:
        route = self._route(model)
        if route.model != call.model:
            call = replace(call, model=route.model)
        return Plan(call, route, model)

    def _route(self, model: str) -> Route:
        route = self._routes.get(model)
        if route is None:
            if len(self._routes) >= _MAX_ROUTES:
                self._routes.clear()
            route = self._routes[model] = self._target.route(model)
        return route

    def _new_attempts(self, plans: Sequence[Plan]) -> Attempts:
        count = (self.max_retries + 1) * len(plans)
        deadline = self.deadline or count * self.timeout + _WAIT_ALLOWANCE
        policy = Policy(self.timeout, self.max_retries, deadline, self._backoff, self._limits)
        return Attempts(plans, policy)

    async def _session(self) -> "Session":
        load_prices()
        session = await self._sessions.current()
        if session is None:
            raise LLMConnectionError("the client is closed; create a new one")
        return session


async def generate(
    messages: Sequence[Mapping[str, Any]],
    model: str = DEFAULT_MODEL,
    tools: Sequence[Mapping[str, Any]] | None = None,
    temperature: float = 0.7,
    max_tokens: int = 2000,
    **options: Unpack[CallOptions],
) -> Response:
    """Send messages to a model and return its answer as the standard response object.

    The configuration is read from the environment and `.env` at each call. The options are those
    of `LLMClient.generate`.

    Raises:
        LLMRequestError: an argument or a variable is wrong, or the provider rejected the request.
        LLMError: there is no answer; the class and the fields of the error give the reason.
    """
    client = _shared_client()
    return await client.generate(messages, model, tools, temperature, max_tokens, **options)


def stream(
    messages: Sequence[Mapping[str, Any]],
    model: str = DEFAULT_MODEL,
    tools: Sequence[Mapping[str, Any]] | None = None,
    temperature: float = 0.7,
    max_tokens: int = 2000,
    **options: Unpack[CallOptions],
) -> LLMStream:
    """Send messages to a model and return a stream of deltas; configuration like `generate`.

    Raises:
        LLMRequestError: an argument or a variable is wrong.
        LLMAuthenticationError: there is no key.
    """
    client = _shared_client()
    return client.stream(messages, model, tools, temperature, max_tokens, **options)


def generate_sync(
    messages: Sequence[Mapping[str, Any]],
    model: str = DEFAULT_MODEL,
    tools: Sequence[Mapping[str, Any]] | None = None,
    temperature: float = 0.7,
    max_tokens: int = 2000,
    **options: Unpack[CallOptions],
) -> Response:
    """Call `generate` and wait for it, for scripts; each call opens its own connection.

    Raises:
        RuntimeError: an event loop is running in this thread; the call would block it.
        LLMError: as for `generate`.
    """
    if _has_running_loop():
        raise RuntimeError(
            "generate_sync would block the running event loop; await generate instead"
        )

    async def once() -> Response:
        async with LLMClient.from_env() as client:
            return await client.generate(messages, model, tools, temperature, max_tokens, **options)

    return asyncio.run(once())


def _has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


# The client of the module functions, with the configuration that it was created for.
_shared: "tuple[Configuration, LLMClient] | None" = None


def _shared_client() -> LLMClient:
    global _shared
    configuration = _read_configuration()
    if _shared is None or _shared[0] is not configuration:
        client = LLMClient(**_arguments(configuration, configuration.base_url))
        client._abandon.detach()  # the connections outlive the client, for the next one
        if _shared is not None:
            client._sessions = _shared[1]._sessions
        _shared = configuration, client
    return _shared[1]


def _read_configuration() -> "Configuration":
    try:
        from .settings import read_settings
    except ModuleNotFoundError as error:
        raise _missing_extra() from error
    return read_settings()


def _arguments(configuration: "Configuration", base_url: str | None) -> dict[str, Any]:
    """Return the arguments of a client; errors name the variable that is wrong.

    The keys of single providers are used only if no custom base URL is set, because that may be a
    proxy for all providers.

    Raises:
        LLMRequestError: a variable has an invalid value.
    """
    arguments: dict[str, Any] = {
        "api_key": configuration.api_key,
        "base_url": configuration.base_url,
        "default_model": configuration.default_model,
        "timeout": configuration.timeout,
        "max_retries": configuration.max_retries,
    }
    try:
        if configuration.base_url is not None:
            check_base_url(configuration.base_url, "LLM_API_BASE_URL")
        if configuration.api_key is not None:
            check_key(configuration.api_key, "LLM_API_KEY")
        for profile in PROFILES:
            if (key := configuration.keys.get(profile.name)) is not None:
                check_key(key, profile.key_variable)
        _model_name("DEFAULT_MODEL", configuration.default_model)
    except ArgumentError as error:
        raise LLMRequestError(str(error), argument_error=error) from None
    if base_url is None or known_host(base_url):
        arguments["keys"] = configuration.keys
    return arguments


def _sessions(max_concurrency: int | None) -> "Sessions":
    try:
        from ._session import Sessions
    except ModuleNotFoundError as error:
        raise _missing_extra() from error
    return Sessions(max_concurrency)


def _missing_extra() -> MissingExtraError:
    return MissingExtraError("the AI client", "llm")


async def _with_price(deltas: AsyncGenerator[Delta], price: DeferredPrice) -> AsyncGenerator[Delta]:
    """Yield deltas; the price is set in the usage once the table is loaded."""
    try:
        async with aclosing(deltas):
            async for delta in deltas:
                if isinstance(delta, UsageDelta):
                    await price.set(delta.usage)
                yield delta
    except LLMError as error:
        if error.partial is not None:
            await price.set(error.partial["usage"])
        raise


def _limits(requests: float | None, tokens: float | None) -> Limits | None:
    for name, limit in (("requests_per_minute", requests), ("tokens_per_minute", tokens)):
        if limit is not None:
            _positive_number(name, limit)
    return None if requests is None and tokens is None else Limits(requests, tokens)


def _check_fallbacks(fallbacks: Any) -> Sequence[str]:
    if not isinstance(fallbacks, list | tuple) or not all(isinstance(f, str) for f in fallbacks):
        raise LLMRequestError("fallbacks must be a list of model names")
    return fallbacks


def _positive_number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise ArgumentError(name, "must be a number greater than 0", value)
    return value


def _whole_number(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(name, f"must be a whole number, {least} or more", value)
    return value


def _model_name(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ArgumentError(name, "must be the name of a model", value)
    return value
