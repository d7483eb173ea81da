"""An agent over the OpenAI-compatible API: models, chat completions and responses.

This module has its settings. `_routes.py` has the handlers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...errors import ArgumentError
from .._options import Options
from ..http._repeats import Repeats

__all__ = ["Model", "OpenAIAPI", "settings_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIAPI:
    """Settings for `AgentApp(openai=...)`.

    Attributes:
        tools: "refuse" answers a request that brings its own tools with 400, because the agent
            cannot call them; "ignore" answers it without them, which chat programs need: Open WebUI
            sends tools with every message.
        headers: names of request headers that the agent gets in `request.payload.metadata`, such as
            those with which Open WebUI names its user. They say nothing about permissions.
        max_tool_result: the number of characters of a tool's result that clients get; a longer one
            is cut with a mark, and the log has all of it.

    Raises:
        ArgumentError: a value is not valid.
    """

    tools: Literal["refuse", "ignore"] = "refuse"
    headers: Sequence[str] = ()
    max_tool_result: int = 65_536

    def __post_init__(self) -> None:
        if self.tools not in ("refuse", "ignore"):
            raise ArgumentError("tools", 'must be "refuse" or "ignore"', self.tools)
        if isinstance(self.headers, str) or not all(_is_name(name) for name in self.headers):
            raise ArgumentError("headers", "must be a list of names of headers", self.headers)
        if type(self.max_tool_result) is not int or self.max_tool_result < 0:
            rule = "must be a whole number, 0 or more"
            raise ArgumentError("max_tool_result", rule, self.max_tool_result)


def _is_name(name: object) -> bool:
    if not isinstance(name, str) or name.lower() in ("authorization", "cookie"):
        return False
    return name.isascii() and name.replace("-", "").replace("_", "").isalnum()


def settings_of(openai: bool | OpenAIAPI) -> OpenAIAPI:
    """Return the settings; True has all defaults."""
    if openai is True:
        return OpenAIAPI()
    if not isinstance(openai, OpenAIAPI):
        raise ArgumentError("openai", "must be True, False or an OpenAIAPI", type(openai).__name__)
    return openai


@dataclass(frozen=True, slots=True)
class Model:
    """The agent as a model, and how requests for it are read."""

    name: str
    options: Options
    settings: OpenAIAPI
    repeats: Repeats = field(default_factory=Repeats)
