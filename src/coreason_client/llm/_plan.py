"""`Plan`: the encoded request for one model."""

import time
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from .._http._types import Request, Timeouts
from ._answer import Answer
from ._background import background_body, cancel_url, has_background, resume_url
from ._call import Call
from ._continuation import (
    FIELDS,
    accepts_prefix,
    check_continuation,
    continuation_base,
    continuation_fields,
    prefix_of,
    sent_messages,
)
from ._cost import cost
from ._fit_call import fit_call
from ._follow_up import continued_call, corrected_call, is_plain_text
from ._key_fetch import KeyFetcher
from ._request_body import encode_body, with_extra, with_query
from ._request_plan import Pricing, RequestPlan, estimated_prompt
from ._route import Route

__all__ = ["Plan", "ResumedPlan"]

# A parameter that one generation of models rejects and the next one requires.
_RENAMED = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
# Without the fields of a continuation, the model would begin another answer.
_REQUIRED = frozenset({"model", "messages", "input", "contents", "stream", *FIELDS})
_USUAL_ANSWER = 2000  # tokens, if the caller sets no limit: the default of `max_tokens`


@dataclass(slots=True)
class Plan(RequestPlan):
    """One model to try: the call, its route and the encoded request.

    `requested_model` is the name that the caller used, `dropped` are the parameters that the
    provider has rejected. `background`: the request is for a response whose stream can be resumed.
    `prefix` is the beginning of the answer that the model continues, None if there is none.
    """

    call: Call
    route: Route
    requested_model: str = ""
    pricing: Pricing = cost
    dropped: tuple[str, ...] = ()
    background: bool = field(default=False, init=False)
    prefix: str | None = field(init=False)
    body: dict[str, Any] = field(init=False)
    content: bytes = field(init=False)
    url: str = field(init=False)
    _fetcher: KeyFetcher | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        adapter, profile, base = self.route.adapter, self.route.profile, self.route.base
        call = self.call = fit_call(self.call, adapter, profile)
        prefix = self.prefix = prefix_of(call.messages)
        if prefix is not None:
            check_continuation(profile, call.model)
            base = continuation_base(base, profile)
            call = replace(call, messages=sent_messages(call.messages, profile))
        body = adapter.body(call, profile)
        if prefix is not None:
            body.update(continuation_fields(prefix, profile))
        if call.extra:
            body = with_extra(body, call.extra)
        if call.resume and has_background(profile):
            self.background = True
            body = background_body(body)
        self.body = body
        for name in self.dropped:
            self._drop(name)
        self.url = with_query(adapter.url(base, call), self.route.query)
        self.content = encode_body(body, call.model)

    @property
    def estimated_tokens(self) -> int:
        """An estimate of the tokens that the call will use, for limits and budgets.

        It is a quarter of the bytes of the body, and `max_tokens`; 2000 without `max_tokens`.
        """
        answer = _USUAL_ANSWER if self.call.max_tokens is None else self.call.max_tokens
        return estimated_prompt(self.content) + answer

    def drop_parameter(self, parameter: str) -> bool:
        """Drop or rename a parameter that the provider rejects; return False if it must stay."""
        name = parameter.partition(".")[0].partition("[")[0]
        if name not in self.body or name in _REQUIRED:
            return False
        self.dropped += (name,)
        self._drop(name)
        self.content = encode_body(self.body, self.call.model)
        return True

    def can_continue(self, received: Answer) -> bool:
        """Return True if the model can continue what was received of its answer."""
        accepts = accepts_prefix(self.route.profile, self.call.model)
        return accepts and is_plain_text(self.call, received)

    def continued(self, text: str) -> Self:
        """Return the plan that continues the answer after the given text."""
        return self._with_call(continued_call(self.call, text))

    def corrected(self, answer: str, reason: str) -> Self:
        """Return the plan that asks the model to correct its answer."""
        return self._with_call(corrected_call(self.call, answer, reason))

    def resumed(self, response_id: str, sequence: int | None) -> "ResumedPlan":
        """Return the plan that reads the stream of a background response after an event."""
        plan = ResumedPlan(*self._arguments(self.call))
        plan._fetcher = self._fetcher
        plan.url = resume_url(self.url, response_id, sequence, self.body.get("include", ()))
        plan.content = b""
        return plan

    def cancel_request(self, response_id: str, timeouts: Timeouts) -> Request:
        """Return the request that cancels a background response."""
        url = cancel_url(self.url, response_id)
        headers = self.route.request_headers("POST", url, b"", time.time)
        return Request("POST", url, headers, b"", timeouts)

    def _with_call(self, call: Call) -> Self:
        plan = type(self)(*self._arguments(call))
        plan._fetcher = self._fetcher
        return plan

    def _arguments(self, call: Call) -> tuple[Any, ...]:
        return call, self.route, self.requested_model, self.pricing, self.dropped

    def _drop(self, name: str) -> None:
        value = self.body.pop(name, None)
        renamed = _RENAMED.get(name)
        if renamed is not None and renamed not in self.body and value is not None:
            self.body[renamed] = value


@dataclass(slots=True)
class ResumedPlan(Plan):
    """A plan that reads the rest of a stream instead of sending the call again."""

    method: ClassVar[str] = "GET"
    free: ClassVar[bool] = True
