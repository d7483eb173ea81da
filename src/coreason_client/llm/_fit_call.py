"""Fits a checked call to one provider. Pure.

* A temperature above the provider's maximum is an error, and so is a part of a message that its
  wire format cannot express.
* Messages of the role "developer" become "system" messages where the provider does not have it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..errors import ArgumentError
from ._adapter import Adapter
from ._call import Call
from ._profile import Profile
from .errors import LLMRequestError

__all__ = ["fit_call"]


def fit_call(call: Call, adapter: Adapter, profile: Profile) -> Call:
    """Return the call that the provider can express.

    Raises:
        LLMRequestError: there is none.
    """
    if call.temperature is not None and call.temperature > profile.max_temperature:
        raise _too_hot(call.temperature, call, profile)
    for index, message in enumerate(call.messages):
        if message["content"].__class__ is list:
            _check_parts(index, message["content"], call, adapter, profile)
    return call if profile.developer_role else _without_developer(call)


def _too_hot(temperature: float, call: Call, profile: Profile) -> LLMRequestError:
    highest = f"{profile.max_temperature:g}"
    rule = f"must be a number from 0 to {highest} for a model of {profile.name}"
    error = ArgumentError("temperature", rule, temperature)
    return LLMRequestError(
        str(error), provider=profile.name, model=call.model, argument_error=error
    )


def _check_parts(
    index: int, content: Sequence[Any], call: Call, adapter: Adapter, profile: Profile
) -> None:
    for number, part in enumerate(content):
        kind = part["type"]
        problem = None if kind == "text" else adapter.part_problem(part, profile)
        if problem is not None:
            raise LLMRequestError(
                f"messages[{index}].content[{number}] has the type {kind!r}, {problem}",
                provider=profile.name,
                model=call.model,
            )


def _without_developer(call: Call) -> Call:
    if "developer" not in [message["role"] for message in call.messages]:
        return call
    messages = [
        {**message, "role": "system"} if message["role"] == "developer" else message
        for message in call.messages
    ]
    return replace(call, messages=messages)
