"""Functions for a single call: the configuration is read from the environment and `.env`.

All calls share the connections of one client, which is created again if the configuration changes.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from .. import _fork
from ._call import DEFAULT_EMBEDDING_MODEL, DEFAULT_MODEL
from ._from_env import client_arguments, read_configuration
from .aclient import AsyncLLMClient
from .client import LLMClient
from .streams import AsyncLLMStream, LLMStream
from .types import CallOptions, EmbeddingResponse, ModelInfo, Parsed, Response

if TYPE_CHECKING:
    from .settings import Configuration

__all__ = [
    "embed",
    "embed_sync",
    "generate",
    "generate_sync",
    "models",
    "models_sync",
    "stream",
    "stream_sync",
]

_Client = TypeVar("_Client", AsyncLLMClient, LLMClient)


@overload
async def generate(
    messages: Sequence[Mapping[str, Any]],
    model: str = DEFAULT_MODEL,
    tools: Sequence[Mapping[str, Any]] | None = None,
    temperature: float | None = 0.7,
    max_tokens: int | None = 2000,
    *,
    response_format: type[Parsed],
    **options: Unpack[CallOptions],
) -> Response[Parsed]: ...


@overload
async def generate(
    messages: Sequence[Mapping[str, Any]],
    model: str = DEFAULT_MODEL,
    tools: Sequence[Mapping[str, Any]] | None = None,
    temperature: float | None = 0.7,
    max_tokens: int | None = 2000,
    *,
    response_format: Mapping[str, Any] | None = None,
    **options: Unpack[CallOptions],
) -> Response: ...


async def generate(
    messages: Sequence[Mapping[str, Any]],
    model: str = DEFAULT_MODEL,
    tools: Sequence[Mapping[str, Any]] | None = None,
    temperature: float | None = 0.7,
    max_tokens: int | None = 2000,
    *,
    response_format: Any = None,
    **options: Unpack[CallOptions],
) -> Response:
    """Send messages to a model and return its answer as the standard response object.

    The configuration is read from the environment and `.env` at each call.

    Args:
        messages: the conversation; each message has a `role` and `content`.
        model: the model, optionally as `provider/model`; by default `DEFAULT_MODEL`.
        tools: the functions that the model may call, in the format of OpenAI.
        temperature: the sampling temperature, 0 to 1 (up to 2 where the provider accepts it), or
            None for the provider's default.
        max_tokens: the maximum length of the answer, or None for the provider's default.
        response_format: a JSON schema or a pydantic model for the answer.
        options: the optional arguments of `coreason_client.llm.types.CallOptions`.

    Raises:
        LLMRequestError: an argument or a variable is wrong, or the provider rejected the request.
        LLMError: there is no answer; the class and the fields of the error give the reason.
    """
    return await _shared.client(AsyncLLMClient).generate(
        messages,
        model,
        tools,
        temperature,
        max_tokens,
        response_format=response_format,
        **options,
    )


@overload
def stream(
    messages: Sequence[Mapping[str, Any]],
    model: str = DEFAULT_MODEL,
    tools: Sequence[Mapping[str, Any]] | None = None,
    temperature: float | None = 0.7,
    max_tokens: int | None = 2000,
    *,
    response_format: type[Parsed],
    **options: Unpack[CallOptions],
) -> AsyncLLMStream[Parsed]: ...


@overload
def stream(
    messages: Sequence[Mapping[str, Any]],
    model: str = DEFAULT_MODEL,
    tools: Sequence[Mapping[str, Any]] | None = None,
    temperature: float | None = 0.7,
    max_tokens: int | None = 2000,
    *,
    response_format: Mapping[str, Any] | None = None,
    **options: Unpack[CallOptions],
) -> AsyncLLMStream: ...


def stream(
    messages: Sequence[Mapping[str, Any]],
    model: str = DEFAULT_MODEL,
    tools: Sequence[Mapping[str, Any]] | None = None,
    temperature: float | None = 0.7,
    max_tokens: int | None = 2000,
    *,
    response_format: Any = None,
    **options: Unpack[CallOptions],
) -> AsyncLLMStream:
    """Send messages to a model and return a stream of deltas; configuration like `generate`.

    Args:
        messages: the conversation; each message has a `role` and `content`.
        model: the model, optionally as `provider/model`; by default `DEFAULT_MODEL`.
        tools: the functions that the model may call, in the format of OpenAI.
        temperature: the sampling temperature, 0 to 1 (up to 2 where the provider accepts it), or
            None for the provider's default.
        max_tokens: the maximum length of the answer, or None for the provider's default.
        response_format: a JSON schema or a pydantic model for the answer.
        options: the optional arguments of `coreason_client.llm.types.CallOptions`.

    Raises:
        LLMRequestError: an argument or a variable is wrong.
        LLMAuthenticationError: there is no key.
    """
    return _shared.client(AsyncLLMClient).stream(
        messages,
        model,
        tools,
        temperature,
        max_tokens,
        response_format=response_format,
        **options,
    )


@overload
def generate_sync(
    messages: Sequence[Mapping[str, Any]],
    model: str = DEFAULT_MODEL,
    tools: Sequence[Mapping[str, Any]] | None = None,
    temperature: float | None = 0.7,
    max_tokens: int | None = 2000,
    *,
    response_format: type[Parsed],
    **options: Unpack[CallOptions],
) -> Response[Parsed]: ...


@overload
def generate_sync(
    messages: Sequence[Mapping[str, Any]],
    model: str = DEFAULT_MODEL,
    tools: Sequence[Mapping[str, Any]] | None = None,
    temperature: float | None = 0.7,
    max_tokens: int | None = 2000,
    *,
    response_format: Mapping[str, Any] | None = None,
    **options: Unpack[CallOptions],
) -> Response: ...


def generate_sync(
    messages: Sequence[Mapping[str, Any]],
    model: str = DEFAULT_MODEL,
    tools: Sequence[Mapping[str, Any]] | None = None,
    temperature: float | None = 0.7,
    max_tokens: int | None = 2000,
    *,
    response_format: Any = None,
    **options: Unpack[CallOptions],
) -> Response:
    """Do what `generate` does and block until there is an answer: for scripts and notebooks.

    Args:
        messages: the conversation; each message has a `role` and `content`.
        model: the model, optionally as `provider/model`; by default `DEFAULT_MODEL`.
        tools: the functions that the model may call, in the format of OpenAI.
        temperature: the sampling temperature, 0 to 1 (up to 2 where the provider accepts it), or
            None for the provider's default.
        max_tokens: the maximum length of the answer, or None for the provider's default.
        response_format: a JSON schema or a pydantic model for the answer.
        options: the optional arguments of `coreason_client.llm.types.CallOptions`.

    Raises:
        LLMError: as for `generate`.
    """
    return _shared.client(LLMClient).generate(
        messages,
        model,
        tools,
        temperature,
        max_tokens,
        response_format=response_format,
        **options,
    )


@overload
def stream_sync(
    messages: Sequence[Mapping[str, Any]],
    model: str = DEFAULT_MODEL,
    tools: Sequence[Mapping[str, Any]] | None = None,
    temperature: float | None = 0.7,
    max_tokens: int | None = 2000,
    *,
    response_format: type[Parsed],
    **options: Unpack[CallOptions],
) -> LLMStream[Parsed]: ...


@overload
def stream_sync(
    messages: Sequence[Mapping[str, Any]],
    model: str = DEFAULT_MODEL,
    tools: Sequence[Mapping[str, Any]] | None = None,
    temperature: float | None = 0.7,
    max_tokens: int | None = 2000,
    *,
    response_format: Mapping[str, Any] | None = None,
    **options: Unpack[CallOptions],
) -> LLMStream: ...


def stream_sync(
    messages: Sequence[Mapping[str, Any]],
    model: str = DEFAULT_MODEL,
    tools: Sequence[Mapping[str, Any]] | None = None,
    temperature: float | None = 0.7,
    max_tokens: int | None = 2000,
    *,
    response_format: Any = None,
    **options: Unpack[CallOptions],
) -> LLMStream:
    """Do what `stream` does, for scripts and notebooks: the stream is read with `for`.

    Args:
        messages: the conversation; each message has a `role` and `content`.
        model: the model, optionally as `provider/model`; by default `DEFAULT_MODEL`.
        tools: the functions that the model may call, in the format of OpenAI.
        temperature: the sampling temperature, 0 to 1 (up to 2 where the provider accepts it), or
            None for the provider's default.
        max_tokens: the maximum length of the answer, or None for the provider's default.
        response_format: a JSON schema or a pydantic model for the answer.
        options: the optional arguments of `coreason_client.llm.types.CallOptions`.

    Raises:
        LLMRequestError: an argument or a variable is wrong.
        LLMAuthenticationError: there is no key.
    """
    return _shared.client(LLMClient).stream(
        messages,
        model,
        tools,
        temperature,
        max_tokens,
        response_format=response_format,
        **options,
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
    client = _shared.client(AsyncLLMClient)
    return await client.embed(input, model, dimensions=dimensions, extra=extra)


def embed_sync(
    input: str | Sequence[str],  # noqa: A002 - its name at every provider
    model: str = DEFAULT_EMBEDDING_MODEL,
    *,
    dimensions: int | None = None,
    extra: Mapping[str, Any] | None = None,
) -> EmbeddingResponse:
    """Do what `embed` does and block until there are embeddings: for scripts and notebooks.

    Args:
        input: one text, or several.
        model: the embedding model, optionally as `provider/model`.
        dimensions: the number of dimensions of the vectors, if the model has several.
        extra: further fields of the request body, for this provider only.

    Raises:
        LLMError: as for `embed`.
    """
    client = _shared.client(LLMClient)
    return client.embed(input, model, dimensions=dimensions, extra=extra)


async def models(provider: str | None = None) -> list[ModelInfo]:
    """Return the models of a provider; configuration like `generate`.

    Args:
        provider: the name of the provider; by default that of the default model.

    Raises:
        LLMRequestError: a variable is wrong, or there is no such provider.
        LLMError: there is no list; the class and the fields of the error give the reason.
    """
    return await _shared.client(AsyncLLMClient).models(provider)


def models_sync(provider: str | None = None) -> list[ModelInfo]:
    """Do what `models` does and block until there is a list: for scripts and notebooks.

    Args:
        provider: the name of the provider; by default that of the default model.

    Raises:
        LLMError: as for `models`.
    """
    return _shared.client(LLMClient).models(provider)


class _Shared:
    """The clients of the functions, each with the configuration that it was created for."""

    def __init__(self) -> None:
        self._clients: dict[type, tuple[Configuration, Any]] = {}
        self._lock = threading.Lock()
        _fork.register(self)

    def client(self, kind: type[_Client]) -> _Client:
        """Return the client for the current configuration."""
        configuration = read_configuration()
        known = self._clients.get(kind)
        if known is None or known[0] is not configuration:
            with self._lock:
                return self._create(kind, configuration)
        current: _Client = known[1]
        return current

    def _create(self, kind: type[_Client], configuration: "Configuration") -> _Client:
        known = self._clients.get(kind)
        if known is not None and known[0] is configuration:  # another thread was faster
            current: _Client = known[1]
            return current
        client = kind(**client_arguments(configuration, configuration.base_url))
        client._abandon.detach()  # the connections outlive the client, for the next one
        if known is not None:
            client._sessions = known[1]._sessions
        self._clients[kind] = configuration, client
        return client

    def after_fork(self) -> None:
        """Replace the lock, which a thread of the parent process may hold."""
        self._lock = threading.Lock()


_shared = _Shared()
