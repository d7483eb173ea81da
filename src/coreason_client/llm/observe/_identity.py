"""The id and the model that a provider's reply names. Pure."""

from typing import Any, NamedTuple

from .._json import mapping, parse_or_none, text

__all__ = ["Identity", "read_identity"]

# The objects of stream events that contain the reply: of Anthropic, and of OpenAI's Responses.
_INNER = ("message", "response")


class Identity(NamedTuple):
    """The id of an answer and the model that generated it; empty if they are not known."""

    id: str = ""
    model: str = ""

    def merged(self, other: "Identity") -> "Identity":
        """Return this identity; the other one fills what it lacks."""
        return Identity(self.id or other.id, self.model or other.model)


def read_identity(data: bytes) -> Identity:
    """Return the identity in a reply, or in one event of a stream."""
    return _identity(parse_or_none(data))


def _identity(reply: Any) -> Identity:
    fields = mapping(reply[0] if isinstance(reply, list) and reply else reply)
    found = Identity(
        text(fields.get("id") or fields.get("responseId")),
        text(fields.get("model") or fields.get("modelVersion")),
    )
    for name in _INNER:
        if isinstance(inner := fields.get(name), dict) and "id" in inner:
            found = found.merged(Identity(text(inner.get("id")), text(inner.get("model"))))
    return found
