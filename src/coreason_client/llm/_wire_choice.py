"""Which of its two wire formats an OpenAI-compatible provider is asked in. Pure.

* `wire="responses"` chooses the Responses API, `wire="chat"` the provider's usual format. Which
  providers have the Responses API is data (`providers/profiles.py`).
* Without `wire`, the usual format is used, except for models that exist only in the Responses API.
* `wire` is about the provider at the base URL: if that has no Responses API, it is an error. Models
  of other providers, such as fallbacks, use the Responses API if their provider has it.
"""

from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Literal, TypeAlias, cast

from ..errors import ArgumentError
from ._profile import Profile
from .errors import LLMRequestError

__all__ = ["Wire", "check_wire", "profile_on_wire"]

Wire: TypeAlias = Literal["responses", "chat"]
"""A wire format of OpenAI and compatible providers."""

_WIRES = ("responses", "chat")


def check_wire(wire: Any) -> Wire | None:
    """Return the argument `wire`.

    Raises:
        ArgumentError: it is not a wire format.
    """
    if wire is None or (isinstance(wire, str) and wire in _WIRES):
        return cast("Wire | None", wire)
    raise ArgumentError("wire", f"must be None or one of {', '.join(_WIRES)}", wire)


def profile_on_wire(
    profile: Profile, model: str, base: str, wire: Wire | None, *, own: bool
) -> Profile:
    """Return the profile with the wire format for a model; `own`: the base URL is the caller's.

    Raises:
        LLMRequestError: the provider has no Responses API.
    """
    has_responses = profile.responses and "/deployments/" not in f"{base}/"
    if wire == "responses":
        if not has_responses and own:
            raise LLMRequestError(_missing(profile), provider=profile.name, model=model)
        return _on_responses(profile) if has_responses else profile
    only_there = any(fnmatchcase(model, pattern) for pattern in profile.responses_models)
    return _on_responses(profile) if wire is None and only_there and has_responses else profile


@lru_cache(maxsize=64)  # each call for such a model needs it, and a profile has many fields
def _on_responses(profile: Profile) -> Profile:
    """Return a profile of the Responses API, in which no answer can be continued."""
    return replace(profile, wire="responses", prefix_form=None)


def _missing(profile: Profile) -> str:
    if profile.responses:  # Azure's older addresses
        return (
            f'wire="responses" needs a base URL of {profile.name} that ends with {profile.path}: '
            "the addresses of deployments have only chat completions"
        )
    message = f'wire must not be "responses" for {profile.name}, which has no Responses API'
    if profile.wire == "ollama":
        return f"{message} at this address; its compatible API has: pass a base_url ending with /v1"
    return f"{message}: leave out wire"
