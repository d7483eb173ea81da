"""Checks of all arguments of a call, before anything is sent."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, get_args

from ._argument_errors import invalid
from ._call import Call
from ._check_format import check_response_format
from ._check_messages import check_messages
from ._check_tools import check_tool_choice, check_tools
from ._continuation import prefix_of
from ._prompt_cache import check_prompt_cache
from .errors import LLMRequestError
from .types import OnBreak

__all__ = ["check_budget_key", "check_call", "check_flag", "check_on_break"]

_NUMBERS = (int, float)  # a constant, because `int | float` would build a union on every call
_MOST_TOKENS = 2**31 - 1
_ON_BREAK = get_args(OnBreak)
_NO_EXTRA: Mapping[str, Any] = MappingProxyType({})
_HIGHEST_TEMPERATURE = 2  # of any provider; `Profile.max_temperature` may be lower


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
) -> Call:
    """Return the call that the arguments describe.

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
    return Call(
        model=model,
        messages=checked_messages,
        tools=checked_tools,
        temperature=_temperature(temperature),
        max_tokens=_max_tokens(max_tokens),
        tool_choice=None if tool_choice is None else check_tool_choice(tool_choice, checked_tools),
        schema=None if response_format is None else check_response_format(response_format),
        stop=() if stop is None else _stop(stop),
        extra=_NO_EXTRA if extra is None else _extra(extra),
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
