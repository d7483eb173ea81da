"""Seeds: what once broke something, here or in programs of this kind. Every run replays them all.

Whoever finds another one adds it here, beside the `@example` of the test that found it.
"""

from typing import Any

__all__ = ["AGENT_CARDS", "EVENTS", "JSON_TEXTS", "PACKETS", "REQUESTS", "SSE"]

STREAM_ID = "123e4567-e89b-12d3-a456-426614174000"

SSE: tuple[bytes, ...] = (
    b"",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\xef\xbb\xbf",
    b"\xef\xbb",
    b"\xef\xbb\xbf\xef\xbb\xbfdata: x\n\n",
    b"data: x\r\rdata: y\r\n\r\n",
    b"data: x\r\n\rdata: y\n\n",
    b"data\n\n",
    b"data:\n\n",
    b"data: \n\n",
    b"data:  x\n\n",
    b"data: a\ndata: b\n\n",
    b"id: 1\0\ndata: x\n\n",
    b"id\ndata: x\n\n",
    b"id: 1\n\ndata: x\n\n",
    b"id: 1\ndata: x\n\nid\n\ndata: y\n\n",
    b"id: \xff\xfe\ndata: \xc3\n\n",
    b"id: 1\r\nX-Injected: 1\ndata: x\n\n",
    b"event: a\x85b\ndata: c\xe2\x80\xa8d\n\n",
    b"retry: 99999999999999999999999999\ndata: x\n\n",
    b"retry: \xd9\xa1\nretry: -1\nretry: 1_0\ndata: x\n\n",
    b"retry: 10",
    b": " + b"x" * 70_000 + b"\n\ndata: y\n\n",
    b"data: " + b"x" * 70_000 + b"\ndata: y\n\n",
    b"data: x\n" * 9_000 + b"\n",
    b"id: 1\ndata: a\nid: 2\n\n",
    b"data: x\n\ndata: y",
    b"\0\0\0\n\n",
)

JSON_TEXTS: tuple[bytes, ...] = (
    b"",
    b" ",
    b"null",
    b"[]",
    b"{}",
    b'""',
    b"\xff\xfe{\0}\0",
    b"\xef\xbb\xbf{}",
    b"{",
    b"[" * 100_000,
    b"[" * 150 + b"]" * 150,
    b'{"a":' * 100_000,
    b'{"a":' * 150 + b"1" + b"}" * 150,
    b'{"a":1,"a":2}',
    b'{"a":"\\ud800"}',
    b'{"a":"\\u0000"}',
    b'{"a":"\xed\xa0\x80"}',
    b'{"a":"\xc3"}',
    b'{"a":' + b"9" * 5_000 + b"}",
    b'{"a":1e99999}',
    b'{"a":NaN}',
    b'{"a":-Infinity}',
    b"{'a':1}",
    b'{"a":1,}',
    b'{"a":1}{"a":2}',
    b"<html></html>",
)

REQUESTS: tuple[dict[str, Any], ...] = (
    {
        "request_id": "0f0e0d0c-0b0a-4908-8706-050403020100",
        "context": {"session_id": "s", "user_id": "u"},
        "payload": {"messages": [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]},
    },
    {
        "context": {
            "session_id": "s",
            "user": {"user_id": "u", "email": None, "tier": "gold", "locale": "de"},
            "user_id": "u",
            "agent_id": "a",
            "trace": {"trace_id": "t", "span_id": "p", "parent_id": None},
            "permissions": ["read"],
            "created_at": "2026-01-01T00:00:00Z",
        },
        "payload": {
            "request_id": STREAM_ID,
            "session_id": "s",
            "root_request_id": STREAM_ID,
            "parent_request_id": STREAM_ID,
            "timestamp": "2026-01-01T00:00:00",
            "messages": [
                {"role": "system", "parts": [{"type": "text", "content": "be brief"}]},
                {
                    "role": "user",
                    "name": "ann",
                    "parts": [
                        {"type": "blob", "content": "AA==", "mime_type": "image/png"},
                        {"type": "file", "file_id": "f", "modality": "image"},
                        {"type": "uri", "uri": "https://x.example"},
                    ],
                },
                {
                    "role": "assistant",
                    "parts": [
                        {"type": "reasoning", "content": "hm"},
                        {"type": "tool_call", "name": "f", "id": "1", "arguments": {"a": [1]}},
                    ],
                },
                {
                    "role": "tool",
                    "parts": [{"type": "tool_call_response", "id": "1", "response": {"b": 2}}],
                },
            ],
            "payload": {"free": {"form": [1, 2.5, None]}},
            "capabilities": {
                "supported_events": ["CITATION_BLOCK", "other"],
                "prefers_markdown": True,
                "image_resolution": "1x1",
            },
            "metadata": {"k": "v"},
        },
    },
)


