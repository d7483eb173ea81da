"""Checks of all arguments of a call, before anything is sent."""

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, get_args

from ._argument_errors import invalid, is_number, quoted
from ._call import ModelCall, check_prompt_cache
from ._check_messages import check_messages
from ._continuation import prefix_of
from ._response_format import check_response_format
from .errors import LLMRequestError
from .types import OnBreak, ReasoningEffort

_NUMBERS = (int, float)  # a constant, because `int | float` would build a union on every call
_MOST_TOKENS = 2**31 - 1
_ON_BREAK = get_args(OnBreak)
_NO_FIELDS: Mapping[str, Any] = MappingProxyType({})
_HIGHEST_TEMPERATURE = 2  # of any provider; `ProviderProfile.max_temperature` may be lower


def check_call(
    messages: Any,
    model: Any,
    tools: Any,
    temperature: Any,
    max_tokens: Any,
    *,
    tool_choice: Any = None,
    response_format: Any = None,
    stop: Any = None,
    extra: Any = None,
    stream: bool = False,
    prompt_cache: Any = False,
    raw: Any = False,
    resume: Any = False,
    keep_invalid_calls: bool = False,
    **arguments: Any,
) -> ModelCall:
    """Return the call that the arguments describe; `arguments` are those of `ModelCall`.

    Raises:
        LLMRequestError: an argument is wrong; the message names it.
    """
    if not isinstance(model, str) or not model.strip():
        raise invalid("model", "must be the name of a model", model)
    checked_tools = () if tools is None else check_tools(tools)
    checked_messages = check_messages(messages)
    if response_format is not None and prefix_of(checked_messages) is not None:
        raise LLMRequestError(
            "response_format must be left out if the last message is the beginning of the answer: "
            "the rest of an answer is no JSON value"
        )
    # Most calls have few arguments; a check that is not needed is not called.
    return ModelCall(
        model=model,
        messages=checked_messages,
        tools=checked_tools,
        temperature=_temperature(temperature),
        max_tokens=_max_tokens(max_tokens),
        tool_choice=None if tool_choice is None else check_tool_choice(tool_choice, checked_tools),
        schema=None if response_format is None else check_response_format(response_format),
        stop=() if stop is None else _stop(stop),
        arguments=check_arguments(arguments) if arguments else _NO_FIELDS,
        extra=_NO_FIELDS if extra is None else _extra(extra),
        stream=stream,
        prompt_cache=None if prompt_cache is False else check_prompt_cache(prompt_cache),
        raw=False if raw is False else check_flag("raw", raw),
        resume=False if resume is False else check_flag("resume", resume),
        keep_invalid_calls=keep_invalid_calls,
    )


def check_on_break(value: Any) -> OnBreak:
    """Return what to do if a stream breaks.

    Raises:
        LLMRequestError: it is none of the possible values.
    """
    if value not in _ON_BREAK:
        raise invalid("on_break", 'must be "error", "continue" or "restart"', value)
    chosen: OnBreak = value
    return chosen


def check_budget_key(value: Any) -> str | None:
    """Return a `budget_key`, which may be None.

    Raises:
        LLMRequestError: it is not a text, or an empty one.
    """
    if value is not None and (not isinstance(value, str) or not value):
        raise invalid("budget_key", "must be text that is not empty", value)
    return value


def check_flag(name: str, value: Any) -> bool:
    """Return a value that must be True or False; `name` is the argument.

    Raises:
        LLMRequestError: it is neither.
    """
    if not isinstance(value, bool):
        raise invalid(name, "must be True or False", value)
    return value


def _temperature(value: Any) -> float | None:
    if value is None:
        return None
    if (
        isinstance(value, bool)
        or not isinstance(value, _NUMBERS)
        or not 0 <= value <= _HIGHEST_TEMPERATURE
    ):
        rule = "must be a number from 0 to 1, up to 2 where the provider accepts it, or None"
        raise invalid("temperature", rule, value)
    return value


def _max_tokens(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _MOST_TOKENS:
        rule = f"must be a whole number from 1 to {_MOST_TOKENS}, or None"
        raise invalid("max_tokens", rule, value)
    return value


def _stop(stop: Any) -> Sequence[str]:
    texts = [stop] if isinstance(stop, str) else stop
    if not isinstance(texts, list | tuple) or not all(isinstance(t, str) and t for t in texts):
        raise invalid("stop", "must be text, or a list of texts, none of them empty", stop)
    return texts


def _extra(extra: Any) -> Mapping[str, Any]:
    if not isinstance(extra, Mapping) or not all(isinstance(key, str) for key in extra):
        raise invalid("extra", "must be an object of fields for the provider", extra)
    if "stream" in extra:
        raise LLMRequestError("extra must not have 'stream'; call stream() to get a stream")
    return extra


# Arguments that not every provider has.

_EFFORTS = get_args(ReasoningEffort)
_ARGUMENTS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "reasoning_effort": (
        f"must be one of {', '.join(_EFFORTS)}, or None",
        lambda value: isinstance(value, str) and value in _EFFORTS,
    ),
    "top_p": (
        "must be a number from 0 to 1, or None",
        lambda value: is_number(value) and 0 <= value <= 1,
    ),
    "seed": (
        "must be a whole number of at most 63 bits, or None",
        lambda value: value.__class__ is int and abs(value) < 2**63,
    ),
    "parallel_tool_calls": (
        "must be True, False or None",
        lambda value: isinstance(value, bool),
    ),
    "service_tier": (
        "must be the name of a tier of the provider, or None",
        lambda value: isinstance(value, str) and bool(value),
    ),
}


def check_arguments(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments by name, without those that are None.

    Raises:
        LLMRequestError: a value is wrong.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    for name, value in given.items():
        rule, is_valid = _ARGUMENTS[name]
        if not is_valid(value):
            raise invalid(name, rule, value)
    return given


# Tools, and the choice among them.

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
        if is_provider_tool(tool):
            continue
        name = _check_tool(f"tools[{index}]", tool)
        if name in known:
            raise LLMRequestError(
                f"tools[{index}].function.name must be unique, got {name!r} twice"
            )
        known.add(name)
    return tools


def is_provider_tool(tool: Any) -> bool:
    """Return True for a tool in the provider's own form: the provider checks it.

    It has another type than "function", or, at Gemini and Bedrock, no type but only objects.
    """
    if not isinstance(tool, Mapping) or not tool or "function" in tool:
        return False
    kind = tool.get("type")
    if kind is None:
        return all(isinstance(value, Mapping) for value in tool.values())
    return isinstance(kind, str) and kind not in ("", "function")


def _check_tool(where: str, tool: Any) -> str:
    """Check a tool and return its name."""
    rule = 'must be {"type": "function", "function": {…}}, or a tool of the provider'
    if not isinstance(tool, Mapping):
        raise invalid(where, f"{rule}; Python functions go to run(), which executes them", tool)
    if tool.get("type") != "function":
        raise invalid(where, rule, tool)
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
    """Return the tool choice in the form of `ModelCall`.

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
    if all(tool.get("function", {}).get("name") != name for tool in tools):
        raise LLMRequestError(f"tool_choice must name a function in tools, got {name!r}")
    return f"tool:{name}"
