"""The OpenAPI description of the server, from the models that validate its requests."""

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from coreason_manifest.definitions.presentation import StreamPacket
from coreason_manifest.definitions.service import HealthCheckResponse, ServiceRequest

from .._options import CARD_PATH
from ..http._cursor import MAX_CURSOR_LENGTH

_MODELS: tuple[type[BaseModel], ...] = (ServiceRequest, StreamPacket, HealthCheckResponse)
_REFUSALS = {
    "400": "The Last-Event-ID is not a position in the stream, or the body is incomplete.",
    "401": "The key is missing or unknown.",
    "403": "A web page of another origin must not use a server without keys.",
    "404": "The stream does not exist, or belongs to another key.",
    "408": "The body did not arrive in time.",
    "409": "The request_id was used before with a different body.",
    "410": "The packets after this position have been deleted, or the store has lost its packet.",
    "413": "The body is too large, or has too many JSON values.",
    "415": "The body is not JSON.",
    "421": "The Host header names another machine, and the server has no keys.",
    "422": "The body is not a ServiceRequest, or has too many messages; `errors` names the fields.",
    "429": "The caller has too many streams, responses or requests; wait for `Retry-After`.",
    "431": "The headers are too large.",
    "503": "The server is shutting down or too busy, or its log is unavailable.",
}
# Headers of refusals.
_REFUSAL_HEADERS = {
    "401": ("WWW-Authenticate", "The required authentication scheme."),
    "429": ("Retry-After", "Seconds to wait before the next attempt."),
    "503": ("Retry-After", "Seconds to wait before the next attempt."),
}
_UUID = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_POSITION = {
    "type": "string",
    "pattern": f"^{_UUID}(:(0|[1-9][0-9]{{0,17}})(:[1-9][0-9]{{0,17}}){{0,2}})?$",
    "maxLength": MAX_CURSOR_LENGTH,
}
_STREAM_ID = {
    "name": "stream_id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "format": "uuid"},
}
_INBOX_PATH = "/streams/{stream_id}/messages"
# The refusals of a request without a body.
_READ_REFUSALS = ("400", "401", "403", "404", "410", "421", "429", "431", "503")
_EVENT = {
    "description": "The fields of a server-sent event.",
    "type": "object",
    "required": ["id", "data"],
    "properties": {
        "id": {"type": "string", "description": "The position after this packet."},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"$ref": "#/components/schemas/StreamPacket"},
        },
    },
}
# Rules of the models that are not in their fields, as far as a schema can express them.
_RULES: dict[str, dict[str, Any]] = {
    "AgentRequest": {
        "anyOf": [
            {"required": ["messages"], "properties": {"messages": {"type": "array"}}},
            {"required": ["payload"], "properties": {"payload": {"type": "object"}}},
        ],
        "if": {
            "required": ["parent_request_id"],
            "properties": {"parent_request_id": {"type": "string"}},
        },
        "then": {
            "required": ["root_request_id"],
            "properties": {"root_request_id": {"type": "string"}},
        },
    },
    "SessionContext": {
        "required": ["session_id"],
        "anyOf": [
            {"required": ["user_id"]},
            {"required": ["user"], "properties": {"user": {"type": "object"}}},
        ],
    },
}
_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["loc", "msg"],
                "properties": {
                    "loc": {
                        "type": "array",
                        "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                    },
                    "msg": {"type": "string"},
                },
            },
        },
    },
}


def _schemas() -> dict[str, Any]:
    _, definitions = models_json_schema(
        [(model, "validation") for model in _MODELS],
        ref_template="#/components/schemas/{model}",
    )
    schemas = {name: _with_rules(name, model) for name, model in definitions["$defs"].items()}
    return schemas | {"Problem": _PROBLEM, "StreamEvent": _EVENT}


def openapi(
    agent_id: str,
    version: str,
    *,
    with_keys: bool,
    metrics_path: str | None = None,
    metrics_with_key: bool = False,
    serves_a2a: bool = False,
    has_inbox: bool = False,
    has_order: bool = False,
    root_path: str = "",
) -> dict[str, Any]:
    """Return the OpenAPI 3.1 description of the server."""
    components: dict[str, Any] = {"schemas": _schemas()}
    if with_keys or (metrics_path is not None and metrics_with_key):
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    security: list[dict[str, list[str]]] = [{"key": []}] if with_keys else []
    metrics = {} if metrics_path is None else {metrics_path: {"get": _metrics(metrics_with_key)}}
    return {
        "openapi": "3.1.0",
        "info": {"title": agent_id, "version": version},
        **({"servers": [{"url": root_path}]} if root_path else {}),
        "paths": {
            "/assist": {"post": _assist("assist", security)},
            "/v1/assist": {"post": _assist("assist_v1", security)},
            "/health": {"get": _health()},
            "/ready": {"get": _ready()},
            "/streams/{stream_id}": {
                "parameters": [_STREAM_ID],
                "get": _read(security),
                "delete": _cancel(security),
            },
            **({_INBOX_PATH: _inbox(security)} if has_inbox else {}),
            **(_events(security) if has_order else {}),
            **metrics,
            **({CARD_PATH: {"get": _card()}} if serves_a2a else {}),
        },
        "components": components,
    }


