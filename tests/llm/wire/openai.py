"""OpenAI's chat completions, and everybody who speaks them with an accent."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

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

from .case import USER, Refused, Stream, Unary

__all__ = ["CASES"]

OPENAI = "openai/gpt-4o"
MISTRAL = "mistral/mistral-large-latest"
GROQ = "groq/llama-3.3-70b-versatile"
DEEPSEEK = "deepseek/deepseek-chat"
OPENROUTER = "openrouter/auto"
AZURE = "azure/gpt-4o"
XAI = "xai/grok-4"
LOCAL = "qwen2.5-7b-instruct"
"""No prefix: some server that is compatible, such as vLLM, LM Studio or llama.cpp."""

QUESTION: list[Mapping[str, Any]] = [{"role": "user", "content": "Weather in Paris?"}]
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
PICTURE = "https://pictures.example/1.png"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Says what the weather is",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
THE_WEATHER = {"type": "function", "function": {"name": "get_weather"}}
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["city", "people"],
    "additionalProperties": False,
}
CITY_TEXT = '{"city": "Paris", "people": 2103778}'


class City(BaseModel):
    city: str
    people: int


# What is sent.


def sent(model: str, limit: str = "max_completion_tokens", **more: Any) -> dict[str, Any]:
    """The whole body for a question that says no more than it must."""
    return {"model": model, "messages": list(USER), "temperature": 0.7, limit: 2000, **more}


def cool(model: str, **more: Any) -> dict[str, Any]:
    """The same for a model that takes no temperature."""
    return {key: value for key, value in sent(model, **more).items() if key != "temperature"}


# What comes.


def usage(prompt: int = 19, completion: int = 10, **more: Any) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        **more,
    }


DETAILS = {
    "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    "completion_tokens_details": {
        "reasoning_tokens": 0,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    },
}


def message(content: Any = None, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def choice(message: Any, finish: Any = "stop", **more: Any) -> dict[str, Any]:
    return {"index": 0, "message": message, "logprobs": None, "finish_reason": finish, **more}


def whole(*choices: Any, **more: Any) -> dict[str, Any]:
    """An answer as OpenAI gives it."""
    return {
        "id": "chatcmpl-CX4vhE2qlzZ8Wq7NnP1m0v3sJk9aB",
        "object": "chat.completion",
        "created": 1793612467,
        "model": "gpt-4o-2024-08-06",
        "choices": list(choices),
        "usage": {**usage(), **DETAILS},
        "service_tier": "default",
        "system_fingerprint": "fp_cbf1785567",
        **more,
    }


def says(content: Any = "Hello!", finish: Any = "stop", **more: Any) -> dict[str, Any]:
    spoken = message(content, refusal=None, annotations=[])
    return whole(choice(spoken, finish), **more)


def call(
    name: str = "get_weather", arguments: Any = '{"city":"Paris"}', **more: Any
) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def calls(*made: Any, finish: Any = "tool_calls", content: Any = None) -> dict[str, Any]:
    return whole(choice(message(content, refusal=None, tool_calls=list(made)), finish))


def sse(*values: Any, ending: str = "\n") -> list[bytes]:
    written = (json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in values)
    return [f"data: {text}{ending}{ending}".encode() for text in written]


DONE = b"data: [DONE]\n\n"


def chunk(*choices: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-CX4w3dQp0M6tXb7cVnYl2ZgR1eKsU",
        "object": "chat.completion.chunk",
        "created": 1793612490,
        "model": "gpt-4o-2024-08-06",
        "service_tier": "default",
        "system_fingerprint": "fp_cbf1785567",
        "choices": list(choices),
        **more,
    }


def delta(
    finish: Any = None, more: Mapping[str, Any] | None = None, **delta: Any
) -> dict[str, Any]:
    piece = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return chunk(piece, **(more or {}))


def part(
    index: int | None = 0,
    arguments: Any = "",
    *,
    id: str | None = None,  # noqa: A002 - the word of the wire
    name: str | None = None,
) -> dict[str, Any]:
    """A piece of a tool call in a delta."""
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    piece: dict[str, Any] = {"function": function}
    if name is not None:
        piece["type"] = "function"
    if id is not None:
        piece["id"] = id
    if index is not None:
        piece["index"] = index
    return piece


BEGIN = delta(role="assistant", content="", refusal=None)
COUNTED = chunk(usage={**usage(), **DETAILS})


# What must become of it.

USAGE = {"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29}
ESTIMATED = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7, "estimated": True}
"""The estimate for "Hi" and "Hello!" where nobody counted."""


def data(content: str | None = "Hello!", finish: str = "stop", **more: Any) -> dict[str, Any]:
    return {"content": content, "tool_calls": [], "finish_reason": finish, **more}


HELLO = data()


def called(*made: tuple[str, str, Any], content: str | None = None) -> dict[str, Any]:
    return {
        "content": content,
        "tool_calls": [{"id": id_, "name": name, "arguments": args} for id_, name, args in made],
        "finish_reason": "tool_calls",
    }


PARIS: tuple[str, str, Any] = ("call_1", "get_weather", {"city": "Paris"})
ROME: tuple[str, str, Any] = ("call_2", "get_weather", {"city": "Rome"})
NAMELESS: tuple[str, str, Any] = ("*", "get_weather", {"city": "Paris"})
ROME_TEXT = '{"city":"Rome"}'

# Requests: what all have in common, shown with OpenAI.

REQUESTS: list[Unary] = [
    Unary(
        name="text",
        model=OPENAI,
        path="/v1/chat/completions",
        headers={"Authorization": "Bearer sk-test-key", "Content-Type": "application/json"},
        sent=sent("gpt-4o"),
        reply=says(),
        data=HELLO,
        usage=USAGE,
        priced=True,
    ),
    Unary(
        name="temperature, max_tokens and one stop text",
        model=OPENAI,
        ask={"temperature": 0, "max_tokens": 5, "stop": "END"},
        sent={**sent("gpt-4o"), "temperature": 0, "max_completion_tokens": 5, "stop": ["END"]},
        reply=says(),
        data=HELLO,
    ),
    Unary(
        name="several stop texts",
        model=OPENAI,
        ask={"stop": ["END", "\n\n"]},
        sent=sent("gpt-4o", stop=["END", "\n\n"]),
        reply=says(),
        data=HELLO,
    ),
    Unary(
        name="extra keys replace ours",
        model=OPENAI,
        ask={"extra": {"temperature": 1.3, "seed": 7, "service_tier": "flex"}},
        sent={**sent("gpt-4o", seed=7, service_tier="flex"), "temperature": 1.3},
        reply=says(),
        data=HELLO,
    ),
    Unary(
        name="system prompts, names and earlier turns",
        model=OPENAI,
        messages=[
            {"role": "system", "content": "Be brief.", "name": "House"},
            {"role": "user", "content": "Hi", "name": "Architect"},
            {"role": "assistant", "content": "Yes?", "name": "Narrator"},
            {"role": "system", "content": "Now be long."},
            {"role": "user", "content": "Why?"},
        ],
        sent=sent(
            "gpt-4o",
            messages=[
                {"role": "system", "content": "Be brief.", "name": "House"},
                {"role": "user", "content": "Hi", "name": "Architect"},
                {"role": "assistant", "content": "Yes?", "name": "Narrator"},
                {"role": "system", "content": "Now be long."},
                {"role": "user", "content": "Why?"},
            ],
        ),
        reply=says(),
        data=HELLO,
    ),
    Unary(
        name="images by data: and by their address",
        model=OPENAI,
        messages=[
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Which is larger?"},
                    {"type": "image_url", "image_url": {"url": PIXEL}},
                    {"type": "image_url", "image_url": {"url": PICTURE, "detail": "low"}},
                ],
            }
        ],
        sent=sent(
            "gpt-4o",
            messages=[
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Which is larger?"},
                        {"type": "image_url", "image_url": {"url": PIXEL}},
                        {"type": "image_url", "image_url": {"url": PICTURE, "detail": "low"}},
                    ],
                }
            ],
        ),
        reply=says("The second."),
        data=data("The second."),
    ),
    Unary(
        name="tools",
        model=OPENAI,
        messages=QUESTION,
        ask={"tools": [WEATHER]},
        sent=sent("gpt-4o", messages=QUESTION, tools=[WEATHER]),
        reply=calls(call(id="call_1")),
        data=called(PARIS),
        usage=USAGE,
    ),
    Unary(
        name="tool calls and their results go back",
        model=OPENAI,
        messages=[
            *QUESTION,
            {
                "role": "assistant",
                "content": None,
                "reasoning": "I must look.",
                "tool_calls": [
                    {"id": "call_1", "name": "get_weather", "arguments": {"city": "Paris"}},
                    {"id": "call_2", **call(arguments=ROME_TEXT)},
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
            {"role": "tool", "tool_call_id": "call_2", "content": "sun"},
        ],
        ask={"tools": [WEATHER]},
        sent=sent(
            "gpt-4o",
            messages=[
                *QUESTION,
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "call_1", **call(arguments='{"city":"Paris"}')},
                        {"id": "call_2", **call(arguments=ROME_TEXT)},
                    ],
                },
                {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
                {"role": "tool", "tool_call_id": "call_2", "content": "sun"},
            ],
            tools=[WEATHER],
        ),
        reply=says("It rains."),
        data=data("It rains."),
    ),
    *(
        Unary(
            name=f"tool_choice {choice!r}",
            model=OPENAI,
            ask={"tools": [WEATHER], "tool_choice": choice},
            sent=sent("gpt-4o", tools=[WEATHER], tool_choice=choice),
            reply=says(),
            data=HELLO,
        )
        for choice in ("auto", "none", "required", THE_WEATHER)
    ),
    Unary(
        name="a tool_choice without tools would be refused",
        model=OPENAI,
        ask={"tool_choice": "none"},
        sent=sent("gpt-4o"),
        reply=says(),
        data=HELLO,
    ),
    Unary(
        name="a schema",
        model=OPENAI,
        ask={"response_format": CITY},
        sent=sent(
            "gpt-4o",
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": CITY, "strict": False},
            },
        ),
        reply=says(CITY_TEXT),
        data=data(CITY_TEXT, parsed={"city": "Paris", "people": 2103778}),
    ),
    Unary(
        name="a schema in OpenAI's form",
        model=OPENAI,
        ask={
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "city", "schema": CITY, "strict": True},
            }
        },
        sent=sent(
            "gpt-4o",
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "city", "schema": CITY, "strict": True},
            },
        ),
        reply=says(CITY_TEXT),
        data=data(CITY_TEXT, parsed={"city": "Paris", "people": 2103778}),
    ),
    Unary(
        name="a schema of a model of pydantic's",
        model=OPENAI,
        ask={"response_format": City},
        sent=sent(
            "gpt-4o",
            response_format={
                "type": "json_schema",
                "json_schema": {
                    "name": "City",
                    "schema": {**City.model_json_schema(), "additionalProperties": False},
                    "strict": True,
                },
            },
        ),
        reply=says(CITY_TEXT),
    ),
    Unary(
        name="any JSON",
        model=OPENAI,
        ask={"response_format": {"type": "json_object"}},
        sent=sent("gpt-4o", response_format={"type": "json_object"}),
        reply=says('{"a": [1, 2]}'),
        data=data('{"a": [1, 2]}', parsed={"a": [1, 2]}),
    ),
]

# Models of OpenAI that take no temperature and no stop texts, and those that look like it.

ALWAYS_REASON = (
    "gpt-6-astra", "gpt-6.1-sol", "gpt-5.5-pro", "gpt-5.4-pro", "gpt-5.3-chat-latest",
    "gpt-5.2-pro", "gpt-5.2-chat-latest", "gpt-5.1-codex", "gpt-5.1-codex-mini",
    "gpt-5.1-chat-latest", "gpt-5-pro", "gpt-5-codex", "gpt-5", "gpt-5-mini", "gpt-5-2025-08-07",
    "o1", "o1-2024-12-17", "o3", "o3-mini", "o4-mini",
)  # fmt: skip
REASON_BY_DEFAULT = ("gpt-6.1-terra", "gpt-6-sol", "gpt-6-luna", "gpt-5.6", "gpt-5.5")
REASON_WHEN_ASKED = (
    "gpt-5.4",
    "gpt-5.4-mini",
    "gpt-5.3",
    "gpt-5.2",
    "gpt-5.1",
    "gpt-5.1-2025-11-13",
)
NEVER_REASON = ("gpt-5-chat-latest", "gpt-4-turbo", "gpt-4.1", "gpt-4o", "chatgpt-4o-latest")

MODELS: list[Unary] = [
    *(
        Unary(
            name=f"{model} takes neither temperature nor stop",
            model=f"openai/{model}",
            client={"wire": "chat"},
            ask={"temperature": 0.2, "stop": ["END"]},
            sent=cool(model),
            reply=says(),
            data=HELLO,
        )
        for model in (*ALWAYS_REASON, *REASON_BY_DEFAULT)
    ),
    *(
        Unary(
            name=f"{model} takes a temperature when it does not reason",
            model=f"openai/{model}",
            ask={"extra": {"reasoning_effort": "none"}},
            sent=sent(model, reasoning_effort="none"),
            reply=says(),
            data=HELLO,
        )
        for model in REASON_BY_DEFAULT
    ),
    *(
        Unary(
            name=f"{model} takes a temperature",
            model=f"openai/{model}",
            sent=sent(model),
            reply=says(),
            data=HELLO,
        )
        for model in (*REASON_WHEN_ASKED, *NEVER_REASON)
    ),
]

# The others: where they are, what they call things, and what they leave out.

NAMED: list[Mapping[str, Any]] = [
    {"role": "system", "content": "Be brief.", "name": "House"},
    {"role": "user", "content": "Hi", "name": "Architect"},
]
CONVERSATION: list[Mapping[str, Any]] = [
    *QUESTION,
    {
        "role": "assistant",
        "content": None,
        "reasoning": "I must look.",
        "tool_calls": [{"id": "D681PevKs", **call()}],
    },
    {"role": "tool", "tool_call_id": "D681PevKs", "content": "rain"},
]
KEY = {"Authorization": "Bearer sk-test-key"}

PROVIDERS: list[Unary] = [
    Unary(
        name="a server that is compatible",
        model=LOCAL,
        path="/v1/chat/completions",
        headers=KEY,
        ask={"stop": "END", "tools": [WEATHER], "tool_choice": "required"},
        sent=sent(LOCAL, "max_tokens", stop=["END"], tools=[WEATHER], tool_choice="required"),
        reply=says(),
        data=HELLO,
        usage=USAGE,
    ),
    Unary(
        name="a server that is compatible, a model with the name of its vendor",
        model="meta-llama/Llama-3.1-8B-Instruct",
        sent=sent("meta-llama/Llama-3.1-8B-Instruct", "max_tokens"),
        reply=says(),
        data=HELLO,
    ),
    Unary(
        name="a server that is compatible, and a model of OpenAI's behind it",
        model="gpt-5-mini",
        ask={"stop": "END"},
        sent=cool("gpt-5-mini"),
        reply=says(),
        data=HELLO,
    ),
    Unary(
        name="mistral",
        model=MISTRAL,
        path="/v1/chat/completions",
        headers=KEY,
        messages=NAMED,
        ask={"tools": [WEATHER], "tool_choice": "required"},
        sent=sent(
            "mistral-large-latest",
            "max_tokens",
            messages=[
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hi"},
            ],
            tools=[WEATHER],
            tool_choice="any",
        ),
        reply={
            "id": "b1f9f7e2d9a84d0db9e3b2c1a5f60718",
            "object": "chat.completion",
            "created": 1793612467,
            "model": "mistral-large-latest",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "tool_calls",
                    "message": {
                        "role": "assistant",
                        "content": "",
                        "tool_calls": [
                            {
                                "id": "D681PevKs",
                                "function": {
                                    "name": "get_weather",
                                    "arguments": '{"city": "Paris"}',
                                },
                                "index": 0,
                            }
                        ],
                    },
                }
            ],
            "usage": usage(),
        },
        data=called(("D681PevKs", "get_weather", {"city": "Paris"})),
        usage=USAGE,
    ),
    Unary(
        name="groq",
        model=GROQ,
        path="/openai/v1/chat/completions",
        headers=KEY,
        sent=sent("llama-3.3-70b-versatile"),
        reply=says(
            usage=usage(queue_time=0.05, prompt_time=0.01, completion_time=0.02, total_time=0.03),
            x_groq={"id": "req_01k9tq3xvqe3m8h2w5y7z0abcd"},
        ),
        data=HELLO,
        usage=USAGE,
    ),
    Unary(
        name="groq, a model with the name of its vendor",
        model="groq/openai/gpt-oss-20b",
        sent=sent("openai/gpt-oss-20b"),
        reply=says(),
        data=HELLO,
    ),
    Unary(
        name="deepseek wants its thoughts back with its calls",
        model=DEEPSEEK,
        path="/chat/completions",
        headers=KEY,
        messages=CONVERSATION,
        sent=sent(
            "deepseek-chat",
            "max_tokens",
            messages=[
                *QUESTION,
                {
                    "role": "assistant",
                    "content": None,
                    "reasoning_content": "I must look.",
                    "tool_calls": [{"id": "D681PevKs", **call()}],
                },
                {"role": "tool", "tool_call_id": "D681PevKs", "content": "rain"},
            ],
        ),
        reply=says(),
        data=HELLO,
    ),
    Unary(
        name="openrouter keeps its own prefix",
        model=OPENROUTER,
        path="/api/v1/chat/completions",
        headers=KEY,
        sent=sent("openrouter/auto", "max_tokens"),
        reply=whole(
            choice(message("Hello!", reasoning=None), native_finish_reason="completed"),
            id="gen-1793612467-Zx8vQ2mB7nLk4pRt6wYc",
            provider="OpenAI",
            usage=usage(
                cost=0.00012, is_byok=False, cost_details={"upstream_inference_cost": None}
            ),
        ),
        data=HELLO,
        usage=USAGE,
    ),
    Unary(
        name="azure",
        model=AZURE,
        path="/openai/v1/chat/completions",
        headers={"api-key": "sk-test-key"},
        sent=sent("gpt-4o"),
        reply=whole(
            choice(message("Hello!", refusal=None), content_filter_results=dict[str, Any]()),
            prompt_filter_results=[{"prompt_index": 0, "content_filter_results": {}}],
        ),
        data=HELLO,
        usage=USAGE,
    ),
    Unary(
        name="xai",
        model=XAI,
        path="/v1/chat/completions",
        headers=KEY,
        sent=sent("grok-4", "max_tokens"),
        reply=says(usage={**usage(), **DETAILS, "num_sources_used": 0, "cost_in_usd_ticks": 37500}),
        data=HELLO,
        usage=USAGE,
    ),
]

# Answers: how they end, what they hold, what is missing from them.

ENDS = {
    "stop": "stop",
    "eos": "stop",
    "": "stop",
    "something_new": "stop",
    "length": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
}
ODD_ENDS: Sequence[Any] = (None, 1, ["stop"])
NO_CALLS: Sequence[Any] = (None, [], {}, "get_weather")
NO_USAGE: Sequence[Any] = (None, {}, [], {"prompt_tokens": None}, {"prompt_tokens": "19"})
THINKING = [
    {
        "type": "thinking",
        "thinking": [
            {"type": "text", "text": "They greet me. "},
            {"type": "text", "text": "I greet them."},
        ],
        "closed": True,
    },
    {"type": "text", "text": "Hel"},
    {"type": "text", "text": "lo!"},
]
WITHOUT_USAGE = {key: value for key, value in says().items() if key != "usage"}

ANSWERS: list[Unary] = [
    *(
        Unary(
            name=f"finish_reason {end!r}",
            model=LOCAL,
            reply=says(finish=end),
            data=data(finish=ours),
        )
        for end, ours in ENDS.items()
    ),
    *(
        Unary(name=f"finish_reason {end!r}", model=LOCAL, reply=says(finish=end), data=HELLO)
        for end in ODD_ENDS
    ),
    Unary(
        name="finish_reason is missing",
        model=LOCAL,
        reply=whole({"index": 0, "message": message("Hello!")}),
        data=HELLO,
    ),
    *(
        Unary(
            name=f"finish_reason {end!r} is a failure",
            model=OPENROUTER,
            reply=says("Hel", end),
            refused=Refused(LLMResponseError, {"code": end}),
        )
        for end in ("error", "network_error")
    ),
    *(
        Unary(
            name=f"finish_reason {end!r} with content",
            model=AZURE,
            reply=says("Hel", end),
            data=data("Hel", filtered=True),
        )
        for end in ("content_filter", "sensitive")
    ),
    *(
        Unary(
            name=f"finish_reason {end!r} with content {nothing!r}",
            model=AZURE,
            reply=says(nothing, end),
            refused=Refused(LLMFilteredError, {"provider": "azure"}),
        )
        for end, nothing in (("content_filter", None), ("content_filter", ""), ("sensitive", None))
    ),
    Unary(
        name="finish_reason is stop beside tool calls",
        model=OPENAI,
        ask={"tools": [WEATHER], "tool_choice": THE_WEATHER},
        reply=calls(call(id="call_1"), finish="stop"),
        data=called(PARIS),
    ),
    Unary(
        name="finish_reason is tool_calls without any",
        model=LOCAL,
        reply=says(finish="tool_calls"),
        refused=Refused(LLMResponseError, {"status": 200}),
    ),
    Unary(
        name="content is missing",
        model=LOCAL,
        reply=whole(choice({"role": "assistant", "tool_calls": [call(id="call_1")]}, "tool_calls")),
        data=called(PARIS),
    ),
    Unary(
        name="content is empty beside tool calls",
        model=LOCAL,
        reply=calls(call(id="call_1"), content=""),
        data=called(PARIS),
    ),
    Unary(
        name="content stands beside tool calls",
        model=LOCAL,
        reply=calls(call(id="call_1"), content="Let me look."),
        data=called(PARIS, content="Let me look."),
    ),
    Unary(
        name="content is a list with thoughts",
        model="mistral/magistral-medium-latest",
        reply=says(THINKING),
        data=data(reasoning="They greet me. I greet them."),
    ),
    Unary(
        name="content is a list of odd parts",
        model=LOCAL,
        reply=says([None, 7, {}, {"type": "image"}, {"type": "text", "text": "Hello!"}]),
        data=HELLO,
    ),
    Unary(
        name="a refusal is what the model said",
        model=OPENAI,
        reply=whole(choice(message(None, refusal="I'm sorry, I can't help with that."))),
        data=data("I'm sorry, I can't help with that.", filtered=True),
    ),
    *(
        Unary(
            name=f"thoughts as {field}",
            model=model,
            reply=whole(choice(message("Hello!", **{field: "They greet me."}))),
            data=data(reasoning="They greet me."),
        )
        for field, model in (
            ("reasoning_content", "deepseek/deepseek-reasoner"),
            ("reasoning", "groq/openai/gpt-oss-20b"),
        )
    ),
    Unary(
        name="thoughts of a wrong kind",
        model=LOCAL,
        reply=whole(choice(message("Hello!", reasoning={"a": 1}, reasoning_content=None))),
        data=HELLO,
    ),
    Unary(
        name="parallel tool calls",
        model=OPENAI,
        reply=calls(call(id="call_1"), call(arguments=ROME_TEXT, id="call_2")),
        data=called(PARIS, ROME),
    ),
    *(
        Unary(
            name=f"tool_calls {made!r}",
            model=LOCAL,
            reply=whole(choice(message("Hello!", tool_calls=made))),
            data=HELLO,
        )
        for made in NO_CALLS
    ),
    Unary(
        name="a function_call, as it was long ago",
        model=LOCAL,
        reply=whole(
            choice(
                message(
                    None, function_call={"name": "get_weather", "arguments": '{"city":"Paris"}'}
                ),
                "function_call",
            )
        ),
        data=called(NAMELESS),
    ),
    *(
        Unary(
            name=f"arguments {arguments!r}",
            model=LOCAL,
            reply=calls(call(arguments=arguments, id="call_1")),
            data=called(("call_1", "get_weather", expected)),
        )
        for arguments, expected in (
            ("", {}),
            (None, {}),
            ("{}", {}),
            (" \n", {}),
            ({"city": "Paris"}, {"city": "Paris"}),
            ('{"city": ":K\x0fㄉQ\n"}', {"city": ":K\x0fㄉQ\n"}),
        )
    ),
    Unary(
        name="arguments are missing",
        model=LOCAL,
        reply=calls({"id": "call_1", "type": "function", "function": {"name": "get_weather"}}),
        data=called(("call_1", "get_weather", {})),
    ),
    *(
        Unary(
            name=f"arguments {arguments!r} are not an object",
            model=LOCAL,
            reply=calls(call(arguments=arguments, id="call_1")),
            refused=Refused(LLMResponseError, {"provider": "openai-compatible", "model": LOCAL}),
        )
        for arguments in ('{"a":', "not JSON", "[1]", '"text"', "7")
    ),
    *(
        Unary(
            name=f"the id of a tool call is {id_!r}",
            model=LOCAL,
            reply=calls(call(id=id_), call(arguments=ROME_TEXT, id=id_)),
            data=called(NAMELESS, ("*", "get_weather", {"city": "Rome"})),
        )
        for id_ in (None, "", 7)
    ),
    Unary(
        name="tool calls have no ids",
        model=LOCAL,
        reply=calls(call(), call(arguments=ROME_TEXT)),
        data=called(NAMELESS, ("*", "get_weather", {"city": "Rome"})),
    ),
    Unary(
        name="only the first choice counts",
        model=LOCAL,
        reply=whole(choice(message("Hello!")), choice(message("Hi!"), index=1)),
        data=HELLO,
    ),
    # Usage.
    Unary(
        name="cached and reasoning tokens are parts of the others",
        model="openai/o3",
        reply=says(
            usage=usage(
                2006,
                300,
                prompt_tokens_details={"cached_tokens": 1920, "audio_tokens": 0},
                completion_tokens_details={"reasoning_tokens": 256},
            )
        ),
        data=HELLO,
        usage={
            "prompt_tokens": 2006,
            "completion_tokens": 300,
            "total_tokens": 2306,
            "cached_tokens": 1920,
            "reasoning_tokens": 256,
        },
        priced=True,
    ),
    Unary(
        name="tokens written to the cache",
        model=OPENAI,
        reply=says(
            usage=usage(
                2006,
                300,
                prompt_tokens_details={"cached_tokens": 0, "cache_write_tokens": 1792},
                completion_tokens_details=None,
            )
        ),
        data=HELLO,
        usage={
            "prompt_tokens": 2006,
            "completion_tokens": 300,
            "total_tokens": 2306,
            "cache_write_tokens": 1792,
        },
    ),
    Unary(
        name="cached tokens as DeepSeek counts them",
        model=DEEPSEEK,
        reply=says(usage=usage(100, 10, prompt_cache_hit_tokens=64, prompt_cache_miss_tokens=36)),
        data=HELLO,
        usage={
            "prompt_tokens": 100,
            "completion_tokens": 10,
            "total_tokens": 110,
            "cached_tokens": 64,
        },
    ),
    Unary(
        name="cached tokens as Mistral counts them",
        model=MISTRAL,
        reply=says(usage=usage(100, 10, num_cached_tokens=64, prompt_tokens_details=None)),
        data=HELLO,
        usage={
            "prompt_tokens": 100,
            "completion_tokens": 10,
            "total_tokens": 110,
            "cached_tokens": 64,
        },
    ),
    Unary(
        name="the total is the sum of the parts, whatever comes",
        model=LOCAL,
        reply=says(usage={"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 3}),
        data=HELLO,
        usage=USAGE,
    ),
    Unary(
        name="a model whose price is not known",
        model="openai/no-such-model",
        reply=says(model="no-such-model"),
        data=HELLO,
        usage=USAGE,
        priced=False,
    ),
    *(
        Unary(
            name=f"usage {counted!r}",
            model=LOCAL,
            reply=says(usage=counted),
            data=HELLO,
            usage=ESTIMATED,
        )
        for counted in NO_USAGE
    ),
    Unary(
        name="usage is missing",
        model=LOCAL,
        reply=WITHOUT_USAGE,
        data=HELLO,
        usage=ESTIMATED,
    ),
    Unary(
        name="usage has one half",
        model=LOCAL,
        reply=says(usage={"completion_tokens": 10}),
        data=HELLO,
        usage={**ESTIMATED, "completion_tokens": 10, "total_tokens": 15},
    ),
]

# Answers that are none.

NOTHING: list[Unary] = [
    Unary(name=name, model=LOCAL, reply=reply, refused=Refused(LLMResponseError))
    for name, reply in {
        "200 with an empty body": b"",
        "200 with a page": b"<!DOCTYPE html><html><body>Welcome</body></html>",
        "200 with a broken object": json.dumps(says()).encode()[:100],
        "200 with null": b"null",
        "200 with a list": [says()],
        "200 with a text": b'"Hello!"',
        "200 with an empty object": {},
        "choices is empty": whole(),
        "choices is null": {**whole(), "choices": None},
        "choices is an object": {**whole(), "choices": choice(message("Hello!"))},
        "choices is missing": {"id": "x", "object": "chat.completion", "usage": usage()},
        "the choice is null": whole(None),
        "the choice has no message": whole({"index": 0, "finish_reason": "stop"}),
        "the message is null": whole(choice(None)),
        "the message is a text": whole(choice("Hello!")),
        "the message is empty": whole(choice({})),
    }.items()
]

# Errors.


def error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


REQUEST_ID = {"x-request-id": "req_6f2a9c0b7d3e4f51"}
INVALID = "invalid_request_error"

ERRORS: list[Unary] = [
    Unary(
        name="401",
        model=OPENAI,
        status=401,
        reply_headers={**REQUEST_ID, "x-should-retry": "true"},
        reply=error(
            "Incorrect API key provided: sk-te***-key.",
            type=INVALID,
            param=None,
            code="invalid_api_key",
        ),
        refused=Refused(
            LLMAuthenticationError,
            {
                "status": 401,
                "code": "invalid_api_key",
                "request_id": "req_6f2a9c0b7d3e4f51",
                "provider": "openai",
                "model": "gpt-4o",
            },
        ),
    ),
    Unary(
        name="403",
        model=OPENAI,
        status=403,
        reply=error(
            "Country, region, or territory not supported",
            type="request_forbidden",
            param=None,
            code="unsupported_country_region_territory",
        ),
        refused=Refused(
            LLMPermissionError, {"status": 403, "code": "unsupported_country_region_territory"}
        ),
    ),
    Unary(
        name="404, no such model",
        model="openai/gpt-0",
        status=404,
        reply=error(
            "The model `gpt-0` does not exist or you do not have access to it.",
            type=INVALID,
            param=None,
            code="model_not_found",
        ),
        refused=Refused(LLMNotFoundError, {"status": 404, "code": "model_not_found"}),
    ),
    Unary(
        name="404, nothing at the address",
        model=LOCAL,
        status=404,
        reply={"detail": "Not Found"},
        refused=Refused(LLMNotFoundError, {"status": 404, "code": None}),
    ),
    Unary(
        name="400",
        model=OPENAI,
        status=400,
        reply=error(
            "Invalid type for 'messages[0].content'.",
            type=INVALID,
            param="messages[0].content",
            code="invalid_type",
        ),
        refused=Refused(LLMRequestError, {"status": 400, "code": "invalid_type"}),
    ),
    Unary(
        name="400, too long for the model",
        model=OPENAI,
        status=400,
        reply=error(
            "This model's maximum context length is 128000 tokens.",
            type=INVALID,
            param="messages",
            code="context_length_exceeded",
        ),
        refused=Refused(LLMContextLengthError, {"status": 400, "code": "context_length_exceeded"}),
    ),
    Unary(
        name="400, too long for llama.cpp",
        model=LOCAL,
        status=400,
        reply=error(
            "the request exceeds the available context size, try increasing it",
            code=400,
            type="exceed_context_size_error",
            n_prompt_tokens=5008,
            n_ctx=4096,
        ),
        refused=Refused(LLMContextLengthError, {"status": 400}),
    ),
    Unary(
        name="413",
        model=LOCAL,
        status=413,
        reply=b"<html><head><title>413 Request Entity Too Large</title></head></html>",
        refused=Refused(LLMRequestError, {"status": 413}),
    ),
    Unary(
        name="429",
        model=OPENAI,
        status=429,
        reply_headers={
            **REQUEST_ID,
            "retry-after-ms": "1250",
            "retry-after": "2",
            "x-ratelimit-remaining-tokens": "0",
            "x-ratelimit-reset-tokens": "6m0s",
        },
        reply=error(
            "Rate limit reached for gpt-4o on tokens per min (TPM).",
            type="tokens",
            param=None,
            code="rate_limit_exceeded",
        ),
        refused=Refused(
            LLMRateLimitError, {"status": 429, "code": "rate_limit_exceeded", "retry_after": 1.25}
        ),
    ),
    Unary(
        name="429, the quota is used up",
        model=OPENAI,
        status=429,
        reply=error(
            "You exceeded your current quota, please check your plan and billing details.",
            type="insufficient_quota",
            param=None,
            code="insufficient_quota",
        ),
        refused=Refused(LLMQuotaError, {"status": 429, "code": "insufficient_quota"}),
    ),
    Unary(
        name="429 with nothing",
        model=LOCAL,
        status=429,
        refused=Refused(LLMRateLimitError, {"status": 429, "code": None, "retry_after": None}),
    ),
    Unary(
        name="500",
        model=OPENAI,
        status=500,
        reply=error(
            "The server had an error while processing your request.",
            type="server_error",
            param=None,
            code=None,
        ),
        refused=Refused(LLMServerError, {"status": 500, "code": "server_error"}),
    ),
    Unary(
        name="502 with a page",
        model=OPENAI,
        status=502,
        reply=b"<html><head><title>502 Bad Gateway</title></head></html>",
        refused=Refused(
            LLMServerError,
            {"status": 502, "body": "<html><head><title>502 Bad Gateway</title></head></html>"},
        ),
    ),
    Unary(
        name="503 with an empty body",
        model=LOCAL,
        status=503,
        refused=Refused(LLMServerError, {"status": 503}),
    ),
    Unary(
        name="503, llama.cpp loads its model",
        model=LOCAL,
        status=503,
        reply=error("Loading model", type="unavailable_error", code=503),
        refused=Refused(LLMServerError, {"status": 503}),
    ),
    Unary(
        name="529",
        model=LOCAL,
        status=529,
        reply=error("Overloaded", type="overloaded_error"),
        refused=Refused(LLMOverloadedError, {"status": 529}),
    ),
    Unary(
        name="azure, 401",
        model=AZURE,
        status=401,
        reply_headers={"apim-request-id": "8a3f4a6e-0d1b-4c55-9a77-d2f0c4f6b1e2"},
        reply=error("Access denied due to invalid subscription key.", code="401"),
        refused=Refused(
            LLMAuthenticationError,
            {"status": 401, "code": "401", "request_id": "8a3f4a6e-0d1b-4c55-9a77-d2f0c4f6b1e2"},
        ),
    ),
    Unary(
        name="azure, 404",
        model="azure/nowhere",
        status=404,
        reply=error(
            "The API deployment for this resource does not exist.", code="DeploymentNotFound"
        ),
        refused=Refused(LLMNotFoundError, {"status": 404, "code": "DeploymentNotFound"}),
    ),
    Unary(
        name="azure, 429 with a wait of no milliseconds beside one of a second",
        model=AZURE,
        status=429,
        reply_headers={"retry-after": "1", "retry-after-ms": "0"},
        reply=error("Requests have exceeded the token rate limit.", code="RateLimitReached"),
        refused=Refused(
            LLMRateLimitError, {"status": 429, "code": "RateLimitReached", "retry_after": 1.0}
        ),
    ),
    Unary(
        name="azure, 400 for a prompt that was filtered",
        model=AZURE,
        status=400,
        reply={
            "error": {
                "message": "The response was filtered due to the prompt triggering a policy.",
                "type": None,
                "param": "prompt",
                "code": "content_filter",
                "status": 400,
                "innererror": {
                    "code": "ResponsibleAIPolicyViolation",
                    "content_filter_result": {"hate": {"filtered": True, "severity": "high"}},
                },
            }
        },
        refused=Refused(LLMFilteredError, {"status": 400}),
    ),
    Unary(
        name="azure, 200 with an error",
        model=AZURE,
        reply=error("The response was filtered.", code="content_filter", param=None, type=None),
        refused=Refused(LLMFilteredError, {"status": 200, "code": "content_filter"}),
    ),
    Unary(
        name="groq, 400 for a call that cannot be read",
        model=GROQ,
        status=400,
        reply=error(
            "Failed to call a function. Please adjust your prompt.",
            type=INVALID,
            code="tool_use_failed",
            failed_generation='<function=get_weather{"city": "Paris"}',
        ),
        refused=Refused(LLMRequestError, {"status": 400, "code": "tool_use_failed"}),
    ),
    Unary(
        name="mistral, 401",
        model=MISTRAL,
        status=401,
        reply={"detail": "Invalid API Key"},
        refused=Refused(LLMAuthenticationError, {"status": 401, "code": None}),
    ),
    Unary(
        name="mistral, 422",
        model=MISTRAL,
        status=422,
        reply={
            "detail": [
                {
                    "type": "extra_forbidden",
                    "loc": ["body", "seed"],
                    "msg": "Extra inputs are not permitted",
                    "input": 7,
                }
            ]
        },
        refused=Refused(LLMRequestError, {"status": 422}),
    ),
    Unary(
        name="mistral, 429",
        model=MISTRAL,
        status=429,
        reply={
            "object": "error",
            "message": "Rate limit exceeded",
            "type": "rate_limited",
            "param": None,
            "code": "1300",
        },
        refused=Refused(LLMRateLimitError, {"status": 429, "code": "1300"}),
    ),
    Unary(
        name="deepseek, 402",
        model=DEEPSEEK,
        status=402,
        reply=error("Insufficient Balance", type="unknown_error", param=None, code=INVALID),
        refused=Refused(LLMQuotaError, {"status": 402}),
    ),
    Unary(
        name="openrouter, 402",
        model=OPENROUTER,
        status=402,
        reply=error("Insufficient credits. Add more using the settings.", code=402),
        refused=Refused(LLMQuotaError, {"status": 402, "model": "openrouter/auto"}),
    ),
    Unary(
        name="openrouter, 200 with an error of the provider behind it",
        model=OPENROUTER,
        reply=error(
            "Provider returned error",
            code=429,
            metadata={"raw": "slow down", "provider_name": "Together"},
        ),
        refused=Refused(LLMRateLimitError),
    ),
    Unary(
        name="openrouter, an error beside the choices",
        model=OPENROUTER,
        reply={**says("Hel", "error"), **error("Upstream is gone", code=502)},
        refused=Refused(LLMServerError),
    ),
    Unary(
        name="xai, 400 for a bad key",
        model=XAI,
        status=400,
        reply={
            "code": "Client specified an invalid argument",
            "error": "Incorrect API key provided: ba***na. You can obtain an API key from "
            "https://console.x.ai.",
        },
        refused=Refused(
            LLMRequestError, {"status": 400, "code": "Client specified an invalid argument"}
        ),
    ),
    Unary(
        name="xai, 400",
        model=XAI,
        status=400,
        reply={"code": "Client specified an invalid argument", "error": "Argument not supported"},
        refused=Refused(
            LLMRequestError, {"status": 400, "code": "Client specified an invalid argument"}
        ),
    ),
    Unary(
        name="vllm, 404",
        model=LOCAL,
        status=404,
        reply={
            "object": "error",
            "message": "The model `qwen2.5-7b-instruct` does not exist.",
            "type": "NotFoundError",
            "param": None,
            "code": 404,
        },
        refused=Refused(LLMNotFoundError, {"status": 404}),
    ),
    Unary(
        name="llama.cpp, 401",
        model=LOCAL,
        status=401,
        reply=error("Invalid API Key", type="authentication_error", code=401),
        refused=Refused(LLMAuthenticationError, {"status": 401}),
    ),
    Unary(
        name="lm studio, 400",
        model=LOCAL,
        status=400,
        reply={"error": "Failed to load the model"},
        refused=Refused(LLMRequestError, {"status": 400, "code": None}),
    ),
    Unary(
        name="lm studio, 200 with an error",
        model=LOCAL,
        reply={"error": "Unexpected endpoint or method. (POST /v1/chat/completion)"},
        refused=Refused(LLMServerError, {"status": 200}),
    ),
]

# Streams.

ASKED_TO_COUNT: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
NOT_YET: dict[str, Any] = {"usage": None, "obfuscation": "aGVsbG8"}


def spoken(*texts: str) -> list[dict[str, Any]]:
    return [delta(content=text, more=NOT_YET) for text in texts]


HEL_LO = [*sse(BEGIN, *spoken("Hel", "lo!"), delta("stop", NOT_YET), COUNTED), DONE]
HEL = data("Hel")

TEXT_STREAMS: list[Unary] = [
    Stream(
        name="stream: text, usage in a chunk of its own",
        model=OPENAI,
        path="/v1/chat/completions",
        headers={"Authorization": "Bearer sk-test-key"},
        sent=sent("gpt-4o", **ASKED_TO_COUNT),
        events=HEL_LO,
        complete_after=4,
        deltas=[TextDelta("Hel"), TextDelta("lo!")],
        data=HELLO,
        usage=USAGE,
        priced=True,
    ),
    Stream(
        name="stream: mistral counts unasked, where it says the end",
        model=MISTRAL,
        sent=sent("mistral-large-latest", "max_tokens", stream=True),
        events=[
            *sse(
                delta(role="assistant", content=""),
                delta(content="Hello!"),
                delta("stop", {"usage": usage()}, content=""),
            ),
            DONE,
        ],
        complete_after=3,
        data=HELLO,
        usage=USAGE,
    ),
    Stream(
        name="stream: deepseek",
        model=DEEPSEEK,
        path="/chat/completions",
        sent=sent("deepseek-chat", "max_tokens", **ASKED_TO_COUNT),
        events=[
            b": keep-alive\n\n",
            *sse(
                delta(role="assistant", content=None, reasoning_content="They "),
                delta(content=None, reasoning_content="greet."),
                delta(content="Hello!", reasoning_content=None),
                delta(
                    "stop",
                    {"usage": usage(prompt_cache_hit_tokens=16, prompt_cache_miss_tokens=3)},
                    content="",
                    reasoning_content=None,
                ),
            ),
            DONE,
        ],
        complete_after=5,
        deltas=[ReasoningDelta("They "), ReasoningDelta("greet."), TextDelta("Hello!")],
        data=data(reasoning="They greet."),
        usage={**USAGE, "cached_tokens": 16},
    ),
    Stream(
        name="stream: groq counts in a place of its own",
        model=GROQ,
        sent=sent("llama-3.3-70b-versatile", **ASKED_TO_COUNT),
        events=[
            *sse(
                delta(None, {"x_groq": {"id": "req_1"}}, role="assistant", content=""),
                delta(reasoning="They greet."),
                delta(content="Hello!"),
                delta(
                    "stop",
                    {"x_groq": {"id": "req_1", "usage": usage(queue_time=0.02, total_time=0.03)}},
                ),
            ),
            DONE,
        ],
        complete_after=4,
        data=data(reasoning="They greet."),
        usage=USAGE,
    ),
    Stream(
        name="stream: openrouter sends comments, and usage with a later delta",
        model=OPENROUTER,
        path="/api/v1/chat/completions",
        sent=sent("openrouter/auto", "max_tokens", **ASKED_TO_COUNT),
        events=[
            b": OPENROUTER PROCESSING\n\n",
            *sse(delta(role="assistant", content="")),
            b": OPENROUTER PROCESSING\n\n",
            *sse(
                delta(role="assistant", content="Hello!", reasoning=None),
                delta("stop", role="assistant", content=""),
                delta(None, {"usage": usage(cost=0.0001)}, role="assistant", content=""),
            ),
            DONE,
        ],
        complete_after=5,
        data=HELLO,
        usage=USAGE,
    ),
    Stream(
        name="stream: azure begins with what its filter says of the prompt",
        model=AZURE,
        path="/openai/v1/chat/completions",
        headers={"api-key": "sk-test-key"},
        sent=sent("gpt-4o", **ASKED_TO_COUNT),
        events=[
            *sse(
                chunk(prompt_filter_results=[{"prompt_index": 0, "content_filter_results": {}}]),
                BEGIN,
                delta(content="Hello!"),
                delta("stop"),
                COUNTED,
            ),
            DONE,
        ],
        complete_after=4,
        data=HELLO,
        usage=USAGE,
    ),
    Stream(
        name="stream: mistral's thoughts are a list",
        model="mistral/magistral-medium-latest",
        events=[
            *sse(
                delta(role="assistant", content=""),
                delta(
                    content=[
                        {"type": "thinking", "thinking": [{"type": "text", "text": "They greet."}]}
                    ]
                ),
                delta(content=[{"type": "text", "text": "Hel"}]),
                delta(content="lo!"),
                delta("stop", {"usage": usage()}, content=""),
            ),
            DONE,
        ],
        complete_after=5,
        deltas=[ReasoningDelta("They greet."), TextDelta("Hel"), TextDelta("lo!")],
        data=data(reasoning="They greet."),
        usage=USAGE,
    ),
    Stream(
        name="stream: CRLF, and data without a blank",
        model=LOCAL,
        events=[
            *sse(delta(content="Hello"), ending="\r\n"),
            sse(delta(content="!"))[0].replace(b"data: ", b"data:"),
            *sse(delta("stop", {"usage": usage()}), ending="\r\n"),
            b"data:[DONE]\r\n\r\n",
        ],
        complete_after=3,
        data=HELLO,
        usage=USAGE,
    ),
    Stream(
        name="stream: no usage anywhere",
        model=LOCAL,
        events=[*sse(delta(content="Hello!"), delta("stop")), DONE],
        complete_after=2,
        data=HELLO,
        usage=ESTIMATED,
    ),
    Stream(
        name="stream: a usage that grows with every chunk",
        model=LOCAL,
        events=[
            *sse(
                delta(None, {"usage": usage(19, 0)}, content="Hel"),
                delta(None, {"usage": usage(19, 5)}, content="lo!"),
                delta("stop", {"usage": usage(19, 10)}),
            ),
            DONE,
        ],
        complete_after=3,
        data=HELLO,
        usage=USAGE,
    ),
    Stream(
        name="stream: [DONE] without a finish",
        model=LOCAL,
        events=[*sse(BEGIN, delta(content="Hello!")), DONE],
        complete_after=3,
        data=HELLO,
    ),
    Stream(
        name="stream: a finish without [DONE]",
        model=LOCAL,
        events=sse(BEGIN, delta(content="Hello!"), delta("stop")),
        complete_after=3,
        data=HELLO,
    ),
    Stream(
        name="stream: an empty finish says nothing",
        model=LOCAL,
        events=[*sse(delta("", content="Hel"), delta("", content="lo!")), DONE],
        complete_after=3,
        data=HELLO,
    ),
    *(
        Stream(
            name=f"stream: finish {end!r}",
            model=LOCAL,
            events=[*sse(delta(content="Hello!"), delta(end, content="")), DONE],
            complete_after=2,
            data=data(finish=ours),
        )
        for end, ours in ENDS.items()
        if end
    ),
    Stream(
        name="stream: filtered with content",
        model=AZURE,
        events=[*sse(delta(content="Hel"), delta("content_filter")), DONE],
        complete_after=2,
        data=data("Hel", filtered=True),
    ),
    Stream(
        name="stream: filtered without content",
        model=AZURE,
        events=[*sse(BEGIN, delta("content_filter")), DONE],
        complete_after=2,
        refused=Refused(LLMFilteredError, {"provider": "azure"}),
    ),
    Stream(
        name="stream: a refusal is what the model said",
        model=OPENAI,
        events=[
            *sse(BEGIN, delta(refusal="I'm "), delta(refusal="sorry."), delta("stop")),
            DONE,
        ],
        complete_after=4,
        deltas=[TextDelta("I'm "), TextDelta("sorry.")],
        data=data("I'm sorry.", filtered=True),
    ),
    Stream(
        name="stream: odd chunks",
        model=LOCAL,
        events=[
            *sse(
                chunk(None),
                chunk({"index": 0, "delta": None, "finish_reason": None}),
                {**chunk(), "choices": None},
                {"id": "x"},
                delta(content=None, tool_calls=None, function_call=None),
                delta(content=7, tool_calls=[]),
                delta(content="Hello!", error=None),
                delta("stop"),
            ),
            DONE,
        ],
        complete_after=8,
        deltas=[TextDelta("Hello!")],
        data=HELLO,
    ),
]

FRAGMENTS = [
    *sse(
        delta(role="assistant", content=None, tool_calls=[part(id="call_1", name="get_weather")]),
        delta(tool_calls=[part(0, '{"ci')]),
        delta(tool_calls=[part(0, 'ty":"Par')]),
        delta(tool_calls=[part(0, 'is"}')]),
    )
]
PARALLEL = [
    *FRAGMENTS,
    *sse(
        delta(tool_calls=[part(1, id="call_2", name="get_weather")]),
        delta(tool_calls=[part(1, '{"city":')]),
        delta(tool_calls=[part(1, '"Rome"}')]),
    ),
]
PARIS_TEXT = '{"city":"Paris"}'


def whole_call(index: int | None, id_: str | None, text: str = PARIS_TEXT) -> dict[str, Any]:
    return part(index, text, id=id_, name="get_weather")


def calling(*events: Any, finish: Any = "tool_calls") -> list[bytes]:
    """A stream of tool calls, with its end."""
    return [*sse(*events, delta(finish, {"usage": usage()})), DONE]


TOOL_STREAMS: list[Unary] = [
    Stream(
        name="stream: a tool call in fragments",
        model=OPENAI,
        ask={"tools": [WEATHER]},
        sent=sent("gpt-4o", tools=[WEATHER], **ASKED_TO_COUNT),
        events=[*FRAGMENTS, *sse(delta("tool_calls"), COUNTED), DONE],
        complete_after=5,
        deltas=[
            ToolCallDelta(0, "call_1", "get_weather", ""),
            ToolCallDelta(0, None, None, '{"ci'),
            ToolCallDelta(0, None, None, 'ty":"Par'),
            ToolCallDelta(0, None, None, 'is"}'),
        ],
        data=called(PARIS),
        usage=USAGE,
    ),
    Stream(
        name="stream: parallel tool calls in fragments",
        model=OPENAI,
        ask={"tools": [WEATHER]},
        events=[*PARALLEL, *sse(delta("tool_calls"), COUNTED), DONE],
        complete_after=8,
        data=called(PARIS, ROME),
        usage=USAGE,
    ),
    Stream(
        name="stream: parallel tool calls, their fragments mixed",
        model=LOCAL,
        events=calling(
            delta(
                tool_calls=[
                    part(0, '{"city":', id="call_1", name="get_weather"),
                    part(1, '{"city":', id="call_2", name="get_weather"),
                ]
            ),
            delta(tool_calls=[part(1, '"Rome"}'), part(0, '"Paris"}')]),
        ),
        complete_after=3,
        data=called(PARIS, ROME),
    ),
    Stream(
        name="stream: a whole call in one delta, with the end",
        model=MISTRAL,
        events=[
            *sse(
                delta(role="assistant", content=""),
                delta(
                    "tool_calls",
                    {"usage": usage()},
                    content="",
                    tool_calls=[whole_call(0, "D681PevKs")],
                ),
            ),
            DONE,
        ],
        complete_after=2,
        deltas=[ToolCallDelta(0, "D681PevKs", "get_weather", PARIS_TEXT)],
        data=called(("D681PevKs", "get_weather", {"city": "Paris"})),
        usage=USAGE,
    ),
    Stream(
        name="stream: finish is stop beside a tool call, after some text",
        model=GROQ,
        events=calling(
            delta(content="Let me look."),
            delta(tool_calls=[whole_call(0, "call_1")]),
            finish="stop",
        ),
        complete_after=3,
        data=called(PARIS, content="Let me look."),
    ),
    Stream(
        name="stream: each call has the index 0 and an id of its own",
        model=LOCAL,
        events=calling(
            delta(tool_calls=[part(0, '{"city":', id="call_1", name="get_weather")]),
            delta(tool_calls=[part(0, '"Paris"}')]),
            delta(tool_calls=[part(0, '{"city":', id="call_2", name="get_weather")]),
            delta(tool_calls=[part(0, '"Rome"}')]),
        ),
        complete_after=5,
        data=called(PARIS, ROME),
    ),
    Stream(
        name="stream: the id of a call comes with every fragment",
        model=LOCAL,
        events=calling(
            delta(tool_calls=[part(0, '{"city":', id="call_1", name="get_weather")]),
            delta(tool_calls=[part(0, '"Paris"}', id="call_1", name="get_weather")]),
        ),
        complete_after=3,
        data=called(PARIS),
    ),
    Stream(
        name="stream: calls without an index, each with an id",
        model=LOCAL,
        events=calling(
            delta(tool_calls=[whole_call(None, "call_1")]),
            delta(tool_calls=[whole_call(None, "call_2", ROME_TEXT)]),
        ),
        complete_after=3,
        data=called(PARIS, ROME),
    ),
    Stream(
        name="stream: fragments without an index",
        model=LOCAL,
        events=calling(
            delta(tool_calls=[part(None, '{"city":', id="call_1", name="get_weather")]),
            delta(tool_calls=[part(None, '"Paris"}')]),
        ),
        complete_after=3,
        data=called(PARIS),
    ),
    Stream(
        name="stream: whole calls with neither an index nor an id",
        model=LOCAL,
        events=calling(
            delta(tool_calls=[whole_call(None, None), whole_call(None, None, ROME_TEXT)])
        ),
        complete_after=2,
        data=called(NAMELESS, ("*", "get_weather", {"city": "Rome"})),
    ),
    Stream(
        name="stream: indexes that begin at 1, with a gap",
        model=LOCAL,
        events=calling(
            delta(tool_calls=[whole_call(1, "call_1")]),
            delta(tool_calls=[whole_call(3, "call_2", ROME_TEXT)]),
        ),
        complete_after=3,
        data=called(PARIS, ROME),
    ),
    Stream(
        name="stream: a call without an id",
        model=LOCAL,
        events=calling(delta(tool_calls=[whole_call(0, None)])),
        complete_after=2,
        data=called(NAMELESS),
    ),
    Stream(
        name="stream: a call without arguments",
        model=LOCAL,
        events=calling(delta(tool_calls=[whole_call(0, "call_1", "")])),
        complete_after=2,
        data=called(("call_1", "get_weather", {})),
    ),
    Stream(
        name="stream: arguments that are an object already",
        model=LOCAL,
        events=calling(
            delta(tool_calls=[part(0, {"city": "Paris"}, id="call_1", name="get_weather")])
        ),
        complete_after=2,
        data=called(PARIS),
    ),
    Stream(
        name="stream: a control character in arguments",
        model=LOCAL,
        events=calling(delta(tool_calls=[whole_call(0, "call_1", '{"city":"\x0f"}')])),
        complete_after=2,
        data=called(("call_1", "get_weather", {"city": "\x0f"})),
    ),
    Stream(
        name="stream: broken arguments",
        model=LOCAL,
        events=calling(delta(tool_calls=[whole_call(0, "call_1", '{"a":')])),
        complete_after=2,
        refused=Refused(LLMResponseError),
        partial=data(""),
    ),
    Stream(
        name="stream: a function_call, as it was long ago",
        model=LOCAL,
        events=calling(
            delta(role="assistant", content=None, function_call={"name": "get_weather"}),
            delta(function_call={"arguments": '{"city":'}),
            delta(function_call={"arguments": '"Paris"}'}),
            finish="function_call",
        ),
        complete_after=4,
        data=called(NAMELESS),
    ),
]

UPSTREAM = {**delta("error", content=""), **error("Provider disconnected", code=502)}
OVERLOADED = error("The server is overloaded", type="overloaded_error", code=None)

BROKEN_STREAMS: list[Unary] = [
    Stream(
        name="stream: an error as an event of its own",
        model=LOCAL,
        events=sse(
            delta(content="Hel"), error("CUDA out of memory", type="server_error", code=500)
        ),
        complete_after=2,
        deltas=[TextDelta("Hel")],
        refused=Refused(LLMServerError, {"status": 200, "model": LOCAL}),
        partial=HEL,
    ),
    Stream(
        name="stream: groq names the event",
        model=GROQ,
        events=[
            *sse(delta(content="Hel")),
            b"event: error\n" + sse(error("Over capacity", type="overloaded_error"))[0],
        ],
        complete_after=2,
        refused=Refused(LLMOverloadedError, {"provider": "groq"}),
        partial=HEL,
    ),
    Stream(
        name="stream: openrouter puts it beside the choices",
        model=OPENROUTER,
        events=sse(delta(content="Hel"), UPSTREAM),
        complete_after=2,
        refused=Refused(LLMServerError, {"provider": "openrouter"}),
        partial=HEL,
    ),
    Stream(
        name="stream: llama.cpp has a field for it",
        model=LOCAL,
        events=[
            *sse(delta(content="Hel")),
            b'error: {"code":500,"message":"context shift failed","type":"server_error"}\n\n',
        ],
        complete_after=2,
        deltas=[TextDelta("Hel")],
        refused=Refused(LLMServerError),
        partial=HEL,
    ),
    Stream(
        name="stream: mistral's form",
        model=MISTRAL,
        events=sse(
            delta(content="Hel"),
            {"object": "error", "message": "gone", "type": "service_error", "code": 503},
        ),
        complete_after=2,
        refused=Refused(LLMServerError),
        partial=HEL,
    ),
    Stream(
        name="stream: overloaded before it said anything",
        model=OPENAI,
        events=sse(BEGIN, OVERLOADED),
        complete_after=2,
        refused=Refused(LLMOverloadedError, {"provider": "openai"}),
    ),
    Stream(
        name="stream: finish is a failure",
        model=OPENROUTER,
        events=[*sse(delta(content="Hel"), delta("error", content="")), DONE],
        complete_after=2,
        refused=Refused(LLMResponseError, {"code": "error"}),
        partial=HEL,
    ),
    Stream(
        name="stream: a chunk that is not JSON",
        model=LOCAL,
        events=[*sse(delta(content="Hel")), b"data: <html>\n\n"],
        complete_after=2,
        refused=Refused(LLMResponseError),
        partial=HEL,
    ),
    Stream(
        name="stream: nothing but [DONE]",
        model=LOCAL,
        events=[DONE],
        complete_after=1,
        refused=Refused(LLMResponseError, {"status": 200, "partial": None}),
    ),
    Stream(
        name="stream: refused before it began",
        model=OPENAI,
        status=429,
        reply_headers={"retry-after": "3"},
        reply=error("Slow down", type="requests", param=None, code="rate_limit_exceeded"),
        refused=Refused(LLMRateLimitError, {"status": 429, "retry_after": 3.0}),
    ),
]

# Awkward answers.

OLD_CALL = {"name": "get_weather", "arguments": '{"city":"Paris"}'}
CUT_CALLS = [call(id="call_1"), call(id="call_2", arguments='{"city":"Ro')]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
SEEN = {"type": "image", "mime_type": "image/png", "data": "iVBORw0KGgo="}
SOUND = {"id": "audio_1", "data": "UklGRg==", "transcript": "Hello!", "expires_at": 1793616090}
HEARD = {"type": "audio", "id": "audio_1", "data": "UklGRg==", "transcript": "Hello!"}
FILTERED = {"index": 0, "finish_reason": "content_filter"}


def other(index: int, finish: Any = None, **said: Any) -> dict[str, Any]:
    """A choice beside the first."""
    return {"index": index, "delta": said, "finish_reason": finish}


AWKWARD: list[Unary] = [
    Unary(
        name="llama-cpp-python sends every call in both forms",
        model=LOCAL,
        reply=whole(
            choice(message(tool_calls=[call(id="call_1")], function_call=OLD_CALL), "tool_calls")
        ),
        data=called(PARIS),
    ),
    Unary(
        name="calls without a name are none",
        model=LOCAL,
        reply=calls(
            call("", id="call_0"),
            call(id="call_1"),
            {"id": "call_3", "function": {"arguments": "{}"}},
        ),
        data=called(PARIS),
    ),
    Unary(
        name="nothing but a call without a name",
        model=LOCAL,
        reply=calls(call("", id="call_0"), content="Hello!"),
        refused=Refused(LLMResponseError, {"status": 200}),
    ),
    Unary(
        name="cut off at max_tokens after whole calls",
        model=OPENAI,
        reply=calls(call(id="call_1"), finish="length"),
        data={**called(PARIS), "truncated": True},
        usage=USAGE,
    ),
    Unary(
        name="cut off at max_tokens within the arguments of a call",
        model=OPENAI,
        ask={"max_tokens": 10},
        reply=calls(*CUT_CALLS, finish="length", content="Looking."),
        refused=Refused(
            LLMResponseError,
            {
                "body": '{"city":"Ro',
                "partial": {
                    "status": "partial",
                    "data": {
                        "content": "Looking.",
                        "tool_calls": called(PARIS)["tool_calls"],
                        "truncated": True,
                    },
                    "usage": {**USAGE, "cost_estimate": 0.0001475},
                },
            },
        ),
    ),
    *(
        Unary(
            name=f"arguments with {constant}, which JSON does not have",
            model=LOCAL,
            reply=calls(call(id="call_1", arguments=f'{{"n":{constant}}}')),
            refused=Refused(LLMResponseError, {"body": f'{{"n":{constant}}}'}),
        )
        for constant in ("NaN", "Infinity", "-Infinity")
    ),
    Unary(
        name="arguments are an object with NaN",
        model=LOCAL,
        reply=json.dumps(calls(call(id="call_1", arguments={"n": float("nan")}))).encode(),
        refused=Refused(LLMResponseError),
    ),
    Unary(
        name="filtered, and without a message",
        model=AZURE,
        reply=whole(FILTERED),
        refused=Refused(LLMFilteredError, {"provider": "azure", "status": 200}),
    ),
    Unary(
        name="a refusal beside empty content",
        model=OPENAI,
        reply=whole(choice(message("", refusal="I cannot help with that."))),
        data=data("I cannot help with that.", filtered=True),
    ),
    Unary(
        name="the first choice is the one with the index 0",
        model=LOCAL,
        reply=whole(choice(message("Bye!"), index=1), choice(message("Hello!"), index=0)),
        data=HELLO,
    ),
    Unary(
        name="audio",
        model=OPENAI,
        reply=whole(choice(message(None, refusal=None, audio=SOUND))),
        data=data("", media=[HEARD]),
    ),
    Unary(
        name="images as OpenRouter sends them",
        model=OPENROUTER,
        reply=whole(choice(message("Here.", images=[IMAGE]))),
        data=data("Here.", media=[SEEN]),
    ),
    Unary(
        name="an image among the parts, by its address",
        model=LOCAL,
        reply=says(
            [{"type": "text", "text": "Here."}, {"type": "image_url", "image_url": PICTURE}]
        ),
        data=data("Here.", media=[{"type": "image", "url": PICTURE}]),
    ),
    Unary(
        name="a filtered answer with an image in it",
        model=OPENROUTER,
        reply=whole(choice(message("", images=[IMAGE]), "content_filter")),
        data=data("", media=[SEEN], filtered=True),
    ),
    Unary(
        name="a byte order mark before the body",
        model=LOCAL,
        reply=b"\xef\xbb\xbf" + json.dumps(says()).encode(),
        data=HELLO,
    ),
    Unary(
        name="a byte that is not UTF-8 in the text",
        model=LOCAL,
        reply=json.dumps(says("Hel#lo!")).encode().replace(b"#", b"\xff"),
        data=data("Hel\ufffdlo!"),
    ),
    Unary(
        name="half of a surrogate pair in the text",
        model=LOCAL,
        reply=json.dumps(says("Hel#lo!")).encode().replace(b"#", b"\\ud83d"),
        data=data("Hel\ufffdlo!"),
    ),
    Unary(
        name="an error with a transient code inside a success",
        model=OPENAI,
        reply=error("The server had an error", type="server_error", param=None, code=None),
        refused=Refused(LLMServerError, {"status": 200, "code": "server_error"}),
    ),
]

AWKWARD_STREAMS: list[Unary] = [
    Stream(
        name="stream: llama-cpp-python sends every call in both forms",
        model=LOCAL,
        events=calling(
            delta(
                tool_calls=[part(0, '{"city":', id="call_1", name="get_weather")],
                function_call={"name": "get_weather", "arguments": '{"city":'},
            ),
            delta(tool_calls=[part(0, '"Paris"}')], function_call={"arguments": '"Paris"}'}),
        ),
        complete_after=3,
        deltas=[
            ToolCallDelta(0, "call_1", "get_weather", '{"city":'),
            ToolCallDelta(0, None, None, '"Paris"}'),
        ],
        data=called(PARIS),
    ),
    Stream(
        name="stream: a call without a name is none",
        model=LOCAL,
        events=calling(
            delta(tool_calls=[part(0, "{}", id="call_0"), whole_call(1, "call_1")]),
        ),
        complete_after=2,
        data=called(PARIS),
    ),
    Stream(
        name="stream: the name of a call comes late",
        model=LOCAL,
        events=calling(
            delta(tool_calls=[part(0, '{"city":', id="call_1")]),
            delta(tool_calls=[part(0, '"Paris"}', name="get_weather")]),
        ),
        complete_after=3,
        deltas=[ToolCallDelta(0, "call_1", "get_weather", '{"city":"Paris"}')],
        data=called(PARIS),
    ),
    Stream(
        name="stream: cut off at max_tokens after whole calls",
        model=OPENAI,
        events=calling(delta(tool_calls=[whole_call(0, "call_1")]), finish="length"),
        complete_after=2,
        data={**called(PARIS), "truncated": True},
    ),
    Stream(
        name="stream: cut off at max_tokens within the arguments of a call",
        model=OPENAI,
        events=[
            *sse(
                delta(tool_calls=[whole_call(0, "call_1")]),
                delta(tool_calls=[whole_call(1, "call_2", '{"city":"Ro')]),
                delta("length"),
                COUNTED,
            ),
            DONE,
        ],
        complete_after=3,
        refused=Refused(LLMResponseError, {"body": '{"city":"Ro'}),
        partial={**called(PARIS), "truncated": True},
    ),
    Stream(
        name="stream: several choices, of which the first is the answer",
        model=LOCAL,
        events=[
            *sse(
                chunk(other(1, content="Bye")),
                chunk(other(0, content="Hel"), other(1, content="!")),
                chunk(other(2, content="Ciao!"), other(0, content="lo!")),
                chunk(other(1, "length")),
                chunk(other(0, "stop")),
            ),
            DONE,
        ],
        complete_after=5,
        deltas=[TextDelta("Hel"), TextDelta("lo!")],
        data=HELLO,
    ),
    Stream(
        name="stream: usage on a chunk with content",
        model=LOCAL,
        events=[*sse(delta(content="Hello!", more={"usage": usage()}), delta("stop")), DONE],
        complete_after=2,
        deltas=[TextDelta("Hello!")],
        data=HELLO,
        usage=USAGE,
    ),
    Stream(
        name="stream: audio in pieces",
        model=OPENAI,
        events=[
            *sse(
                delta(audio={"id": "audio_1", "transcript": "Hel"}),
                delta(audio={"data": "UklG"}),
                delta(audio={"data": "Rg==", "transcript": "lo!"}),
                delta("stop"),
            ),
            DONE,
        ],
        complete_after=4,
        deltas=[],
        data=data("", media=[HEARD]),
    ),
    Stream(
        name="stream: an image",
        model=OPENROUTER,
        events=[*sse(delta(content="Here."), delta(images=[IMAGE]), delta("stop")), DONE],
        complete_after=3,
        deltas=[TextDelta("Here.")],
        data=data("Here.", media=[SEEN]),
    ),
    Stream(
        name="stream: a refusal without an end",
        model=OPENAI,
        events=[*sse(delta(content=""), delta(refusal="I cannot.")), DONE],
        complete_after=3,
        data=data("I cannot.", filtered=True),
    ),
    Stream(
        name="stream: a surrogate pair in two chunks",
        model=LOCAL,
        events=[
            *sse(delta(content="a")),
            sse(delta(content="#"))[0].replace(b"#", b"\\ud83d"),
            sse(delta(content="#b"))[0].replace(b"#", b"\\ude00"),
            *sse(delta("stop")),
            DONE,
        ],
        complete_after=4,
        data=data("a\U0001f600b"),
    ),
    Stream(
        name="stream: half of a surrogate pair at the end, and a byte that is not UTF-8",
        model=LOCAL,
        events=[
            sse(delta(content="a#"))[0].replace(b"#", b"\xff"),
            sse(delta(content="b#"))[0].replace(b"#", b"\\ud83d"),
            *sse(delta("stop")),
            DONE,
        ],
        complete_after=3,
        deltas=[TextDelta("a\ufffd"), TextDelta("b"), TextDelta("\ufffd")],
        data=data("a\ufffdb\ufffd"),
    ),
    Stream(
        name="stream: an error with a transient code as the first event",
        model=OPENAI,
        events=sse(error("The server had an error", type="server_error", code=None)),
        complete_after=1,
        refused=Refused(LLMServerError, {"code": "server_error", "partial": None}),
    ),
    Stream(
        name="stream: a whole answer instead",
        model=LOCAL,
        reply=calls(call(id="call_1"), content="Hello!"),
        deltas=[
            TextDelta("Hello!"),
            ToolCallDelta(0, "call_1", "get_weather", '{"city":"Paris"}'),
        ],
        data=called(PARIS, content="Hello!"),
        usage=USAGE,
    ),
    Stream(
        name="stream: a whole answer instead, in pieces and over several lines",
        model=LOCAL,
        events=[
            b"\n",
            *(line + b"\n" for line in json.dumps(says(), indent=1).encode().split(b"\n")),
        ],
        complete_after=len(json.dumps(says(), indent=1).split("\n")) + 1,
        deltas=[TextDelta("Hello!")],
        data=HELLO,
        usage=USAGE,
    ),
    Stream(
        name="stream: a whole answer instead, without an answer in it",
        model=LOCAL,
        reply={"choices": []},
        refused=Refused(LLMResponseError, {"status": 200}),
    ),
]

CASES: list[Unary | Stream] = [
    *REQUESTS,
    *MODELS,
    *PROVIDERS,
    *ANSWERS,
    *NOTHING,
    *ERRORS,
    *TEXT_STREAMS,
    *TOOL_STREAMS,
    *BROKEN_STREAMS,
    *AWKWARD,
    *AWKWARD_STREAMS,
]
