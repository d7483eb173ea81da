"""What the AI client raises. Each error carries fields, so that no program reads its words.

::

    LLMError
    ├── LLMAuthenticationError   no key, or one that the provider does not know
    ├── LLMPermissionError       the key may not do this
    ├── LLMRequestError          the request is wrong: found before it was sent, or refused
    │   └── LLMContextLengthError   it is longer than the model can read
    ├── LLMNotFoundError         there is no such model, or no such address
    ├── LLMRateLimitError        too many requests or tokens for now
    ├── LLMQuotaError            the money or the quota is used up
    ├── LLMTimeoutError          no answer in time; also a TimeoutError
    ├── LLMConnectionError       no connection, or one that broke; also a ConnectionError
    ├── LLMServerError           the provider failed
    │   └── LLMOverloadedError   it is overloaded
    ├── LLMFilteredError         the answer was withheld
    └── LLMResponseError         what came back is not what the protocol says

Errors are recognised by the status and the code that the provider sent. The one exception is a
request that is too long, for which most providers have no code: their exact sentences are in a
table. Any other error without a code stays of the general class.
"""

from typing import TYPE_CHECKING

from ..errors import ArgumentError, CoreasonError

if TYPE_CHECKING:
    from .types import PartialResponse

__all__ = [
    "LLMAuthenticationError",
    "LLMConnectionError",
    "LLMContextLengthError",
    "LLMError",
    "LLMFilteredError",
    "LLMNotFoundError",
    "LLMOverloadedError",
    "LLMPermissionError",
    "LLMQuotaError",
    "LLMRateLimitError",
    "LLMRequestError",
    "LLMResponseError",
    "LLMServerError",
    "LLMTimeoutError",
]


class LLMError(CoreasonError):
    """Anything that the AI client raises.

    Attributes:
        provider: the name of the provider, such as "anthropic".
        model: the model that was asked.
        status: the HTTP status of the last answer, where there was one.
        code: the provider's own code for the error.
        request_id: the provider's own id of the request, for its support.
        retry_after: the seconds that the provider asked to wait.
        attempts: how many requests were sent, 0 when the error was found before.
        body: what came back, or the part of it that could not be read, up to a bound.
        partial: the part of the answer that was received and can be read, like a response object
            with the status "partial"; None when there was none.
        argument_error: the argument that is wrong and the rule that it breaks, where the error was
            found before anything was sent.
    """

    def __init__(
        self,
        message: str,
        *,
        provider: str | None = None,
        model: str | None = None,
        status: int | None = None,
        code: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
        attempts: int = 0,
        body: str | None = None,
        partial: "PartialResponse | None" = None,
        argument_error: ArgumentError | None = None,
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.model = model
        self.status = status
        self.code = code
        self.request_id = request_id
        self.retry_after = retry_after
        self.attempts = attempts
        self.body = body
        self.partial = partial
        self.argument_error = argument_error


class LLMAuthenticationError(LLMError):
    """There is no key, or the provider does not know it."""


class LLMPermissionError(LLMError):
    """The key is known and may not do this."""


class LLMRequestError(LLMError):
    """The request is wrong: found before it was sent, or refused by the provider."""


class LLMContextLengthError(LLMRequestError):
    """The request is longer than the model can read."""


class LLMNotFoundError(LLMError):
    """There is no such model, or nothing at the address."""


class LLMRateLimitError(LLMError):
    """Too many requests or tokens for now; `retry_after` says for how long, where it is known."""


class LLMQuotaError(LLMError):
    """The money or the quota is used up: no wait will help."""


class LLMTimeoutError(LLMError, TimeoutError):
    """No answer came in time."""


class LLMConnectionError(LLMError, ConnectionError):
    """There was no connection, or it broke before the answer was complete."""


class LLMServerError(LLMError):
    """The provider failed."""


class LLMOverloadedError(LLMServerError):
    """The provider is overloaded."""


class LLMFilteredError(LLMError):
    """The provider withheld the whole answer, or refused the prompt."""


class LLMResponseError(LLMError):
    """What came back cannot be read as an answer, or was cut off at `max_tokens` where it counts.

    `body` holds the part that cannot be read, and `partial` the rest.
    """
