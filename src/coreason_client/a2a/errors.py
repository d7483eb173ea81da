"""What an A2A client raises. Each error carries fields, so that no program reads its words.

::

    A2AError (also ClientError)
    ├── A2AHTTPError                  the HTTP exchange failed
    │   ├── A2AConnectionError        there was no answer, or not all of it
    │   │   └── A2ATimeoutError       the time limit passed; also a built-in TimeoutError
    │   └── A2AResponseTooLargeError  the body passed the limit
    ├── A2AJSONError                  a body that is not the JSON that was expected
    ├── A2AJSONRPCError               the agent answered with an error
    │   ├── JSONParseError                       -32700
    │   ├── InvalidRequestError                  -32600
    │   ├── MethodNotFoundError                  -32601
    │   ├── InvalidParamsError                   -32602
    │   ├── InternalError                        -32603
    │   ├── TaskNotFoundError                    -32001
    │   ├── TaskNotCancelableError               -32002
    │   ├── PushNotificationNotSupportedError    -32003
    │   ├── UnsupportedOperationError            -32004
    │   ├── ContentTypeNotSupportedError         -32005
    │   ├── InvalidAgentResponseError            -32006
    │   ├── ExtendedAgentCardNotConfiguredError  -32007
    │   ├── ExtensionSupportRequiredError        -32008
    │   └── VersionNotSupportedError             -32009
    ├── A2AEmptyResultError           an answer without the value that is required
    ├── A2ANoSupportedInterfaceError  the card offers nothing that this client speaks
    │   └── A2AOriginError            what it offers is at an origin that the caller did not name
    ├── A2ASSEParseError              an event of a stream that cannot be read
    └── A2AStreamClosedError          a stream ended before its task did
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import CoreasonError

if TYPE_CHECKING:
    from .types import Task

__all__ = [
    "A2AConnectionError",
    "A2AEmptyResultError",
    "A2AError",
    "A2AHTTPError",
    "A2AJSONError",
    "A2AJSONRPCError",
    "A2ANoSupportedInterfaceError",
    "A2AOriginError",
    "A2AResponseTooLargeError",
    "A2ASSEParseError",
    "A2AStreamClosedError",
    "A2ATimeoutError",
    "ClientError",
    "ContentTypeNotSupportedError",
    "ExtendedAgentCardNotConfiguredError",
    "ExtensionSupportRequiredError",
    "InternalError",
    "InvalidAgentResponseError",
    "InvalidParamsError",
    "InvalidRequestError",
    "JSONParseError",
    "MethodNotFoundError",
    "PushNotificationNotSupportedError",
    "TaskNotCancelableError",
    "TaskNotFoundError",
    "UnsupportedOperationError",
    "VersionNotSupportedError",
]

_LONGEST_OFFENCE = 1000


class A2AError(CoreasonError):
    """Anything that an A2A client raises.

    Attributes:
        status: the HTTP status of the response, where there was one.
        headers: its headers, by names in any case.
        body: its body, up to a bound.
        retry_after: the seconds that the server asked to wait.
        task_id: the task that a stream was about, where one was known.
        task: the task as far as a stream had assembled it.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.body = body
        self.retry_after = retry_after
        self.task_id: str | None = None
        self.task: Task | None = None

    @property
    def status_code(self) -> int | None:
        """The same as `status`."""
        return self.status


ClientError = A2AError


class A2AHTTPError(A2AError):
    """The HTTP exchange failed: a status that is no success, or no answer at all."""


class A2AConnectionError(A2AHTTPError):
    """There was no answer, or not all of it; `attempts` is how many were made."""

    attempts: int = 1


class A2ATimeoutError(A2AConnectionError, TimeoutError):
    """The time limit passed."""


class A2AResponseTooLargeError(A2AHTTPError):
    """The body passed the limit."""


class A2AJSONError(A2AError):
    """A body is not the JSON that was expected; `body` is its beginning."""


