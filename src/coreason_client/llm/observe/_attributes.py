"""The attributes of spans and metrics. Pure.

Attributes describe the model that the last attempt was sent to, so that after a fallback tokens
and errors are counted for the right model. No attribute contains a key or a part of a conversation;
the content that a caller may ask for is in `_content.py`.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from ..._http._types import origin
from ..._trace import error_type
from .._plan import Plan
from .._route import Route
from ..types import Usage
from . import _telemetry_names as names
from ._identity import Identity

__all__ = [
    "Attributes",
    "identity_attributes",
    "metric_attributes",
    "operation_of",
    "request_attributes",
    "response_attributes",
    "target_attributes",
    "usage_attributes",
]

Attributes: TypeAlias = dict[str, Any]

_MAX_TEXT = 256  # characters of a value that the provider chose
_PARAMETER_TYPES = (int, float, str)
_USAGE: Mapping[str, str] = {
    "prompt_tokens": names.USAGE_INPUT_TOKENS,
    "completion_tokens": names.USAGE_OUTPUT_TOKENS,
    "cached_tokens": names.USAGE_CACHE_READ,
    "cache_write_tokens": names.USAGE_CACHE_WRITE,
    "reasoning_tokens": names.USAGE_REASONING,
}


def operation_of(plan: Any) -> str | None:
    """Return the operation of a request, None if the conventions do not cover it."""
    if isinstance(plan, Plan):
        return names.CHAT
    return names.EMBEDDINGS if hasattr(getattr(plan, "call", None), "texts") else None


def target_attributes(plan: Any) -> Attributes:
    """Return the attributes that spans and metrics share: operation, provider, model, server."""
    route: Route = plan.route
    provider = route.profile.name
    attributes: Attributes = {
        names.OPERATION_NAME: operation_of(plan),
        names.PROVIDER_NAME: names.PROVIDER_NAMES.get(provider, provider),
        names.REQUEST_MODEL: route.model,
    }
    address, port = urlsplit(plan.url).hostname, origin(plan.url)[2]
    if address:
        attributes[names.SERVER_ADDRESS] = address
        if port is not None:
            attributes[names.SERVER_PORT] = port
    return attributes


def request_attributes(plan: Any) -> Attributes:
    """Return the attributes of a request that only a span has."""
    call = plan.call
    if not isinstance(plan, Plan):
        dimensions = getattr(call, "dimensions", None)
        return {} if dimensions is None else {names.EMBEDDINGS_DIMENSIONS: dimensions}
    found: Attributes = {
        names.REQUEST_MAX_TOKENS: call.max_tokens,
        names.REQUEST_TEMPERATURE: call.temperature,
        names.REQUEST_STREAM: True if call.stream else None,
        names.REQUEST_STOP_SEQUENCES: list(call.stop) or None,
        names.OUTPUT_TYPE: None if call.schema is None else "json",
    }
    for field, name in names.EXTRA_PARAMETERS.items():
        value = call.extra.get(field)
        if isinstance(value, _PARAMETER_TYPES) and not isinstance(value, bool):
            found[name] = value
    return {name: value for name, value in found.items() if value is not None}


def identity_attributes(route: Route, identity: Identity) -> Attributes:
    """Return the id of the answer and the model that generated it, without secrets."""
    pairs = ((names.RESPONSE_ID, identity.id), (names.RESPONSE_MODEL, identity.model))
    return {name: _short(route, value) for name, value in pairs if value}


def response_attributes(route: Route, response: Mapping[str, Any]) -> Attributes:
    """Return the attributes of a complete answer, besides its usage."""
    attributes: Attributes = {}
    data = response["data"]
    if "finish_reason" in data:
        reason = "content_filter" if data.get("filtered") else data["finish_reason"]
        attributes[names.RESPONSE_FINISH_REASONS] = [reason]
    if request_id := response.get("request_id"):
        attributes[names.PROVIDER_REQUEST_ID] = _short(route, request_id)
    return attributes


def usage_attributes(usage: Usage | None, spent: Usage | None) -> Attributes:
    """Return the cost of all attempts, and the tokens of the answer if the provider counted them.

    `usage` is that of the answer, `spent` that of all attempts.
    """
    cost = None if spent is None else spent["cost_estimate"]
    attributes: Attributes = {} if cost is None else {names.COST_ESTIMATE: cost}
    if usage is not None and not usage.get("estimated"):
        values: Mapping[str, Any] = usage
        attributes |= {name: values[key] for key, name in _USAGE.items() if key in values}
    return attributes


def metric_attributes(
    target: Attributes, identity: Attributes, error: BaseException | None
) -> Attributes:
    """Return the attributes of metrics, which have few different values."""
    attributes = dict(target)
    if model := identity.get(names.RESPONSE_MODEL):
        attributes[names.RESPONSE_MODEL] = model
    if error is not None:
        attributes[names.ERROR_TYPE] = error_type(error)
    return attributes


def _short(route: Route, value: str) -> str:
    return route.redact(value)[:_MAX_TEXT]
