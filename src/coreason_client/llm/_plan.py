"""The encoded request for one model, as the retry rules and the prices use it. Pure."""

import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias, cast

from .._drive import Action
from .._http._types import Request, Timeouts
from .._secret import AsyncCallableError, call_sync, mask_tokens, redact, redacted_cause
from ..errors import ArgumentError
from ._adapter import Adapter, Fields
from ._answer import ModelAnswer, Tokens, estimate_bytes
from ._call import ModelCall, PlainMessages
from ._continuation import (
    FIELDS,
    accepts_prefix,
    background_body,
    cancel_url,
    check_continuation,
    continuation_base,
    continuation_fields,
    continued_call,
    corrected_call,
    has_background,
    is_plain_text,
    poll_url,
    prefix_of,
    resume_url,
    sent_messages,
)
from ._cost import cost
from ._json import encode_body, with_extra, with_query
from ._profile import ProviderProfile
from ._route import ModelRoute
from .credentials import Key, KeyProvider, check_key_of, key_secrets
from .errors import LLMAuthenticationError, LLMError, LLMRequestError

# Keys that a callable returns.
#
# * The callable is called before the first attempt with a model, and once more if the provider
#   rejects the key; then the request is sent again. Callables cache their tokens themselves.
# * Its exceptions become an `LLMAuthenticationError`, after which the next model is tried.
# * An async callable is awaited by `AsyncLLMClient`, until the deadline of the call at the longest.

_ASYNC_CLIENT = "AsyncLLMClient"


class FetchKey(Action):
    """Calls the callable; the result is its `value` or its `error`."""

    __slots__ = ("_name", "_provider", "_seconds", "error", "value")

    def __init__(self, provider: KeyProvider, name: str, seconds: float) -> None:
        self._provider = provider
        self._name = name
        self._seconds = seconds
        self.value: Any = None
        self.error: Exception | None = None

    def perform(self) -> None:
        """Call the callable."""
        try:
            self.value = call_sync(self._provider, self._name, _ASYNC_CLIENT)
        except Exception as error:  # noqa: BLE001 - whatever the callable raises
            self.error = error

    async def perform_async(self) -> None:
        """Call the callable and await its result, if it is async."""
        try:
            value: Any = self._provider()
            if inspect.isawaitable(value):
                from asyncio import timeout

                async with timeout(self._seconds):
                    value = await value
            self.value = value
        except Exception as error:  # noqa: BLE001 - whatever the callable raises
            self.error = error


class KeyFetcher:
    """Fetches the key of a route for one call.

    Attributes:
        route: the route, with its key once that is fetched.
    """

    __slots__ = ("_action", "_provider", "_rejected", "route")

    def __init__(self, route: ModelRoute, provider: KeyProvider) -> None:
        self.route = route
        self._provider = provider
        self._action: FetchKey | None = None
        self._rejected: Key | None = None

    def next_step(self, seconds: float) -> FetchKey | None:
        """Return the action to perform, None if the route has its key.

        Raises:
            LLMAuthenticationError: the callable failed.
            LLMRequestError: it did not return a key, or is async in the sync client.
        """
        action = self._action
        if action is None:
            if self.route.key is not None:
                return None
            self._action = FetchKey(self._provider, self.route.key_name, seconds)
            return self._action
        self._action = None
        if action.error is not None:
            raise self._failed(action.error)
        key = check_key_of(self.route.profile, action.value, self.route.key_name)
        self.route = self.route.with_key(key)
        return None

    def refresh(self, error: LLMError) -> bool:
        """Drop a key that was rejected, once; return True if another one will be fetched."""
        rejected = isinstance(error, LLMAuthenticationError)
        if not rejected or self._rejected is not None or self.route.key is None:
            return False
        self._rejected = self.route.key
        self.route = self.route.without_key()
        return True

    def _failed(self, error: Exception) -> LLMError:
        route = self.route
        if isinstance(error, AsyncCallableError):
            return route.error(LLMRequestError, str(error))
        failure = route.error(
            LLMAuthenticationError,
            f"there is no key for {route.profile.name}: {route.key_name} raised "
            f"{type(error).__name__}",
        )
        failure.__cause__ = redacted_cause(error, self._redact)
        return failure

    def _redact(self, text: str) -> str:
        known = [*self.route.secrets(), *key_secrets(self._rejected)]
        return mask_tokens(redact(text, known))


