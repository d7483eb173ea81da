"""Gemini's `generateContent` and `streamGenerateContent`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from coreason_client.llm.errors import (
    LLMAuthenticationError,
    LLMContextLengthError,
    LLMError,
    LLMFilteredError,
    LLMNotFoundError,
    LLMOverloadedError,
    LLMPermissionError,
    LLMRateLimitError,
    LLMRequestError,
    LLMResponseError,
    LLMServerError,
)
from coreason_client.llm.types import ReasoningDelta, TextDelta, ToolCallDelta

from .case import Refused, Stream, Unary

__all__ = ["CASES"]

MODEL = "gemini/gemini-2.5-flash"
SIGNED_MODEL = "gemini/gemini-3-pro-preview"
PATH = "/v1beta/models/gemini-2.5-flash:generateContent"
STREAM_PATH = "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9aw=="
SEEN = {"type": "image", "mime_type": "image/png", "data": PIXEL}
SIGNATURE = "CpoBAdHtim9Yq3hVt0c7Qm5sdWUgZGF5cyBhcmUgbm90IG15IGZhdm91cml0ZQ=="

CONFIG = {"temperature": 0.7, "maxOutputTokens": 2000}
HI = [{"role": "user", "parts": [{"text": "Hi"}]}]

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Says what the weather is",
        "parameters": PARAMETERS,
        "strict": True,
    },
}
CLOCK = {"type": "function", "function": {"name": "clock"}}
DECLARED = [
    {
        "functionDeclarations": [
            {
                "name": "get_weather",
                "description": "Says what the weather is",
                "parametersJsonSchema": PARAMETERS,
            }
        ]
    }
]
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["city", "people"],
}

USAGE = {
    "promptTokenCount": 11,
    "candidatesTokenCount": 7,
    "totalTokenCount": 18,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 11}],
}
COUNTED = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
RATINGS = [
    {"category": "HARM_CATEGORY_HATE_SPEECH", "probability": "NEGLIGIBLE"},
    {"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "NEGLIGIBLE"},
]
HELLO = {"content": "Hello!", "tool_calls": [], "finish_reason": "stop"}


class Place(BaseModel):
    """A location."""

    city: str


# ---------------------------------------------------------------- the parts of a reply


def words(content: str, **more: Any) -> dict[str, Any]:
    return {"text": content, **more}


def called(name: str, args: Any, /, signature: str | None = None, **more: Any) -> dict[str, Any]:
    part: dict[str, Any] = {"functionCall": {"name": name, "args": args, **more}}
    return part if signature is None else {**part, "thoughtSignature": signature}


def reply(
    *parts: Mapping[str, Any],
    reason: Any = "STOP",
    usage: Mapping[str, Any] | None = USAGE,
    **more: Any,
) -> dict[str, Any]:
    """A whole response; without parts its content has none, without a reason it goes on."""
    content: dict[str, Any] = {"role": "model"}
    if parts:
        content["parts"] = list(parts)
    candidate: dict[str, Any] = {"content": content, "index": 0, **more}
    if reason is not None:
        candidate["finishReason"] = reason
    whole: dict[str, Any] = {"candidates": [candidate]}
    if usage is not None:
        whole["usageMetadata"] = usage
    return {**whole, "modelVersion": "gemini-2.5-flash", "responseId": "xbwXacLuKfjVz7IPhqeB8A0"}


def blocked(reason: Any) -> dict[str, Any]:
    return {
        "promptFeedback": {"blockReason": reason, "safetyRatings": RATINGS},
        "usageMetadata": {"promptTokenCount": 11, "totalTokenCount": 11},
        "modelVersion": "gemini-2.5-flash",
    }


def error(status: int, name: str, message: str, /, *details: Mapping[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {"code": status, "message": message, "status": name}
    return {"error": {**body, "details": list(details)} if details else body}


def info(reason: str) -> dict[str, Any]:
    return {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": "googleapis.com",
        "metadata": {"service": "generativelanguage.googleapis.com"},
    }


def retry(delay: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


LOCALIZED = {
    "@type": "type.googleapis.com/google.rpc.LocalizedMessage",
    "locale": "en-US",
    "message": "API key not valid. Please pass a valid API key.",
}
HELP = {
    "@type": "type.googleapis.com/google.rpc.Help",
    "links": [
        {
            "description": "Learn more about Gemini API quotas",
            "url": "https://ai.google.dev/gemini-api/docs/rate-limits",
        }
    ],
}
QUOTA = {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    "violations": [
        {
            "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
            "quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier",
            "quotaDimensions": {"location": "global", "model": "gemini-2.5-flash"},
            "quotaValue": "10",
        }
    ],
}
EXHAUSTED = error(
    429,
    "RESOURCE_EXHAUSTED",
    "You exceeded your current quota, please check your plan and billing details.",
    HELP,
    QUOTA,
    retry("48s"),
)
OVERLOADED = error(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")


# ---------------------------------------------------------------- the forms of a case


def asks(name: str, sent: Mapping[str, Any], **more: Any) -> Unary:
    """A case about what is sent; the answer is always the same."""
    body = {"contents": HI, "generationConfig": CONFIG, **sent}
    return Unary(
        name=name,
        **{"model": MODEL, "sent": body, "reply": reply(words("Hello!")), "data": HELLO, **more},
    )


def configures(name: str, config: Mapping[str, Any], **ask: Any) -> Unary:
    return asks(name, {"generationConfig": {**CONFIG, **config}}, ask=ask)


def answers(
    name: str, body: Any, data: Mapping[str, Any], usage: Mapping[str, Any] | None = COUNTED
) -> Unary:
    """A case about what comes back."""
    return Unary(name=name, model=MODEL, reply=body, data=data, usage=usage)


def ends(reason: Any, finish: str = "stop", **more: Any) -> Unary:
    data = {"content": "Some of it", "tool_calls": [], "finish_reason": finish, **more}
    return answers(f"finish reason {reason}", reply(words("Some of it"), reason=reason), data)


def refuses(
    name: str, body: Any, kind: type[LLMError], /, status: int = 200, **fields: Any
) -> Unary:
    told = {"status": status, "provider": "gemini", "model": "gemini-2.5-flash", **fields}
    return Unary(name=name, model=MODEL, status=status, reply=body, refused=Refused(kind, told))


def fails(
    name: str, whole: Mapping[str, Any], kind: type[LLMError], /, code: str | None = None, **of: Any
) -> Unary:
    """A case of an error body, with the status that the body names."""
    status = whole["error"]["code"]
    first = whole["error"]["status"] if code is None else code
    return refuses(name, whole, kind, status=status, code=first, **of)


def event(whole: Any, end: bytes = b"\r\n") -> bytes:
    return b"data: " + json.dumps(whole, ensure_ascii=False).encode() + end + end


def streams(
    name: str,
    events: Sequence[Any],
    data: Mapping[str, Any] | None = None,
    deltas: Sequence[Any] | None = None,
    **more: Any,
) -> Stream:
    """A streamed case that is complete with its last event, unless another number is given."""
    written = [one if isinstance(one, bytes) else event(one) for one in events]
    return Stream(
        name=name,
        **{
            "model": MODEL,
            "reply_headers": {"content-type": "text/event-stream"},
            "events": written,
            "complete_after": len(written),
            "data": data,
            "deltas": deltas,
            **more,
        },
    )


def called_back(*results: str, signature: str | None = SIGNATURE) -> list[dict[str, Any]]:
    """A conversation in which calls were made and their results are sent back."""
    cities = ("Paris", "Rome")[: len(results)]
    calls: list[dict[str, Any]] = [
        {"id": f"call_{city}", "name": "get_weather", "arguments": {"city": city}}
        for city in cities
    ]
    if signature is not None:
        calls[0]["signature"] = signature
    return [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        *(
            {"role": "tool", "tool_call_id": f"call_{city}", "content": result}
            for city, result in zip(cities, results, strict=True)
        ),
    ]


def call_sent(city: str, signature: str | None = None) -> dict[str, Any]:
    return called("get_weather", {"city": city}, signature, id=f"call_{city}")


def result_sent(city: str, response: Mapping[str, Any]) -> dict[str, Any]:
    told = {"id": f"call_{city}", "name": "get_weather", "response": response}
    return {"functionResponse": told}


def turns(calls: Sequence[Any], results: Sequence[Any]) -> dict[str, Any]:
    return {
        "contents": [
            {"role": "user", "parts": [{"text": "Weather?"}]},
            {"role": "model", "parts": list(calls)},
            {"role": "user", "parts": list(results)},
        ],
        "tools": DECLARED,
    }


def one_call(name: str = "get_weather", **more: Any) -> dict[str, Any]:
    return {
        "content": None,
        "tool_calls": [{"id": "*", "name": name, "arguments": {"city": "Paris"}, **more}],
        "finish_reason": "tool_calls",
    }


# ---------------------------------------------------------------- what is sent

SENDING: list[Unary] = [
    asks(
        "text",
        {},
        path=PATH,
        headers={"x-goog-api-key": "sk-test-key", "content-type": "application/json"},
        usage=COUNTED,
        priced=True,
    ),
    asks("a model that says its kind", {}, model="gemini/models/gemini-2.5-flash", path=PATH),
    asks(
        "a tuned model",
        {},
        model="gemini/tunedModels/tale-7k2",
        path="/v1beta/tunedModels/tale-7k2:generateContent",
    ),
    asks(
        "a system prompt",
        {"systemInstruction": {"parts": [{"text": "Be brief."}]}},
        messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    ),
    asks(
        "system prompts, one amid the conversation",
        {
            "systemInstruction": {"parts": [{"text": "Be brief."}, {"text": "Be kind."}]},
            "contents": [
                {"role": "user", "parts": [{"text": "Hi"}]},
                {"role": "model", "parts": [{"text": "Hello."}]},
                {"role": "user", "parts": [{"text": "And now?"}]},
            ],
        },
        messages=[
            {"role": "system", "content": "Be brief.", "name": "Architect"},
            {"role": "user", "content": "Hi", "name": "Ada"},
            {"role": "assistant", "content": "Hello.", "reasoning": "They greet."},
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "And now?"},
        ],
    ),
    asks(
        "nothing but a system prompt",
        {"contents": [{"role": "user", "parts": [{"text": "Write a haiku."}]}]},
        messages=[{"role": "system", "content": "Write a haiku."}],
    ),
    asks(
        "a system prompt for a model that takes none",
        {"contents": [{"role": "user", "parts": [{"text": "Be brief."}]}, *HI]},
        model="gemini/gemma-3-27b-it",
        messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    ),
    asks(
        "an empty message of the assistant is left out",
        {"contents": [*HI, *HI]},
        messages=[
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": ""},
            {"role": "user", "content": "Hi"},
        ],
    ),
    asks(
        "images",
        {
            "contents": [
                {
                    "role": "user",
                    "parts": [
                        {"text": "Compare."},
                        {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
                        {
                            "fileData": {
                                "mimeType": "image/jpeg",
                                "fileUri": "https://pictures.example/a.JPG?size=2#top",
                            }
                        },
                        {"fileData": {"fileUri": "https://pictures.example/b"}},
                    ],
                }
            ]
        },
        messages=[
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Compare."},
                    {
                        "type": "image_url",
                        "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"},
                    },
                    {
                        "type": "image_url",
                        "image_url": {"url": "https://pictures.example/a.JPG?size=2#top"},
                    },
                    {"type": "image_url", "image_url": {"url": "https://pictures.example/b"}},
                ],
            }
        ],
    ),
    configures(
        "temperature and length",
        {"temperature": 0.0, "maxOutputTokens": 5},
        temperature=0.0,
        max_tokens=5,
    ),
    configures("a word to stop at", {"stopSequences": ["END"]}, stop="END"),
    configures("words to stop at", {"stopSequences": ["END", "\n\n"]}, stop=["END", "\n\n"]),
    asks(
        "fields for the provider",
        {
            "safetySettings": [],
            "cachedContent": "cachedContents/k3",
            "generationConfig": {"temperature": 0.7, "maxOutputTokens": 2000, "seed": 7},
        },
        ask={
            "extra": {
                "safetySettings": [],
                "cachedContent": "cachedContents/k3",
                "generationConfig": {"seed": 7},
            }
        },
    ),
    asks("tools", {"tools": DECLARED}, ask={"tools": [WEATHER]}),
    asks(
        "a tool that says nothing of itself",
        {"tools": [{"functionDeclarations": [{"name": "clock"}]}]},
        ask={"tools": [CLOCK]},
    ),
    *(
        asks(
            f"tool choice {name}",
            {"tools": DECLARED, "toolConfig": {"functionCallingConfig": config}},
            ask={"tools": [WEATHER], "tool_choice": choice},
        )
        for name, choice, config in (
            ("auto", "auto", {"mode": "AUTO"}),
            ("none", "none", {"mode": "NONE"}),
            ("required", "required", {"mode": "ANY"}),
            (
                "of one function",
                {"type": "function", "function": {"name": "get_weather"}},
                {"mode": "ANY", "allowedFunctionNames": ["get_weather"]},
            ),
        )
    ),
    asks("a tool choice without tools is not sent", {}, ask={"tool_choice": "auto"}),
    asks(
        "the result of a call",
        turns(
            [call_sent("Paris", SIGNATURE)], [result_sent("Paris", {"degrees": 21, "sky": "clear"})]
        ),
        messages=called_back('{"degrees": 21, "sky": "clear"}'),
        ask={"tools": [WEATHER]},
    ),
    asks(
        "the results of parallel calls, one of them no object",
        turns(
            [call_sent("Paris", SIGNATURE), call_sent("Rome")],
            [
                result_sent("Paris", {"result": "21 degrees"}),
                result_sent("Rome", {"result": "[3]"}),
            ],
        ),
        messages=called_back("21 degrees", "[3]"),
        ask={"tools": [WEATHER]},
    ),
    asks(
        "a call in the form of OpenAI, with text before it and a question after",
        {
            "contents": [
                {"role": "user", "parts": [{"text": "Time?"}]},
                {
                    "role": "model",
                    "parts": [
                        {"text": "I look."},
                        {"functionCall": {"id": "c1", "name": "clock", "args": {}}},
                    ],
                },
                {
                    "role": "user",
                    "parts": [
                        {
                            "functionResponse": {
                                "id": "c1",
                                "name": "clock",
                                "response": {"result": "NaN"},
                            }
                        }
                    ],
                },
                {"role": "user", "parts": [{"text": "Well?"}]},
            ]
        },
        messages=[
            {"role": "user", "content": "Time?"},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "clock", "arguments": ""}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "NaN"},
            {"role": "user", "content": "Well?"},
        ],
    ),
    asks(
        "calls of another model, for a model that wants a signature",
        turns(
            [call_sent("Paris", "skip_thought_signature_validator"), call_sent("Rome")],
            [result_sent("Paris", {"result": "21"}), result_sent("Rome", {"result": "24"})],
        ),
        model=SIGNED_MODEL,
        messages=called_back("21", "24", signature=None),
        ask={"tools": [WEATHER]},
    ),
    asks(
        "calls of its own, for a model that wants a signature",
        turns(
            [call_sent("Paris", SIGNATURE), call_sent("Rome")],
            [result_sent("Paris", {"result": "21"}), result_sent("Rome", {"result": "24"})],
        ),
        model=SIGNED_MODEL,
        messages=called_back("21", "24"),
        ask={"tools": [WEATHER]},
    ),
    *(
        Unary(
            name=f"response format {name}",
            model=MODEL,
            ask={"response_format": given},
            sent={
                "contents": HI,
                "generationConfig": {**CONFIG, "responseMimeType": "application/json", **config},
            },
            reply=reply(words(json.dumps(value))),
            data={
                "content": json.dumps(value),
                "tool_calls": [],
                "finish_reason": "stop",
                "parsed": parsed,
            },
        )
        for name, given, config, value, parsed in (
            ("of any JSON", {"type": "json_object"}, {}, {"a": 1}, {"a": 1}),
            (
                "of a schema",
                CITY,
                {"responseJsonSchema": CITY},
                {"city": "Paris", "people": 2},
                {"city": "Paris", "people": 2},
            ),
            (
                "of OpenAI",
                {
                    "type": "json_schema",
                    "json_schema": {"name": "city", "schema": CITY, "strict": True},
                },
                {"responseJsonSchema": CITY},
                {"city": "Rome", "people": 3},
                {"city": "Rome", "people": 3},
            ),
            (
                "of a pydantic model",
                Place,
                {"responseJsonSchema": Place.model_json_schema()},
                {"city": "Oslo"},
                Place(city="Oslo"),
            ),
        )
    ),
]

# ---------------------------------------------------------------- what comes back

READING: list[Unary] = [
    answers(
        "several parts of text, and parts of other kinds",
        reply(
            words("Hel"),
            {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
            {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
            words(""),
            words("lo!", thoughtSignature=SIGNATURE),
            avgLogprobs=-0.02,
            safetyRatings=RATINGS,
        ),
        {
            **HELLO,
            "media": [SEEN],
            "tool_results": [
                {"kind": "code_execution", "name": "code_execution", "input": ["print(1)"]}
            ],
            "provider_items": {
                "gemini": [
                    words("Hel"),
                    {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
                    {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
                    words("lo!", thoughtSignature=SIGNATURE),
                ]
            },
        },
    ),
    answers(
        "reasoning",
        reply(
            words("They greet.", thought=True),
            words("Hello!"),
            usage={**USAGE, "thoughtsTokenCount": 30, "totalTokenCount": 48},
        ),
        {**HELLO, "reasoning": "They greet."},
        {
            "prompt_tokens": 11,
            "completion_tokens": 37,
            "total_tokens": 48,
            "reasoning_tokens": 30,
        },
    ),
    answers(
        "a prompt from the cache",
        reply(
            words("Hello!"),
            usage={
                **USAGE,
                "promptTokenCount": 2060,
                "cachedContentTokenCount": 2048,
                "totalTokenCount": 2067,
                "cacheTokensDetails": [{"modality": "TEXT", "tokenCount": 2048}],
            },
        ),
        HELLO,
        {
            "prompt_tokens": 2060,
            "completion_tokens": 7,
            "total_tokens": 2067,
            "cached_tokens": 2048,
        },
    ),
    answers(
        "a prompt of the provider's own tools",
        reply(
            words("Hello!"),
            usage={**USAGE, "toolUsePromptTokenCount": 100, "totalTokenCount": 118},
        ),
        HELLO,
        {"prompt_tokens": 111, "completion_tokens": 7, "total_tokens": 118},
    ),
    answers(
        "usage without the count of what was written",
        reply(
            words("Hello!"),
            usage={"promptTokenCount": 11, "thoughtsTokenCount": 4, "totalTokenCount": 18},
        ),
        HELLO,
        {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18, "reasoning_tokens": 4},
    ),
    answers("no usage", reply(words("Hello!"), usage=None), HELLO, None),
    answers(
        "usage of wrong types",
        reply(words("Hello!"), usage={"promptTokenCount": "11", "candidatesTokenCount": None}),
        HELLO,
        None,
    ),
    answers(
        "a call",
        reply(called("get_weather", {"city": "Paris"}, SIGNATURE)),
        one_call(signature=SIGNATURE),
    ),
    answers(
        "a call with an id",
        reply(called("get_weather", {"city": "Paris"}, id="k7f2m9")),
        one_call(id="k7f2m9"),
    ),
    answers(
        "a call without arguments",
        reply({"functionCall": {"name": "clock"}}),
        {
            "content": None,
            "tool_calls": [{"id": "*", "name": "clock", "arguments": {}}],
            "finish_reason": "tool_calls",
        },
    ),
    answers(
        "parallel calls, after text and reasoning",
        reply(
            words("Two cities.", thought=True),
            words("I look."),
            called("get_weather", {"city": "Paris"}, SIGNATURE),
            called("get_weather", {"city": "Rome"}),
        ),
        {
            "content": "I look.",
            "tool_calls": [
                {
                    "id": "*",
                    "name": "get_weather",
                    "arguments": {"city": "Paris"},
                    "signature": SIGNATURE,
                },
                {"id": "*", "name": "get_weather", "arguments": {"city": "Rome"}},
            ],
            "finish_reason": "tool_calls",
            "reasoning": "Two cities.",
        },
    ),
    *(
        answers(
            f"a call that ends with {reason}",
            reply(called("get_weather", {"city": "Paris"}), reason=reason),
            one_call(),
        )
        for reason in ("UNEXPECTED_TOOL_CALL", 1, None)
    ),
    answers(
        "a call that ends with MAX_TOKENS",
        reply(called("get_weather", {"city": "Paris"}), reason="MAX_TOKENS"),
        {**one_call(), "truncated": True},
    ),
    answers(
        "an image alone",
        reply({"inlineData": {"mimeType": "image/png", "data": PIXEL}}),
        {"content": "", "tool_calls": [], "finish_reason": "stop", "media": [SEEN]},
    ),
    answers(
        "media of other kinds, and a draft that is none",
        reply(
            words("Hello!"),
            {"inlineData": {"mimeType": "image/png", "data": PIXEL}, "thought": True},
            {"inlineData": {"mimeType": "audio/L16;rate=24000", "data": "AAAA"}},
            {"fileData": {"mimeType": "video/mp4", "fileUri": "https://files.example/1"}},
        ),
        {
            **HELLO,
            "media": [
                {"type": "audio", "mime_type": "audio/L16;rate=24000", "data": "AAAA"},
                {"type": "video", "mime_type": "video/mp4", "url": "https://files.example/1"},
            ],
        },
    ),
    refuses(
        "a call with NaN in its arguments",
        json.dumps(reply(called("get_weather", {"n": float("nan")}))).encode(),
        LLMResponseError,
        body='{"n": NaN}',
    ),
    answers(
        "a byte order mark, and a byte that is not UTF-8",
        b"\xef\xbb\xbf" + json.dumps(reply(words("Hel#lo!"))).encode().replace(b"#", b"\xff"),
        {**HELLO, "content": "Hel\ufffdlo!"},
    ),
    ends("STOP"),
    ends("MAX_TOKENS", "length"),
    *(
        ends(reason, filtered=True)
        for reason in (
            "SAFETY",
            "RECITATION",
            "LANGUAGE",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
            "IMAGE_OTHER",
            "MODEL_ARMOR",
            3,
            8,
        )
    ),
    *(
        ends(reason)
        for reason in (
            "OTHER",
            "MALFORMED_FUNCTION_CALL",
            "MALFORMED_RESPONSE",
            "UNEXPECTED_TOOL_CALL",
            "TOO_MANY_TOOL_CALLS",
            "NO_IMAGE",
            "CONTINUATION",
            "A_REASON_OF_TOMORROW",
            "FINISH_REASON_UNSPECIFIED",
            "",
            1,
            5,
            99,
        )
    ),
    ends(2, "length"),
    answers("no reason to finish", reply(words("Hello!"), reason=None), HELLO),
    answers(
        "cut off while it thought",
        reply(reason="MAX_TOKENS", usage={**USAGE, "candidatesTokenCount": 0}),
        {"content": "", "tool_calls": [], "finish_reason": "length"},
        {"prompt_tokens": 11, "completion_tokens": 0, "total_tokens": 11},
    ),
    answers(
        "candidates, of which the first counts",
        {
            "candidates": [
                {"content": {"parts": [words("Not this")]}, "finishReason": "STOP", "index": 1},
                {"content": {"parts": [words("Hello!")]}, "finishReason": "STOP", "index": 0},
            ],
            "usageMetadata": USAGE,
        },
        HELLO,
    ),
]

# ---------------------------------------------------------------- what is no answer

REFUSING: list[Unary] = [
    *(
        refuses(f"a prompt blocked for {reason}", blocked(reason), LLMFilteredError)
        for reason in ("SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "OTHER", 1)
    ),
    refuses(
        "filtered, without content",
        reply(reason="SAFETY", safetyRatings=RATINGS),
        LLMFilteredError,
    ),
    refuses(
        "filtered, without a content at all",
        {
            "candidates": [{"finishReason": "RECITATION", "index": 0}],
            "usageMetadata": USAGE,
        },
        LLMFilteredError,
    ),
    *(
        refuses(
            f"{reason} without content",
            reply(reason=reason, finishMessage="Malformed function call: print(get_weather("),
            LLMResponseError,
            code=code,
        )
        for reason, code in (
            ("MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL"),
            ("MALFORMED_RESPONSE", "MALFORMED_RESPONSE"),
            ("UNEXPECTED_TOOL_CALL", "UNEXPECTED_TOOL_CALL"),
            ("TOO_MANY_TOOL_CALLS", "TOO_MANY_TOOL_CALLS"),
            ("OTHER", "OTHER"),
            (9, "MALFORMED_FUNCTION_CALL"),
        )
    ),
    refuses("no candidates", {"candidates": [], "usageMetadata": USAGE}, LLMResponseError),
    refuses("candidates of wrong types", {"candidates": [None, "x", 3]}, LLMResponseError),
    refuses(
        "a candidate of wrong types",
        {"candidates": [{"content": {"parts": [None, {"text": 5}, {"functionCall": "f"}]}}]},
        LLMResponseError,
    ),
    refuses(
        "a call without a name, and nothing else",
        reply({"functionCall": {"args": {"city": "Paris"}}}, reason=None),
        LLMResponseError,
    ),
    refuses("an empty object", {}, LLMResponseError),
    refuses("an empty body", b"", LLMResponseError),
    refuses("a page of HTML", b"<!doctype html><title>Sign in</title>", LLMResponseError),
    refuses(
        "an error of another status in a 200",
        EXHAUSTED,
        LLMRateLimitError,
        retry_after=48.0,
        code="RESOURCE_EXHAUSTED",
    ),
    fails(
        "a bad key",
        error(
            400,
            "INVALID_ARGUMENT",
            "API key not valid. Please pass a valid API key.",
            info("API_KEY_INVALID"),
            LOCALIZED,
        ),
        LLMAuthenticationError,
        code="API_KEY_INVALID",
    ),
    fails(
        "a bad key, told without a type",
        error(400, "INVALID_ARGUMENT", "API Key not found.", {"reason": "API_KEY_INVALID"}),
        LLMAuthenticationError,
        code="API_KEY_INVALID",
    ),
    fails(
        "no credentials",
        error(
            401,
            "UNAUTHENTICATED",
            "Request is missing required authentication credential.",
            info("CREDENTIALS_MISSING"),
        ),
        LLMAuthenticationError,
        code="CREDENTIALS_MISSING",
    ),
    fails(
        "a service that is not switched on",
        error(
            403,
            "PERMISSION_DENIED",
            "Generative Language API has not been used in this project before.",
            info("SERVICE_DISABLED"),
        ),
        LLMPermissionError,
        code="SERVICE_DISABLED",
    ),
    fails(
        "no permission",
        error(403, "PERMISSION_DENIED", "The caller does not have permission."),
        LLMPermissionError,
    ),
    fails(
        "a wrong request",
        error(
            400,
            "INVALID_ARGUMENT",
            "Invalid JSON payload received.",
            {
                "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": [
                    {"field": "generation_config", "description": "Cannot find field."}
                ],
            },
        ),
        LLMRequestError,
    ),
    # There is no code for this one: it is in the table of sentences.
    fails(
        "a prompt that is too long",
        error(
            400,
            "INVALID_ARGUMENT",
            "The input token count (1048577) exceeds the maximum number of tokens allowed.",
        ),
        LLMContextLengthError,
    ),
    fails(
        "a country that is not served",
        error(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
        LLMRequestError,
    ),
    fails(
        "no such model",
        error(404, "NOT_FOUND", "models/gemini-9 is not found for API version v1beta."),
        LLMNotFoundError,
    ),
    fails("too many requests", EXHAUSTED, LLMRateLimitError, retry_after=48.0),
    fails(
        "too many requests, for part of a second",
        error(429, "RESOURCE_EXHAUSTED", "Resource exhausted.", retry("0.5s")),
        LLMRateLimitError,
        retry_after=0.5,
    ),
    fails(
        "too many requests, without a hint that can be read",
        error(429, "RESOURCE_EXHAUSTED", "Resource exhausted.", retry("soon"), retry("-3s")),
        LLMRateLimitError,
        retry_after=None,
    ),
    fails("overloaded", OVERLOADED, LLMOverloadedError),
    fails(
        "a failure inside",
        error(500, "INTERNAL", "An internal error has occurred. Please retry."),
        LLMServerError,
    ),
    fails(
        "too late",
        error(504, "DEADLINE_EXCEEDED", "The request timed out. Please try again."),
        LLMServerError,
    ),
    refuses("a gateway's page", b"<html>Bad Gateway</html>", LLMServerError, status=502),
]

# ---------------------------------------------------------------- streams

HALVES = [reply(words("Hel"), reason=None), reply(words("lo!"))]
PARIS = called("get_weather", {"city": "Paris"}, SIGNATURE)
ROME = called("get_weather", {"city": "Rome"}, id="k7f2m9")
PARIS_DELTA = ToolCallDelta(0, "*", "get_weather", '{"city":"Paris"}')
ROME_DELTA = ToolCallDelta(1, "k7f2m9", "get_weather", '{"city":"Rome"}')
TWO_CALLS = {
    "content": None,
    "tool_calls": [
        {"id": "*", "name": "get_weather", "arguments": {"city": "Paris"}, "signature": SIGNATURE},
        {"id": "k7f2m9", "name": "get_weather", "arguments": {"city": "Rome"}},
    ],
    "finish_reason": "tool_calls",
}
PART = {"content": "Hel", "tool_calls": [], "finish_reason": "stop"}

STREAMS: list[Stream] = [
    streams(
        "stream of text",
        HALVES,
        HELLO,
        [TextDelta("Hel"), TextDelta("lo!")],
        path=STREAM_PATH,
        headers={"x-goog-api-key": "sk-test-key"},
        sent={"contents": HI, "generationConfig": CONFIG},
        usage=COUNTED,
        priced=True,
    ),
    streams(
        "stream with plain line ends, comments and a field of another name",
        [
            b": keep-alive\n\n",
            event(HALVES[0], b"\n"),
            b": keep-alive\n\n",
            b"retry: 3000\n\n",
            event(HALVES[1], b"\n"),
        ],
        HELLO,
        [TextDelta("Hel"), TextDelta("lo!")],
    ),
    streams(
        "stream whose last event is empty but for the end and the usage",
        [
            reply(
                words("Hello!"), reason=None, usage={"promptTokenCount": 11, "totalTokenCount": 11}
            ),
            reply(words(""), usage=USAGE),
        ],
        HELLO,
        [TextDelta("Hello!")],
        usage=COUNTED,
    ),
    streams(
        "stream in which every event counts all so far",
        [
            reply(words("Hel"), reason=None, usage={**USAGE, "candidatesTokenCount": 2}),
            reply(words("lo"), reason=None, usage=None),
            reply(words("!"), usage={**USAGE, "thoughtsTokenCount": 5}),
        ],
        HELLO,
        usage={
            "prompt_tokens": 11,
            "completion_tokens": 12,
            "total_tokens": 23,
            "reasoning_tokens": 5,
        },
    ),
    streams(
        "stream with its usage after its end",
        [reply(words("Hello!"), usage=None), {"usageMetadata": USAGE}],
        HELLO,
        complete_after=1,
        usage=COUNTED,
    ),
    streams("stream without usage", [reply(words("Hello!"), usage=None)], HELLO),
    streams(
        "stream with reasoning",
        [
            reply(words("They ", thought=True), reason=None),
            reply(words("greet.", thought=True), words("Hel"), reason=None),
            reply(words("lo!", thoughtSignature=SIGNATURE)),
        ],
        {**HELLO, "reasoning": "They greet."},
        [
            ReasoningDelta("They "),
            ReasoningDelta("greet."),
            TextDelta("Hel"),
            TextDelta("lo!"),
        ],
    ),
    streams(
        "stream with calls in one event",
        [reply(PARIS, ROME)],
        TWO_CALLS,
        [PARIS_DELTA, ROME_DELTA],
        ask={"tools": [WEATHER]},
        sent={"contents": HI, "generationConfig": CONFIG, "tools": DECLARED},
    ),
    streams(
        "stream with calls in two events, and the end in a third",
        [reply(PARIS, reason=None), reply(ROME, reason=None), reply(words(""))],
        TWO_CALLS,
        [PARIS_DELTA, ROME_DELTA],
    ),
    streams(
        "stream that ends for its length",
        [HALVES[0], reply(words("lo"), reason="MAX_TOKENS")],
        {"content": "Hello", "tool_calls": [], "finish_reason": "length"},
    ),
    streams(
        "stream that is filtered with content",
        [HALVES[0], reply(reason="SAFETY")],
        {**PART, "filtered": True},
    ),
    streams(
        "stream whose call was malformed after some text",
        [HALVES[0], reply(reason="MALFORMED_FUNCTION_CALL")],
        PART,
    ),
    streams(
        "stream with candidates, of which the first counts",
        [
            {"candidates": [{"content": {"parts": [words("Not this")]}, "index": 1}]},
            HALVES[0],
            {"candidates": [{"finishReason": "STOP", "index": 1}]},
            HALVES[1],
        ],
        HELLO,
        [TextDelta("Hel"), TextDelta("lo!")],
    ),
    streams(
        "stream with an end mark of a gateway",
        [*HALVES, b"data: [DONE]\r\n\r\n"],
        HELLO,
        complete_after=2,
    ),
    streams(
        "stream that brings events it should not",
        [{}, {"candidates": None, "usageMetadata": 3}, {"promptFeedback": {}}, *HALVES],
        HELLO,
    ),
    streams(
        "stream of a blocked prompt",
        [blocked("PROHIBITED_CONTENT")],
        refused=Refused(LLMFilteredError, {"status": 200, "provider": "gemini"}),
    ),
    streams(
        "stream that is filtered without content",
        [reply(reason="SAFETY", safetyRatings=RATINGS)],
        refused=Refused(LLMFilteredError, {"status": 200}),
    ),
    streams(
        "stream whose only call was malformed",
        [reply(reason="MALFORMED_FUNCTION_CALL", finishMessage="Malformed function call: f(")],
        refused=Refused(LLMResponseError, {"code": "MALFORMED_FUNCTION_CALL"}),
    ),
    streams(
        "stream that brings an error first",
        [EXHAUSTED],
        refused=Refused(LLMRateLimitError, {"code": "RESOURCE_EXHAUSTED", "retry_after": 48.0}),
    ),
    streams(
        "stream that brings an error amid the answer",
        [HALVES[0], OVERLOADED],
        refused=Refused(LLMOverloadedError, {"code": "UNAVAILABLE"}),
        partial=PART,
    ),
    streams(
        "stream that brings an error in a list",
        [HALVES[0], [OVERLOADED]],
        refused=Refused(LLMOverloadedError, {"code": "UNAVAILABLE"}),
        partial=PART,
    ),
    streams(
        "stream that brings what is not JSON",
        [HALVES[0], b'data: {"candidates": [\r\n\r\n'],
        refused=Refused(LLMResponseError, {}),
        partial=PART,
    ),
    streams(
        "stream with an image",
        [
            HALVES[0],
            reply({"inlineData": {"mimeType": "image/png", "data": PIXEL}}, reason=None),
            HALVES[1],
        ],
        {**HELLO, "media": [SEEN]},
        [TextDelta("Hel"), TextDelta("lo!")],
    ),
    streams(
        "stream with calls that is cut off at its length",
        [reply(PARIS, reason=None), reply(ROME, reason="MAX_TOKENS")],
        {**TWO_CALLS, "truncated": True},
    ),
    streams(
        "stream with half of a surrogate pair",
        [event(reply(words("Hel#"), reason=None)).replace(b"#", b"\\ud83d"), HALVES[1]],
        {**HELLO, "content": "Hel\ufffdlo!"},
    ),
    streams(
        "stream as a list, without SSE",
        [],
        HELLO,
        [TextDelta("Hel"), TextDelta("lo!")],
        reply=HALVES,
        usage=COUNTED,
    ),
    streams(
        "stream as a whole answer",
        [],
        HELLO,
        [TextDelta("Hello!")],
        reply=reply(words("Hello!")),
        usage=COUNTED,
    ),
    streams(
        "stream that is refused, as a list",
        [],
        status=400,
        reply_headers={"content-type": "application/json"},
        reply=[error(400, "INVALID_ARGUMENT", "API key not valid.", info("API_KEY_INVALID"))],
        refused=Refused(LLMAuthenticationError, {"status": 400, "code": "API_KEY_INVALID"}),
    ),
]

CASES: list[Unary | Stream] = [*SENDING, *READING, *REFUSING, *STREAMS]
