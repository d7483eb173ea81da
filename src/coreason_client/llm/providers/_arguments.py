"""Arguments by name in the form of each wire format: the table of all of them. Pure.

* An argument without a rule, or whose rule returns None, is refused. `ProviderProfile.lacks` has
  the arguments that a provider lacks although its wire format has them.
* `top_p` is left out for models that reject it, like the temperature.
"""

import re
from collections.abc import Mapping

from .._adapter import Fields, Rule
from .._call import ModelCall
from .._json import mapping
from .._profile import ProviderProfile
from ._claude import BEFORE_4_6, NO_TEMPERATURE, claude_at_bedrock, default_max_tokens
from ._openai import reasons

GEMINI_3 = re.compile(r"gemini-(?:[3-9]|[1-9][0-9]|[a-z-]+-latest)", re.ASCII)
"""Models that have levels of thinking, and reject a turn whose first call has no signature."""

# Tokens of reasoning, for models that take no effort.
_BUDGETS = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16_384,
    "xhigh": 24_576,
    "max": 24_576,
}


# OpenAI's chat completions and Responses API.


def _chat_effort(call: ModelCall, effort: str, profile: ProviderProfile) -> Fields:
    if not profile.thinking_switch:
        return {"reasoning_effort": effort}
    if effort == "none":
        return {"thinking": {"type": "disabled"}}
    return {"thinking": {"type": "enabled"}, "reasoning_effort": effort}


def _seed(call: ModelCall, seed: int, profile: ProviderProfile) -> Fields:
    return {profile.seed_field: seed}


def _top_p(call: ModelCall, top_p: float, profile: ProviderProfile) -> Fields:
    own = call.extra.get("reasoning_effort", mapping(call.extra.get("reasoning")).get("effort"))
    effort = call.arguments.get("reasoning_effort") if own is None else own
    return {} if reasons(call.model, effort) else {"top_p": top_p}


# Claude, at Anthropic and at Bedrock.


def _claude_effort(call: ModelCall, effort: str, profile: ProviderProfile) -> Fields:
    thinking = _thinking(call.model, effort)
    if "budget_tokens" in thinking:
        return {"thinking": thinking, "max_tokens": _with_room(call, call.model, thinking)}
    return {"thinking": thinking, **_output_config("output_config", effort)}


def _bedrock_effort(call: ModelCall, effort: str, profile: ProviderProfile) -> Fields | None:
    claude = claude_at_bedrock(call.model)
    if claude is None:
        own = {"additionalModelRequestFields": {"reasoning_effort": effort}}
        return own if "openai." in call.model else None
    thinking = _thinking(claude, effort)
    fields: Fields = {"additionalModelRequestFields": {"thinking": thinking}}
    if "budget_tokens" not in thinking:
        return fields | _output_config("outputConfig", effort)
    if call.max_tokens is not None:
        fields["inferenceConfig"] = {"maxTokens": _with_room(call, claude, thinking)}
    return fields


def _thinking(model: str, effort: str) -> Fields:
    if effort == "none":
        return {"type": "disabled"}
    if model.startswith(BEFORE_4_6):
        return {"type": "enabled", "budget_tokens": _BUDGETS[effort]}
    return {"type": "adaptive"}


def _output_config(name: str, effort: str) -> Fields:
    if effort == "none":
        return {}
    return {name: {"effort": "low" if effort == "minimal" else effort}}


def _with_room(call: ModelCall, model: str, thinking: Fields) -> int:
    """Return `max_tokens` with room for the thinking, as far as the model allows it."""
    most = default_max_tokens(model)
    wanted = most if call.max_tokens is None else call.max_tokens
    return max(wanted, min(wanted + int(thinking["budget_tokens"]), most))


def _claude_top_p(call: ModelCall, top_p: float, profile: ProviderProfile) -> Fields:
    return {} if call.model.startswith(NO_TEMPERATURE) else {"top_p": top_p}


def _bedrock_top_p(call: ModelCall, top_p: float, profile: ProviderProfile) -> Fields:
    claude = claude_at_bedrock(call.model) or ""
    return {} if claude.startswith(NO_TEMPERATURE) else {"inferenceConfig": {"topP": top_p}}


def _claude_parallel(call: ModelCall, parallel: bool, profile: ProviderProfile) -> Fields:
    if parallel or call.tool_choice == "none":
        return {}
    # Merged with the choice of the caller, if there is one.
    kind = {} if call.tool_choice else {"type": "auto"}
    return {"tool_choice": {**kind, "disable_parallel_tool_use": True}}


def _bedrock_parallel(call: ModelCall, parallel: bool, profile: ProviderProfile) -> Fields | None:
    if parallel:
        return {}
    # Only Claude has it, and rejects it beside a choice in `toolConfig`.
    if claude_at_bedrock(call.model) is None or call.tool_choice:
        return None
    return {"additionalModelRequestFields": _claude_parallel(call, parallel, profile)}


# Gemini and Ollama.


def _gemini_effort(call: ModelCall, effort: str, profile: ProviderProfile) -> Fields:
    model = call.model.rpartition("/")[2]
    if GEMINI_3.match(model):
        level = {"none": "minimal", "max": "xhigh"}.get(effort, effort)
        return {"generationConfig": {"thinkingConfig": {"thinkingLevel": level}}}
    least = 128 if "pro" in model else 0  # a pro model cannot be kept from thinking
    budget = _BUDGETS.get(effort, least)
    return {"generationConfig": {"thinkingConfig": {"thinkingBudget": budget}}}


def _ollama_effort(call: ModelCall, effort: str, profile: ProviderProfile) -> Fields:
    level = {"none": False, "minimal": "low", "xhigh": "high", "max": "high"}.get(effort, effort)
    return {"think": level}


def _always_parallel(call: ModelCall, parallel: bool, profile: ProviderProfile) -> Fields | None:
    return {} if parallel else None


ARGUMENTS: Mapping[str, Mapping[str, Rule]] = {
    "openai": {
        "reasoning_effort": _chat_effort,
        "top_p": _top_p,
        "seed": _seed,
        "parallel_tool_calls": "parallel_tool_calls",
        "service_tier": "service_tier",
    },
    "responses": {
        "reasoning_effort": "reasoning.effort",
        "top_p": _top_p,
        "parallel_tool_calls": "parallel_tool_calls",
        "service_tier": "service_tier",
    },
    "anthropic": {
        "reasoning_effort": _claude_effort,
        "top_p": _claude_top_p,
        "parallel_tool_calls": _claude_parallel,
        "service_tier": "service_tier",
    },
    "gemini": {
        "reasoning_effort": _gemini_effort,
        "top_p": "generationConfig.topP",
        "seed": "generationConfig.seed",
        "parallel_tool_calls": _always_parallel,
        "service_tier": "serviceTier",
    },
    "bedrock": {
        "reasoning_effort": _bedrock_effort,
        "top_p": _bedrock_top_p,
        "parallel_tool_calls": _bedrock_parallel,
        "service_tier": "serviceTier.type",
    },
    "ollama": {
        "reasoning_effort": _ollama_effort,
        "top_p": "options.top_p",
        "seed": "options.seed",
        "parallel_tool_calls": _always_parallel,
    },
}
"""The rules by wire format and argument."""