# Requests.

Pricing: TypeAlias = Callable[[str | None, str, Tokens], float | None]
"""Returns the price of tokens, given the provider in the price table and the model."""


class RequestPlan(ABC):
    """An encoded request for one model.

    Attributes:
        method: the HTTP method.
        free: True if the request counts for no limit and no budget.
        route: the provider, its base URL and key.
        requested_model: the name that the caller used for the model.
        pricing: the function that returns prices.
        url: the URL of the request.
        content: the body of the request.
    """

    __slots__ = ("_fetcher", "content", "pricing", "requested_model", "route", "url")

    method: str = "POST"
    free: bool = False
    route: ModelRoute
    requested_model: str
    pricing: Pricing
    url: str
    content: bytes
    _fetcher: KeyFetcher | None

    def key_step(self, seconds: float) -> FetchKey | None:
        """Return the action that fetches the key within so many seconds, None if there is one.

        Raises:
            LLMError: the callable failed, or did not return a key.
        """
        if self.route.key_provider is None:
            return None
        if self._fetcher is None:
            self._fetcher = KeyFetcher(self.route, self.route.key_provider)
        step = self._fetcher.next_step(seconds)
        self.route = self._fetcher.route
        return step

    def refresh_key(self, error: LLMError) -> bool:
        """Return True if the key was rejected and a new one will be fetched."""
        if self._fetcher is None or not self._fetcher.refresh(error):
            return False
        self.route = self._fetcher.route
        return True

    def headers(self, now: Callable[[], float] = time.time) -> Mapping[str, str]:
        """Return the headers of a request that is sent now.

        Raises:
            LLMRequestError: it must be signed, and the region is not known.
        """
        headers = self.route.request_headers(self.method, self.url, self.content, now)
        adapter = self.route.adapter
        return adapter.request_headers(headers, self.content) if adapter.has_betas else headers

    @property
    @abstractmethod
    def estimated_tokens(self) -> int:
        """An estimate of the tokens that the request will use, for limits and budgets."""

    def drop_parameter(self, parameter: str) -> bool:
        """Drop or rename a parameter that the provider rejects; return False if it must stay."""
        return False

    def corrected(self, answer: str, reason: str) -> Self | None:
        """Return the request to correct an answer that is not valid, None if there is none."""
        return None

    def price(self, tokens: Tokens) -> float | None:
        """Return the price of tokens in dollars, None if it is not known."""
        return self.pricing(self.route.profile.prices, self.route.model, tokens)


@dataclass(slots=True)
class SidePlan(RequestPlan):
    """A request that is not for an answer but, for example, for a file; it uses no tokens.

    `added` are headers of this request only.
    """

    route: ModelRoute
    url: str
    content: bytes = b""
    added: Mapping[str, str] = field(default_factory=dict)
    method: str = "POST"
    free: bool = True
    requested_model: str = ""
    pricing: Pricing = cost
    _fetcher: KeyFetcher | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.url = with_query(self.url, self.route.query)

    @property
    def estimated_tokens(self) -> int:
        """No tokens."""
        return 0

    def headers(self, now: Callable[[], float] = time.time) -> Mapping[str, str]:
        """Return the headers of a request that is sent now."""
        return {**RequestPlan.headers(self, now), **self.added}


def estimated_prompt(content: bytes) -> int:
    """Return an estimate of the tokens in the body of a request: a quarter of its bytes."""
    return estimate_bytes(len(content))


