"""The interface of an embedding format: requests and replies of one wire. No I/O."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ._answer import Tokens
from ._embed_call import EmbedCall
from ._profile import Profile

__all__ = ["EmbedFormat", "Embedded"]


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
