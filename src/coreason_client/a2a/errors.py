"""The errors of the A2A clients. They have fields, so programs need not parse messages.

::

    A2AError (also ClientError)
    ├── A2AHTTPError                  an HTTP error status, or no response
    │   ├── A2AConnectionError        no response, or only a part of it
    │   │   └── A2ATimeoutError       a timeout; also a built-in TimeoutError
    │   └── A2AResponseTooLargeError  the response body is too large
    ├── A2AJSONError                  a response body is not the expected JSON
    ├── A2AJSONRPCError               the agent sent an error
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
    ├── A2ACardSignatureError         the card has no valid signature of a trusted key
    ├── A2AEmptyResultError           a response without the required result
    ├── A2ANoSupportedInterfaceError  this client supports no interface of the card
    │   └── A2AOriginError            its interfaces are at origins that may not be called
    ├── A2APushError                  a received push notification is not accepted
    ├── A2ASSEParseError              an event of a stream cannot be parsed
    ├── A2AStreamClosedError          a stream ended before its task
    └── A2ATokenError                 the authorization server did not issue a token
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import CoreasonError, shown_value

if TYPE_CHECKING:
    from .types import Task

__all__ = [
    "A2ACardSignatureError",
    "A2AConnectionError",
    "A2AEmptyResultError",
    "A2AError",
    "A2AHTTPError",
    "A2AJSONError",
    "A2AJSONRPCError",
    "A2ANoSupportedInterfaceError",
    "A2AOriginError",
    "A2APushError",
    "A2AResponseTooLargeError",
    "A2ASSEParseError",
    "A2AStreamClosedError",
    "A2ATimeoutError",
    "A2ATokenError",
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

_MAX_DATA_KEPT = 1000


class A2AError(CoreasonError):
    """The base class of all errors of the A2A clients.

    Attributes:
        status: the HTTP status of the response, if there was one.
        headers: its headers; names are case-insensitive.
        body: its body, up to a limit.
        retry_after: the seconds that the server asked to wait.
        task_id: the id of the task of a stream, if it was known.
        task: the task of a stream, as assembled so far.
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
    """The HTTP request failed: its status is not 2xx, or there was no response."""


class A2AConnectionError(A2AHTTPError):
    """There was no response, or only a part of it; `attempts` is the number of attempts."""

    attempts: int = 1


class A2ATimeoutError(A2AConnectionError, TimeoutError):
    """The request timed out."""


class A2AResponseTooLargeError(A2AHTTPError):
    """The response body is larger than the limit."""


class A2AJSONError(A2AError):
    """A response body is not the expected JSON; `body` is its beginning."""


class A2AEmptyResultError(A2AError):
    """A response does not contain the required result."""


class A2ANoSupportedInterfaceError(A2AError):
    """This client supports no interface of the card."""


class A2AOriginError(A2ANoSupportedInterfaceError):
    """All supported interfaces of the card are at origins that may not be called.

    Attributes:
        named: the origin that the caller named.
        found: the origins of the card's interfaces.
    """

    def __init__(self, message: str, *, named: str = "", found: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.named = named
        self.found = tuple(found)


class A2ACardSignatureError(A2AError):
    """The card has no valid signature of a trusted key.

    Attributes:
        reason: "unsigned", "unknown_key" (no trusted key has an id that its signatures name) or
            "invalid".
        key_ids: the ids of the keys that its signatures name; nothing proves them.
    """

    def __init__(
        self, message: str, *, reason: str = "invalid", key_ids: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.key_ids = tuple(key_ids)


class A2APushError(A2AError):
    """A received push notification is not accepted.

    `status` and `headers` are those of the response to it.
    """


class A2ASSEParseError(A2AError):
    """An event of a stream cannot be parsed; `data` is the beginning of its bytes."""

    def __init__(self, message: str, data: bytes = b"") -> None:
        super().__init__(message)
        self.data = bytes(data[:_MAX_DATA_KEPT])


class A2ATokenError(A2AError):
    """The authorization server did not issue a token.

    `status` is that of its response, None if there was none; `code` is its OAuth error code, such
    as "invalid_client".
    """

    def __init__(self, message: str, *, status: int | None = None, code: str | None = None) -> None:
        super().__init__(message, status=status)
        self.code = code


class A2AStreamClosedError(A2AError):
    """A stream ended before its task; `task_id` and `task` contain what was received."""

    def __init__(self, message: str, *, task_id: str | None = None, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.task_id = task_id

    @property
    def text(self) -> str:
        """The text of the task that was received."""
        return "" if self.task is None else self.task.text


class A2AJSONRPCError(A2AError):
    """The agent sent an error.

    Attributes:
        code: the error code.
        message: the error message of the agent.
        data: additional data of the agent; only credentials of the request are replaced.
    """

    default_code: ClassVar[int] = 0

    def __init__(
        self, message: str, *, code: int | None = None, data: Any = None, **fields: Any
    ) -> None:
        code = self.default_code if code is None else code
        super().__init__(f"code={shown_value(code)}, message={message}", **fields)
        self.code = code
        self.message = message
        self.data = data

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message,), self.__dict__

    @property
    def reason(self) -> str | None:
        """The reason of the `ErrorInfo` in the data, such as TASK_NOT_FOUND."""
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
    """The agent rejected the request as invalid."""

    default_code = -32600


class MethodNotFoundError(A2AJSONRPCError):
    """The agent does not know the method."""

    default_code = -32601


class InvalidParamsError(A2AJSONRPCError):
    """The agent rejected the parameters as invalid."""

    default_code = -32602


class InternalError(A2AJSONRPCError):
    """An internal error of the agent."""

    default_code = -32603


class TaskNotFoundError(A2AJSONRPCError):
    """The task does not exist."""

    default_code = -32001


class TaskNotCancelableError(A2AJSONRPCError):
    """The task can no longer be cancelled."""

    default_code = -32002


class PushNotificationNotSupportedError(A2AJSONRPCError):
    """The agent does not support push notifications."""

    default_code = -32003


class UnsupportedOperationError(A2AJSONRPCError):
    """The agent does not support this operation, or not for this task."""

    default_code = -32004


class ContentTypeNotSupportedError(A2AJSONRPCError):
    """The agent does not support this content type."""

    default_code = -32005


class InvalidAgentResponseError(A2AJSONRPCError):
    """The agent behind the server sent an invalid response."""

    default_code = -32006


class ExtendedAgentCardNotConfiguredError(A2AJSONRPCError):
    """The agent has no extended card."""

    default_code = -32007


class ExtensionSupportRequiredError(A2AJSONRPCError):
    """The agent requires an extension that the client did not declare."""

    default_code = -32008


class VersionNotSupportedError(A2AJSONRPCError):
    """The agent does not support this version of the protocol."""

    default_code = -32009
