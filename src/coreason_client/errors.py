"""The root of every error that this package raises on purpose, and the tree below it.

::

    CoreasonError
    ├── A2AError                  anything that an A2A client raises; also ClientError
    │   ├── A2AHTTPError          the HTTP exchange failed; kinds: connection, timeout, too large
    │   ├── A2AJSONError          a body that is not the JSON that was expected
    │   ├── A2AJSONRPCError       the agent answered with an error; a kind for each known code
    │   ├── A2AEmptyResultError   an answer without the value that is required
    │   ├── A2ANoSupportedInterfaceError  the card offers nothing that we speak
    │   ├── A2ASSEParseError      an event of a stream that cannot be read
    │   └── A2AStreamClosedError  a stream ended before its task did
    ├── CAPError                  anything that a CAP client raises
    │   ├── CAPConnectionError    no connection, or none that lasted, within the retry budget
    │   ├── CAPProtocolError      the server sent what the protocol does not allow
    │   │   └── CAPStreamReset    after a reconnect the server answered with another stream
    │   ├── CAPRuntimeError       the server refused the request, or ended the stream in error
    │   └── CAPTimeoutError       the deadline passed; also a TimeoutError
    ├── LLMError                  anything that the AI client raises
    │   ├── LLMAuthenticationError    no key, or one that the provider does not know
    │   ├── LLMPermissionError    the key may not do this
    │   ├── LLMRequestError       the request is wrong
    │   │   └── LLMContextLengthError  it is longer than the model can read
    │   ├── LLMNotFoundError      there is no such model, or no such address
    │   ├── LLMRateLimitError     too many requests or tokens for now
    │   ├── LLMQuotaError         the money or the quota is used up
    │   ├── LLMTimeoutError       no answer in time; also a TimeoutError
    │   ├── LLMConnectionError    no connection, or one that broke; also a ConnectionError
    │   ├── LLMServerError        the provider failed
    │   │   └── LLMOverloadedError    it has too much to do
    │   ├── LLMFilteredError      the answer was withheld
    │   └── LLMResponseError      what came back is not what the protocol says
    ├── LogError                  a server's log did not do what it was asked
    │   ├── Fenced                another process has taken the stream over
    │   ├── LogUnavailable        the store behind it does not answer
    │   ├── OutOfSequence         an append is not the next in number
    │   ├── PositionGone          what follows the position is no longer kept
    │   ├── RequestConflict       a known request_id came with another body
    │   └── UnknownStream         there is no such stream
    ├── StreamEnded               an agent wrote after the end of its stream
    ├── SSEEventTooLarge          a server-sent event passed the limit
    ├── ArgumentError             an argument has a wrong value; also a ValueError
    └── MissingExtraError         a part of the package needs an extra that is not installed
Each family lives in the `errors` module of its room; the names are exported from
`coreason_client`. Errors carry fields, so that no program needs to read their words.
"""

from typing import Final

__all__ = ["ArgumentError", "CoreasonError", "MissingExtraError"]

_HIDDEN: Final = object()
_LONGEST_SHOWN = 80
_HUGE = 10**_LONGEST_SHOWN  # Python refuses to write numbers of thousands of digits


class CoreasonError(Exception):
    """The root of every error of this package."""


class MissingExtraError(CoreasonError, ImportError):
    """A part of the package needs an extra that is not installed; `extra` names it."""

    def __init__(self, part: str, extra: str) -> None:
        super().__init__(
            f"{part} needs the extra {extra!r}: pip install 'coreason-client[{extra}]'"
        )
        self.part = part
        self.extra = extra

    def __reduce__(self) -> tuple[type["MissingExtraError"], tuple[str, str]]:
        return type(self), (self.part, self.extra)


class ArgumentError(CoreasonError, ValueError):
    """An argument has a value that it must not have; also a `ValueError`.

    Its text is made of its fields, as in "timeout must be greater than 0, got -1".

    Args:
        argument: the name of the argument.
        rule: what it must be, such as "must be greater than 0".
        value: what was given. The text shows it if it is short text, a number or None, and else
            its type. Leave it out where it is a secret: the field is None then.
    """

    def __init__(self, argument: str, rule: str, value: object = _HIDDEN) -> None:
        self._has_value = value is not _HIDDEN
        got = f", got {shown_value(value)}" if self._has_value else ""
        super().__init__(f"{argument} {rule}{got}")
        self.argument = argument
        self.rule = rule
        self.value = value if self._has_value else None

    def renamed(self, argument: str) -> "ArgumentError":
        """Return the same error for the name that the argument has elsewhere, such as an option."""
        return ArgumentError(argument, self.rule, *self._values())

    def __reduce__(self) -> tuple[type["ArgumentError"], tuple[object, ...]]:
        return type(self), (self.argument, self.rule, *self._values())

    def _values(self) -> tuple[object, ...]:
        return (self.value,) if self._has_value else ()


def shown_value(value: object) -> str:
    """Return a value in a few words; nothing that is inside of a container is repeated."""
    if isinstance(value, str):
        text = repr(value[:_LONGEST_SHOWN])
        return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"
    if value is None or isinstance(value, float):
        return repr(value)
    if isinstance(value, int) and abs(value) < _HUGE:
        return repr(value)
    return f"a value of type {type(value).__name__}"
