"""Prompt caching: where the cached beginnings of a prompt end. Pure.

Providers cache the beginning of a prompt. Some do so for every request. Others cache up to the
breakpoints that a request sets, at most four: the client sets one after the tools, one after the
system prompt and one after the last user message, so that the next request of a conversation finds
the whole previous prompt. A breakpoint never changes the text that the model receives.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import takewhile
from typing import Any

from pydantic_core import to_json

from ._argument_errors import invalid
from ._call import Call, PromptCache

__all__ = ["cache_key", "cached_lists", "check_prompt_cache"]

_LIFETIMES: Mapping[Any, PromptCache | None] = {False: None, True: "5m", "5m": "5m", "1h": "1h"}
_INSTRUCTIONS = ("system", "developer")


def check_prompt_cache(value: Any) -> PromptCache | None:
    """Return the lifetime of cached prompts, None if the caller does not ask for caching.

    Raises:
        LLMRequestError: the value is wrong.
    """
    if isinstance(value, bool | str) and value in _LIFETIMES:
        return _LIFETIMES[value]
    raise invalid("prompt_cache", 'must be True, False, "5m" or "1h"', value)


def cached_lists(
    tools: list[Any], system: list[Any], turns: Sequence[Mapping[str, Any]]
) -> list[list[Any]]:
    """Return the lists at whose ends a request sets breakpoints, without empty ones.

    `turns` are messages with a `role` and a list of `content`.
    """
    asked: list[list[Any]] = [turn["content"] for turn in turns if turn["role"] == "user"]
    return [blocks for blocks in (tools, system, *asked[-1:]) if blocks]


def cache_key(call: Call) -> str | None:
    """Return a key that calls with the same tools and instructions share, None without these.

    OpenAI sends requests with the same key to the same cache.
    """
    if call.prompt_cache is None:
        return None
    first = takewhile(lambda message: message["role"] in _INSTRUCTIONS, call.messages)
    beginning = [*call.tools, *first]
    return blake2b(to_json(beginning), digest_size=16).hexdigest() if beginning else None
