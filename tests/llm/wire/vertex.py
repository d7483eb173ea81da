"""Gemini's format at Vertex: another path, a token instead of a key, and the extra fields."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from coreason_client.llm.errors import (
    LLMAuthenticationError,
    LLMNotFoundError,
    LLMPermissionError,
    LLMRateLimitError,
)
from coreason_client.llm.types import TextDelta

from .case import Refused, Stream, Unary

__all__ = ["CASES"]

MODEL = "vertex/gemini-2.5-flash"
PATH = "/v1/publishers/google/models/gemini-2.5-flash:generateContent"
STREAM_PATH = "/v1/publishers/google/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
BEARER = {"Authorization": "Bearer sk-test-key", "Content-Type": "application/json"}
SENT = {
    "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
    "generationConfig": {"temperature": 0.7, "maxOutputTokens": 2000},
}
COUNTS = {
    "promptTokenCount": 11,
    "candidatesTokenCount": 7,
    "totalTokenCount": 18,
    "trafficType": "ON_DEMAND",
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 11}],
}
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
HELLO = {"content": "Hello!", "tool_calls": [], "finish_reason": "stop"}


def reply(*parts: Mapping[str, Any], last: bool = True) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    if last:
        candidate |= {"finishReason": "STOP", "avgLogprobs": -0.19}
    return {
        "candidates": [candidate],
        "usageMetadata": COUNTS if last else {"trafficType": "ON_DEMAND"},
        "modelVersion": "gemini-2.5-flash",
        "createTime": "2026-10-20T09:00:00.000000Z",
        "responseId": "0vP1aJ7OFoGNm9IP",
    }


def sse(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\r\n\r\n"


def refusal(status: int, name: str, kind: type, message: str = "No.") -> Unary:
    return Unary(
        name=f"{status} {name}",
        model=MODEL,
        status=status,
        reply={"error": {"code": status, "message": message, "status": name}},
        refused=Refused(kind, {"status": status, "code": name}),
    )


CASES: Sequence[Unary] = [
    Unary(
        name="text",
        model=MODEL,
        path=PATH,
        headers=BEARER,
        sent=SENT,
        reply=reply({"text": "Hello!"}),
        data=HELLO,
        usage=USAGE,
        priced=True,
    ),
    Unary(
        name="the full name of a model",
        model="vertex/publishers/google/models/gemini-2.5-flash",
        path=PATH,
        reply=reply({"text": "Hello!"}),
        data=HELLO,
    ),
    Unary(
        name="the name of a model with its kind",
        model="vertex/models/gemini-2.5-flash",
        path=PATH,
        reply=reply({"text": "Hello!"}),
        data=HELLO,
    ),
    Unary(
        name="a tuned model",
        model="vertex/endpoints/1234567890",
        path="/v1/endpoints/1234567890:generateContent",
        reply=reply({"text": "Hello!"}),
        data=HELLO,
    ),
    Unary(
        name="a call",
        model=MODEL,
        ask={"tools": [{"type": "function", "function": {"name": "clock"}}]},
        reply=reply({"functionCall": {"name": "clock", "args": {}}, "thoughtSignature": "CpoB"}),
        data={
            "content": None,
            "tool_calls": [{"id": "*", "name": "clock", "arguments": {}, "signature": "CpoB"}],
            "finish_reason": "tool_calls",
        },
    ),
    refusal(
        *(401, "UNAUTHENTICATED", LLMAuthenticationError),
        "Request had invalid authentication credentials. Expected OAuth 2 access token.",
    ),
    refusal(403, "PERMISSION_DENIED", LLMPermissionError),
    refusal(404, "NOT_FOUND", LLMNotFoundError),
    refusal(429, "RESOURCE_EXHAUSTED", LLMRateLimitError),
    Stream(
        name="text",
        model=MODEL,
        path=STREAM_PATH,
        headers=BEARER,
        sent=SENT,
        events=[sse(reply({"text": "Hel"}, last=False)), sse(reply({"text": "lo!"}))],
        complete_after=2,
        deltas=[TextDelta("Hel"), TextDelta("lo!")],
        data=HELLO,
        usage=USAGE,
        priced=True,
    ),
]