def _packet(seq: int, op: str, p: Any) -> dict[str, Any]:
    return {"stream_id": STREAM_ID, "seq": seq, "op": op, "t": "2026-01-01T00:00:00Z", "p": p}


PACKETS: tuple[dict[str, Any], ...] = (
    _packet(1, "DELTA", "hello"),
    _packet(
        2,
        "EVENT",
        {
            "id": STREAM_ID,
            "timestamp": "2026-01-01T00:00:00Z",
            "type": "CITATION_BLOCK",
            "data": {
                "citations": [
                    {"source_id": "s", "uri": "u", "title": "t", "snippet": "n", "confidence": 0.5}
                ]
            },
        },
    ),
    _packet(3, "EVENT", {"free": "form"}),
    _packet(
        4,
        "ERROR",
        {"code": "c", "message": "m", "severity": "TRANSIENT", "details": {"retry": 1}},
    ),
    _packet(5, "ERROR", {"code": "c", "message": "m", "severity": "FATAL"}),
    _packet(6, "CLOSE", {"total": 6}),
)

AGENT_CARDS: tuple[dict[str, Any], ...] = (
    {
        "name": "Weather",
        "description": "Tells the weather.",
        "supportedInterfaces": [
            {
                "url": "https://w.example/rpc",
                "protocolBinding": "JSONRPC",
                "protocolVersion": "1.0",
                "tenant": "north",
            }
        ],
        "provider": {"url": "https://w.example", "organization": "W"},
        "version": "1.2",
        "capabilities": {"streaming": True, "extensions": [{"uri": "https://x", "required": True}]},
        "securitySchemes": {
            "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
            "login": {
                "oauth2SecurityScheme": {"flows": {"clientCredentials": {"tokenUrl": "https://t"}}}
            },
        },
        "securityRequirements": [{"schemes": {"key": {"list": []}}}],
        "defaultInputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "S", "description": "", "tags": ["t"]}],
        "signatures": [{"protected": "p", "signature": "s", "header": {"kid": "k"}}],
        "iconUrl": None,
    },
    {
        "name": "Old",
        "protocolVersion": "0.3.0",
        "url": "https://a.example/rpc",
        "preferredTransport": "JSONRPC",
        "additionalInterfaces": [
            {"url": "https://a.example/rpc", "transport": "JSONRPC"},
            {"url": "https://a.example/rest", "transport": "HTTP+JSON"},
        ],
        "capabilities": {"streaming": True},
        "supportsAuthenticatedExtendedCard": True,
        "securitySchemes": {
            "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "odd": {"type": "magic"},
        },
        "security": [{"key": ["read"]}],
        "skills": [{"id": "s", "security": [{"key": []}]}],
    },
)

_MESSAGE = {
    "messageId": "m",
    "role": "ROLE_AGENT",
    "taskId": "task-1",
    "contextId": "context-1",
    "parts": [
        {"text": "hi", "metadata": {"k": 1}},
        {"data": {"a": 1}},
        {"raw": "AA==", "filename": "f", "mediaType": "image/png"},
        {"url": "https://x.example/p.png"},
    ],
    "extensions": ["https://x"],
    "referenceTaskIds": ["t"],
}
EVENTS: tuple[dict[str, Any], ...] = (
    {
        "task": {
            "id": "task-1",
            "contextId": "context-1",
            "status": {
                "state": "TASK_STATE_WORKING",
                "message": _MESSAGE,
                "timestamp": "2026-01-01T00:00:00Z",
            },
            "artifacts": [{"artifactId": "a", "name": "n", "parts": [{"text": "one"}]}],
            "history": [_MESSAGE],
            "metadata": {},
        }
    },
    {"message": _MESSAGE},
    {
        "statusUpdate": {
            "taskId": "task-1",
            "contextId": "context-1",
            "status": {"state": "TASK_STATE_COMPLETED", "message": _MESSAGE},
        }
    },
    {
        "artifactUpdate": {
            "taskId": "task-1",
            "contextId": "context-1",
            "artifact": {"artifactId": "a", "parts": [{"text": "two"}]},
            "append": True,
            "lastChunk": True,
        }
    },
)
"""The events of an A2A stream, in the shape of 1.0."""