def _with_rules(name: str, model: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a model with the rules that are not in its fields."""
    if "const" in model.get("properties", {}).get("type", {}):
        # It has a default only for parts made in Python; in JSON it identifies the kind of a part.
        model = {**model, "required": sorted({*model.get("required", ()), "type"})}
    return {**model, **_RULES.get(name, {})}


def _assist(operation_id: str, security: list[dict[str, list[str]]]) -> dict[str, Any]:
    return {
        "operationId": operation_id,
        "summary": "Send a request to the agent; the response is a stream that can be resumed.",
        "security": security,
        "parameters": [
            _header("Last-Event-ID", "Resume after this position.", _POSITION),
            _header("X-Request-ID", "The request_id, used if the body has none."),
        ],
        "requestBody": {"required": True, "content": _json(_ref("ServiceRequest"))},
        "responses": {
            **_stream_responses(),
            **{status: _refusal(status) for status in _REFUSALS},
        },
    }


def _read(security: list[dict[str, list[str]]]) -> dict[str, Any]:
    return {
        "operationId": "read",
        "summary": "Read a stream of the same key, for example in a second tab or device.",
        "security": security,
        "parameters": [_header("Last-Event-ID", "Read after this position.", _POSITION)],
        "responses": {
            **_stream_responses(),
            **{status: _refusal(status) for status in _READ_REFUSALS},
        },
    }


def _inbox(security: list[dict[str, list[str]]]) -> dict[str, Any]:
    text = {"type": "string", "minLength": 1}
    message = {
        "type": "object",
        "required": ["id", "text"],
        "properties": {"id": text, "text": text},
    }
    refusals = ("400", "401", "403", "404", "408", "413", "415", "421", "429", "431", "503")
    send = {
        "operationId": "send",
        "summary": "Send a message to the running agent; one that is sent again is delivered once.",
        "security": security,
        "requestBody": {"required": True, "content": _json(message)},
        "responses": {
            "202": {"description": "The message is in the inbox of the agent."},
            "409": {"description": "The stream has ended."},
            **{status: _refusal(status) for status in refusals},
        },
    }
    return {"parameters": [_STREAM_ID], "post": send}


def _events(security: list[dict[str, list[str]]]) -> dict[str, Any]:
    conversation = {"name": "conversation_id", "in": "path", "required": True}
    follow = {
        **_read(security),
        "operationId": "follow",
        "summary": "Read the answer that follows a position in a conversation; wait for it.",
    }
    described = {"parameters": [{**conversation, "schema": {"type": "string"}}], "get": follow}
    return {"/conversations/{conversation_id}/events": described}


def _stream_responses() -> dict[str, Any]:
    return {
        "200": {
            "description": "Server-sent events; the data of each is a StreamPacket.",
            "content": {"text/event-stream": {"schema": _ref("StreamEvent")}},
            "headers": {
                "X-Request-ID": _response_header("The id of the request."),
                "X-Stream-ID": _response_header("The id of the stream, to resume or cancel it."),
            },
        },
        "204": {
            "description": "The stream has ended, and there are no packets after this position.",
            "headers": {
                "X-Stream-Outcome": _response_header("`complete`, or the code of the last error.")
            },
        },
    }


def _health() -> dict[str, Any]:
    return {
        "operationId": "health",
        "summary": "Report the agent's health.",
        "responses": {
            "200": {
                "description": "The process is running.",
                "content": _json(_ref("HealthCheckResponse")),
            },
            **_head_refusals(),
        },
    }


def _ready() -> dict[str, Any]:
    return {
        "operationId": "ready",
        "summary": "Report whether requests can be served.",
        "responses": {
            "200": {
                "description": "Requests can be served.",
                "content": _json(_readiness("ready")),
            },
            "503": {
                "description": "Requests cannot be served now; `status` gives the reason.",
                "content": _json(_readiness("starting", "degraded", "draining")),
                "headers": {
                    "Retry-After": _response_header("Seconds to wait before the next attempt.")
                },
            },
            **_head_refusals(),
        },
    }


def _readiness(*states: str) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["status"],
        "properties": {"status": {"enum": list(states)}},
    }


def _card() -> dict[str, Any]:
    return {
        "operationId": "agent_card",
        "summary": "The card of the agent for clients of A2A, which names the URLs of A2A.",
        "responses": {
            "200": {"description": "The card.", "content": _json({"type": "object"})},
            "304": {"description": "The client has this card already."},
            **_head_refusals(),
        },
    }


def _metrics(with_key: bool) -> dict[str, Any]:
    text = {"text/plain": {"schema": {"type": "string"}}}
    refusals = ({"401": _refusal("401")} if with_key else {}) | _head_refusals()
    return {
        "operationId": "metrics",
        "summary": "Prometheus metrics of this process.",
        "security": [{"key": []}] if with_key else [],
        "responses": {"200": {"description": "The metrics.", "content": text}, **refusals},
    }


def _cancel(security: list[dict[str, list[str]]]) -> dict[str, Any]:
    return {
        "operationId": "cancel",
        "summary": "Cancel a stream; it ends with the fatal error `cancelled`.",
        "security": security,
        "responses": {
            "204": {"description": "The stream has ended, or will end shortly."},
            **{status: _refusal(status) for status in ("401", "403", "404", "421", "431", "503")},
        },
    }


def _header(name: str, description: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": description,
        "schema": schema or {"type": "string"},
    }


def _response_header(description: str) -> dict[str, Any]:
    return {"description": description, "required": True, "schema": {"type": "string"}}


def _head_refusals() -> dict[str, Any]:
    """Return the refusals of every request, by its Host, its Origin and the size of its headers."""
    return {status: _refusal(status) for status in ("403", "421", "431")}


def _refusal(status: str) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": _ref("Problem")}}
    refusal: dict[str, Any] = {"description": _REFUSALS[status], "content": content}
    if status in _REFUSAL_HEADERS:
        name, description = _REFUSAL_HEADERS[status]
        refusal["headers"] = {name: _response_header(description)}
    return refusal


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _ref(model: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{model}"}
