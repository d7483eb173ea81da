"""The async AI client: one interface for every provider."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import cache
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast
from weakref import finalize

from .._drive import Flow, Reading
from .._drive_async import drive_async, run_async
from ._answer_machine import AnswerMachine
from ._attempts import NOT_OBSERVED, Attempts, CallObserver
from ._call import DEFAULT_EMBEDDING_MODEL, DEFAULT_MODEL
from ._check_call import check_call
from ._client_core import ClientCore, side_route
from ._cost import DeferredPrice, PricesAction, load_prices
from ._frames import MAX_ANSWER_BYTES
from ._from_env import environment_arguments, missing_extra
from ._plan import CallPlan, SidePlan
from ._reply import ReadReply, call_flow, generate_flow
from ._returned import AsyncClientBase
from .errors import LLMConnectionError, LLMError
from .streams import AsyncLLMStream
from .types import (
    CallOptions,
    Delta,
    EmbeddingResponse,
    Message,
    Messages,
    ModelInfo,
    Parsed,
    Response,
    ResponseFormat,
    TokenCount,
    UsageDelta,
)

if TYPE_CHECKING:
    from os import PathLike

    from ._session_async import AsyncHTTPSession, AsyncHTTPSessions
    from .batches import AsyncBatch
    from .tools._perform import AsyncModelClient
    from .tools._run_async import AsyncRun, AsyncRunStream
    from .tools._run_machine import RunOptions
    from .tools.events import RunResult
    from .tools.mcp import MCPServer
    from .tools.tool import Tool

__all__ = ["AsyncLLMClient"]

Value = TypeVar("Value")


class AsyncLLMClient(AsyncClientBase, ClientCore):
    """A client for the models of any provider; it keeps only connections between calls.

    Args:
        api_key: the key for `base_url`; it is never sent anywhere else. A callable, sync or async,
            that returns the key is called for each call, and again if the key is rejected.
        base_url: the base URL of the provider; without one, the model selects the provider.
        default_model: the model of calls without `model`.
        timeout: seconds for one attempt.
        max_retries: retries for each model.
        deadline: seconds for a whole call with its retries, waits and fallbacks. The default
            allows every attempt to time out, and a minute of waits.
        keys: keys of other providers, by provider name, for models such as `anthropic/…` and for
            fallbacks.
        base_urls: base URLs of these providers, by provider name, if not the default ones.
        provider: the provider at `base_url`, if its host does not show it.
        wire: "responses" for OpenAI's Responses API, "chat" for chat completions; None chooses by
            the model.
        headers: headers that are added to each request to `base_url`.
        first_wait: seconds before the first retry; each further wait is twice as long.
        max_concurrency: the maximum number of calls at a time; further calls wait.
        requests_per_minute: the limit in every window of 60 seconds.
        tokens_per_minute: the limit in every window of 60 seconds.
        router: several deployments behind one name.
        budgets: limits on the dollars that calls may cost.
        cache: answers to requests that were sent before.
        state: where router and budgets are stored: by default a `MemoryState` of this client; a
            `ValkeyState` is shared by many processes, and also stores the answers of the cache.
        telemetry: True or a `Telemetry` to report calls to OpenTelemetry, False to report nothing.
            The default reports them if the program has configured an SDK of OpenTelemetry.
        on_request: called before each request with a `RequestInfo`; if it raises an exception, the
            request is not sent and the call ends with that exception. A sync callable.
        on_response: called after each attempt with a `ResponseInfo`; an exception that it raises is
            logged. A sync callable.

    Raises:
        ValueError: an argument is invalid.
    """

    @classmethod
    def from_env(cls, **options: Any) -> Self:
        """Create a client from the environment and `.env`; `options` take precedence.

        Raises:
            LLMRequestError: a variable has an invalid value.
        """
        return cls(**environment_arguments(options))

    async def generate(
        self,
        messages: Messages,
        model: str = DEFAULT_MODEL,
        tools: Sequence[Mapping[str, Any]] | None = None,
        temperature: float | None = 0.7,
        max_tokens: int | None = 2000,
        *,
        response_format: ResponseFormat[Parsed] = None,
        **options: Unpack[CallOptions],
    ) -> Response[Parsed]:
        """Send messages to a model and return its answer as the standard response object.

        Args:
            messages: the text of one message, or a list of messages with `role` and `content`.
            model: the model, optionally as `provider/model`.
            tools: the functions that the model may call, in the format of OpenAI, and tools that
                the provider runs, in its own.
            temperature: the sampling temperature, 0 to 1 (up to 2 where the provider accepts it),
                or None for the provider's default.
            max_tokens: the maximum length of the answer, or None for the provider's default.
            response_format: a JSON schema, a pydantic model or another type for the answer.
            options: the optional arguments of `coreason_client.llm.types.CallOptions`.

        Raises:
            LLMRequestError: an argument is wrong, or the provider rejected the request.
            LLMError: there is no answer; the class and the fields of the error give the reason.
        """
        attempts = self._attempts(
            messages, model, tools, temperature, max_tokens, {**options}, response_format
        )
        with attempts.observer:
            flow = self._flow(attempts, response_format, options)
            response = await self._run_flow(flow, attempts)
            if isinstance(attempts.plan.pricing, DeferredPrice):
                await attempts.plan.pricing.set_async(response["usage"])
                attempts.spent.set(response)
        return self._returned(response)

    async def background_answer(
        self,
        response_id: str,
        model: str = DEFAULT_MODEL,
        *,
        response_format: ResponseFormat[Parsed] = None,
    ) -> Response[Parsed]:
        """Wait until a background response has ended, and return it as `generate` would.

        `generate` waits too, for a call with `extra={"background": True, "store": True}`.

        Args:
            response_id: the id of the response.
            model: the model that was called.
            response_format: a JSON schema, a pydantic model or another type for the answer.

        Raises:
            LLMRequestError: the provider has no background responses, or not this one.
            LLMError: there is no answer; the class and the fields of the error give the reason.
        """
        await PricesAction().perform_async()
        attempts = self._background_attempts(response_id, model, response_format)
        flow = generate_flow(attempts, response_format)
        return self._returned(await self._run_observed(flow, attempts))

    def stream(
        self,
        messages: Messages,
        model: str = DEFAULT_MODEL,
        tools: Sequence[Mapping[str, Any]] | None = None,
        temperature: float | None = 0.7,
        max_tokens: int | None = 2000,
        *,
        response_format: ResponseFormat[Parsed] = None,
        **options: Unpack[CallOptions],
    ) -> AsyncLLMStream[Parsed]:
        """Send messages to a model and return a stream of deltas.

        Args:
            messages: the text of one message, or a list of messages with `role` and `content`.
            model: the model, optionally as `provider/model`.
            tools: the functions that the model may call, in the format of OpenAI, and tools that
                the provider runs, in its own.
            temperature: the sampling temperature, as in `generate`.
            max_tokens: the maximum length of the answer, or None for the provider's default.
            response_format: a JSON schema, a pydantic model or another type for the answer.
            options: the optional arguments of `coreason_client.llm.types.CallOptions`.

        Raises:
            LLMRequestError: an argument is wrong.
            LLMAuthenticationError: there is no key.
        """
        asked = messages, model, tools, temperature, max_tokens, {**options}, response_format
        attempts = self._attempts(*asked, stream=True)
        cached = self._cached_answer(attempts, response_format, options)
        machine = AnswerMachine(attempts, response_format, cached)
        reading = Reading()
        deltas = self._deltas(attempts, machine, reading)
        if attempts.observer is not NOT_OBSERVED:
            attempts.observer.set_spent(machine.spent)
            deltas = _observed(deltas, attempts.observer)
        return AsyncLLMStream(machine, deltas, reading)

    async def run(
        self,
        messages: Messages,
        model: str = DEFAULT_MODEL,
        tools: "Sequence[Callable[..., Any] | Tool | MCPServer | Mapping[str, Any]] | None" = None,
        temperature: float | None = 0.7,
        max_tokens: int | None = 2000,
        *,
        response_format: ResponseFormat[Parsed] = None,
        **options: "Unpack[RunOptions]",
    ) -> "RunResult[Parsed]":
        """Send messages to a model, execute the tools that it calls, and return its answer.

        Args:
            messages: the text of one message, or a list of messages with `role` and `content`.
            model: the model, optionally as `provider/model`.
            tools: functions, `Tool` values and `MCPServer` values that the model may call, and
                tools that the provider runs, in its own format.
            temperature: the sampling temperature, or None for the default of the provider.
            max_tokens: the maximum length of each answer, or None for the default of the provider.
            response_format: a JSON schema, a pydantic model or another type for the last answer.
            options: the optional arguments of `RunOptions`.

        Raises:
            LLMRequestError: an argument is wrong, or the provider rejected the request.
            LLMRunLimitError: a limit of the run is reached.
            LLMToolError: a tool has failed too often.
            ToolAbort: a tool has ended the run.
            LLMError: there is no answer. `conversation` and `usage` of all these errors show how
                far the run came.
        """
        asked = model, temperature, max_tokens, response_format, {**options}
        return await self._new_run(messages, tools, *asked).result()

    def run_stream(
        self,
        messages: Messages,
        model: str = DEFAULT_MODEL,
        tools: "Sequence[Callable[..., Any] | Tool | MCPServer | Mapping[str, Any]] | None" = None,
        temperature: float | None = 0.7,
        max_tokens: int | None = 2000,
        *,
        response_format: ResponseFormat[Parsed] = None,
        **options: "Unpack[RunOptions]",
    ) -> "AsyncRunStream[Parsed]":
        """Do what `run` does, and return a stream of its events.

        Args:
            messages: the text of one message, or a list of messages with `role` and `content`.
            model: the model, optionally as `provider/model`.
            tools: functions, `Tool` values and `MCPServer` values that the model may call, and
                tools that the provider runs, in its own format.
            temperature: the sampling temperature, or None for the default of the provider.
            max_tokens: the maximum length of each answer, or None for the default of the provider.
            response_format: a JSON schema, a pydantic model or another type for the last answer.
            options: the optional arguments of `RunOptions`.

        Raises:
            LLMRequestError: an argument is wrong.
        """
        asked = model, temperature, max_tokens, response_format, {**options}
        return self._new_run(messages, tools, *asked).stream()

    async def embed(
        self,
        input: str | Sequence[str],  # noqa: A002 - its name at every provider
        model: str = DEFAULT_EMBEDDING_MODEL,
        *,
        dimensions: int | None = None,
        extra: Mapping[str, Any] | None = None,
        budget_key: str | None = None,
    ) -> EmbeddingResponse:
        """Return the embeddings of texts, in their order.

        More texts than the provider accepts in one request are sent in several requests.

        Args:
            input: one text, or several.
            model: the embedding model, optionally as `provider/model`.
            dimensions: the number of dimensions of the vectors, if the model has several.
            extra: further fields of the request body, for this provider only.
            budget_key: the name whose budget pays for the call, for a budget per key.

        Raises:
            LLMRequestError: an argument is wrong, or the provider rejected the request.
            LLMError: there are no embeddings; the class and the fields of the error give the
                reason.
        """
        from ._embed import embed_flow, joined  # most programs do not need it

        plans = self._embed_plans(input, model, dimensions, extra)
        attempts = self._embed_attempts(plans, budget_key)
        with attempts.observer:
            responses = await self._run_flow(embed_flow(attempts, plans), attempts)
            for plan, response in zip(plans, responses, strict=True):
                if isinstance(plan.pricing, DeferredPrice):
                    await plan.pricing.set_async(response["usage"])
            whole = joined(responses)
            attempts.observer.answered(whole)
        return self._returned(whole)

    async def models(self, provider: str | None = None) -> list[ModelInfo]:
        """Return the models of a provider.

        Args:
            provider: the name of the provider; the default is that of the default model.

        Raises:
            LLMRequestError: there is no such provider, or it has no list.
            LLMError: there is no list; the class and the fields of the error give the reason.
        """
        from ._models import models_flow  # most programs do not need it

        attempts = self._new_attempts([self._models_plan(provider)])
        return await self._run_observed(models_flow(attempts), attempts)

    async def count_tokens(
        self,
        messages: Messages,
        model: str = DEFAULT_MODEL,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> TokenCount:
        """Return the number of tokens of a prompt, without sending it to the model.

        OpenAI, Anthropic and Gemini count them. For other providers the number is an estimate, and
        nothing is sent.

        Args:
            messages: the text of one message, or a list of messages with `role` and `content`.
            model: the model, optionally as `provider/model`.
            tools: the functions that the model may call, in the format of OpenAI.

        Raises:
            LLMRequestError: an argument is wrong, or the provider rejected the request.
            LLMError: there is no count; the class and the fields of the error give the reason.
        """
        from ._count import count_plan, estimated_count, read_count  # most programs do not need it

        route = side_route(self, model)
        call = check_call(messages, route.model, tools, None, None)
        plan = count_plan(call, route)
        return estimated_count(call) if plan is None else await self._ask(plan, read_count)

    async def batch(
        self, requests: Sequence[Mapping[str, Any]], model: str = DEFAULT_MODEL
    ) -> "AsyncBatch":
        """Submit requests that are answered within a day, at half the price, and return the batch.

        OpenAI, Anthropic and Gemini have batches. A submit that may have arrived is not repeated.

        Args:
            requests: the arguments of one call each, such as `{"messages": […]}`, with an optional
                `id` of letters, digits, `_` and `-`, by which its result is found.
            model: the model of all requests, optionally as `provider/model`.

        Raises:
            LLMRequestError: an argument is wrong, or the provider rejected the batch.
            LLMError: the batch was not created, or this is not known; the message says so.
        """
        from ._batch import batch_plans, first_plan, submit_flow  # most programs do not need it
        from .batches import AsyncBatch

        plans = batch_plans(self, requests, model)
        attempts = self._new_attempts([first_plan(plans)], 2)
        id_ = await self._run_observed(submit_flow(attempts, plans), attempts)
        return AsyncBatch(self, f"{self._model_or_default(model)}#{id_}")

    async def upload(
        self,
        file: "str | PathLike[str] | bytes",
        model: str = DEFAULT_MODEL,
        *,
        filename: str | None = None,
    ) -> Message:
        """Store a file at the provider of a model, and return the part of a message that has it.

        OpenAI, Anthropic and Gemini store files. The method waits until the file can be used.

        Args:
            file: the path of the file, or its bytes.
            model: the model, optionally as `provider/model`.
            filename: the name of the file; it is required with bytes, and shows their type.

        Raises:
            LLMRequestError: an argument is wrong, or the provider rejected the file.
            LLMError: the file is not stored; the class and the fields of the error give the reason.
        """
        from ._files import ReadFile, upload_flow, upload_plan  # most programs do not need it

        route, reading = side_route(self, model), ReadFile(file, filename)
        await reading.perform_async()
        attempts = self._new_attempts([upload_plan(route, reading)], 3)
        return await self._run_observed(upload_flow(attempts, reading), attempts)

    async def delete_file(self, part: Mapping[str, Any], model: str = DEFAULT_MODEL) -> None:
        """Delete a file that `upload` has stored.

        Args:
            part: what `upload` returned.
            model: the model that was passed to `upload`.

        Raises:
            LLMRequestError: an argument is wrong.
            LLMError: the file is not deleted; the class and the fields of the error give the
                reason.
        """
        from ._files import delete_plan, read_json  # most programs do not need it

        await self._ask(delete_plan(side_route(self, model), part), read_json)

    async def aclose(self) -> None:
        """Close the connections; may be called twice."""
        await self._sessions.aclose()

    def _connect(self, max_concurrency: int | None) -> None:
        self._sessions = sessions = _sessions(max_concurrency)
        # A client that is garbage-collected without being closed closes its connections silently.
        self._abandon = finalize(self, sessions.abandon)
        self._abandon.atexit = False

    def _new_run(
        self,
        messages: Messages,
        tools: "Sequence[Callable[..., Any] | Tool | MCPServer | Mapping[str, Any]] | None",
        model: str,
        temperature: float | None,
        max_tokens: int | None,
        response_format: Any,
        options: dict[str, Any],
    ) -> "AsyncRun":
        named = {
            "model": model,
            "temperature": temperature,
            "max_tokens": max_tokens,
            "response_format": response_format,
        }
        return _run_class()(cast("AsyncModelClient", self), messages, tools, named | options)

    async def _deltas(
        self, attempts: Attempts[CallPlan], machine: AnswerMachine, reading: Reading
    ) -> AsyncGenerator[Delta]:
        session = self._sessions.get() or await self._session()
        received = drive_async(machine, session.sender(whole=False), reading=reading)
        if isinstance(attempts.plan.pricing, DeferredPrice):
            received = _with_price(received, attempts, attempts.plan.pricing, machine)
        slot = session.slot(attempts.seconds_left, attempts.deadline_error)
        try:
            for delta in await run_async(machine.cache_flow(), session.sender(whole=True)):
                yield delta
            if machine.response is not None:  # it was in the cache
                return
            async with slot, aclosing(received) as deltas:
                async for delta in deltas:
                    yield delta
        finally:
            await run_async(machine.close_flow(), session.sender(whole=True))

    async def _ask(self, plan: SidePlan, read: ReadReply[Value]) -> Value:
        """Send a request that is not for an answer, and return what is in the reply."""
        attempts = self._new_attempts([plan])
        return await self._run_observed(call_flow(attempts, read), attempts)

    async def _run_observed(self, flow: Flow[Value], attempts: Attempts[Any]) -> Value:
        """Run a flow, and let the hooks and the telemetry see its requests."""
        with attempts.observer:
            return await self._run_flow(flow, attempts)

    async def _run_flow(self, flow: Flow[Value], attempts: Attempts[Any]) -> Value:
        """Run a flow as soon as fewer than `max_concurrency` calls are running."""
        session = self._sessions.get() or await self._session()
        sender = session.sender(whole=True)
        try:
            if not session.limited:
                return await run_async(flow, sender, MAX_ANSWER_BYTES)
            async with session.slot(attempts.seconds_left, attempts.deadline_error):
                return await run_async(flow, sender, MAX_ANSWER_BYTES)
        finally:
            if (action := attempts.close()) is not None:
                await action.perform_async()

    async def _session(self) -> "AsyncHTTPSession":
        load_prices()
        session = await self._sessions.current()
        if session is None:
            raise LLMConnectionError("the client is closed; create a new one")
        return session


@cache
def _run_class() -> "type[AsyncRun]":
    """Return the class of runs, imported on first use: most programs have no tools."""
    from .tools._run_async import AsyncRun

    return AsyncRun


def _sessions(max_concurrency: int | None) -> "AsyncHTTPSessions":
    try:
        from ._session_async import AsyncHTTPSessions
    except ModuleNotFoundError as error:
        raise missing_extra() from error
    return AsyncHTTPSessions(max_concurrency)


async def _observed(deltas: AsyncGenerator[Delta], observer: CallObserver) -> AsyncGenerator[Delta]:
    """Yield deltas; the observer sees how the stream ends."""
    with observer:
        async with aclosing(deltas):
            async for delta in deltas:
                yield delta


async def _with_price(
    deltas: AsyncGenerator[Delta],
    attempts: Attempts[CallPlan],
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
