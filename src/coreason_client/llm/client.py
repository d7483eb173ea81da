"""The AI client: one call for every provider."""

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
from ._call import check_call
from ._flow import BACKOFF, AnswerMachine, Plan, Policy, Trying, generate_flow
from ._limits import Limits
from ._prices import LatePrice, load, loaded
from ._route import Route, Target, check_base_url, check_provider, known_host
from ._terms import Call
from .errors import LLMConnectionError, LLMError, LLMRequestError
from .providers.profiles import PROFILES
from .streams import LLMStream
from .types import CallOptions, Delta, Response, UsageDelta

if TYPE_CHECKING:
    from ._session import Session, Sessions
    from .settings import Configured

__all__ = ["DEFAULT_MODEL", "LLMClient", "generate", "generate_sync", "stream"]


class _Default(str):
    """The default of an argument, told apart from the same text given by a caller."""

    __slots__ = ()


DEFAULT_MODEL: str = _Default("gpt-4-turbo")
"""The model of a call that names none, unless the variable of this name says another."""

_MAX_ANSWER_BYTES = 64 * 1024 * 1024
_MOST_ROUTES = 256
_WAITING = 60.0  # what the deadline allows for waits, beside all attempts


class LLMClient(AsyncClosing):
    """Asks models of any provider; keeps connections and nothing else between calls.

    `timeout` is for one attempt, `deadline` for a whole call with its retries, waits and
    fallbacks: by default long enough for every attempt to time out, and a minute of waits. `keys`
    are keys of other providers, by their names, for models such as `anthropic/…` and for
    fallbacks: `api_key` goes to `base_url` only. `first_wait` is the wait before the first retry,
    which doubles. `requests_per_minute` and `tokens_per_minute` hold in every 60 seconds.

    Raises:
        ValueError: an argument cannot work.
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
        self.timeout = _above_zero("timeout", timeout)
        self.max_retries = _at_least("max_retries", max_retries, 0)
        self.deadline = None if deadline is None else _above_zero("deadline", deadline)
        if max_concurrency is not None:
            _at_least("max_concurrency", max_concurrency, 1)
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
        self._backoff = replace(BACKOFF, first=_above_zero("first_wait", first_wait))
        self._limits = _limits(requests_per_minute, tokens_per_minute)
        self._routes: dict[str, Route] = {}
        self._sessions = sessions = _sessions(max_concurrency)
        # A client that is dropped and was not closed lets its connections go without a warning.
        self._abandon = finalize(self, sessions.abandon)
        self._abandon.atexit = False

    @classmethod
    def from_env(cls, **options: Any) -> Self:
        """Make a client from the environment and `.env`; options go before them.

        Raises:
            LLMRequestError: a variable has a value that cannot be.
        """
        configured = _configured()
        return cls(**_arguments(configured, options.get("base_url", configured.base_url)) | options)

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
        """Ask a model and return its answer as the standard response object.

        Raises:
            LLMRequestError: an argument is wrong, or the provider says so.
            LLMError: there is no answer; the class and its fields say why.
        """
        call = check_call(
            *(messages, self._named(model), tools, temperature, max_tokens),
            tool_choice=tool_choice,
            response_format=response_format,
            stop=stop,
            extra=extra,
        )
        trying = self._trying(self._plans(call, fallbacks))
        session = await self._session()
        async with session.turn(trying.left, trying.out_of_time):
            flow = generate_flow(trying, response_format)
            response = await run_async(flow, session.sender(whole=True), _MAX_ANSWER_BYTES)
        if isinstance(trying.plan.pricing, LatePrice):
            await trying.plan.pricing.set(response["usage"])
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
        """Ask a model and return its answer as a stream of deltas; the arguments of `generate`.

        Raises:
            LLMRequestError: an argument is wrong.
            LLMAuthenticationError: there is no key.
        """
        call = check_call(
            *(messages, self._named(model), tools, temperature, max_tokens),
            tool_choice=tool_choice,
            response_format=response_format,
            stop=stop,
            extra=extra,
            stream=True,
        )
        trying = self._trying(self._plans(call, fallbacks))
        machine = AnswerMachine(trying, response_format)
        return LLMStream(machine, self._deltas(trying, machine))

    async def aclose(self) -> None:
        """Close the connections; may be called twice."""
        await self._sessions.aclose()

    async def _deltas(self, trying: Trying, machine: AnswerMachine) -> AsyncGenerator[Delta]:
        session = await self._session()
        received = drive_async(machine, session.sender(whole=False))
        if isinstance(trying.plan.pricing, LatePrice):
            received = _priced(received, trying.plan.pricing)
        async with session.turn(trying.left, trying.out_of_time), aclosing(received) as deltas:
            async for delta in deltas:
                yield delta

    def _named(self, model: Any) -> Any:
        return self.default_model if model is DEFAULT_MODEL else model

    def _plans(self, call: Call, fallbacks: Any) -> list[Plan]:
        plans = [self._plan(call, call.model)]
        if fallbacks:
            plans += [self._plan(call, name) for name in _names(fallbacks)]
        if not loaded():
            late = LatePrice()
            for plan in plans:
                plan.pricing = late
        return plans

    def _plan(self, call: Call, model: str) -> Plan:
        route = self._routes.get(model)
        if route is None:
            if len(self._routes) >= _MOST_ROUTES:
                self._routes.clear()
            route = self._routes[model] = self._target.route(model)
        if route.model != call.model:
            call = replace(call, model=route.model)
        return Plan(call, route, model)

    def _trying(self, plans: Sequence[Plan]) -> Trying:
        attempts = (self.max_retries + 1) * len(plans)
        deadline = self.deadline or attempts * self.timeout + _WAITING
        policy = Policy(self.timeout, self.max_retries, deadline, self._backoff, self._limits)
        return Trying(plans, policy)

    async def _session(self) -> "Session":
        load()
        session = await self._sessions.current()
        if session is None:
            raise LLMConnectionError("the client has been closed: make another one")
        return session


async def generate(
    messages: Sequence[Mapping[str, Any]],
    model: str = DEFAULT_MODEL,
    tools: Sequence[Mapping[str, Any]] | None = None,
    temperature: float = 0.7,
    max_tokens: int = 2000,
    **options: Unpack[CallOptions],
) -> Response:
    """Ask a model and return its answer as the standard response object.

    The configuration is that of the environment and `.env`, as they are at the call; the options
    are those of `LLMClient.generate`.

    Raises:
        LLMRequestError: an argument or a variable is wrong, or the provider says so.
        LLMError: there is no answer; the class and its fields say why.
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
    """Ask a model and return its answer as a stream of deltas; configured as `generate` is.

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
    """Do what `generate` does and wait for it, for scripts; each call has its own connection.

    Raises:
        RuntimeError: an event loop runs in this thread, which the call would hold up.
        LLMError: as `generate`.
    """
    if _has_running_loop():
        raise RuntimeError("generate_sync holds up the event loop it is called in: await generate")

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


# The client behind the functions, with the configuration that it was made for.
_shared: "tuple[Configured, LLMClient] | None" = None


def _shared_client() -> LLMClient:
    global _shared
    configured = _configured()
    if _shared is None or _shared[0] is not configured:
        client = LLMClient(**_arguments(configured, configured.base_url))
        client._abandon.detach()  # clients come and go with the settings, connections stay
        if _shared is not None:
            client._sessions = _shared[1]._sessions
        _shared = configured, client
    return _shared[1]


def _configured() -> "Configured":
    try:
        from .settings import read_settings
    except ModuleNotFoundError as error:
        raise _missing() from error
    return read_settings()


def _arguments(configured: "Configured", base_url: str | None) -> dict[str, Any]:
    """Return the arguments of a client, with the variables named where one is wrong.

    Keys that happen to be in the environment lead to their providers only where nobody has named
    an address of his own, which may be a proxy for all of them.

    Raises:
        LLMRequestError: a variable has a value that cannot be.
    """
    arguments: dict[str, Any] = {
        "api_key": configured.api_key,
        "base_url": configured.base_url,
        "default_model": configured.default_model,
        "timeout": configured.timeout,
        "max_retries": configured.max_retries,
    }
    try:
        if configured.base_url is not None:
            check_base_url(configured.base_url, "LLM_API_BASE_URL")
        if configured.api_key is not None:
            check_key(configured.api_key, "LLM_API_KEY")
        for profile in PROFILES:
            if (key := configured.keys.get(profile.name)) is not None:
                check_key(key, profile.key_variable)
        _model_name("DEFAULT_MODEL", configured.default_model)
    except ArgumentError as error:
        raise LLMRequestError(str(error), argument_error=error) from None
    if base_url is None or known_host(base_url):
        arguments["keys"] = configured.keys
    return arguments


def _sessions(max_concurrency: int | None) -> "Sessions":
    try:
        from ._session import Sessions
    except ModuleNotFoundError as error:
        raise _missing() from error
    return Sessions(max_concurrency)


def _missing() -> MissingExtraError:
    return MissingExtraError("the AI client", "llm")


async def _priced(deltas: AsyncGenerator[Delta], price: LatePrice) -> AsyncGenerator[Delta]:
    """Iterate over deltas, with the price that is not known before the table is loaded."""
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
            _above_zero(name, limit)
    return None if requests is None and tokens is None else Limits(requests, tokens)


def _names(fallbacks: Any) -> Sequence[str]:
    if not isinstance(fallbacks, list | tuple) or not all(isinstance(f, str) for f in fallbacks):
        raise LLMRequestError("fallbacks must be a list of names of models")
    return fallbacks


def _above_zero(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise ArgumentError(name, "must be a number greater than 0", value)
    return value


def _at_least(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(name, f"must be a whole number, {least} or more", value)
    return value


def _model_name(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ArgumentError(name, "must be the name of a model", value)
    return value
