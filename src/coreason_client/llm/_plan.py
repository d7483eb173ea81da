"""`Plan`: the encoded request for one model."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from ._answer import Tokens
from ._call import Call
from ._continuation import (
    FIELDS,
    check_continuation,
    continuation_base,
    continuation_fields,
    prefix_of,
    sent_messages,
)
from ._cost import cost
from ._route import Route
from .errors import LLMRequestError

__all__ = ["Plan"]

# A parameter that one generation of models rejects and the next one requires.
_RENAMED = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
# Without the fields of a continuation, the model would begin another answer.
_REQUIRED = frozenset({"model", "messages", "contents", "stream", *FIELDS})


@dataclass(slots=True)
class Plan:
    """One model to try: the call, its route and the encoded request.

    `requested_model` is the name that the caller used, `dropped` are the parameters that the
    provider has rejected.
    """

    call: Call
    route: Route
    requested_model: str = ""
    pricing: Callable[[str | None, str, Tokens], float | None] = cost
    dropped: tuple[str, ...] = ()
    body: dict[str, Any] = field(init=False)
    content: bytes = field(init=False)
    url: str = field(init=False)

    def __post_init__(self) -> None:
        adapter, profile, base = self.route.adapter, self.route.profile, self.route.base
        call = self.call
        if self.prefix is not None:
            check_continuation(profile, call.model)
            base = continuation_base(base, profile)
            call = replace(call, messages=sent_messages(call.messages, profile))
        body = {**adapter.body(call, profile), **continuation_fields(self.prefix, profile)}
        self.body = _with_extra(body, call.extra)
        for name in self.dropped:
            self._drop(name)
        url = adapter.url(base, call)
        query = self.route.query
        self.url = f"{url}{'&' if '?' in url else '?'}{query}" if query else url
        self._encode()

    @property
    def prefix(self) -> str | None:
        """The beginning of the answer that the model continues, None if there is none."""
        return prefix_of(self.call.messages)

    def drop_parameter(self, parameter: str) -> bool:
        """Drop or rename a parameter that the provider rejects; return False if it must stay."""
        name = parameter.partition(".")[0].partition("[")[0]
        if name not in self.body or name in _REQUIRED:
            return False
        self.dropped += (name,)
        self._drop(name)
        self._encode()
        return True

    def with_call(self, call: Call) -> "Plan":
        """Return a plan for another call to the same model."""
        return Plan(call, self.route, self.requested_model, self.pricing, self.dropped)

    def _drop(self, name: str) -> None:
        value = self.body.pop(name, None)
        renamed = _RENAMED.get(name)
        if renamed is not None and renamed not in self.body and value is not None:
            self.body[renamed] = value

    def price(self, tokens: Tokens) -> float | None:
        """Return the price of tokens in dollars, None if it is not known."""
        return self.pricing(self.route.profile.prices, self.route.model, tokens)

    def _encode(self) -> None:
        """Encode the body as JSON.

        Raises:
            LLMRequestError: a value cannot be encoded.
        """
        try:
            self.content = to_json(self.body)
            if b"NaN" in self.content or b"Infinity" in self.content:  # may be part of a text
                json.dumps(self.body, allow_nan=False, default=str)
        except (PydanticSerializationError, ValueError) as error:
            raise LLMRequestError(
                f"the request cannot be encoded as JSON: {error}", model=self.call.model
            ) from None


def _with_extra(body: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Add the caller's own fields to a body: objects are merged, other values replaced."""
    for name, value in extra.items():
        known = body.get(name)
        if isinstance(known, dict) and isinstance(value, dict):
            value = {**known, **value}
        body[name] = value
    return body
