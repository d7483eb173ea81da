"""`Answer`: a provider's answer in a provider-neutral form, with its token counts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from uuid import uuid4

from .types import Media

__all__ = ["Answer", "Billing", "End", "RawToolCall", "Tokens", "new_call_id"]

End: TypeAlias = Literal["stop", "length", "tool_calls", "filtered"]
"""The reason why an answer ended."""


@dataclass(slots=True)
class Tokens:
    """Token counts of a provider; None if it sent none.

    `prompt` includes tokens read from and written to a cache, `completion` includes reasoning.
    `cache_write_1h` is the part of `cache_write` that is cached for an hour.
    """

    prompt: int | None = None
    completion: int | None = None
    cached: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    reasoning: int = 0
    billing: "Billing | None" = field(default=None, compare=False)


@dataclass(slots=True)
class Billing:
    """Everything in a reply that affects its price, besides the tokens.

    `model` is the model that answered, `tier` its service tier, `dollars` the amount billed.
    `parts` are runs of a model that are priced separately: the model if it differs, and the tokens
    of the run. Together they contain all tokens.
    """

    model: str = ""
    tier: str = ""
    dollars: float | None = None
    parts: Sequence[tuple[str, Tokens]] = ()


@dataclass(slots=True)
class RawToolCall:
    """A tool call as received: the id may be missing, the arguments are text or an object.

    `signature` must be sent back to the provider with the call.
    """

    id: str | None
    name: str
    arguments: str | dict[str, Any] | None
    signature: str | None = None


@dataclass(slots=True)
class Answer:
    """The answer of a provider.

    `items` are the provider's own parts of the answer that it needs back in the next request.
    """

    content: str | None = None
    calls: list[RawToolCall] = field(default_factory=list)
    end: End = "stop"
    reasoning: str = ""
    tokens: Tokens | None = None
    media: list[Media] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """True if there is neither content, nor tool calls, nor media."""
        return not (self.content or self.calls or self.media)


def new_call_id() -> str:
    """Return an id for a tool call that was received without one."""
    return f"call_{uuid4().hex}"