# A parameter that one generation of models rejects and the next one requires.
_RENAMED = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
# Without the fields of a continuation, the model would begin another answer.
_REQUIRED = frozenset({"model", "messages", "input", "contents", "stream", *FIELDS})
_USUAL_ANSWER = 2000  # tokens, if the caller sets no limit: the default of `max_tokens`


@dataclass(slots=True)
class CallPlan(RequestPlan):
    """One model to try: the call, its route and the encoded request.

    `requested_model` is the name that the caller used, `dropped` are the parameters that the
    provider has rejected. `background`: the request is for a response whose stream can be resumed.
    `prefix` is the beginning of the answer that the model continues, None if there is none.
    """

    call: ModelCall
    route: ModelRoute
    requested_model: str = ""
    pricing: Pricing = cost
    dropped: tuple[str, ...] = ()
    background: bool = field(default=False, init=False)
    prefix: str | None = field(init=False)
    body: dict[str, Any] = field(init=False)
    content: bytes = field(init=False)
    url: str = field(init=False)
    _fetcher: KeyFetcher | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        adapter, profile, base = self.route.adapter, self.route.profile, self.route.base
        call = self.call = fit_call(self.call, adapter, profile)
        prefix = self.prefix = prefix_of(call.messages)
        if prefix is not None:
            check_continuation(profile, call.model)
            base = continuation_base(base, profile)
            call = replace(call, messages=sent_messages(call.messages, profile))
        if call.arguments:
            call = with_arguments(call, adapter, profile)
        body = adapter.body(call, profile)
        if prefix is not None:
            body.update(continuation_fields(prefix, profile))
        if call.extra:
            body = with_extra(body, call.extra)
        if call.resume and has_background(profile):
            self.background = True
            body = background_body(body)
        self.body = body
        for name in self.dropped:
            self._drop(name)
        self.url = with_query(adapter.url(base, call), self.route.query)
        self.content = encode_body(body, call.model)

    @property
    def estimated_tokens(self) -> int:
        """An estimate of the tokens that the call will use, for limits and budgets.

        It is a quarter of the bytes of the body, and `max_tokens`; 2000 without `max_tokens`.
        """
        answer = _USUAL_ANSWER if self.call.max_tokens is None else self.call.max_tokens
        return estimated_prompt(self.content) + answer

    def drop_parameter(self, parameter: str) -> bool:
        """Drop or rename a parameter that the provider rejects; return False if it must stay."""
        name = parameter.partition(".")[0].partition("[")[0]
        if name not in self.body or name in _REQUIRED:
            return False
        self.dropped += (name,)
        self._drop(name)
        self.content = encode_body(self.body, self.call.model)
        return True

    def can_continue(self, received: ModelAnswer) -> bool:
        """Return True if the model can continue what was received of its answer."""
        accepts = accepts_prefix(self.route.profile, self.call.model)
        return accepts and is_plain_text(self.call, received)

    def continued(self, text: str) -> Self:
        """Return the plan that continues the answer after the given text."""
        return self._with_call(continued_call(self.call, text))

    def corrected(self, answer: str, reason: str) -> Self:
        """Return the plan that asks the model to correct its answer."""
        return self._with_call(corrected_call(self.call, answer, reason))

    def resumed(self, response_id: str, sequence: int | None) -> "ResumedPlan":
        """Return the plan that reads the stream of a background response after an event."""
        include = self.body.get("include", ())
        return self._reading(resume_url(self.url, response_id, sequence, include))

    def polled(self, response_id: str) -> "ResumedPlan":
        """Return the plan that reads a background response as a whole."""
        return self._reading(poll_url(self.url, response_id, self.body.get("include", ())))

    def _reading(self, url: str) -> "ResumedPlan":
        plan = ResumedPlan(*self._arguments(self.call))
        plan._fetcher = self._fetcher
        plan.url, plan.content = url, b""
        return plan

    def cancel_request(self, response_id: str, timeouts: Timeouts) -> Request:
        """Return the request that cancels a background response."""
        url = cancel_url(self.url, response_id)
        headers = self.route.request_headers("POST", url, b"", time.time)
        return Request("POST", url, headers, b"", timeouts)

    def _with_call(self, call: ModelCall) -> Self:
        plan = CallPlan(*self._arguments(call))  # also after a plan that reads the rest
        plan._fetcher = self._fetcher
        return cast("Self", plan)

    def _arguments(self, call: ModelCall) -> tuple[Any, ...]:
        return call, self.route, self.requested_model, self.pricing, self.dropped

    def _drop(self, name: str) -> None:
        value = self.body.pop(name, None)
        renamed = _RENAMED.get(name)
        if renamed is not None and renamed not in self.body and value is not None:
            self.body[renamed] = value


