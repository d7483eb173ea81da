"""The methods of the client that run a model with tools."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

from .._call import DEFAULT_MODEL
from ..types import Parsed

if TYPE_CHECKING:
    from ._perform import AsyncModelClient
    from ._run_async import AsyncRun, AsyncRunStream
    from ._run_machine import RunOptions
    from .events import RunResult
    from .mcp import MCPServer
    from .tool import Tool

__all__ = ["AsyncRuns"]


class AsyncRuns:
    """The base class of the client with `run` and `run_stream`."""

    @overload
    async def run(
        self,
        messages: Sequence[Mapping[str, Any]],
        model: str = ...,
        tools: "Sequence[Callable[..., Any] | Tool | MCPServer] | None" = ...,
        temperature: float | None = ...,
        max_tokens: int | None = ...,
        *,
        response_format: type[Parsed],
        **options: "Unpack[RunOptions]",
    ) -> "RunResult[Parsed]": ...

    @overload
    async def run(
        self,
        messages: Sequence[Mapping[str, Any]],
        model: str = ...,
        tools: "Sequence[Callable[..., Any] | Tool | MCPServer] | None" = ...,
        temperature: float | None = ...,
        max_tokens: int | None = ...,
        *,
        response_format: Mapping[str, Any] | None = ...,
        **options: "Unpack[RunOptions]",
    ) -> "RunResult": ...

    async def run(
        self,
        messages: Sequence[Mapping[str, Any]],
        model: str = DEFAULT_MODEL,
        tools: "Sequence[Callable[..., Any] | Tool | MCPServer] | None" = None,
        temperature: float | None = 0.7,
        max_tokens: int | None = 2000,
        *,
        response_format: Any = None,
        **options: "Unpack[RunOptions]",
    ) -> "RunResult":
        """Send messages to a model, execute the tools that it calls, and return its answer.

        Args:
            messages: the conversation; each message has a `role` and `content`.
            model: the model, optionally as `provider/model`.
            tools: functions, `Tool` values and `MCPServer` values that the model may call.
            temperature: the sampling temperature, or None for the default of the provider.
            max_tokens: the maximum length of each answer, or None for the default of the provider.
            response_format: a JSON schema or a pydantic model for the last answer.
            options: the optional arguments of `RunOptions`.

        Raises:
            LLMRequestError: an argument is wrong, or the provider rejected the request.
            LLMRunLimitError: a limit of the run is reached.
            LLMToolError: a tool has failed too often.
            ToolAbort: a tool has ended the run.
            LLMError: there is no answer. `conversation` and `usage` of all these errors show how
                far the run came.
        """
        call_options: dict[str, Any] = {
            "model": model,
            "temperature": temperature,
            "max_tokens": max_tokens,
            "response_format": response_format,
            **options,
        }
        return await self._new_run(messages, tools, call_options).result()

    @overload
    def run_stream(
        self,
        messages: Sequence[Mapping[str, Any]],
        model: str = ...,
        tools: "Sequence[Callable[..., Any] | Tool | MCPServer] | None" = ...,
        temperature: float | None = ...,
        max_tokens: int | None = ...,
        *,
        response_format: type[Parsed],
        **options: "Unpack[RunOptions]",
    ) -> "AsyncRunStream[Parsed]": ...

    @overload
    def run_stream(
        self,
        messages: Sequence[Mapping[str, Any]],
        model: str = ...,
        tools: "Sequence[Callable[..., Any] | Tool | MCPServer] | None" = ...,
        temperature: float | None = ...,
        max_tokens: int | None = ...,
        *,
        response_format: Mapping[str, Any] | None = ...,
        **options: "Unpack[RunOptions]",
    ) -> "AsyncRunStream": ...

    def run_stream(
        self,
        messages: Sequence[Mapping[str, Any]],
        model: str = DEFAULT_MODEL,
        tools: "Sequence[Callable[..., Any] | Tool | MCPServer] | None" = None,
        temperature: float | None = 0.7,
        max_tokens: int | None = 2000,
        *,
        response_format: Any = None,
        **options: "Unpack[RunOptions]",
    ) -> "AsyncRunStream":
        """Do what `run` does, and return a stream of its events.

        Args:
            messages: the conversation; each message has a `role` and `content`.
            model: the model, optionally as `provider/model`.
            tools: functions, `Tool` values and `MCPServer` values that the model may call.
            temperature: the sampling temperature, or None for the default of the provider.
            max_tokens: the maximum length of each answer, or None for the default of the provider.
            response_format: a JSON schema or a pydantic model for the last answer.
            options: the optional arguments of `RunOptions`.

        Raises:
            LLMRequestError: an argument is wrong.
        """
        call_options: dict[str, Any] = {
            "model": model,
            "temperature": temperature,
            "max_tokens": max_tokens,
            "response_format": response_format,
            **options,
        }
        return self._new_run(messages, tools, call_options).stream()

    def _new_run(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: "Sequence[Callable[..., Any] | Tool | MCPServer] | None",
        options: dict[str, Any],
    ) -> "AsyncRun":
        return _run_class()(cast("AsyncModelClient", self), messages, tools, options)


@cache
def _run_class() -> "type[AsyncRun]":
    """Return the class of runs, imported on first use: most programs have no tools."""
    from ._run_async import AsyncRun

    return AsyncRun
