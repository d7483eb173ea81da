"""The base class of all errors of this package, and the tree of its subclasses.

::

    CoreasonError
    ├── A2AError                  base class of the A2A client's errors; also ClientError
    │   ├── A2AHTTPError          the HTTP exchange failed; subclasses: connection, timeout, size
    │   ├── A2AJSONError          a body that is not valid JSON or not the expected object
    │   ├── A2AJSONRPCError       an error returned by the agent; a subclass for each known code
    │   ├── A2ACardSignatureError  the agent card has no valid signature of a trusted key
    │   ├── A2AEmptyResultError   a response without the required result
    │   ├── A2ANoSupportedInterfaceError  the agent card lists no supported interface
    │   ├── A2APushError          a received push notification that is not accepted
    │   ├── A2ASSEParseError      a stream event that cannot be parsed
    │   ├── A2AStreamClosedError  a stream ended before its task did
    │   └── A2ATokenError         the authorization server did not issue a token
    ├── CAPError                  base class of the CAP client's errors
    │   ├── CAPConnectionError    every attempt failed or broke off; the retry budget is used up
    │   ├── CAPProtocolError      the server violated the protocol
    │   │   └── CAPStreamReset    after a reconnect the server sent another stream
    │   ├── CAPRuntimeError       the server rejected the request or ended the stream with an error
    │   └── CAPTimeoutError       the deadline passed; also a TimeoutError
    ├── LLMError                  base class of the LLM client's errors
    │   ├── LLMAuthenticationError    the API key is missing or invalid
    │   ├── LLMPermissionError    the API key does not have the permission
    │   ├── LLMRequestError       the request is invalid
    │   │   └── LLMContextLengthError  it exceeds the context length of the model
    │   ├── LLMNotFoundError      the model or the URL does not exist
    │   ├── LLMRateLimitError     too many requests or tokens at the moment
    │   ├── LLMQuotaError         the credit or the quota is used up
    │   ├── LLMBudgetError        the request would exceed a budget and was not sent
    │   ├── LLMStateError         the state of budgets and deployments cannot be reached
    │   ├── LLMTimeoutError       no response in time; also a TimeoutError
    │   ├── LLMConnectionError    connecting failed or the connection broke; also a ConnectionError
    │   ├── LLMServerError        the provider failed
    │   │   └── LLMOverloadedError    it is overloaded
    │   ├── LLMFilteredError      the answer was withheld by a content filter
    │   ├── LLMResponseError      a response that does not match the provider's protocol
    │   ├── LLMRunLimitError      a run with tools has reached one of its limits
    │   │   └── LLMRunTimeoutError    its time limit; also an LLMTimeoutError
    │   ├── LLMToolError          a tool has failed too often in a run
    │   ├── LLMApprovalRequired   a tool call needs an approval
    │   └── ToolAbort             a tool has ended the run
    ├── LogError                  an operation of a server's log failed
    │   ├── Fenced                another process has taken over the stream
    │   ├── LogUnavailable        the store of the log does not respond
    │   ├── OutOfSequence         an append does not have the next number
    │   ├── PositionGone          the entries after the position were deleted
    │   ├── RequestConflict       a known request_id was sent with another body
    │   └── UnknownStream         the stream does not exist
    ├── StreamEnded               an agent wrote after the end of its stream
    ├── SSEEventTooLarge          a server-sent event exceeded the limit
    ├── ArgumentError             an argument has an invalid value; also a ValueError
    └── MissingExtraError         a part of the package needs an extra that is not installed

Each family is defined in the `errors` module of its package; the names are exported from
`coreason_client`. Errors have fields, so programs need not parse their messages.
"""

from typing import Final

__all__ = ["ArgumentError", "CoreasonError", "MissingExtraError"]

_HIDDEN: Final = object()
_MAX_SHOWN = 80
_HUGE = 10**_MAX_SHOWN  # Python refuses to format numbers with thousands of digits


class CoreasonError(Exception):
    """Base class of all errors of this package."""


class MissingExtraError(CoreasonError, ImportError):
    """A part of the package needs an extra that is not installed; `extra` is its name."""

    def __init__(self, part: str, extra: str) -> None:
        super().__init__(
            f"{part} needs the extra {extra!r}: pip install 'coreason-client[{extra}]'"
        )
        self.part = part
        self.extra = extra

    def __reduce__(self) -> tuple[type["MissingExtraError"], tuple[str, str]]:
        return type(self), (self.part, self.extra)


class ArgumentError(CoreasonError, ValueError):
    """An argument has an invalid value; also a `ValueError`.

    The message is built from the fields, as in "timeout must be greater than 0, got -1".

    Args:
        argument: the name of the argument.
        rule: the requirement, such as "must be greater than 0".
        value: the value that was passed. The message contains it if it is short text, a number or
            None, and otherwise its type. Omit it if it is a secret; the field is then None.
    """

    def __init__(self, argument: str, rule: str, value: object = _HIDDEN) -> None:
        self._has_value = value is not _HIDDEN
        got = f", got {shown_value(value)}" if self._has_value else ""
        super().__init__(f"{argument} {rule}{got}")
        self.argument = argument
        self.rule = rule
        self.value = value if self._has_value else None

    def renamed(self, argument: str) -> "ArgumentError":
        """Return the same error with another argument name, such as a command line option."""
        return ArgumentError(argument, self.rule, *self._values())

    def __reduce__(self) -> tuple[type["ArgumentError"], tuple[object, ...]]:
        return type(self), (self.argument, self.rule, *self._values())

    def _values(self) -> tuple[object, ...]:
        return (self.value,) if self._has_value else ()


def shown_value(value: object) -> str:
    """Return a short text for a value; for a container only its type."""
    if isinstance(value, str):
        text = repr(value[:_MAX_SHOWN])
        return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"
    if value is None or isinstance(value, float):
        return repr(value)
    if isinstance(value, int) and abs(value) < _HUGE:
        return repr(value)
    return f"a value of type {type(value).__name__}"
