"""The form of a wire table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coreason_client.llm.errors import LLMError

__all__ = ["USER", "Refused", "Stream", "Unary"]

USER: Sequence[Mapping[str, Any]] = ({"role": "user", "content": "Hi"},)
"""The question where it does not matter."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The error that must come: its class and, by name, what its fields must be."""

    kind: type[LLMError]
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary:
    """One exchange: what is asked of `generate`, what must be sent, what is replied.

    Attributes:
        model: with the prefix that chooses the provider; the server stands on loopback.
        ask: the other arguments of `generate`.
        client: options of the client.
        path: the path and query that the request must have, None when another case shows it.
        headers: headers that the request must have, among others.
        sent: the JSON body that must be sent, all of it; None when another case shows it.
        reply: the body, as JSON or as bytes.
        data: the `data` of the response object, exactly.
        usage: its `usage`, exactly but for `cost_estimate`; `priced` says whether that is a number.
        refused: the error that must come instead; retries are switched off.
    """

    name: str
    model: str
    ask: Mapping[str, Any] = field(default_factory=dict)
    client: Mapping[str, Any] = field(default_factory=dict)
    messages: Sequence[Mapping[str, Any]] = USER
    path: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    sent: Mapping[str, Any] | None = None
    status: int = 200
    reply_headers: Mapping[str, str] = field(default_factory=dict)
    reply: Any = b""
    data: Mapping[str, Any] | None = None
    usage: Mapping[str, Any] | None = None
    priced: bool | None = None
    refused: Refused | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream(Unary):
    """One streamed exchange.

    Attributes:
        events: the body, one event (or line of NDJSON) each, as bytes with their line ends; the
            test also re-chunks them and cuts the stream after each.
        complete_after: how many events make the answer complete: a cut after any fewer must be an
            error, a cut after these or more is an answer.
        deltas: the text, reasoning and tool-call deltas that must come, in order, None when
            another case shows it.
        partial: of a stream that brings an error: what had been assembled, as `data`.
    """

    events: Sequence[bytes] = ()
    complete_after: int = 0
    deltas: Sequence[Any] | None = None
    partial: Mapping[str, Any] | None = None
