"""What a provider's adapter is: the translation of one wire format, without I/O.

An adapter makes a body out of a `Call`, and an `Answer` out of what came back, whole or as a
stream. It decides nothing about retries, prices or errors: it only says what it reads.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from ._reader import Reader
from ._terms import Answer, Call, Fault, Profile

__all__ = ["Adapter"]


class Adapter(ABC):
    """One wire format. An instance holds no state and serves all calls."""

    framing: ClassVar[Literal["sse", "ndjson"]] = "sse"

    @abstractmethod
    def url(self, base: str, call: Call) -> str:
        """Return the address for a call; `base` has no slash at its end."""

    def headers(self) -> Mapping[str, str]:
        """Return the headers that the format needs, besides the key and the content type."""
        return {}

    @abstractmethod
    def body(self, call: Call, profile: Profile) -> dict[str, Any]:
        """Return the JSON body for a call; what `call.extra` says is laid over it later."""

    @abstractmethod
    def answer(self, reply: Mapping[str, Any]) -> Answer:
        """Read a whole answer.

        Raises:
            Malformed: it is not one.
        """

    @abstractmethod
    def reader(self) -> Reader:
        """Return what reads one stream."""

    @abstractmethod
    def fault(self, reply: Any) -> Fault | None:
        """Return the error that a body describes, of whatever status; None when it is none."""
