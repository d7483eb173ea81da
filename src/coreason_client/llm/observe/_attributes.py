"""The attributes of spans and metrics, and the content that a caller may ask for. Pure.

Attributes describe the model that the last attempt was sent to, so that after a fallback tokens
and errors are counted for the right model. Without that content, no attribute contains
a key or a part of a conversation.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from pydantic_core import to_json

from ..._context import error_type
from ..._http._types import origin
from .._json import items, mapping, parse_or_none, text
from .._plan import CallPlan
from .._route import ModelRoute
from ..types import Usage
from . import _telemetry_names as names

Attributes: TypeAlias = dict[str, Any]

_MAX_TEXT = 256  # characters of a value that the provider chose
_PARAMETER_TYPES = (int, float, str)
# The objects of stream events that contain the reply: of Anthropic, and of OpenAI's Responses.
_INNER = ("message", "response")
_USAGE: Mapping[str, str] = {
    "prompt_tokens": names.USAGE_INPUT_TOKENS,
    "completion_tokens": names.USAGE_OUTPUT_TOKENS,
    "cached_tokens": names.USAGE_CACHE_READ,
    "cache_write_tokens": names.USAGE_CACHE_WRITE,
    "reasoning_tokens": names.USAGE_REASONING,
}


class Identity(NamedTuple):
    """The id of an answer and the model that generated it; empty if they are not known."""

    id: str = ""
    model: str = ""

    def merged(self, other: "Identity") -> "Identity":
        """Return this identity; the other one fills what it lacks."""
        return Identity(self.id or other.id, self.model or other.model)


def operation_of(plan: Any) -> str | None:
    """Return the operation of a request, None if the conventions do not cover it."""
    if isinstance(plan, CallPlan):
        return names.CHAT
    return names.EMBEDDINGS if hasattr(getattr(plan, "call", None), "texts") else None


def target_attributes(plan: Any) -> Attributes:
    """Return the attributes that spans and metrics share: operation, provider, model, server."""
    route: ModelRoute = plan.route
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
    if not isinstance(plan, CallPlan):
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
        value = call.extra.get(field, call.arguments.get(field))
        if isinstance(value, _PARAMETER_TYPES) and not isinstance(value, bool):
            found[name] = value
    return {name: value for name, value in found.items() if value is not None}


def identity_attributes(route: ModelRoute, identity: Identity) -> Attributes:
    """Return the id of the answer and the model that generated it, without secrets."""
    pairs = ((names.RESPONSE_ID, identity.id), (names.RESPONSE_MODEL, identity.model))
    return {name: _short(route, value) for name, value in pairs if value}


def response_attributes(route: ModelRoute, response: Mapping[str, Any]) -> Attributes:
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


def _short(route: ModelRoute, value: str) -> str:
    return route.redact(value)[:_MAX_TEXT]


def read_identity(data: bytes) -> Identity:
    """Return the identity in a reply, or in one event of a stream."""
    return _identity(parse_or_none(data))


def _identity(reply: Any) -> Identity:
    fields = mapping(reply[0] if isinstance(reply, list) and reply else reply)
    found = Identity(
        text(fields.get("id") or fields.get("responseId")),
        text(fields.get("model") or fields.get("modelVersion")),
    )
    for name in _INNER:
        if isinstance(inner := fields.get(name), dict) and "id" in inner:
            found = found.merged(Identity(text(inner.get("id")), text(inner.get("model"))))
    return found


# Messages and tools in the form that the conventions define for spans, as JSON text.
#
# The base64 data of images, audio and files is left out: it would exceed the limits of every
# backend.


def as_json(value: Any) -> str:
    """Return a value as JSON; what JSON cannot express becomes text."""
    return to_json(value, fallback=str, inf_nan_mode="constants").decode()


def input_messages(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the messages of a call."""
    return as_json([_message(message) for message in messages])


def output_messages(data: Mapping[str, Any]) -> str:
    """Return the answer of a model, from the `data` of a response or of a partial one."""
    parts = list(_answer_parts(data))
    return as_json([{"role": "assistant", "parts": parts}])


def tool_definitions(tools: Sequence[Mapping[str, Any]]) -> str:
    """Return the tools of a call."""
    named = [mapping(tool.get("function", tool)) for tool in tools]
    return as_json([{"type": "function", **tool} for tool in named])


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    role = text(message.get("role"))
    if role == "tool":
        response = {
            "type": "tool_call_response",
            "id": message.get("tool_call_id"),
            "response": message.get("content"),
        }
        return {"role": role, "parts": [response]}
    parts = [*_content_parts(message.get("content"))]
    if reasoning := message.get("reasoning"):
        parts.insert(0, {"type": "reasoning", "content": reasoning})
    parts += [_tool_call(call) for call in items(message.get("tool_calls"))]
    named = {"name": message["name"]} if message.get("name") else {}
    return {"role": role, "parts": parts, **named}


def _content_parts(content: Any) -> Iterator[dict[str, Any]]:
    if isinstance(content, str):
        yield {"type": "text", "content": content}
    for part in map(mapping, items(content)):
        if part.get("type") == "text":
            yield {"type": "text", "content": text(part.get("text"))}
        else:
            yield _media_part(part)


def _media_part(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reference to an image or a file; its data is left out."""
    kind = text(part.get("type"))
    modality = kind.removeprefix("input_").removesuffix("_url")
    url = text(mapping(part.get(kind)).get("url"))
    if url and not url.startswith("data:"):
        return {"type": "uri", "modality": modality, "uri": url}
    return {"type": kind, "modality": modality}


def _tool_call(call: Any) -> dict[str, Any]:
    """Return a tool call of a message: OpenAI's form, or the form of a response."""
    fields = mapping(call)
    function = mapping(fields.get("function")) or fields
    return {
        "type": "tool_call",
        "id": fields.get("id"),
        "name": function.get("name"),
        "arguments": function.get("arguments"),
    }


def _answer_parts(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if reasoning := data.get("reasoning"):
        yield {"type": "reasoning", "content": reasoning}
    if content := data.get("content"):
        yield {"type": "text", "content": content}
    for media in items(data.get("media")):
        yield {"type": "blob", "modality": media["type"], "mime_type": media.get("mime_type")}
    yield from map(_tool_call, items(data.get("tool_calls")))
