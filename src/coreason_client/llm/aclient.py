"""The async AI client: one interface for every provider."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Self, Unpack, overload
from weakref import finalize

from .._drive_async import drive_async, run_async
from ._answer_machine import AnswerMachine
from ._attempts import Attempts
from ._client_core import MAX_ANSWER_BYTES, ClientCore
from ._default_model import DEFAULT_MODEL
from ._from_env import environment_arguments, missing_extra
from ._generate import generate_flow
from ._price_table import DeferredPrice, load_prices
from ._returned_async import AsyncClientBase, returned
from ._streams_async import AsyncLLMStream
from .errors import LLMConnectionError, LLMError
from .types import CallOptions, Delta, Parsed, Response, UsageDelta

if TYPE_CHECKING:
    from ._session_async import Session, Sessions

__all__ = ["AsyncLLMClient"]


class AsyncLLMClient(ClientCore, AsyncClientBase):
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
        super().__init__(
            api_key,
            base_url,
            default_model,
            timeout,
            max_retries,
            deadline=deadline,
            keys=keys,
            provider=provider,
            headers=headers,
            first_wait=first_wait,
            max_concurrency=max_concurrency,
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
        )
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
        return cls(**environment_arguments(options))

    @overload
    async def generate(
        self,
        messages: Sequence[Mapping[str, Any]],
        model: str = DEFAULT_MODEL,
        tools: Sequence[Mapping[str, Any]] | None = None,
        temperature: float = 0.7,
        max_tokens: int = 2000,
        *,
        response_format: type[Parsed],
        **options: Unpack[CallOptions],
    ) -> Response[Parsed]: ...

    @overload
    async def generate(
        self,
        messages: Sequence[Mapping[str, Any]],
        model: str = DEFAULT_MODEL,
        tools: Sequence[Mapping[str, Any]] | None = None,
        temperature: float = 0.7,
        max_tokens: int = 2000,
        *,
        response_format: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> Response: ...

    async def generate(
        self,
        messages: Sequence[Mapping[str, Any]],
        model: str = DEFAULT_MODEL,
        tools: Sequence[Mapping[str, Any]] | None = None,
        temperature: float = 0.7,
        max_tokens: int = 2000,
        *,
        response_format: Any = None,
        **options: Unpack[CallOptions],
    ) -> Response:
        """Send messages to a model and return its answer as the standard response object.

        Args:
            messages: the conversation; each message has a `role` and `content`.
            model: the model, optionally as `provider/model`.
            tools: the functions that the model may call, in the format of OpenAI.
            temperature: the sampling temperature, 0 to 1.
            max_tokens: the maximum length of the answer.
            response_format: a JSON schema or a pydantic model for the answer.
            options: see `CallOptions`.

        Raises:
            LLMRequestError: an argument is wrong, or the provider rejected the request.
            LLMError: there is no answer; the class and the fields of the error give the reason.
        """
        attempts = self._attempts(
            messages,
            model,
            tools,
            temperature,
            max_tokens,
            {**options},
            response_format=response_format,
        )
        session = await self._session()
        async with session.slot(attempts.seconds_left, attempts.deadline_error):
            flow = generate_flow(attempts, response_format)
            response = await run_async(flow, session.sender(whole=True), MAX_ANSWER_BYTES)
        if isinstance(attempts.plan.pricing, DeferredPrice):
            await attempts.plan.pricing.set_async(response["usage"])
            attempts.spent.set(response)
        return returned(response)

    @overload
    def stream(
        self,
        messages: Sequence[Mapping[str, Any]],
        model: str = DEFAULT_MODEL,
        tools: Sequence[Mapping[str, Any]] | None = None,
        temperature: float = 0.7,
        max_tokens: int = 2000,
        *,
        response_format: type[Parsed],
        **options: Unpack[CallOptions],
    ) -> AsyncLLMStream[Parsed]: ...

    @overload
    def stream(
        self,
        messages: Sequence[Mapping[str, Any]],
        model: str = DEFAULT_MODEL,
        tools: Sequence[Mapping[str, Any]] | None = None,
        temperature: float = 0.7,
        max_tokens: int = 2000,
        *,
        response_format: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncLLMStream: ...

    def stream(
        self,
        messages: Sequence[Mapping[str, Any]],
        model: str = DEFAULT_MODEL,
        tools: Sequence[Mapping[str, Any]] | None = None,
        temperature: float = 0.7,
        max_tokens: int = 2000,
        *,
        response_format: Any = None,
        **options: Unpack[CallOptions],
    ) -> AsyncLLMStream:
        """Send messages to a model and return a stream of deltas; arguments as for `generate`.

        Raises:
            LLMRequestError: an argument is wrong.
            LLMAuthenticationError: there is no key.
        """
        attempts = self._attempts(
            messages,
            model,
            tools,
            temperature,
            max_tokens,
            {**options},
            response_format=response_format,
            stream=True,
        )
        machine = AnswerMachine(attempts, response_format)
        return AsyncLLMStream(machine, self._deltas(attempts, machine))

    async def aclose(self) -> None:
        """Close the connections; may be called twice."""
        await self._sessions.aclose()

    async def _deltas(self, attempts: Attempts, machine: AnswerMachine) -> AsyncGenerator[Delta]:
        session = await self._session()
        received = drive_async(machine, session.sender(whole=False))
        if isinstance(attempts.plan.pricing, DeferredPrice):
            received = _with_price(received, attempts, attempts.plan.pricing, machine)
        slot = session.slot(attempts.seconds_left, attempts.deadline_error)
        async with slot, aclosing(received) as deltas:
            async for delta in deltas:
                yield delta

    async def _session(self) -> "Session":
        load_prices()
        session = await self._sessions.current()
        if session is None:
            raise LLMConnectionError("the client is closed; create a new one")
        return session


def _sessions(max_concurrency: int | None) -> "Sessions":
    try:
        from ._session_async import Sessions
    except ModuleNotFoundError as error:
        raise missing_extra() from error
    return Sessions(max_concurrency)


async def _with_price(
    deltas: AsyncGenerator[Delta],
    attempts: Attempts,
    price: DeferredPrice,
    machine: AnswerMachine,
) -> AsyncGenerator[Delta]:
    """Yield deltas; the price is set in the usage once the table is loaded."""
    try:
        async with aclosing(deltas):
            async for delta in deltas:
                if isinstance(delta, UsageDelta):
                    await price.set_async(delta.usage)
                    if machine.response is not None:
                        attempts.spent.set(machine.response)
                yield delta
    except LLMError as error:
        if error.partial is not None:
            await price.set_async(error.partial["usage"])
            error.spent = attempts.spent.total()
        raise
