"""The errors of the AI client. Programs use the class and the fields, not the message.

::

    LLMError
    ├── LLMAuthenticationError   no key, or an invalid one
    ├── LLMPermissionError       the key does not allow this
    ├── LLMRequestError          the request is wrong: not sent, or rejected
    │   └── LLMContextLengthError   the request is too long for the model
    ├── LLMNotFoundError         there is no such model, or no such URL
    ├── LLMRateLimitError        too many requests or tokens at the moment
    ├── LLMQuotaError            the credit or the quota is exhausted
    ├── LLMBudgetError           the request would exceed a budget; it was not sent
    ├── LLMStateError            the state of budgets cannot be reached; the request was not sent
    ├── LLMTimeoutError          no answer in time; also a TimeoutError
    ├── LLMConnectionError       no connection, or it broke; also a ConnectionError
    ├── LLMServerError           the provider failed
    │   └── LLMOverloadedError   the provider is overloaded
    ├── LLMFilteredError         the provider withheld the answer
    ├── LLMResponseError         the answer cannot be parsed
    ├── LLMRunLimitError         a run has reached one of its limits
    │   └── LLMRunTimeoutError   its time limit; also an LLMTimeoutError
    ├── LLMToolError             a tool has failed too often in a run
    ├── LLMApprovalRequired      a tool call needs an approval
    └── ToolAbort                a tool has ended the run; raised by tools

Errors are classified by the status and the code that the provider sent. The one exception is a
request that is too long, for which most providers have no code: it is recognised by their exact
messages. Any other error without a code gets a general class.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import ArgumentError, CoreasonError

if TYPE_CHECKING:
    from .types import Message, PartialResponse, ToolCall, Usage

__all__ = [
    "LLMApprovalRequired",
    "LLMAuthenticationError",
    "LLMBudgetError",
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
    "LLMRunLimitError",
    "LLMRunTimeoutError",
    "LLMServerError",
    "LLMStateError",
    "LLMTimeoutError",
    "LLMToolError",
    "ToolAbort",
]


class LLMError(CoreasonError):
    """Base class of the errors of the AI client.

    Attributes:
        provider: the name of the provider, such as "anthropic".
        model: the model that the request was for.
        status: the HTTP status of the last response, None if there was none.
        code: the provider's own code for the error.
        request_id: the provider's id of the request, for its support.
        retry_after: the delay in seconds that the provider asked for.
        attempts: the number of requests sent, 0 if the error was found before.
        body: the start of the response, or the part of it that could not be parsed.
        partial: the usable part of the answer, as a response object with the status "partial";
            None if there was none.
        spent: the usage of all attempts that received a part of an answer; None if none did.
        argument_error: the wrong argument and the rule that it breaks, if the error was found
            before anything was sent.
        invalid_because: how the answer differs from `response_format`, if that is the reason.
        conversation: the messages of the run that the error ended, with the results of all tool
            calls, to continue from there; None if the error ended no run.
        usage: the tokens and the cost of this run, None if there was none.
    """

    conversation: "list[Message] | None" = None
    usage: "Usage | None" = None

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
        invalid_because: str | None = None,
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
        self.spent: Usage | None = None
        self.argument_error = argument_error
        self.invalid_because = invalid_because


class LLMAuthenticationError(LLMError):
    """There is no key, or it is invalid."""


class LLMPermissionError(LLMError):
    """The key is valid but does not allow this."""


class LLMRequestError(LLMError):
    """The request is wrong: it was not sent, or the provider rejected it."""


class LLMContextLengthError(LLMRequestError):
    """The request is too long for the model."""


class LLMNotFoundError(LLMError):
    """There is no such model, or no such URL."""


class LLMRateLimitError(LLMError):
    """Too many requests or tokens at the moment; `retry_after` is the delay, if known."""


class LLMQuotaError(LLMError):
    """The credit or the quota is exhausted; waiting does not help."""


class LLMBudgetError(LLMError):
    """The request would exceed a budget and was not sent.

    Attributes:
        limit: the limit of the budget in dollars.
        used: the dollars spent in this period.
        reserved: the dollars reserved for calls in flight.
        requested: the dollars that this request could cost, None if it has no known bound.
        key: the `budget_key` of the call if the budget is per key, else None.
        resets_at: the end of the period in seconds since 1970, None if it does not end.
    """

    def __init__(
        self,
        message: str,
        *,
        limit: float = 0.0,
        used: float = 0.0,
        reserved: float = 0.0,
        requested: float | None = None,
        key: str | None = None,
        resets_at: float | None = None,
        provider: str | None = None,
        model: str | None = None,
    ) -> None:
        super().__init__(message, provider=provider, model=model)
        self.limit = limit
        self.used = used
        self.reserved = reserved
        self.requested = requested
        self.key = key
        self.resets_at = resets_at


class LLMStateError(LLMError):
    """The state of budgets and deployments cannot be reached; the request was not sent."""


class LLMTimeoutError(LLMError, TimeoutError):
    """There was no answer in time."""


class LLMConnectionError(LLMError, ConnectionError):
    """There was no connection, or it broke before the answer was complete."""


class LLMServerError(LLMError):
    """The provider failed."""


class LLMOverloadedError(LLMServerError):
    """The provider is overloaded."""


class LLMFilteredError(LLMError):
    """The provider withheld the answer, or rejected the prompt."""


class LLMResponseError(LLMError):
    """The answer cannot be parsed, or was cut off at `max_tokens` and is therefore unusable.

    `body` is the part that cannot be parsed, `partial` the rest.
    """


class LLMRunLimitError(LLMError):
    """A run has reached one of its limits.

    Attributes:
        limit: the name of the limit, such as "max_turns".
        maximum: its value.
        reached: the value that was reached, None if the price of the model is not known.
    """

    limit: str = ""
    maximum: float = 0
    reached: float | None = None


class LLMRunTimeoutError(LLMRunLimitError, LLMTimeoutError):
    """A run has reached its time limit."""


class LLMToolError(LLMError):
    """A tool has failed too often in a row, so the run was ended.

    Attributes:
        tool: the name of the tool.
        failures: the number of failures in a row.
        result: the last error, as the model would have received it.
    """

    tool: str = ""
    failures: int = 0
    result: str = ""


class LLMApprovalRequired(LLMError):
    """The model calls a tool that needs an approval, so the run waits for it.

    `run` with `conversation` and with `approvals` for the calls goes on there: the model is not
    asked again. None of the calls of this answer has been executed yet.

    Attributes:
        calls: the calls that need an approval.
    """

    calls: "Sequence[ToolCall]" = ()


class ToolAbort(LLMError):
    """Raised by a tool to end the run; `run` raises it with the conversation so far."""