class A2AEmptyResultError(A2AError):
    """An answer holds no result where a value is required."""


class A2ANoSupportedInterfaceError(A2AError):
    """The card offers no interface that this client speaks."""


class A2AOriginError(A2ANoSupportedInterfaceError):
    """The card names interfaces only at origins that the caller did not name.

    Attributes:
        named: the origin that the caller named.
        found: the origins of the card's interfaces.
    """

    def __init__(self, message: str, *, named: str = "", found: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.named = named
        self.found = tuple(found)


class A2ASSEParseError(A2AError):
    """An event of a stream cannot be read; `data` is the beginning of the offending bytes."""

    def __init__(self, message: str, data: bytes = b"") -> None:
        super().__init__(message)
        self.data = bytes(data[:_LONGEST_OFFENCE])


class A2AStreamClosedError(A2AError):
    """A stream ended before its task did; `task_id` and `task` say how far it had come."""

    def __init__(self, message: str, *, task_id: str | None = None, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.task_id = task_id

    @property
    def text(self) -> str:
        """The text that was assembled."""
        return "" if self.task is None else self.task.text


class A2AJSONRPCError(A2AError):
    """The agent answered with an error.

    Attributes:
        code: the number of the error.
        message: the agent's words.
        data: what the agent added, as it came.
    """

    default_code: ClassVar[int] = 0

    def __init__(
        self, message: str, *, code: int | None = None, data: Any = None, **fields: Any
    ) -> None:
        code = self.default_code if code is None else code
        super().__init__(f"code={code}, message={message}", **fields)
        self.code = code
        self.message = message
        self.data = data

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message,), self.__dict__

    @property
    def reason(self) -> str | None:
        """The reason in an `ErrorInfo` among the data, such as TASK_NOT_FOUND."""
        return reason_of(self.data)


def reason_of(data: object) -> str | None:
    """Return the reason of the first `google.rpc.ErrorInfo` in a list of details."""
    for detail in data if isinstance(data, list) else ():
        reason = detail.get("reason") if isinstance(detail, dict) else None
        if isinstance(reason, str):
            return reason
    return None


class JSONParseError(A2AJSONRPCError):
    """The agent could not parse the request."""

    default_code = -32700


class InvalidRequestError(A2AJSONRPCError):
    """The agent does not take this for a request."""

    default_code = -32600


class MethodNotFoundError(A2AJSONRPCError):
    """The agent does not know the method."""

    default_code = -32601


class InvalidParamsError(A2AJSONRPCError):
    """The agent does not accept the parameters."""

    default_code = -32602


class InternalError(A2AJSONRPCError):
    """Something went wrong inside the agent."""

    default_code = -32603


class TaskNotFoundError(A2AJSONRPCError):
    """There is no such task."""

    default_code = -32001


class TaskNotCancelableError(A2AJSONRPCError):
    """The task can no longer be cancelled."""

    default_code = -32002


class PushNotificationNotSupportedError(A2AJSONRPCError):
    """The agent sends no push notifications."""

    default_code = -32003


class UnsupportedOperationError(A2AJSONRPCError):
    """The agent cannot do this, or not with this task."""

    default_code = -32004


class ContentTypeNotSupportedError(A2AJSONRPCError):
    """The agent does not take this kind of content."""

    default_code = -32005


class InvalidAgentResponseError(A2AJSONRPCError):
    """The agent behind the server gave an answer that is not valid."""

    default_code = -32006


class ExtendedAgentCardNotConfiguredError(A2AJSONRPCError):
    """The agent has no extended card."""

    default_code = -32007


class ExtensionSupportRequiredError(A2AJSONRPCError):
    """The agent asks for an extension that the client did not name."""

    default_code = -32008


class VersionNotSupportedError(A2AJSONRPCError):
    """The agent does not speak this version of the protocol."""

    default_code = -32009
