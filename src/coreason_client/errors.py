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
    └── MissingExtraError         a part of the package needs an extra that is not installed

Each family lives in the `errors` module of its room; the names are exported from
`coreason_client`. Errors carry fields, so that no program needs to read their words.
"""

__all__ = ["CoreasonError", "MissingExtraError"]


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
