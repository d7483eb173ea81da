"""What a stream needs of calls with one answer: bodies that are no stream, and asking for a task.

Pure.
"""

from dataclasses import replace

from .._drive import Flow
from .._http._redirect import follow_redirects
from .._http._types import ResponseHead, TransportFailure
from ._route import Route
from .errors import A2AError, A2AResponseTooLargeError
from .types import Task

__all__ = ["Body", "asked_once"]


class Body:
    """A body that is no stream, up to a limit."""

    def __init__(self, head: ResponseHead, limit: int) -> None:
        self._limit = limit
        self._pieces = bytearray()
        size = head.headers.get("content-length", "")
        plain = "content-encoding" not in head.headers and size.isascii() and size.isdigit()
        self._size = int(size[:18]) if plain else None

    def add(self, chunk: bytes) -> bool:
        """Add bytes; return True if the body is known to be complete.

        Raises:
            A2AResponseTooLargeError: the limit is passed.
        """
        self._pieces += chunk
        if len(self._pieces) > self._limit:
            words = f"an answer is larger than {self._limit} bytes"
            raise A2AResponseTooLargeError(words, status=200)
        return self._size is not None and len(self._pieces) >= self._size

    @property
    def content(self) -> bytes:
        """The bytes so far."""
        return bytes(self._pieces)


def asked_once(route: Route, task_id: str | None) -> Flow[Task | None]:
    """Ask for a task, within the limits of a stream; None when there was no such answer."""
    call = route.call("get_task", {"id": task_id})
    result = yield from follow_redirects(replace(call.request, timeouts=route.settings.stream))
    if isinstance(result, TransportFailure) or result.head.status != 200:
        return None
    try:
        task: Task = call.answer(result.body)
    except A2AError:
        return None
    return task if task.id == task_id else None
