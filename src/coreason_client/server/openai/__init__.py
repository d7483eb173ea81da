"""An agent over the OpenAI-compatible API: models, chat completions and responses.

This module has its settings. `_routes.py` has the handlers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...errors import ArgumentError
from .._options import Options, check_max_tool_result
from ..http._repeats import Repeats

__all__ = ["Model", "OpenAIAPI"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIAPI:
    """Settings for `AgentApp(openai=...)`.

    Attributes:
        tools: "ignore" answers a request that brings its own tools without calling them, as a model
            may; chat programs send tools with every message. "refuse" answers it with 400. A
            request that demands a call is refused in any case.
        headers: names of request headers that the agent gets in `request.payload.metadata`, such as
            those with which Open WebUI names its user. They say nothing about permissions.
        max_tool_result: the number of characters of a tool's result that clients get; a longer one
            is cut with a mark, and the log has all of it.

    Raises:
        ArgumentError: a value is not valid.
    """

    tools: Literal["ignore", "refuse"] = "ignore"
    headers: Sequence[str] = ()
    max_tool_result: int = 65_536

    def __post_init__(self) -> None:
        if self.tools not in ("ignore", "refuse"):
            raise ArgumentError("tools", 'must be "ignore" or "refuse"', self.tools)
        if isinstance(self.headers, str) or not all(_is_name(name) for name in self.headers):
            raise ArgumentError("headers", "must be a list of names of headers", self.headers)
        check_max_tool_result(self.max_tool_result)


def _is_name(name: object) -> bool:
    if not isinstance(name, str) or name.lower() in ("authorization", "cookie"):
        return False
    return name.isascii() and name.replace("-", "").replace("_", "").isalnum()


@dataclass(frozen=True, slots=True)
class Model:
    """The agent as a model, and how requests for it are read."""

    name: str
    options: Options
    settings: OpenAIAPI
    repeats: Repeats = field(default_factory=Repeats)
