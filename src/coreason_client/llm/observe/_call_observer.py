"""`CallObserver`: reports the attempts of one call. This class reports nothing."""

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..._http._types import Request, ResponseHead

if TYPE_CHECKING:
    from ...sse import ServerSentEvent
    from ..errors import LLMError
    from ..types import Usage

__all__ = ["NOT_OBSERVED", "CallObserver"]


class CallObserver:
    """A context manager around a call; the retry rules call its methods for each attempt."""

    __slots__ = ()

    def __enter__(self) -> None:
        """Record the beginning of the call."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Record the end of the call."""

    def attempt_started(self, plan: Any, request: Request) -> Request:
        """Record a request that is about to be sent, and return the request to send.

        Raises:
            Exception: whatever a hook raises; the request must not be sent.
        """
        return request

    def head_received(self, head: ResponseHead) -> None:
        """Record the status and the headers of a response."""

    def body_received(self, body: bytes) -> None:
        """Record the complete body of a response."""

    def watched(self, events: "Iterable[ServerSentEvent]") -> "Iterable[ServerSentEvent]":
        """Return the events of a stream; iterating over them measures their times."""
        return events

    def attempt_failed(self, error: "LLMError", *, continued: bool = False) -> None:
        """Record that the current attempt failed; the second time, nothing happens.

        `continued`: the next attempt continues its answer.
        """

    def attempt_succeeded(self, response: Mapping[str, Any]) -> None:
        """Record the answer of the current attempt."""

    def answered(self, response: Mapping[str, Any]) -> None:
        """Record the answer of a call that has several requests."""

    def set_spent(self, spent: "Callable[[], Usage | None]") -> None:
        """Set the function that returns the usage so far of all attempts of a stream."""


NOT_OBSERVED = CallObserver()
