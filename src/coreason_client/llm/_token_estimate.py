"""Estimates of tokens that no provider has counted. Pure."""

from collections.abc import Iterable

__all__ = ["estimate", "estimate_bytes", "estimate_text"]

_BYTES_PER_TOKEN = 4  # English prose; for most other texts, the error is below a third
_TOKENS_PER_MESSAGE = 4


def estimate(texts: Iterable[str]) -> int:
    """Estimate the number of tokens in texts, each of which is one message."""
    lengths = [len(text.encode("utf-8", "replace")) for text in texts]
    return estimate_bytes(sum(lengths)) + _TOKENS_PER_MESSAGE * len(lengths)


def estimate_text(text: str) -> int:
    """Estimate the number of tokens in a text."""
    return estimate_bytes(len(text.encode("utf-8", "replace")))


def estimate_bytes(length: int) -> int:
    """Estimate the number of tokens in so many bytes of text."""
    return -(-length // _BYTES_PER_TOKEN)