class ResumedPlan(CallPlan):
    """A plan that reads a background response instead of sending the call again."""

    __slots__ = ()
    method = "GET"
    free = True


# Fitting a checked call to one provider.


def fit_call(call: ModelCall, adapter: Adapter, profile: ProviderProfile) -> ModelCall:
    """Return the call that the provider can express.

    Messages of the role "developer" become "system" messages where the provider does not have it.

    Raises:
        LLMRequestError: there is none: the temperature is too high, or the wire format cannot
            express a part of a message.
    """
    if call.temperature is not None and call.temperature > profile.max_temperature:
        raise _too_hot(call.temperature, call, profile)
    if call.messages.__class__ is PlainMessages:
        return call
    for index, message in enumerate(call.messages):
        if message["content"].__class__ is list:
            _check_parts(index, message["content"], call, adapter, profile)
    return call if profile.developer_role else _without_developer(call)


def with_arguments(call: ModelCall, adapter: Adapter, profile: ProviderProfile) -> ModelCall:
    """Return the call with its arguments by name as fields of the request, below its `extra`.

    Raises:
        LLMRequestError: the provider does not have an argument.
    """
    fields: Fields = {}
    for name, value in call.arguments.items():
        if name == "parallel_tool_calls" and not call.tools:
            continue  # providers reject it without tools
        rule = None if name in profile.lacks else adapter.arguments.get(name)
        found = _at(rule, value) if isinstance(rule, str) else rule and rule(call, value, profile)
        if found is None:
            raise profile.rejected(
                f"{name} must be left out: {profile.name} does not have it for {call.model}",
                call.model,
            )
        with_extra(fields, found)
    return replace(call, extra=with_extra(fields, call.extra))


def _at(path: str, value: Any) -> Fields:
    outer, _, inner = path.partition(".")
    return {outer: {inner: value} if inner else value}


def _too_hot(temperature: float, call: ModelCall, profile: ProviderProfile) -> LLMRequestError:
    highest = f"{profile.max_temperature:g}"
    rule = f"must be a number from 0 to {highest} for a model of {profile.name}"
    error = ArgumentError("temperature", rule, temperature)
    return LLMRequestError(
        str(error), provider=profile.name, model=call.model, argument_error=error
    )


def _check_parts(
    index: int, content: Sequence[Any], call: ModelCall, adapter: Adapter, profile: ProviderProfile
) -> None:
    for number, part in enumerate(content):
        kind = part["type"]
        problem = None if kind == "text" else adapter.part_problem(part, profile)
        if problem is not None:
            where = f"messages[{index}].content[{number}]"
            raise profile.rejected(f"{where} has the type {kind!r}, {problem}", call.model)


def _without_developer(call: ModelCall) -> ModelCall:
    if "developer" not in [message["role"] for message in call.messages]:
        return call
    messages = [
        {**message, "role": "system"} if message["role"] == "developer" else message
        for message in call.messages
    ]
    return replace(call, messages=messages)
