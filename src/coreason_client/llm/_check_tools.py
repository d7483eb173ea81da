"""Checks of the tools of a call, and of the choice among them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ._argument_errors import invalid, quoted
from .errors import LLMRequestError

__all__ = ["CheckedTools", "check_tool_choice", "check_tools"]

_TOOL_KEYS = frozenset({"type", "function"})
_FUNCTION_KEYS = frozenset({"name", "description", "parameters", "strict"})
_FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}", re.ASCII)  # accepted by all providers
_CHOICES = ("auto", "none", "required")


class CheckedTools(tuple[Mapping[str, Any], ...]):
    """Tools that `check_tools` has accepted: it does not check them again."""

    __slots__ = ()


def check_tools(tools: Any) -> Sequence[Mapping[str, Any]]:
    """Return the tools, empty for None.

    Raises:
        LLMRequestError: a tool is wrong.
    """
    if tools is None:
        return ()
    if isinstance(tools, CheckedTools):
        return tools
    if not isinstance(tools, list | tuple):
        raise invalid("tools", "must be a list of tools", tools)
    known: set[str] = set()
    for index, tool in enumerate(tools):
        name = _check_tool(f"tools[{index}]", tool)
        if name in known:
            raise LLMRequestError(
                f"tools[{index}].function.name must be unique, got {name!r} twice"
            )
        known.add(name)
    return tools


def _check_tool(where: str, tool: Any) -> str:
    """Check a tool and return its name."""
    if not isinstance(tool, Mapping) or tool.get("type") != "function":
        raise invalid(where, 'must be {"type": "function", "function": {…}}', tool)
    if unknown := tool.keys() - _TOOL_KEYS:
        raise LLMRequestError(f"{where} must not have {quoted(unknown)}: a tool has no such key")
    function = tool.get("function")
    if not isinstance(function, Mapping):
        raise invalid(f"{where}.function", "must be an object", function)
    where = f"{where}.function"
    if unknown := function.keys() - _FUNCTION_KEYS:
        raise LLMRequestError(
            f"{where} must not have {quoted(unknown)}: a function has no such key"
        )
    name = function.get("name")
    if not isinstance(name, str) or not _FUNCTION_NAME.fullmatch(name):
        raise invalid(f"{where}.name", "must be 1 to 64 letters, digits, _ or -", name)
    if not isinstance(function.get("description", ""), str):
        raise invalid(f"{where}.description", "must be text", function["description"])
    if not isinstance(function.get("parameters", {}), Mapping):
        raise invalid(f"{where}.parameters", "must be a JSON schema", function["parameters"])
    if not isinstance(function.get("strict", False), bool):
        raise invalid(f"{where}.strict", "must be true or false", function["strict"])
    return name


def check_tool_choice(choice: Any, tools: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the tool choice in the form of `Call`.

    Raises:
        LLMRequestError: the choice is wrong, or names a tool that does not exist.
    """
    if choice is None:
        return None
    if isinstance(choice, str) and choice in _CHOICES:
        if choice == "required" and not tools:
            raise LLMRequestError('tool_choice "required" needs at least one tool; pass tools')
        return choice if tools else None  # providers reject a choice without tools
    named = isinstance(choice, Mapping) and choice.get("type") == "function"
    function = choice.get("function") if named else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str):
        raise invalid(
            "tool_choice",
            'must be "auto", "none", "required" or {"type": "function", "function": {"name": …}}',
            choice,
        )
    if all(tool["function"]["name"] != name for tool in tools):
        raise LLMRequestError(f"tool_choice must name a function in tools, got {name!r}")
    return f"tool:{name}"
