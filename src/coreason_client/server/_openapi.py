"""The description of the two public calls, from the same models that validate them."""

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from coreason_manifest.definitions.presentation import StreamPacket
from coreason_manifest.definitions.service import HealthCheckResponse, ServiceRequest

__all__ = ["openapi"]

_MODELS: tuple[type[BaseModel], ...] = (ServiceRequest, StreamPacket, HealthCheckResponse)
_REFUSALS = {
    "400": "The Last-Event-ID is not a position.",
    "401": "The key is missing or not known.",
    "404": "There is no such stream for this key.",
    "409": "The request_id is known with another body.",
    "410": "The packets after this position are no longer kept.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
    "422": "The body is not a ServiceRequest; `errors` names the fields.",
    "429": "Too many streams, responses or requests for this key; `Retry-After` says for how long.",
    "503": "The server is shutting down or its log does not answer.",
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


def openapi(
    agent_id: str,
    version: str,
    *,
    with_keys: bool,
    metrics_path: str | None = None,
    metrics_with_key: bool = False,
) -> dict[str, Any]:
    """Describe the server in OpenAPI 3.1."""
    _, definitions = models_json_schema(
        [(model, "validation") for model in _MODELS],
        ref_template="#/components/schemas/{model}",
    )
    components: dict[str, Any] = {"schemas": {**definitions["$defs"], "Problem": _PROBLEM}}
    security: list[dict[str, list[str]]] = []
    if with_keys or (metrics_path is not None and metrics_with_key):
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    if with_keys:
        security = [{"key": []}]
    metrics = {} if metrics_path is None else {metrics_path: {"get": _metrics(metrics_with_key)}}
    return {
        "openapi": "3.1.0",
        "info": {"title": agent_id, "version": version},
        "paths": {
            "/assist": {"post": _assist("assist", security)},
            "/v1/assist": {"post": _assist("assist_v1", security)},
            "/health": {"get": _health()},
            "/streams/{stream_id}": {"delete": _cancel(security)},
            **metrics,
        },
        "components": components,
    }


def _assist(operation_id: str, security: list[dict[str, list[str]]]) -> dict[str, Any]:
    return {
        "operationId": operation_id,
        "summary": "Ask the agent; the answer is a stream that can be resumed.",
        "security": security,
        "parameters": [
            _header("Last-Event-ID", "Resume after this position: `<stream_id>:<seq>`."),
            _header("X-Request-ID", "The request_id, for a body that has none."),
        ],
        "requestBody": {"required": True, "content": _json(_ref("ServiceRequest"))},
        "responses": {
            "200": {
                "description": "Server-sent events; the data of each is a StreamPacket.",
                "content": {"text/event-stream": {"schema": _ref("StreamPacket")}},
            },
            "204": {"description": "The stream has ended and nothing follows this position."},
            **{status: _refusal(text) for status, text in _REFUSALS.items()},
        },
    }


def _health() -> dict[str, Any]:
    return {
        "operationId": "health",
        "summary": "Say how the agent feels.",
        "responses": {
            "200": {"description": "It lives.", "content": _json(_ref("HealthCheckResponse"))}
        },
    }


def _metrics(with_key: bool) -> dict[str, Any]:
    text = {"text/plain": {"schema": {"type": "string"}}}
    refusals = {"401": _refusal(_REFUSALS["401"])} if with_key else {}
    return {
        "operationId": "metrics",
        "summary": "The numbers of this process, for Prometheus.",
        "security": [{"key": []}] if with_key else [],
        "responses": {"200": {"description": "All of them.", "content": text}, **refusals},
    }


def _cancel(security: list[dict[str, list[str]]]) -> dict[str, Any]:
    stream_id = {
        "name": "stream_id",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "format": "uuid"},
    }
    return {
        "operationId": "cancel",
        "summary": "Cancel a stream; it ends with the fatal error `cancelled`.",
        "security": security,
        "parameters": [stream_id],
        "responses": {
            "204": {"description": "It has ended, or will shortly."},
            **{status: _refusal(_REFUSALS[status]) for status in ("401", "404", "503")},
        },
    }


def _header(name: str, description: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": description,
        "schema": {"type": "string"},
    }


def _refusal(description: str) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": _ref("Problem")}}
    return {"description": description, "content": content}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _ref(model: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{model}"}
