"""Amazon Bedrock's Converse format, `/model/{id}/converse` and `/converse-stream`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field

from coreason_client.llm.errors import (
    LLMAuthenticationError,
    LLMContextLengthError,
    LLMFilteredError,
    LLMNotFoundError,
    LLMOverloadedError,
    LLMPermissionError,
    LLMQuotaError,
    LLMRateLimitError,
    LLMRequestError,
    LLMResponseError,
    LLMServerError,
)
from coreason_client.llm.types import ReasoningDelta, TextDelta, ToolCallDelta
from tests.llm.eventstream import encode, event, exception

from .case import Refused, Stream, Unary

__all__ = ["CASES"]

NAME = "anthropic.claude-sonnet-4-5-20250929-v1:0"
MODEL = f"bedrock/{NAME}"
NOVA = "bedrock/us.amazon.nova-pro-v1:0"
LLAMA = "bedrock/meta.llama3-3-70b-instruct-v1:0"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9aw=="
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Returns the weather",
        "parameters": PARAMETERS,
    },
}
TIME = {"type": "function", "function": {"name": "get_time"}}
SENT_WEATHER = {
    "toolSpec": {
        "name": "get_weather",
        "description": "Returns the weather",
        "inputSchema": {"json": PARAMETERS},
    }
}
SENT_TIME = {"toolSpec": {"name": "get_time", "inputSchema": {"json": {"type": "object"}}}}
HI = {"role": "user", "content": [{"text": "Hi"}]}
CONFIG = {"maxTokens": 2000, "temperature": 0.7}
SENT = {"messages": [HI], "inferenceConfig": CONFIG}
COUNTS = {"inputTokens": 12, "outputTokens": 30, "totalTokens": 42}
USAGE = {"prompt_tokens": 12, "completion_tokens": 30, "total_tokens": 42}
HELLO = {"content": "Hello!", "tool_calls": [], "finish_reason": "stop"}
THOUGHT = {"text": "They greet me.", "signature": "EqoBCkgIARABGAIiQL8mOD3y6FSRlWq9Yw=="}
SEALED = {"reasoningContent": {"reasoningText": THOUGHT}}
HIDDEN = {"reasoningContent": {"redactedContent": "EmwKAhgBEgy3va3pzix="}}
PATH = "/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse"
OPTIONS = {"additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 1024}}}


class City(BaseModel):
    """The answer that a caller may ask for."""

    name: str = Field(min_length=1)
    people: int = Field(ge=0)


CITY_SCHEMA = {
    "description": "The answer that a caller may ask for.",
    "properties": {
        "name": {"title": "Name", "type": "string"},
        "people": {"title": "People", "type": "integer"},
    },
    "required": ["name", "people"],
    "title": "City",
    "type": "object",
    "additionalProperties": False,
}
CITY_TEXT = '{"name":"Paris","people":2103778}'
PARIS_CITY = City(name="Paris", people=2103778)
ANSWER_TOOL = {
    "toolSpec": {
        "name": "coreason_json_answer",
        "description": "Gives the answer.",
        "inputSchema": {"json": City.model_json_schema()},
    }
}


SERVER = {"type": "server_tool_use"}
RAN: dict[str, Any] = {"toolUseId": "s", "content": [{"json": {"a": 1}}], "status": "success"}


def says(text: Any) -> dict[str, Any]:
    return {"text": text}


def uses(id_: Any, name: Any, input_: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": id_, "name": name, "input": input_}}


def result(id_: str, *blocks: Mapping[str, Any]) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": id_, "content": list(blocks)}}


def user(*blocks: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def reply(*blocks: Any, reason: Any = "end_turn", usage: Any = COUNTS, **more: Any) -> Any:
    """Return a complete answer as Bedrock sends it."""
    return {
        "metrics": {"latencyMs": 551},
        "output": {"message": {"content": list(blocks), "role": "assistant"}},
        "stopReason": reason,
        "usage": usage,
        **more,
    }


def said(text: str | None, reason: str = "stop", **more: Any) -> dict[str, Any]:
    return {"content": text, "tool_calls": [], "finish_reason": reason, **more}


def called(*calls: tuple[str, str, Any], content: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "content": content,
        "tool_calls": [
            {"id": id_, "name": name, "arguments": arguments} for id_, name, arguments in calls
        ],
        "finish_reason": "tool_calls",
        **more,
    }


def signed(call: tuple[str, str, Any], *blocks: Any) -> dict[str, Any]:
    """Return a called tool with the reasoning that led to it."""
    [one] = called(call)["tool_calls"]
    return {**one, "signature": json.dumps(list(blocks), separators=(",", ":"))}


PARIS = ("tooluse_Paris", "get_weather", {"city": "Paris"})
ROME = ("tooluse_Rome", "get_weather", {"city": "Rome"})
NOW: tuple[str, str, Any] = ("tooluse_Now", "get_time", {})
DATA_URL = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
JPG_URL = {"type": "image_url", "image_url": {"url": f"data:image/jpg;base64,{PIXEL}"}}
IMAGE = {"image": {"format": "png", "source": {"bytes": PIXEL}}}
JPEG = {"image": {"format": "jpeg", "source": {"bytes": PIXEL}}}
ASKED = {"role": "user", "content": "Weather?"}
CALLED = {
    "role": "assistant",
    "content": "I look.",
    "tool_calls": [
        {"id": PARIS[0], "name": PARIS[1], "arguments": PARIS[2]},
        {"id": "call/ä", "name": "get_time", "arguments": {}},
    ],
}
RESULTS = [
    {"role": "tool", "tool_call_id": PARIS[0], "content": "sunny"},
    {"role": "tool", "tool_call_id": "call/ä", "content": ""},
]
SENT_TURNS = [
    user(says("Weather?")),
    assistant(says("I look."), uses(*PARIS), uses("call_2f__e4_", "get_time", {})),
    user(result(PARIS[0], says("sunny")), result("call_2f__e4_")),
]

# What is sent.

REQUESTS: list[Unary] = [
    Unary(
        name="text",
        model=MODEL,
        path=PATH,
        headers={"Content-Type": "application/json", "Authorization": "Bearer sk-test-key"},
        sent=SENT,
        reply=reply(says("Hello!")),
        data=HELLO,
        usage=USAGE,
        priced=True,
    ),
    Unary(
        name="an ARN is one segment of the path",
        model="bedrock/arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.meta.llama",
        path="/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2F"
        "us.meta.llama/converse",
        sent=SENT,
        reply=reply(says("Hello!")),
        data=HELLO,
    ),
    Unary(
        name="system prompts and earlier turns; neighbours of one role become one message",
        model=MODEL,
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "system", "content": " "},
            {"role": "user", "content": "Hi", "name": "Architect"},
            {"role": "user", "content": " \n"},
            {"role": "user", "content": [{"type": "text", "text": ""}, DATA_URL, JPG_URL]},
            {"role": "assistant", "content": "Yes?", "reasoning": "Hm."},
            {"role": "system", "content": "Now be long."},
            {"role": "user", "content": "Why?"},
        ],
        sent={
            **SENT,
            "system": [says("Be brief."), says("Now be long.")],
            "messages": [
                user(says("Hi"), IMAGE, JPEG),
                assistant(says("Yes?")),
                user(says("Why?")),
            ],
        },
        reply=reply(says("Hello!")),
        data=HELLO,
    ),
    Unary(
        name="system prompts alone are the user's",
        model=MODEL,
        messages=[{"role": "system", "content": "Be brief."}, {"role": "system", "content": "Go."}],
        sent={**SENT, "messages": [user(says("Be brief."), says("Go."))]},
        reply=reply(says("Hello!")),
        data=HELLO,
    ),
    Unary(
        name="an answer to be continued ends without blanks",
        model=MODEL,
        messages=[
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": " The answer is: \n"},
        ],
        sent={**SENT, "messages": [HI, assistant(says(" The answer is:"))]},
        reply=reply(says(" 42")),
        data=said(" 42"),
    ),
    Unary(
        name="temperature, max_tokens, stop texts and fields of the caller",
        model=NOVA,
        ask={
            "temperature": 0.0,
            "max_tokens": 5,
            "stop": ["END", "FIN"],
            "extra": {"inferenceConfig": {"topP": 0.9}, "serviceTier": {"type": "flex"}},
        },
        sent={
            **SENT,
            "inferenceConfig": {
                "maxTokens": 5,
                "temperature": 0.0,
                "stopSequences": ["END", "FIN"],
                "topP": 0.9,
            },
            "serviceTier": {"type": "flex"},
        },
        reply=reply(says("Hello!"), reason="stop_sequence"),
        data=HELLO,
        priced=True,
    ),
    Unary(
        name="Claude takes no temperature beside top P",
        model=MODEL,
        ask={"extra": {"inferenceConfig": {"topP": 0.9}}},
        sent={**SENT, "inferenceConfig": {"maxTokens": 2000, "topP": 0.9}},
        reply=reply(says("Hello!")),
        data=HELLO,
    ),
    Unary(
        name="Claude takes no temperature when it reasons",
        model=MODEL,
        ask={"extra": OPTIONS},
        sent={**SENT, "inferenceConfig": {"maxTokens": 2000}, **OPTIONS},
        reply=reply(SEALED, says("Hello!")),
        data={**HELLO, "reasoning": "They greet me."},
    ),
    Unary(
        name="models of Claude that take no temperature",
        model="bedrock/eu.anthropic.claude-opus-4-7-v1",
        sent={**SENT, "inferenceConfig": {"maxTokens": 2000}},
        reply=reply(says("Hello!")),
        data=HELLO,
    ),
    Unary(
        name="tools",
        model=MODEL,
        ask={"tools": [WEATHER, TIME]},
        sent={**SENT, "toolConfig": {"tools": [SENT_WEATHER, SENT_TIME]}},
        reply=reply(uses(*PARIS), reason="tool_use"),
        data=called(PARIS),
    ),
    Unary(
        name="a strict tool",
        model=MODEL,
        ask={
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "f",
                        "strict": True,
                        "parameters": {
                            "type": "object",
                            "properties": {"a": {"type": "integer", "minimum": 1}},
                        },
                    },
                }
            ]
        },
        sent={
            **SENT,
            "toolConfig": {
                "tools": [
                    {
                        "toolSpec": {
                            "name": "f",
                            "strict": True,
                            "inputSchema": {
                                "json": {
                                    "type": "object",
                                    "properties": {"a": {"type": "integer"}},
                                    "additionalProperties": False,
                                }
                            },
                        }
                    }
                ]
            },
        },
        reply=reply(uses("t", "f", {"a": 1}), reason="tool_use"),
        data=called(("t", "f", {"a": 1})),
    ),
    *(
        Unary(
            name=f"tool choice: {choice}",
            model=MODEL,
            ask={"tools": [TIME], "tool_choice": choice},
            sent={**SENT, "toolConfig": {"tools": [SENT_TIME], "toolChoice": sent}},
            reply=reply(uses(*NOW), reason="tool_use"),
            data=called(NOW),
        )
        for choice, sent in (
            ("auto", {"auto": {}}),
            ("required", {"any": {}}),
            (
                {"type": "function", "function": {"name": "get_time"}},
                {"tool": {"name": "get_time"}},
            ),
        )
    ),
    Unary(
        name="no tool may be called: none is sent",
        model=MODEL,
        ask={"tools": [TIME], "tool_choice": "none"},
        sent=SENT,
        reply=reply(says("Hello!")),
        data=HELLO,
    ),
    Unary(
        name="results of tools, with ids of another provider",
        model=MODEL,
        messages=[ASKED, CALLED, *RESULTS],
        ask={"tools": [WEATHER, TIME], "tool_choice": "auto"},
        sent={
            **SENT,
            "messages": SENT_TURNS,
            "toolConfig": {"tools": [SENT_WEATHER, SENT_TIME], "toolChoice": {"auto": {}}},
        },
        reply=reply(says("Sunny.")),
        data=said("Sunny."),
    ),
    Unary(
        name="a conversation with calls keeps its tools, even if no further call is wanted",
        model=MODEL,
        messages=[ASKED, CALLED, *RESULTS],
        ask={"tools": [WEATHER, TIME], "tool_choice": "none"},
        sent={
            **SENT,
            "messages": SENT_TURNS,
            "toolConfig": {"tools": [SENT_WEATHER, SENT_TIME]},
        },
        reply=reply(says("Sunny.")),
        data=said("Sunny."),
    ),
    Unary(
        name="a conversation with calls whose tools are no longer given",
        model=MODEL,
        messages=[ASKED, CALLED, *RESULTS],
        sent={
            **SENT,
            "messages": SENT_TURNS,
            "toolConfig": {
                "tools": [
                    {
                        "toolSpec": {
                            "name": "get_weather",
                            "inputSchema": {"json": {"type": "object"}},
                        }
                    },
                    SENT_TIME,
                ]
            },
        },
        reply=reply(says("Sunny.")),
        data=said("Sunny."),
    ),
    Unary(
        name="reasoning is sent back before its call, that of other providers is not",
        model=MODEL,
        messages=[
            ASKED,
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    signed(PARIS, SEALED, HIDDEN),
                    {**signed(ROME, {"type": "thinking", "thinking": "a", "signature": "b"})},
                    {**called(NOW)["tool_calls"][0], "signature": "CiQB"},
                ],
            },
            {"role": "tool", "tool_call_id": PARIS[0], "content": "sunny"},
            {"role": "tool", "tool_call_id": ROME[0], "content": "rainy"},
            {"role": "tool", "tool_call_id": NOW[0], "content": "12:00"},
        ],
        ask={"tools": [WEATHER, TIME]},
        sent={
            **SENT,
            "messages": [
                user(says("Weather?")),
                assistant(SEALED, HIDDEN, says("I look."), uses(*PARIS), uses(*ROME), uses(*NOW)),
                user(
                    result(PARIS[0], says("sunny")),
                    result(ROME[0], says("rainy")),
                    result(NOW[0], says("12:00")),
                ),
            ],
            "toolConfig": {"tools": [SENT_WEATHER, SENT_TIME]},
        },
        reply=reply(says("Sunny.")),
        data=said("Sunny."),
    ),
    Unary(
        name="a schema",
        model=MODEL,
        ask={"response_format": City},
        sent={
            **SENT,
            "outputConfig": {
                "textFormat": {
                    "type": "json_schema",
                    "structure": {
                        "jsonSchema": {
                            "name": "City",
                            "schema": json.dumps(CITY_SCHEMA, separators=(",", ":")),
                        }
                    },
                }
            },
        },
        reply=reply(says(CITY_TEXT)),
        data=said(CITY_TEXT, parsed=PARIS_CITY),
    ),
    Unary(
        name="JSON without a schema has no parameter",
        model=MODEL,
        ask={"response_format": {"type": "json_object"}},
        sent=SENT,
        reply=reply(says("{}")),
        data=said("{}", parsed={}),
    ),
    Unary(
        name="a schema for a model without output formats is a forced tool",
        model=NOVA,
        ask={"response_format": City},
        sent={
            **SENT,
            "toolConfig": {
                "tools": [ANSWER_TOOL],
                "toolChoice": {"tool": {"name": "coreason_json_answer"}},
            },
        },
        reply=reply(
            says("Here:"),
            uses("t", "coreason_json_answer", json.loads(CITY_TEXT)),
            reason="tool_use",
        ),
        data=said(CITY_TEXT, parsed=PARIS_CITY),
    ),
    Unary(
        name="a forced tool beside other tools",
        model="bedrock/anthropic.claude-3-5-haiku-20241022-v1:0",
        ask={"response_format": City, "tools": [TIME]},
        sent={
            **SENT,
            "toolConfig": {"tools": [SENT_TIME, ANSWER_TOOL], "toolChoice": {"any": {}}},
        },
        reply=reply(uses(*NOW), reason="tool_use"),
        data=called(NOW),
    ),
    Unary(
        name="an image at a URL is refused",
        model=MODEL,
        messages=[
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}],
            }
        ],
        refused=Refused(LLMRequestError, {"status": None, "attempts": 0, "provider": "bedrock"}),
    ),
    Unary(
        name="an image of another type is refused",
        model=MODEL,
        messages=[
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": "data:image/tiff;base64,AAAA"}}
                ],
            }
        ],
        refused=Refused(LLMRequestError, {"status": None, "attempts": 0}),
    ),
]

# What is answered.

ANSWERS: list[Unary] = [
    Unary(
        name="several blocks, citations, reasoning and an image",
        model=MODEL,
        reply=reply(
            SEALED,
            says("Hel"),
            {"citationsContent": {"content": [{"text": "lo"}, {"text": "!"}], "citations": []}},
            {"image": {"format": "webp", "source": {"bytes": PIXEL}}},
            {"unknown": {}},
            7,
        ),
        data={
            **HELLO,
            "reasoning": "They greet me.",
            "media": [{"type": "image", "mime_type": "image/webp", "data": PIXEL}],
        },
    ),
    Unary(
        name="calls with their reasoning, without those of the provider's own tools",
        model=MODEL,
        reply=reply(
            SEALED,
            HIDDEN,
            says("I look."),
            {"toolUse": {"toolUseId": "s", "name": "w", "input": {}, **SERVER}},
            {"toolResult": RAN},
            uses(*PARIS),
            uses(*ROME),
            reason="tool_use",
        ),
        data={
            **called(PARIS, ROME, content="I look.", reasoning="They greet me."),
            "tool_calls": [signed(PARIS, SEALED, HIDDEN), *called(ROME)["tool_calls"]],
            "tool_results": [
                {"kind": "other", "name": "w", "input": [], "id": "s", "output": '{"a":1}'}
            ],
            "provider_items": {
                "bedrock": [
                    *(SEALED, HIDDEN, says("I look.")),
                    {"toolUse": {"toolUseId": "s", "name": "w", "input": {}, **SERVER}},
                    {"toolResult": RAN},
                    *(uses(*PARIS), uses(*ROME)),
                ]
            },
        },
    ),
    Unary(
        name="calls with their type",
        model=MODEL,
        reply=reply(
            {"toolUse": {**uses(*PARIS)["toolUse"], "type": "tool_use"}}, reason="tool_use"
        ),
        data=called(PARIS),
    ),
    Unary(
        name="a reason that says tool use, without a call",
        model=MODEL,
        reply=reply(says("I look."), reason="tool_use"),
        refused=Refused(LLMResponseError, {"status": 200}),
    ),
    Unary(
        name="calls despite another reason",
        model=LLAMA,
        reply=reply(uses(None, "get_time", "{}"), reason="end_turn"),
        data=called(("*", "get_time", {})),
    ),
    *(
        Unary(
            name=f"reason: {reason}",
            model=MODEL,
            reply=reply(says("Hello!"), reason=reason),
            data={**HELLO, "finish_reason": finish, **more},
        )
        for reason, finish, more in (
            ("end_turn", "stop", {}),
            ("stop_sequence", "stop", {}),
            ("max_tokens", "length", {}),
            ("model_context_window_exceeded", "length", {}),
            ("content_filtered", "stop", {"filtered": True}),
            ("guardrail_intervened", "stop", {"filtered": True}),
            ("malformed_model_output", "stop", {}),
            ("malformed_tool_use", "stop", {}),
            ("one_of_next_year", "stop", {}),
            (None, "stop", {}),
        )
    ),
    Unary(
        name="tokens of the cache are part of the prompt",
        model=MODEL,
        reply=reply(
            says("Hello!"),
            usage={
                "inputTokens": 10,
                "outputTokens": 5,
                "totalTokens": 115,
                "cacheReadInputTokens": 70,
                "cacheWriteInputTokens": 30,
                "cacheDetails": [
                    {"ttl": "1h", "inputTokens": 20},
                    {"ttl": "5m", "inputTokens": 10},
                ],
            },
        ),
        usage={
            "prompt_tokens": 110,
            "completion_tokens": 5,
            "total_tokens": 115,
            "cached_tokens": 70,
            "cache_write_tokens": 30,
        },
        priced=True,
    ),
    Unary(
        name="without usage it is estimated",
        model=MODEL,
        reply=reply(says("Hello!"), usage=None),
        usage={
            "prompt_tokens": 5,
            "completion_tokens": 2,
            "total_tokens": 7,
            "estimated": True,
        },
    ),
    Unary(
        name="a router names the model that answered",
        model="bedrock/arn:aws:bedrock:us-east-1:123456789012:default-prompt-router/anthropic:1",
        reply=reply(
            says("Hello!"),
            trace={
                "promptRouter": {
                    "invokedModelId": "arn:aws:bedrock:us-east-1:123456789012:inference-profile/"
                    "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
                }
            },
        ),
        data=HELLO,
        priced=True,
    ),
    Unary(
        name="a filtered answer without content",
        model=MODEL,
        reply=reply(reason="content_filtered"),
        refused=Refused(LLMFilteredError),
    ),
    *(
        Unary(
            name=f"no answer: {reason}",
            model=MODEL,
            reply=reply(reason=reason),
            refused=Refused(LLMResponseError, {"code": reason}),
        )
        for reason in ("malformed_model_output", "malformed_tool_use")
    ),
    Unary(
        name="neither output nor a reason",
        model=MODEL,
        reply={"metrics": {}},
        refused=Refused(LLMResponseError),
    ),
    Unary(
        name="a forced answer that was cut off",
        model=NOVA,
        ask={"response_format": City},
        reply=reply(uses("t", "coreason_json_answer", '{"name":"Par'), reason="max_tokens"),
        refused=Refused(LLMResponseError, {"body": '{"name":"Par'}),
    ),
]

# Errors.

REQUEST_ID = "7b0f7c9e-1f0e-4a32-8f5b-2f7c6d6f2f0a"


def refusal(status: int, kind: str, refused: type, message: str = "No.", **fields: Any) -> Unary:
    return Unary(
        name=f"{status} {kind}",
        model=MODEL,
        status=status,
        reply_headers={
            "x-amzn-errortype": f"{kind}:http://internal.amazon.com/coral/com.amazon.bedrock/",
            "x-amzn-requestid": REQUEST_ID,
        },
        reply={"message": message},
        refused=Refused(
            refused, {"status": status, "code": kind, "request_id": REQUEST_ID, **fields}
        ),
    )


ERRORS: list[Unary] = [
    refusal(400, "ValidationException", LLMRequestError),
    refusal(
        *(400, "ValidationException", LLMContextLengthError),
        "Input is too long for requested model.",
    ),
    refusal(400, "ServiceQuotaExceededException", LLMQuotaError),
    refusal(403, "AccessDeniedException", LLMPermissionError),
    refusal(403, "UnrecognizedClientException", LLMAuthenticationError),
    refusal(403, "ExpiredTokenException", LLMAuthenticationError),
    refusal(403, "InvalidSignatureException", LLMAuthenticationError),
    refusal(404, "ResourceNotFoundException", LLMNotFoundError),
    refusal(408, "ModelTimeoutException", LLMServerError),
    refusal(424, "ModelErrorException", LLMServerError),
    refusal(429, "ThrottlingException", LLMRateLimitError),
    refusal(429, "ModelNotReadyException", LLMOverloadedError),
    refusal(500, "InternalServerException", LLMServerError),
    refusal(503, "ServiceUnavailableException", LLMOverloadedError),
    Unary(
        name="the type in the body",
        model=MODEL,
        status=400,
        reply={"__type": "com.amazon.coral.service#ThrottlingException", "Message": "Slow down."},
        refused=Refused(LLMRateLimitError, {"code": "ThrottlingException"}),
    ),
    Unary(
        name="a bad key",
        model=MODEL,
        status=403,
        reply={"Message": "Authentication failed: the API key sk-test-key is not valid."},
        refused=Refused(LLMPermissionError, {"status": 403}),
    ),
    Unary(
        name="an error inside a success",
        model=MODEL,
        reply={"message": "Something broke."},
        refused=Refused(LLMServerError, {"status": 200}),
    ),
]

# Streams.

START = event("messageStart", {"role": "assistant", "p": "abcd"})


def text_delta(text: Any, index: int = 0) -> bytes:
    return event(
        "contentBlockDelta",
        {"contentBlockIndex": index, "delta": {"text": text}, "p": "abcdefghij"},
    )


def reasoning_delta(index: int = 0, **delta: str) -> bytes:
    return event(
        "contentBlockDelta", {"contentBlockIndex": index, "delta": {"reasoningContent": delta}}
    )


def tool_start(index: int, id_: str, name: str, **more: str) -> bytes:
    use = {"toolUseId": id_, "name": name, **more}
    return event("contentBlockStart", {"contentBlockIndex": index, "start": {"toolUse": use}})


def tool_delta(index: int, input_: Any) -> bytes:
    delta = {"toolUse": {"input": input_}}
    return event("contentBlockDelta", {"contentBlockIndex": index, "delta": delta})


def block_stop(index: int = 0) -> bytes:
    return event("contentBlockStop", {"contentBlockIndex": index, "p": "ab"})


def stop(reason: str = "end_turn") -> bytes:
    return event("messageStop", {"stopReason": reason})


META = event("metadata", {"usage": COUNTS, "metrics": {"latencyMs": 441}, "p": "abc"})
TEXT: Sequence[bytes] = (START, text_delta("Hel"), text_delta("lo!"), block_stop(), stop(), META)

STREAMS: list[Unary] = [
    Stream(
        name="text",
        model=MODEL,
        path=f"{PATH}-stream",
        sent=SENT,
        events=TEXT,
        complete_after=5,
        deltas=[TextDelta("Hel"), TextDelta("lo!")],
        data=HELLO,
        usage=USAGE,
        priced=True,
    ),
    Stream(
        name="half of a pair of surrogates in each of two pieces",
        model=MODEL,
        events=[
            START,
            text_delta("a\ud83d"),
            text_delta("\ude00b"),
            text_delta(""),
            stop(),
            META,
        ],
        complete_after=5,
        data=said("a😀b"),
    ),
    Stream(
        name="reasoning, text and two calls",
        model=MODEL,
        ask={"tools": [WEATHER, TIME]},
        events=[
            START,
            reasoning_delta(text="They "),
            reasoning_delta(text="greet me."),
            reasoning_delta(signature=THOUGHT["signature"]),
            block_stop(0),
            reasoning_delta(1, redactedContent=HIDDEN["reasoningContent"]["redactedContent"]),
            block_stop(1),
            text_delta("I look.", 2),
            block_stop(2),
            tool_start(3, PARIS[0], PARIS[1]),
            tool_delta(3, ""),
            tool_delta(3, '{"city":'),
            tool_delta(3, '"Paris"}'),
            block_stop(3),
            tool_start(4, NOW[0], NOW[1]),
            block_stop(4),
            tool_start(5, "s", "nova_code_interpreter", **SERVER),
            tool_delta(5, '{"snippet": "1+1"}'),
            block_stop(5),
            event(
                "contentBlockStart",
                {"contentBlockIndex": 6, "start": {"toolResult": {**RAN, "content": None}}},
            ),
            event(
                "contentBlockDelta",
                {"contentBlockIndex": 6, "delta": {"toolResult": RAN["content"]}},
            ),
            block_stop(6),
            stop("tool_use"),
            META,
        ],
        complete_after=23,
        deltas=[
            ReasoningDelta("They "),
            ReasoningDelta("greet me."),
            TextDelta("I look."),
            ToolCallDelta(0, PARIS[0], PARIS[1], ""),
            ToolCallDelta(0, None, None, '{"city":'),
            ToolCallDelta(0, None, None, '"Paris"}'),
            ToolCallDelta(1, NOW[0], NOW[1], ""),
        ],
        data={
            **called(PARIS, NOW, content="I look.", reasoning="They greet me."),
            "tool_calls": [signed(PARIS, SEALED, HIDDEN), *called(NOW)["tool_calls"]],
            "tool_results": [
                {
                    "kind": "code_execution",
                    "name": "nova_code_interpreter",
                    "input": ["1+1"],
                    "id": "s",
                    "output": '{"a":1}',
                }
            ],
            "provider_items": {
                "bedrock": [
                    *(SEALED, HIDDEN, says("I look."), uses(*PARIS), uses(*NOW)),
                    {
                        "toolUse": {
                            "toolUseId": "s",
                            "name": "nova_code_interpreter",
                            "input": {"snippet": "1+1"},
                            **SERVER,
                        }
                    },
                    {"toolResult": RAN},
                ]
            },
        },
        usage=USAGE,
    ),
    Stream(
        name="a call with its type",
        model=MODEL,
        events=[
            START,
            tool_start(0, PARIS[0], PARIS[1], type="tool_use"),
            tool_delta(0, json.dumps(PARIS[2])),
            block_stop(),
            stop("tool_use"),
            META,
        ],
        complete_after=5,
        data=called(PARIS),
    ),
    Stream(
        name="a reason that says tool use, without a call",
        model=MODEL,
        events=[START, text_delta("I look."), block_stop(), stop("tool_use"), META],
        refused=Refused(LLMResponseError, {"status": 200}),
        partial={"content": "I look.", "tool_calls": []},
    ),
    Stream(
        name="a forced tool is the text",
        model=NOVA,
        ask={"response_format": City},
        events=[
            START,
            tool_start(0, "t", "coreason_json_answer"),
            tool_delta(0, CITY_TEXT[:9]),
            tool_delta(0, CITY_TEXT[9:]),
            block_stop(),
            stop("tool_use"),
            META,
        ],
        complete_after=6,
        deltas=[TextDelta(CITY_TEXT[:9]), TextDelta(CITY_TEXT[9:])],
        data=said(CITY_TEXT, parsed=PARIS_CITY),
    ),
    Stream(
        name="an image",
        model=MODEL,
        events=[
            START,
            text_delta("Look:"),
            event(
                "contentBlockDelta",
                {
                    "contentBlockIndex": 1,
                    "delta": {"image": {"format": "png", "source": {"bytes": PIXEL}}},
                },
            ),
            stop(),
            META,
        ],
        complete_after=4,
        data=said("Look:", media=[{"type": "image", "mime_type": "image/png", "data": PIXEL}]),
    ),
    Stream(
        name="events of types that do not exist yet",
        model=MODEL,
        events=[event("newEvent", 7), *TEXT[:-1], event("other", {}), META],
        complete_after=6,
        data=HELLO,
        usage=USAGE,
    ),
    Stream(
        name="cut off at max_tokens",
        model=MODEL,
        events=[START, text_delta("Hel"), stop("max_tokens"), META],
        complete_after=3,
        data=said("Hel", "length"),
    ),
    Stream(
        name="a complete answer instead of a stream",
        model=MODEL,
        reply=reply(says("Hello!")),
        data=HELLO,
        usage=USAGE,
    ),
    Stream(
        name="an exception before the answer",
        model=MODEL,
        events=[exception("throttlingException", {"message": "Too many requests"})],
        refused=Refused(LLMRateLimitError, {"code": "ThrottlingException", "partial": None}),
    ),
    *(
        Stream(
            name=f"an exception within the answer: {kind}",
            model=MODEL,
            events=[START, text_delta("Hel"), exception(kind, {"message": "No."})],
            refused=Refused(refused, {"code": f"{kind[0].upper()}{kind[1:]}", "status": 200}),
            partial=said("Hel"),
        )
        for kind, refused in (
            ("internalServerException", LLMServerError),
            ("modelStreamErrorException", LLMServerError),
            ("serviceUnavailableException", LLMOverloadedError),
            ("throttlingException", LLMRateLimitError),
            ("validationException", LLMRequestError),
        )
    ),
    Stream(
        name="an error frame",
        model=MODEL,
        events=[
            START,
            text_delta("Hel"),
            encode(
                {
                    ":message-type": "error",
                    ":error-code": "InternalServerException",
                    ":error-message": "No.",
                },
                b"",
            ),
        ],
        refused=Refused(LLMServerError, {"code": "InternalServerException"}),
        partial=said("Hel"),
    ),
    Stream(
        name="a damaged frame",
        model=MODEL,
        events=[START, text_delta("Hel"), text_delta("lo!")[:-1] + b"\0", stop(), META],
        refused=Refused(LLMResponseError),
        partial=said("Hel"),
    ),
    Stream(
        name="a payload that is not JSON",
        model=MODEL,
        events=[
            START,
            text_delta("Hel"),
            encode({":message-type": "event", ":event-type": "contentBlockDelta"}, b"{"),
        ],
        refused=Refused(LLMResponseError),
        partial=said("Hel"),
    ),
    Stream(
        name="a payload that is not an object",
        model=MODEL,
        events=[event("messageStop", [1])],
        refused=Refused(LLMResponseError),
    ),
    Stream(
        name="a failed answer",
        model=MODEL,
        events=[START, stop("malformed_tool_use"), META],
        refused=Refused(LLMResponseError, {"code": "malformed_tool_use"}),
    ),
    Stream(
        name="refused before it began",
        model=MODEL,
        status=429,
        reply_headers={"x-amzn-errortype": "ThrottlingException"},
        reply={"message": "Too many requests"},
        refused=Refused(LLMRateLimitError, {"code": "ThrottlingException", "status": 429}),
    ),
]

CASES: Sequence[Unary] = [*REQUESTS, *ANSWERS, *ERRORS, *STREAMS]
