"""The interface of an adapter, which translates one wire format. No I/O.

An adapter turns a `Call` into a request body, and a response, complete or streamed, into an
`Answer`. It only reports what it reads: retries, prices and errors are decided elsewhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from ._answer import Answer, Fault
from ._call import Call
from ._frames import Framing
from ._profile import Profile
from ._reader import Reader

__all__ = ["Adapter"]


class Adapter(ABC):
    """One wire format. Instances have no state; one serves all calls."""

    framing: ClassVar[Framing] = "sse"

    @abstractmethod
    def url(self, base: str, call: Call) -> str:
        """Return the URL for a call; `base` does not end with a slash."""

    def headers(self) -> Mapping[str, str]:
        """Return the headers of the format, besides the key and the content type."""
        return {}

    def part_problem(self, part: Mapping[str, Any], profile: Profile) -> str | None:
        """Return why a part of a message cannot be sent and what to do instead, None if it can.

        The text continues a sentence such as "messages[0].content[1] has the type 'file', …".
        Called before `body`, for every part that is not text.
        """
        return None

    @abstractmethod
    def body(self, call: Call, profile: Profile) -> dict[str, Any]:
        """Return the JSON body for a call; `call.extra` is merged into it later."""

    @abstractmethod
    def answer(self, reply: Mapping[str, Any]) -> Answer:
        """Read a complete answer.

        Raises:
            Malformed: the reply does not follow the format.
        """

    @abstractmethod
    def reader(self) -> Reader:
        """Return a new reader for one stream."""

    @abstractmethod
    def fault(self, reply: Any) -> Fault | None:
        """Return the error in a body of any status, None if there is none."""
