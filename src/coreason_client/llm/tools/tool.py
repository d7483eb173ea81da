"""The tools of a run: what the model sees of them, and the function of each. No I/O."""

import inspect
import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any, Literal

from .._argument_errors import invalid
from .._check_call import CheckedTools, check_tools
from ..errors import LLMRequestError
from ._function_schema import function_schema

__all__ = ["Tool"]

logger = logging.getLogger("coreason_client.llm")

_MAX_LISTED = 50
_ASYNC_MARK = "_coreason_async"  # of functions that are steps of an agent


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool for `run`, for what the function alone does not show.

    Args:
        function: a plain or an async function; the arguments are passed by keyword.
        name: the name that the model uses; by default that of the function.
        description: the description for the model; by default that of the docstring.
        parameters: the JSON schema of the arguments. By default it is built from the annotations,
            and the arguments are validated; arguments for an explicit schema are not.
        timeout: the maximum number of seconds of a call; a longer one is an error of the tool.
        on_restart: what happens in a durable agent to a call that a crash has interrupted: "rerun"
            calls the function again, "fail" ends the stream, because nobody knows whether the call
            took effect.
        requires_approval: True if a person must approve each call, or a function of the arguments
            that returns it. A call that needs one raises `LLMApprovalRequired`; `llm_agent` asks
            the user. An approved call that a crash has interrupted is not made again.
    """

    function: Callable[..., Any]
    name: str | None = None
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    timeout: float | None = None
    on_restart: Literal["rerun", "fail"] = "rerun"
    requires_approval: bool | Callable[[dict[str, Any]], bool] = False


@dataclass(frozen=True, slots=True)
class RunnableTool:
    """A tool of a run.

    `bind` returns a function without parameters for a call with arguments; it raises
    `ArgumentsError` if they are invalid. `is_async` is True if that function is async. `kind` is
    "function", or "extension" for a tool of an MCP server.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    bind: Callable[[Mapping[str, Any]], Callable[[], Any]]
    is_async: bool
    timeout: float | None = None
    on_restart: str = "rerun"
    kind: str = "function"
    requires_approval: bool | Callable[[dict[str, Any]], bool] = False

    def needs_approval(self, arguments: Mapping[str, Any]) -> bool:
        """Return True if a person must approve a call; if nobody can tell, one must."""
        if isinstance(self.requires_approval, bool):
            return self.requires_approval
        try:
            return bool(self.requires_approval(dict(arguments)))
        except Exception:
            logger.exception("requires_approval of the tool %s failed", self.name)
            return True

    @property
    def definition(self) -> dict[str, Any]:
        """The tool in the format of OpenAI."""
        function: dict[str, Any] = {"name": self.name, "parameters": self.parameters}
        if self.description:
            function["description"] = self.description
        return {"type": "function", "function": function}


