"""The arguments of hooks: a request before it is sent, and the outcome of each attempt."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ..types import Usage

__all__ = ["RequestHook", "RequestInfo", "ResponseHook", "ResponseInfo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInfo:
    """One request, before it is sent. It contains no key, and no other secret of the client.

    Attributes:
        provider: the name of the provider, such as "anthropic".
        model: the provider's own name of the model.
        url: the URL, without its query.
        attempt: the number of the attempt in this call, from 1; fallbacks continue the count.
        stream: True if a stream is requested.
        headers: the headers; secret values are `***`.
        body: the body, in the wire format of the provider.
    """

    provider: str
    model: str
    url: str
    attempt: int
    stream: bool
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseInfo:
    """The outcome of one attempt. It contains no key, and no other secret of the client.

    Attributes:
        provider: the name of the provider, such as "anthropic".
        model: the provider's own name of the model.
        url: the URL, without its query.
        attempt: the number of the attempt in this call, from 1; fallbacks continue the count.
        stream: True if a stream was requested.
        status: the HTTP status, None if there was no response.
        headers: the headers of the response; secret values are `***`.
        body: the body of the response, None if there was none, or if it was a stream.
        seconds: the time from the request to the end of the attempt.
        usage: the tokens and the cost of a successful attempt; None for any other.
        error: None if the attempt succeeded. An `LLMError` if it failed; the call may go on with
            another attempt. Otherwise the exception that ended the call during the attempt, such
            as `asyncio.CancelledError`, or `GeneratorExit` for a stream that was closed early.
    """

    provider: str
    model: str
    url: str
    attempt: int
    stream: bool
    status: int | None
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    seconds: float
    usage: Usage | None
    error: BaseException | None


RequestHook: TypeAlias = Callable[[RequestInfo], object]
"""Called before each request; an exception that it raises ends the call without sending it."""

ResponseHook: TypeAlias = Callable[[ResponseInfo], object]
"""Called after each attempt; an exception that it raises is logged."""
