"""Functions for a single run: the configuration is read from the environment and `.env`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack, overload

from .. import functions as call_functions
from .._call import DEFAULT_MODEL
from ..aclient import AsyncLLMClient
from ..client import LLMClient
from ..types import Parsed
from ._run_machine import RunOptions
from .events import RunResult
from .mcp import MCPServer
from .run_streams import AsyncRunStream, RunStream
from .tool import Tool

__all__ = ["run", "run_stream", "run_stream_sync", "run_sync"]


@overload
async def run(
    messages: Sequence[Mapping[str, Any]],
    model: str = ...,
    tools: Sequence[Callable[..., Any] | Tool | MCPServer] | None = ...,
    temperature: float | None = ...,
    max_tokens: int | None = ...,
    *,
    response_format: type[Parsed],
    **options: Unpack[RunOptions],
) -> RunResult[Parsed]: ...


@overload
async def run(
    messages: Sequence[Mapping[str, Any]],
    model: str = ...,
    tools: Sequence[Callable[..., Any] | Tool | MCPServer] | None = ...,
    temperature: float | None = ...,
    max_tokens: int | None = ...,
    *,
    response_format: Mapping[str, Any] | None = ...,
    **options: Unpack[RunOptions],
) -> RunResult: ...


async def run(
    messages: Sequence[Mapping[str, Any]],
    model: str = DEFAULT_MODEL,
    tools: Sequence[Callable[..., Any] | Tool | MCPServer] | None = None,
    temperature: float | None = 0.7,
    max_tokens: int | None = 2000,
    *,
    response_format: Any = None,
    **options: Unpack[RunOptions],
) -> RunResult:
    """Send messages to a model, execute the tools that it calls, and return its answer.

    The configuration is read from the environment and `.env`.

    Args:
        messages: the conversation; each message has a `role` and `content`.
        model: the model, optionally as `provider/model`; by default `DEFAULT_MODEL`.
        tools: functions, `Tool` values and `MCPServer` values that the model may call.
        temperature: the sampling temperature, or None for the provider's default.
        max_tokens: the maximum length of each answer, or None for the provider's default.
        response_format: a JSON schema or a pydantic model for the last answer.
        options: the optional arguments of `RunOptions`.

    Raises:
        LLMRequestError: an argument or a variable is wrong, or the provider rejected the request.
        LLMError: there is no answer; the class and the fields of the error give the reason.
    """
    return await call_functions._shared.client(AsyncLLMClient).run(
        messages,
        model,
        tools,
        temperature,
        max_tokens,
        response_format=response_format,
        **options,
    )


@overload
def run_stream(
    messages: Sequence[Mapping[str, Any]],
    model: str = ...,
    tools: Sequence[Callable[..., Any] | Tool | MCPServer] | None = ...,
    temperature: float | None = ...,
    max_tokens: int | None = ...,
    *,
    response_format: type[Parsed],
    **options: Unpack[RunOptions],
) -> AsyncRunStream[Parsed]: ...


@overload
def run_stream(
    messages: Sequence[Mapping[str, Any]],
    model: str = ...,
    tools: Sequence[Callable[..., Any] | Tool | MCPServer] | None = ...,
    temperature: float | None = ...,
    max_tokens: int | None = ...,
    *,
    response_format: Mapping[str, Any] | None = ...,
    **options: Unpack[RunOptions],
) -> AsyncRunStream: ...


def run_stream(
    messages: Sequence[Mapping[str, Any]],
    model: str = DEFAULT_MODEL,
    tools: Sequence[Callable[..., Any] | Tool | MCPServer] | None = None,
    temperature: float | None = 0.7,
    max_tokens: int | None = 2000,
    *,
    response_format: Any = None,
    **options: Unpack[RunOptions],
) -> AsyncRunStream:
    """Do what `run` does, and return a stream of its events.

    Args:
        messages: the conversation; each message has a `role` and `content`.
        model: the model, optionally as `provider/model`; by default `DEFAULT_MODEL`.
        tools: functions, `Tool` values and `MCPServer` values that the model may call.
        temperature: the sampling temperature, or None for the provider's default.
        max_tokens: the maximum length of each answer, or None for the provider's default.
        response_format: a JSON schema or a pydantic model for the last answer.
        options: the optional arguments of `RunOptions`.

    Raises:
        LLMRequestError: an argument or a variable is wrong.
    """
    return call_functions._shared.client(AsyncLLMClient).run_stream(
        messages,
        model,
        tools,
        temperature,
        max_tokens,
        response_format=response_format,
        **options,
    )


@overload
def run_sync(
    messages: Sequence[Mapping[str, Any]],
    model: str = ...,
    tools: Sequence[Callable[..., Any] | Tool | MCPServer] | None = ...,
    temperature: float | None = ...,
    max_tokens: int | None = ...,
    *,
    response_format: type[Parsed],
    **options: Unpack[RunOptions],
) -> RunResult[Parsed]: ...


@overload
def run_sync(
    messages: Sequence[Mapping[str, Any]],
    model: str = ...,
    tools: Sequence[Callable[..., Any] | Tool | MCPServer] | None = ...,
    temperature: float | None = ...,
    max_tokens: int | None = ...,
    *,
    response_format: Mapping[str, Any] | None = ...,
    **options: Unpack[RunOptions],
) -> RunResult: ...


def run_sync(
    messages: Sequence[Mapping[str, Any]],
    model: str = DEFAULT_MODEL,
    tools: Sequence[Callable[..., Any] | Tool | MCPServer] | None = None,
    temperature: float | None = 0.7,
    max_tokens: int | None = 2000,
    *,
    response_format: Any = None,
    **options: Unpack[RunOptions],
) -> RunResult:
    """Do what `run` does and block until there is an answer: for scripts and notebooks.

    Args:
        messages: the conversation; each message has a `role` and `content`.
        model: the model, optionally as `provider/model`; by default `DEFAULT_MODEL`.
        tools: functions, `Tool` values and `MCPServer` values that the model may call.
        temperature: the sampling temperature, or None for the provider's default.
        max_tokens: the maximum length of each answer, or None for the provider's default.
        response_format: a JSON schema or a pydantic model for the last answer.
        options: the optional arguments of `RunOptions`.

    Raises:
        LLMError: as for `run`.
    """
    return call_functions._shared.client(LLMClient).run(
        messages,
        model,
        tools,
        temperature,
        max_tokens,
        response_format=response_format,
        **options,
    )


@overload
def run_stream_sync(
    messages: Sequence[Mapping[str, Any]],
    model: str = ...,
    tools: Sequence[Callable[..., Any] | Tool | MCPServer] | None = ...,
    temperature: float | None = ...,
    max_tokens: int | None = ...,
    *,
    response_format: type[Parsed],
    **options: Unpack[RunOptions],
) -> RunStream[Parsed]: ...


@overload
def run_stream_sync(
    messages: Sequence[Mapping[str, Any]],
    model: str = ...,
    tools: Sequence[Callable[..., Any] | Tool | MCPServer] | None = ...,
    temperature: float | None = ...,
    max_tokens: int | None = ...,
    *,
    response_format: Mapping[str, Any] | None = ...,
    **options: Unpack[RunOptions],
) -> RunStream: ...


def run_stream_sync(
    messages: Sequence[Mapping[str, Any]],
    model: str = DEFAULT_MODEL,
    tools: Sequence[Callable[..., Any] | Tool | MCPServer] | None = None,
    temperature: float | None = 0.7,
    max_tokens: int | None = 2000,
    *,
    response_format: Any = None,
    **options: Unpack[RunOptions],
) -> RunStream:
    """Do what `run_stream` does, for scripts and notebooks: the stream is read with `for`.

    Args:
        messages: the conversation; each message has a `role` and `content`.
        model: the model, optionally as `provider/model`; by default `DEFAULT_MODEL`.
        tools: functions, `Tool` values and `MCPServer` values that the model may call.
        temperature: the sampling temperature, or None for the provider's default.
        max_tokens: the maximum length of each answer, or None for the provider's default.
        response_format: a JSON schema or a pydantic model for the last answer.
        options: the optional arguments of `RunOptions`.

    Raises:
        LLMRequestError: an argument or a variable is wrong.
    """
    return call_functions._shared.client(LLMClient).run_stream(
        messages,
        model,
        tools,
        temperature,
        max_tokens,
        response_format=response_format,
        **options,
    )
