"""`Tool`: a function that a model may call, with its name, description and options."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Tool"]


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
    """

    function: Callable[..., Any]
    name: str | None = None
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    timeout: float | None = None
    on_restart: Literal["rerun", "fail"] = "rerun"
