"""The progress of an answer that a restarted agent continues: its text so far, and what it cost.

A provider reports the usage of an answer at its end. So the usage of an answer that was interrupted
is estimated, as it is for a stream that breaks off.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from ..llm import Message, Usage
from ..llm._token_estimate import estimate
from ..llm._usage_sum import add_usages

if TYPE_CHECKING:
    from ..server import Resumed

__all__ = ["Progress", "added"]


@dataclass(frozen=True, slots=True)
class Progress:
    """The text of an answer before the current request, and the tokens of the requests so far.

    `reasoned` is True if the model has reasoned: then it does not continue its answer, because the
    reasoning cannot be sent back.
    """

    text: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoned: bool = False

    @classmethod
    def of(cls, resumed: "Resumed", messages: list[Message]) -> Self:
        """Return the progress of an interrupted answer to messages."""
        stored = resumed.checkpoint or {}
        length = stored.get("length", 0)
        before, written = resumed.text[:length], resumed.text[length:]
        return cls(
            text=resumed.text,
            prompt_tokens=stored.get("prompt_tokens", 0) + estimate([*_texts(messages), before]),
            completion_tokens=stored.get("completion_tokens", 0) + estimate([written]),
            reasoned=stored.get("reasoned", False),
        )

    @property
    def can_continue(self) -> bool:
        """True if the model can continue the text, as far as that depends on the text."""
        return bool(self.text.strip()) and not self.reasoned

    def with_reasoning(self) -> Self:
        """Return the progress of a model that has reasoned."""
        return replace(self, reasoned=True)

    def checkpoint(self) -> dict[str, Any]:
        """Return what another process needs, besides the text, which is in the log."""
        return {
            "length": len(self.text),
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "reasoned": self.reasoned,
        }

    def messages(self, messages: list[Message]) -> list[Message]:
        """Return the messages for a model that continues the text."""
        return [*messages, {"role": "assistant", "content": self.text, "prefix": True}]

    def tokens_left(self, max_tokens: int | None) -> int | None:
        """Return the maximum length of the rest of the answer, None if it has none."""
        if max_tokens is None:
            return None
        return max(max_tokens - estimate([self.text]), 1)


def added(usage: Usage, progress: Progress, price: Callable[[int, int], float | None]) -> Usage:
    """Return the usage of the last request together with that of the requests before it.

    `price` returns the price of prompt and completion tokens.
    """
    prompt, completion = progress.prompt_tokens, progress.completion_tokens
    # Without a price of the last request, the table may not be loaded.
    known = usage["cost_estimate"] is not None
    before: Usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "cost_estimate": price(prompt, completion) if known else None,
        "estimated": True,
    }
    return add_usages([usage, before])


def _texts(messages: list[Message]) -> list[str]:
    """Return the text of each message; images are not estimated."""
    return ["".join(_parts(message.get("content"))) for message in messages]


def _parts(content: Any) -> list[str]:
    if isinstance(content, list):
        return [part.get("text", "") for part in content]
    return [content or ""]
