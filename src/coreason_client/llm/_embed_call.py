"""`EmbedCall`: a checked request for embeddings in a provider-neutral form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._argument_errors import invalid
from ._check_text import check_text
from .errors import LLMRequestError

__all__ = ["EmbedCall", "check_embed"]

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
