"""Recognises requests that are too long for the model, if the provider has no code for it. Pure.

The table has the error messages of each provider or server. The tests have an example of each, with
its source. For a known provider only its own messages count; behind a gateway or an unknown host,
the messages of all.
"""

import re
from collections.abc import Mapping
from functools import cache
from itertools import chain

__all__ = ["is_overflow"]

_N = r"[0-9][0-9,]*"

_OPENAI = rf"This model's maximum context length is {_N} tokens"  # vLLM and DeepSeek copy it
_INPUT_AND_OUTPUT = rf"`inputs` tokens \+ `max_new_tokens` must be <= {_N}"

_PATTERNS: Mapping[str, tuple[str, ...]] = {
    "openai": (_OPENAI,),
    "azure": (_OPENAI,),
    "anthropic": (
        rf"prompt is too long: {_N} tokens > {_N} maximum",
        rf"input length and `max_tokens` exceed context limit: {_N} \+ {_N} > {_N}",
    ),
    "gemini": (
        rf"The input token count (?:\({_N}\) )?exceeds the maximum number of tokens allowed",
    ),
    "bedrock": (r"(?:^|: )Input is too long for requested model\.?$",),
    "mistral": (rf"Prompt contains {_N} tokens.* too large for model with {_N} maximum context",),
    "cerebras": (rf"messages or completion\. Current length is {_N} while limit is {_N}",),
    "together": (_INPUT_AND_OUTPUT, _OPENAI),
    "fireworks": (rf"The prompt is too long: {_N}, model maximum context length: {_N}",),
    "deepseek": (_OPENAI,),
    "xai": (rf"This model's maximum prompt length is {_N} but the request contains {_N} tokens",),
    "openrouter": (rf"This endpoint's maximum context length is {_N} tokens",),
    "cohere": (
        rf"too many tokens: total number of tokens \(prompt and prediction\) cannot exceed {_N}",
    ),
    "vllm": (
        _OPENAI,
        rf"prompt \((?:total )?length {_N}\) is (?:too long to fit into|longer than) the",
    ),
    "sglang": (rf"The input \({_N} tokens\) is longer than the model's context length \({_N}",),
    "tgi": (_INPUT_AND_OUTPUT,),
    "lmstudio": (
        rf"Attempts to keep the first {_N} tokens when (?:the )?context (?:the )?overflows",
    ),
    "llamacpp": (
        r"exceeds? the available context size",
        r"^Context size has been exceeded\.?$",
        rf"Requested tokens \({_N}\) exceed context window of {_N}",
    ),
    "ollama": (r"^prompt too long; exceeded max context length by ",),
    "copilot": (rf"prompt token count of {_N} exceeds the limit of {_N}",),
}

_ALIASES = {"gemini-openai": "gemini", "ollama-openai": "ollama"}
"""Second names of providers."""

_GATEWAYS = frozenset({"openrouter", "azure", "together", "fireworks", "vllm", "lmstudio"})
"""Providers that forward the messages of other providers, or run the servers of others."""


def is_overflow(provider: str, message: str) -> bool:
    """Return True if an error message says that the request is too long for the model."""
    return _messages_of(_ALIASES.get(provider, provider)).search(message) is not None


@cache  # compiled on first use: it takes longer than to import any module of the AI client
def _messages_of(provider: str) -> re.Pattern[str]:
    own = provider in _PATTERNS and provider not in _GATEWAYS
    known = _PATTERNS[provider] if own else chain.from_iterable(_PATTERNS.values())
    return re.compile("|".join(f"(?:{pattern})" for pattern in known), re.ASCII)