class Toolset:
    """The tools of one run, by name; `provided` are those that the provider runs.

    Raises:
        LLMRequestError: two functions have the same name, or a tool is not valid.
    """

    def __init__(
        self,
        functions: Sequence[RunnableTool],
        served: Sequence[tuple[str, Sequence[RunnableTool]]] = (),
        provided: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        tools = [*functions, *_renamed(functions, served)] if served else functions
        # Checked once: the client would check them in every turn.
        definitions = [*(tool.definition for tool in tools), *provided]
        self.definitions = CheckedTools(check_tools(definitions))
        self._tools = {tool.name: tool for tool in tools}

    def find(self, name: str) -> RunnableTool | None:
        """Return a tool, None if there is no such tool."""
        return self._tools.get(name)

    def needs_approval(self, call: Mapping[str, Any]) -> bool:
        """Return True if a person must approve a call."""
        tool = self.find(call["name"])
        return tool is not None and tool.needs_approval(call["arguments"])

    def unknown(self, name: str) -> str:
        """Return the message for a model that calls a tool which does not exist."""
        names = ", ".join(list(self._tools)[:_MAX_LISTED])
        return f"there is no tool {name[:100]!r}; the tools are: {names or 'none'}"


def _renamed(
    functions: Sequence[RunnableTool], served: Sequence[tuple[str, Sequence[RunnableTool]]]
) -> Iterator[RunnableTool]:
    """Yield the tools of servers with names that are unique."""
    named = unique_names(
        [tool.name for tool in functions],
        [(server, [tool.name for tool in tools]) for server, tools in served],
    )
    for (_, tools), names in zip(served, named, strict=True):
        for tool, name in zip(tools, names, strict=True):
            yield replace(tool, name=name)


def function_tool(tool: Any, where: str, *, allow_async: bool) -> RunnableTool:
    """Return the tool for a function or a `Tool`; `where` is its name in an error.

    Raises:
        LLMRequestError: it is wrong, or async in the sync client.
    """
    found = _tool(tool, where) if isinstance(tool, Tool) else _plain_tool(tool, where)
    if found.is_async and not allow_async:
        raise LLMRequestError(
            f"{where} must not be async in the sync client, got the async function "
            f"{found.name!r}; use AsyncLLMClient"
        )
    return found


def _plain_tool(function: Any, where: str) -> RunnableTool:
    name = _name(function, None, where)
    schema = function_schema(function, where)
    bind = partial(_bind_validated, function, schema.validated)
    return RunnableTool(name, schema.description, schema.parameters, bind, is_async(function))


def _name(function: Any, given: str | None, where: str) -> str:
    if not callable(function):
        raise invalid(
            where, "must be a function, a Tool, an MCPServer or a tool of the provider", function
        )
    name: str | None = given or getattr(function, "__name__", None)
    if name is None:
        raise LLMRequestError(f"{where} must have a name; pass Tool(…, name=…)")
    return name


def _tool(tool: Tool, where: str) -> RunnableTool:
    function = tool.function
    name = _name(function, tool.name, where)
    _check_options(tool, where)
    if tool.parameters is None:
        schema = function_schema(function, where)
        description, parameters = schema.description, schema.parameters
        bind = partial(_bind_validated, function, schema.validated)
    else:
        description, parameters = inspect.getdoc(function) or "", tool.parameters
        bind = partial(_bind_validated, function, dict)
    return RunnableTool(
        name,
        description if tool.description is None else tool.description,
        parameters,
        bind,
        is_async(function),
        tool.timeout,
        "fail" if tool.requires_approval else tool.on_restart,
        requires_approval=tool.requires_approval,
    )


def _bind_validated(
    function: Callable[..., Any],
    validate: Callable[[Mapping[str, Any]], dict[str, Any]],
    arguments: Mapping[str, Any],
) -> Callable[[], Any]:
    return partial(function, **validate(arguments))


def _check_options(tool: Tool, where: str) -> None:
    timeout = tool.timeout
    if timeout is not None and (isinstance(timeout, bool) or not 0 < timeout < 1e9):
        raise invalid(f"{where}.timeout", "must be a number greater than 0", timeout)
    if tool.on_restart not in ("rerun", "fail"):
        raise invalid(f"{where}.on_restart", 'must be "rerun" or "fail"', tool.on_restart)
    asks = tool.requires_approval
    if not isinstance(asks, bool) and not callable(asks):
        raise invalid(f"{where}.requires_approval", "must be True, False or a function", asks)


def is_async(function: Callable[..., Any]) -> bool:
    """Return True if a call of the function returns a coroutine."""
    while isinstance(function, partial):
        function = function.func
    return (
        inspect.iscoroutinefunction(function)
        or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
        or getattr(function, _ASYNC_MARK, False) is True
    )


# Names of the tools of MCP servers.
#
# Providers accept 1 to 64 letters, digits, `_` and `-`; MCP servers may use other characters. A
# name that is used more than once gets the name of its server in front.

MAX_NAME = 64
_INVALID = re.compile(r"[^a-zA-Z0-9_-]")
_DIGEST = 8


def unique_names(
    taken: Collection[str], served: Sequence[tuple[str, Sequence[str]]]
) -> list[list[str]]:
    """Return a name for each tool of each server, given as the server's name and its tools.

    `taken` are the names of functions, which stay as they are.
    """
    plain = [[_valid(name) for name in names] for _, names in served]
    counts = Counter(taken) + Counter(name for names in plain for name in names)
    used = set(taken)
    chosen: list[list[str]] = []
    for (server, _), names in zip(served, plain, strict=True):
        prefix = _valid(server)
        chosen.append(
            [
                _unused(name if counts[name] == 1 else _valid(f"{prefix}_{name}"), used)
                for name in names
            ]
        )
    return chosen


def _valid(name: str) -> str:
    """Return a name that providers accept; a long one ends with a digest."""
    valid = _INVALID.sub("_", name) or "_"
    if len(valid) <= MAX_NAME:
        return valid
    digest = sha256(name.encode("utf-8", "replace")).hexdigest()[:_DIGEST]
    return f"{valid[: MAX_NAME - _DIGEST - 1]}_{digest}"


def _unused(name: str, used: set[str]) -> str:
    number, candidate = 1, name
    while candidate in used:
        number += 1
        ending = f"_{number}"
        candidate = name[: MAX_NAME - len(ending)] + ending
    used.add(candidate)
    return candidate
