"""Unary responses that a stream needs: bodies that are not event streams, and one task. Pure."""

from dataclasses import replace

from .._drive import Flow
from .._http._redirect import follow_redirects
from .._http._types import ResponseHead, TransportFailure
from ._route import Route
from .errors import A2AError, A2AResponseTooLargeError
from .types import Task

__all__ = ["UnaryBody", "fetch_task_once"]


class UnaryBody:
    """A response body that is not an event stream, up to a limit."""

    def __init__(self, head: ResponseHead, limit: int) -> None:
        self._limit = limit
        self._pieces = bytearray()
        size = head.headers.get("content-length", "")
        plain = "content-encoding" not in head.headers and size.isascii() and size.isdigit()
        self._size = int(size[:18]) if plain else None

    def add(self, chunk: bytes) -> bool:
        """Add bytes; return True if the body is known to be complete.

        Raises:
            A2AResponseTooLargeError: the body exceeds the limit.
        """
        self._pieces += chunk
        if len(self._pieces) > self._limit:
            message = f"a response body is larger than {self._limit} bytes"
            raise A2AResponseTooLargeError(message, status=200)
        return self._size is not None and len(self._pieces) >= self._size

    @property
    def content(self) -> bytes:
        """The bytes so far."""
        return bytes(self._pieces)


def fetch_task_once(route: Route, task_id: str | None) -> Flow[Task | None]:
    """Fetch a task with the timeouts of a stream; return None if that fails."""
    call = route.call("get_task", {"id": task_id})
    result = yield from follow_redirects(replace(call.request, timeouts=route.settings.stream))
    if isinstance(result, TransportFailure) or result.head.status != 200:
        return None
    try:
        task: Task = call.parse_response(result.body)
    except A2AError:
        return None
    return task if task.id == task_id else None
