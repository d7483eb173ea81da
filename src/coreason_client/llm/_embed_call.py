"""A checked request for embeddings, and the interface of its wire formats. No I/O."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ._answer import Tokens
from ._argument_errors import check_text, invalid
from ._profile import Profile
from .errors import LLMRequestError

__all__ = ["EmbedCall", "EmbedFormat", "Embedded", "check_embed"]

_MOST_DIMENSIONS = 2**20


@dataclass(frozen=True, slots=True)
class EmbedCall:
    """Texts to embed with a model; `dimensions` is None for the model's own number."""

    model: str
    texts: Sequence[str]
    dimensions: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


def check_embed(texts: Any, model: Any, dimensions: Any = None, extra: Any = None) -> EmbedCall:
    """Return the call that the arguments of `embed` describe.

    Raises:
        LLMRequestError: an argument is wrong; the message names it.
    """
    if not isinstance(model, str) or not model.strip():
        raise invalid("model", "must be the name of a model", model)
    if dimensions is not None and (
        isinstance(dimensions, bool)
        or not isinstance(dimensions, int)
        or not 0 < dimensions <= _MOST_DIMENSIONS
    ):
        rule = f"must be a whole number from 1 to {_MOST_DIMENSIONS}, or None"
        raise invalid("dimensions", rule, dimensions)
    if extra is not None and (
        not isinstance(extra, Mapping) or not all(isinstance(key, str) for key in extra)
    ):
        raise invalid("extra", "must be an object of fields for the provider", extra)
    return EmbedCall(model, _texts(texts), dimensions, extra or {})


def _texts(texts: Any) -> list[str]:
    if isinstance(texts, str):
        return [_text("input", texts)]
    if not isinstance(texts, list | tuple):
        raise invalid("input", "must be text or a list of texts", texts)
    if not texts:
        raise LLMRequestError("input must have at least one text, got an empty list")
    return [_text(f"input[{index}]", text) for index, text in enumerate(texts)]


def _text(where: str, text: Any) -> str:
    check_text(where, text)
    if not text:
        raise LLMRequestError(f"{where} must not be empty: providers reject an empty text")
    checked: str = text
    return checked


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors in a reply, in the order of the texts, and the token counts if it has any."""

    vectors: list[list[float]]
    tokens: Tokens | None = None


class EmbedFormat(ABC):
    """One wire format of embeddings. Instances have no state; one serves all calls."""

    max_texts: ClassVar[int] = 2048

    def texts_per_request(self, model: str) -> int:
        """Return the largest number of texts in one request."""
        return self.max_texts

    @abstractmethod
    def url(self, base: str, call: EmbedCall) -> str:
        """Return the URL for a call; `base` does not end with a slash."""

    @abstractmethod
    def body(self, call: EmbedCall, profile: Profile) -> dict[str, Any]:
        """Return the JSON body for a call, with the caller's `extra` fields.

        Raises:
            LLMRequestError: the provider cannot express the call.
        """

    @abstractmethod
    def read(self, reply: Mapping[str, Any], headers: Mapping[str, str]) -> Embedded:
        """Read a reply.

        Raises:
            Malformed: the reply does not follow the format.
        """
