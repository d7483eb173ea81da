"""Functions for a single call or run: the configuration is read from the environment and `.env`.

All calls share the connections of one client, which is created again if the configuration changes.
Those whose names end with `_sync` block until there is an answer: for scripts and notebooks.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from ._call import DEFAULT_EMBEDDING_MODEL, DEFAULT_MODEL
from ._from_env import shared_client

# async only: begin
from ._functions_sync import (
    count_tokens_sync,
    embed_sync,
    generate_sync,
    models_sync,
    run_stream_sync,
    run_sync,
    stream_sync,
)

# async only: end
from .aclient import AsyncLLMClient
from .streams import AsyncLLMStream
from .types import (
    CallOptions,
    EmbeddingResponse,
    Messages,
    ModelInfo,
    Parsed,
    Response,
    ResponseFormat,
    TokenCount,
)

if TYPE_CHECKING:
    from .tools._run_async import AsyncRunStream
    from .tools._run_machine import RunOptions
    from .tools.events import RunResult
    from .tools.mcp import MCPServer
    from .tools.tool import Tool

__all__ = [
    "count_tokens",
    "count_tokens_sync",
    "embed",
    "embed_sync",
    "generate",
    "generate_sync",
    "models",
    "models_sync",
    "run",
    "run_stream",
    "run_stream_sync",
    "run_sync",
    "stream",
    "stream_sync",
]


async def generate(
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

    The configuration is read from the environment and `.env` at each call.

    Args:
        messages: the text of one message, or a list of messages with `role` and `content`.
        model: the model, optionally as `provider/model`; by default `DEFAULT_MODEL`.
        tools: the functions that the model may call, in the format of OpenAI, and tools that the
            provider runs, in its own.
        temperature: the sampling temperature, 0 to 1 (up to 2 where the provider accepts it), or
            None for the provider's default.
        max_tokens: the maximum length of the answer, or None for the provider's default.
        response_format: a JSON schema, a pydantic model or another type for the answer.
        options: the optional arguments of `coreason_client.llm.types.CallOptions`.

    Raises:
        LLMRequestError: an argument or a variable is wrong, or the provider rejected the request.
        LLMError: there is no answer; the class and the fields of the error give the reason.
    """
    return await shared_client(AsyncLLMClient).generate(
        messages, model, tools, temperature, max_tokens, response_format=response_format, **options
    )


def stream(
    messages: Messages,
    model: str = DEFAULT_MODEL,
    tools: Sequence[Mapping[str, Any]] | None = None,
    temperature: float | None = 0.7,
    max_tokens: int | None = 2000,
    *,
    response_format: ResponseFormat[Parsed] = None,
    **options: Unpack[CallOptions],
) -> AsyncLLMStream[Parsed]:
    """Send messages to a model and return a stream of deltas; configuration like `generate`.

    Args:
        messages: the text of one message, or a list of messages with `role` and `content`.
        model: the model, optionally as `provider/model`; by default `DEFAULT_MODEL`.
        tools: the functions that the model may call, in the format of OpenAI, and tools that the
            provider runs, in its own.
        temperature: the sampling temperature, 0 to 1 (up to 2 where the provider accepts it), or
            None for the provider's default.
        max_tokens: the maximum length of the answer, or None for the provider's default.
        response_format: a JSON schema, a pydantic model or another type for the answer.
        options: the optional arguments of `coreason_client.llm.types.CallOptions`.

    Raises:
        LLMRequestError: an argument or a variable is wrong.
        LLMAuthenticationError: there is no key.
    """
    return shared_client(AsyncLLMClient).stream(
        messages, model, tools, temperature, max_tokens, response_format=response_format, **options
    )


async def embed(
    input: str | Sequence[str],  # noqa: A002 - its name at every provider
    model: str = DEFAULT_EMBEDDING_MODEL,
    *,
    dimensions: int | None = None,
    extra: Mapping[str, Any] | None = None,
) -> EmbeddingResponse:
    """Return the embeddings of texts, in their order; configuration like `generate`.

    More texts than the provider accepts in one request are sent in several requests.

    Args:
        input: one text, or several.
        model: the embedding model, optionally as `provider/model`.
        dimensions: the number of dimensions of the vectors, if the model has several.
        extra: further fields of the request body, for this provider only.

    Raises:
        LLMRequestError: an argument or a variable is wrong, or the provider rejected the request.
        LLMError: there are no embeddings; the class and the fields of the error give the reason.
    """
    client = shared_client(AsyncLLMClient)
    return await client.embed(input, model, dimensions=dimensions, extra=extra)


async def models(provider: str | None = None) -> list[ModelInfo]:
    """Return the models of a provider; configuration like `generate`.

    Args:
        provider: the name of the provider; by default that of the default model.

    Raises:
        LLMRequestError: a variable is wrong, or there is no such provider.
        LLMError: there is no list; the class and the fields of the error give the reason.
    """
    return await shared_client(AsyncLLMClient).models(provider)


async def count_tokens(
    messages: Messages,
    model: str = DEFAULT_MODEL,
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> TokenCount:
    """Return the number of tokens of a prompt; configuration like `generate`.

    OpenAI, Anthropic and Gemini count them; for other providers the number is an estimate.

    Args:
        messages: the text of one message, or a list of messages with `role` and `content`.
        model: the model, optionally as `provider/model`; by default `DEFAULT_MODEL`.
        tools: the functions that the model may call, in the format of OpenAI.

    Raises:
        LLMRequestError: an argument or a variable is wrong, or the provider rejected the request.
        LLMError: there is no count; the class and the fields of the error give the reason.
    """
    return await shared_client(AsyncLLMClient).count_tokens(messages, model, tools)


async def run(
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

    The configuration is read from the environment and `.env`.

    Args:
        messages: the text of one message, or a list of messages with `role` and `content`.
        model: the model, optionally as `provider/model`; by default `DEFAULT_MODEL`.
        tools: functions, `Tool` values and `MCPServer` values that the model may call, and
            tools that the provider runs, in its own format.
        temperature: the sampling temperature, or None for the provider's default.
        max_tokens: the maximum length of each answer, or None for the provider's default.
        response_format: a JSON schema, a pydantic model or another type for the last answer.
        options: the optional arguments of `RunOptions`.

    Raises:
        LLMRequestError: an argument or a variable is wrong, or the provider rejected the request.
        LLMError: there is no answer; the class and the fields of the error give the reason.
    """
    return await shared_client(AsyncLLMClient).run(
        messages, model, tools, temperature, max_tokens, response_format=response_format, **options
    )


def run_stream(
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
        model: the model, optionally as `provider/model`; by default `DEFAULT_MODEL`.
        tools: functions, `Tool` values and `MCPServer` values that the model may call, and
            tools that the provider runs, in its own format.
        temperature: the sampling temperature, or None for the provider's default.
        max_tokens: the maximum length of each answer, or None for the provider's default.
        response_format: a JSON schema, a pydantic model or another type for the last answer.
        options: the optional arguments of `RunOptions`.

    Raises:
        LLMRequestError: an argument or a variable is wrong.
    """
    return shared_client(AsyncLLMClient).run_stream(
        messages, model, tools, temperature, max_tokens, response_format=response_format, **options
    )
