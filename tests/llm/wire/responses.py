"""OpenAI's Responses API, and compatible servers with their differences."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from coreason_client.llm.errors import (
    LLMAuthenticationError,
    LLMContextLengthError,
    LLMFilteredError,
    LLMQuotaError,
    LLMRateLimitError,
    LLMRequestError,
    LLMResponseError,
    LLMServerError,
)
from coreason_client.llm.types import ReasoningDelta, TextDelta, ToolCallDelta

from .case import USER, Refused, Stream, Unary

__all__ = ["CASES"]

RESPONSES = {"wire": "responses"}
PRO = "openai/o3-pro"  # only in this API
GPT = "openai/gpt-4o"
LOCAL = "qwen3-8b"
QUESTION: list[Mapping[str, Any]] = [{"role": "user", "content": "Weather in Paris?"}]
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
PICTURE = "https://pictures.example/1.png"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Returns the weather.",
        "parameters": SCHEMA,
    },
}
FLAT_WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Returns the weather.",
    "parameters": SCHEMA,
    "strict": False,
}
THE_WEATHER = {"type": "function", "function": {"name": "get_weather"}}
CITY_TEXT = '{"city": "Paris"}'


class City(BaseModel):
    city: str


# Requests.


def said(role: str, content: Any) -> dict[str, Any]:
    """A message as it is sent."""
    return {"type": "message", "role": role, "content": content}


def sent(model: str, **more: Any) -> dict[str, Any]:
    """The complete body for a question without options."""
    known = {"model": model, "input": [said("user", "Hi")], "store": False}
    return {**known, "temperature": 0.7, "max_output_tokens": 2000, **more}


def reasoned(model: str, **more: Any) -> dict[str, Any]:
    """The same for a model that reasons."""
    body = sent(model, include=["reasoning.encrypted_content"], **more)
    return {key: value for key, value in body.items() if key != "temperature"}


SENT_QUESTION = said("user", "Weather in Paris?")


# Answers.


def usage(prompt: int = 19, completion: int = 10, **more: Any) -> dict[str, Any]:
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt + completion,
        **more,
    }


def part(text: str = "Hello!") -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def message(*parts: Any, **more: Any) -> dict[str, Any]:
    content = list(parts) or [part()]
    known = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant"}
    return {**known, "content": content, **more}


def call(number: int = 1, city: str = "Paris", **more: Any) -> dict[str, Any]:
    return {
        "id": f"fc_{number}",
        "type": "function_call",
        "status": "completed",
        "call_id": f"call_{number}",
        "name": "get_weather",
        "arguments": json.dumps({"city": city}),
        **more,
    }


def thought(*summary: str, encrypted: str | None = "gAAAA", **more: Any) -> dict[str, Any]:
    known = {"id": "rs_1", "type": "reasoning", "encrypted_content": encrypted}
    return {**known, "summary": [{"type": "summary_text", "text": s} for s in summary], **more}


def response(*output: Any, **more: Any) -> dict[str, Any]:
    """A response as OpenAI sends it."""
    return {
        "id": "resp_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b",
        "object": "response",
        "created_at": 1793612467,
        "status": "completed",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": 2000,
        "model": "gpt-4o-2024-08-06",
        "output": list(output),
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": False,
        "temperature": 0.7,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage(),
        "user": None,
        "metadata": {},
        **more,
    }


def sse(*events: Any, numbered: bool = True, named: bool = True, start: int = 0) -> list[bytes]:
    """Events, each with its name and its number."""
    written = []
    for number, event in enumerate(events, start):
        data = {**event, "sequence_number": number} if numbered else event
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        name = f"event: {event['type']}\n" if named else ""
        written.append(f"{name}data: {text}\n\n".encode())
    return written


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}" if kind != "error" else kind, **fields}


def begin(**more: Any) -> list[dict[str, Any]]:
    started = response(status="in_progress", usage=None, **more)
    return [event("created", response=started), event("in_progress", response=started)]


def added(item: Any, index: int = 0) -> dict[str, Any]:
    """The beginning of an item: without its content."""
    empty = {"content": [], "arguments": "", "summary": []}
    open_item = {key: empty.get(key, value) for key, value in item.items()}
    return event("output_item.added", output_index=index, item=open_item)


def done(item: Any, index: int = 0) -> dict[str, Any]:
    return event("output_item.done", output_index=index, item=item)


def text_delta(delta: str, index: int = 0, **more: Any) -> dict[str, Any]:
    known = {"item_id": "msg_1", "output_index": index, "content_index": 0, "logprobs": []}
    return event("output_text.delta", delta=delta, **known, **more)


def text_done(text: str = "Hello!", index: int = 0) -> list[dict[str, Any]]:
    known = {"item_id": "msg_1", "output_index": index, "content_index": 0}
    return [
        event("output_text.done", text=text, **known),
        event("content_part.done", part=part(text), **known),
    ]


def part_added(index: int = 0) -> dict[str, Any]:
    known = {"item_id": "msg_1", "output_index": index, "content_index": 0}
    return event("content_part.added", part=part(""), **known)


def arguments(delta: str, number: int = 1, index: int = 0) -> dict[str, Any]:
    known = {"item_id": f"fc_{number}", "output_index": index}
    return event("function_call_arguments.delta", delta=delta, **known)


def arguments_done(text: str, number: int = 1, index: int = 0) -> dict[str, Any]:
    known = {"item_id": f"fc_{number}", "output_index": index}
    return event("function_call_arguments.done", arguments=text, **known)


def summary(delta: str, number: int = 0, index: int = 0) -> dict[str, Any]:
    known = {"item_id": "rs_1", "output_index": index, "summary_index": number}
    return event("reasoning_summary_text.delta", delta=delta, **known)


def completed(*output: Any, **more: Any) -> dict[str, Any]:
    return event("completed", response=response(*output, **more))


def hello(*middle: Any, output: Sequence[Any] = (message(),), **more: Any) -> list[dict[str, Any]]:
    """A whole stream of "Hello!"."""
    pieces = middle or (text_delta("Hel"), text_delta("lo!"))
    return [
        *begin(),
        added(message()),
        part_added(),
        *pieces,
        *text_done(),
        done(message()),
        completed(*output, **more),
    ]


# What they must become.

USAGE = {"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29}
ESTIMATED = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7, "estimated": True}


def data(content: str | None = "Hello!", finish: str = "stop", **more: Any) -> dict[str, Any]:
    return {"content": content, "tool_calls": [], "finish_reason": finish, **more}


def carried(*items: Any, provider: str = "openai") -> dict[str, Any]:
    return {provider: list(items)}


HELLO = data()
PARIS = {"id": "call_1", "name": "get_weather", "arguments": {"city": "Paris"}}
ROME = {"id": "call_2", "name": "get_weather", "arguments": {"city": "Rome"}}


def called(*calls: Any, content: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "content": content,
        "tool_calls": list(calls),
        "finish_reason": "tool_calls",
        **more,
    }


def history(*messages: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*QUESTION, *messages]


RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "rain"}
SENT_RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "rain"}
SENT_CALL = {
    "type": "function_call",
    "call_id": "call_1",
    "name": "get_weather",
    "arguments": '{"city":"Paris"}',
}
THOUGHT_ITEMS = [thought("I must look."), call()]
TURN = {
    "role": "assistant",
    **called(PARIS, reasoning="I must look.", provider_items=carried(*THOUGHT_ITEMS)),
}

REQUESTS: list[Unary] = [
    Unary(
        name="text",
        model=GPT,
        client=RESPONSES,
        path="/v1/responses",
        headers={"Authorization": "Bearer sk-test-key", "Content-Type": "application/json"},
        sent=sent("gpt-4o"),
        reply=response(message()),
        data=HELLO,
        usage=USAGE,
        priced=True,
    ),
    Unary(
        name="a model that only this API has",
        model=PRO,
        path="/v1/responses",
        sent=reasoned("o3-pro"),
        reply=response(message(), model="o3-pro-2025-06-10"),
        data=HELLO,
        priced=True,
    ),
    Unary(
        name="max_tokens and extra fields",
        model=GPT,
        client=RESPONSES,
        ask={"temperature": 0, "max_tokens": 50, "extra": {"top_p": 0.9, "store": True}},
        sent={**sent("gpt-4o", top_p=0.9, store=True), "temperature": 0, "max_output_tokens": 50},
        reply=response(message()),
        data=HELLO,
    ),
    Unary(
        name="a model that reasons only if it is asked to",
        model="openai/gpt-5.1",
        client=RESPONSES,
        ask={"extra": {"reasoning": {"effort": "low"}}},
        sent=reasoned("gpt-5.1", reasoning={"effort": "low"}),
        reply=response(message()),
        data=HELLO,
    ),
    Unary(
        name="the same without reasoning has a temperature",
        model="openai/gpt-5.1",
        client=RESPONSES,
        sent=sent("gpt-5.1", include=["reasoning.encrypted_content"]),
        reply=response(message()),
        data=HELLO,
    ),
    Unary(
        name="the first system prompt is the instructions, later ones keep their place",
        model=GPT,
        client=RESPONSES,
        messages=[
            {"role": "system", "content": "Be brief.", "name": "House"},
            {"role": "user", "content": "Hi", "name": "Architect"},
            {"role": "assistant", "content": "Yes?", "name": "Narrator"},
            {"role": "system", "content": "Now be long."},
            {"role": "user", "content": "Why?"},
        ],
        sent=sent(
            "gpt-4o",
            instructions="Be brief.",
            input=[
                said("user", "Hi"),
                said("assistant", "Yes?"),
                said("system", "Now be long."),
                said("user", "Why?"),
            ],
        ),
        reply=response(message()),
        data=HELLO,
    ),
    Unary(
        name="a lone system prompt is the input",
        model=GPT,
        client=RESPONSES,
        messages=[{"role": "system", "content": "Greet."}],
        sent=sent("gpt-4o", input=[said("system", "Greet.")]),
        reply=response(message()),
        data=HELLO,
    ),
    Unary(
        name="images",
        model=GPT,
        client=RESPONSES,
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
            input=[
                said(
                    "user",
                    [
                        {"type": "input_text", "text": "Which is larger?"},
                        {"type": "input_image", "image_url": PIXEL, "detail": "auto"},
                        {"type": "input_image", "image_url": PICTURE, "detail": "low"},
                    ],
                )
            ],
        ),
        reply=response(message(part("The second."))),
        data=data("The second."),
    ),
    Unary(
        name="tools are flat, and not strict unless asked",
        model=GPT,
        client=RESPONSES,
        messages=QUESTION,
        ask={
            "tools": [
                WEATHER,
                {"type": "function", "function": {"name": "now", "strict": True}},
            ]
        },
        sent=sent(
            "gpt-4o",
            input=[SENT_QUESTION],
            tools=[
                FLAT_WEATHER,
                {
                    "type": "function",
                    "name": "now",
                    "parameters": {"type": "object", "properties": {}},
                    "strict": True,
                },
            ],
        ),
        reply=response(call()),
        data=called(PARIS),
        usage=USAGE,
    ),
    *(
        Unary(
            name=f"tool_choice {choice!r}",
            model=GPT,
            client=RESPONSES,
            ask={"tools": [WEATHER], "tool_choice": choice},
            sent=sent("gpt-4o", tools=[FLAT_WEATHER], tool_choice=flat),
            reply=response(message()),
            data=HELLO,
        )
        for choice, flat in (
            ("auto", "auto"),
            ("none", "none"),
            ("required", "required"),
            (THE_WEATHER, {"type": "function", "name": "get_weather"}),
        )
    ),
    Unary(
        name="calls and results that were made with another provider",
        model=GPT,
        client=RESPONSES,
        messages=history(
            {"role": "assistant", **called({**PARIS, "signature": "s"}, content="I look.")},
            RESULT,
        ),
        ask={"tools": [WEATHER]},
        sent=sent(
            "gpt-4o",
            input=[
                SENT_QUESTION,
                said("assistant", "I look."),
                SENT_CALL,
                SENT_RESULT,
            ],
            tools=[FLAT_WEATHER],
        ),
        reply=response(message(part("It rains."))),
        data=data("It rains."),
    ),
    Unary(
        name="the items of earlier turns go back unchanged",
        model=PRO,
        messages=history(TURN, RESULT),
        sent=reasoned("o3-pro", input=[SENT_QUESTION, *THOUGHT_ITEMS, SENT_RESULT]),
        reply=response(message(part("It rains."))),
        data=data("It rains."),
    ),
    Unary(
        name="a turn that was changed goes back without its items",
        model=PRO,
        messages=history({**TURN, "content": "Let me see."}, RESULT),
        sent=reasoned(
            "o3-pro",
            input=[
                SENT_QUESTION,
                said("assistant", "Let me see."),
                SENT_CALL,
                SENT_RESULT,
            ],
        ),
        reply=response(message()),
        data=HELLO,
    ),
    Unary(
        name="the items of another provider are not sent",
        model="xai/grok-4",
        client=RESPONSES,
        messages=history(TURN, RESULT),
        sent=sent(
            "grok-4",
            include=["reasoning.encrypted_content"],
            input=[SENT_QUESTION, SENT_CALL, SENT_RESULT],
        ),
        reply=response(message()),
        data=HELLO,
    ),
    Unary(
        name="chat completions do not get the items",
        model=GPT,
        messages=history(TURN, RESULT),
        path="/v1/chat/completions",
        sent={
            "model": "gpt-4o",
            "messages": [
                *QUESTION,
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {
                                "name": "get_weather",
                                "arguments": '{"city":"Paris"}',
                            },
                        }
                    ],
                },
                RESULT,
            ],
            "temperature": 0.7,
            "max_completion_tokens": 2000,
        },
        reply={"choices": [{"message": {"content": "Hello!"}, "finish_reason": "stop"}]},
        data=HELLO,
    ),
    Unary(
        name="a schema",
        model=GPT,
        client=RESPONSES,
        ask={"response_format": SCHEMA},
        sent=sent(
            "gpt-4o",
            text={
                "format": {
                    "type": "json_schema",
                    "name": "answer",
                    "schema": SCHEMA,
                    "strict": False,
                }
            },
        ),
        reply=response(message(part(CITY_TEXT))),
        data=data(CITY_TEXT, parsed={"city": "Paris"}),
    ),
    Unary(
        name="a pydantic model is strict",
        model=GPT,
        client=RESPONSES,
        ask={"response_format": City, "extra": {"text": {"verbosity": "low"}}},
        sent=sent(
            "gpt-4o",
            text={
                "format": {
                    "type": "json_schema",
                    "name": "City",
                    "schema": {
                        "type": "object",
                        "title": "City",
                        "properties": {"city": {"title": "City", "type": "string"}},
                        "required": ["city"],
                        "additionalProperties": False,
                    },
                    "strict": True,
                },
                "verbosity": "low",
            },
        ),
        reply=response(message(part(CITY_TEXT))),
        data=data(CITY_TEXT, parsed=City(city="Paris")),
    ),
    *(
        Unary(
            name=f"any JSON: {model}",
            model=model,
            client=RESPONSES,
            ask={"response_format": wanted},
            sent=sent(model.partition("/")[2], text={"format": {"type": "json_object"}}),
            reply=response(message(part(CITY_TEXT))),
            data=data(CITY_TEXT, parsed={"city": "Paris"}),
        )
        for model, wanted in (
            (GPT, {"type": "json_object"}),
            ("deepseek/deepseek-chat", SCHEMA),
        )
    ),
    Unary(
        name="stop texts do not exist",
        model=GPT,
        client=RESPONSES,
        ask={"stop": "END"},
        refused=Refused(LLMRequestError, {"provider": "openai", "model": "gpt-4o"}),
    ),
    Unary(
        name="a model that reasons gets no stop texts in either format",
        model=PRO,
        ask={"stop": "END"},
        sent=reasoned("o3-pro"),
        reply=response(message()),
        data=HELLO,
    ),
    Unary(
        name="the beginning of an answer cannot be continued",
        model="vllm/qwen3",
        client=RESPONSES,
        messages=[*USER, {"role": "assistant", "content": "Hel", "prefix": True}],
        refused=Refused(LLMRequestError),
    ),
]

# One row for each provider that has this API; the host is loopback, so the prefix chooses it.

PROVIDERS: list[Unary] = [
    Unary(
        name=f"provider {model}",
        model=model,
        client=RESPONSES,
        path=path,
        headers=headers,
        sent=sent(model.partition("/")[2], **more),
        reply=response(message()),
        data=HELLO,
    )
    for model, path, headers, more in (
        ("azure/my-deployment", "/openai/v1/responses", {"api-key": "sk-test-key"}, {}),
        ("groq/llama-3.3-70b", "/openai/v1/responses", {}, {}),
        ("deepseek/deepseek-chat", "/responses", {}, {}),
        (
            "xai/grok-4",
            "/v1/responses",
            {},
            {"include": ["reasoning.encrypted_content"]},
        ),
        ("openrouter/meta/llama-4", "/api/v1/responses", {}, {}),
        ("fireworks/accounts/f/models/m", "/inference/v1/responses", {}, {}),
        ("vllm/qwen3", "/v1/responses", {}, {}),
        ("lmstudio/qwen3", "/v1/responses", {}, {}),
        ("llamacpp/qwen3", "/v1/responses", {}, {}),
    )
]
PROVIDERS += [
    Unary(
        name=f"provider {provider}",
        model="qwen3",
        client={**RESPONSES, "provider": provider},
        path="/v1/responses",
        sent=sent("qwen3"),
        reply=response(message()),
        data=HELLO,
    )
    for provider in ("ollama-openai", "openai-compatible")
]
PROVIDERS += [
    Unary(
        name=f"provider {model} has no such API",
        model=model,
        client=RESPONSES,
        refused=Refused(LLMRequestError, {"provider": model.partition("/")[0], "attempts": 0}),
    )
    for model in (
        "mistral/m",
        "together/m",
        "cerebras/m",
        "anthropic/m",
        "gemini/m",
        "ollama/m",
    )
]

NO_OUTPUT: list[dict[str, Any]] = [{}, {"output": None}, {"output": "Hello!"}, {"choices": []}]

ANSWERS: list[Unary] = [
    Unary(
        name="tokens from a cache and for reasoning",
        model=PRO,
        reply=response(
            message(),
            usage=usage(
                input_tokens_details={"cached_tokens": 8, "cache_write_tokens": 3},
                output_tokens_details={"reasoning_tokens": 6},
            ),
        ),
        data=HELLO,
        usage={
            **USAGE,
            "cached_tokens": 8,
            "cache_write_tokens": 3,
            "reasoning_tokens": 6,
        },
    ),
    Unary(
        name="no usage",
        model=LOCAL,
        client=RESPONSES,
        reply=response(message(), usage=None),
        data=HELLO,
        usage=ESTIMATED,
        priced=False,
    ),
    Unary(
        name="reasoning is carried, in the order of the items",
        model=PRO,
        reply=response(thought("First.", "Second."), message(), thought(id="rs_2"), call()),
        data=called(
            PARIS,
            content="Hello!",
            reasoning="First.\n\nSecond.",
            provider_items=carried(
                thought("First.", "Second."), message(), thought(id="rs_2"), call()
            ),
        ),
    ),
    Unary(
        name="reasoning that only the provider knows is not carried",
        model=PRO,
        reply=response(thought(encrypted=None), message()),
        data=HELLO,
    ),
    Unary(
        name="open reasoning is carried without its nulls",
        model="vllm/qwen3",
        client=RESPONSES,
        reply=response(
            thought(
                encrypted=None,
                content=[{"type": "reasoning_text", "text": "They greet."}],
                status=None,
            ),
            message(),
        ),
        data=data(
            reasoning="They greet.",
            provider_items=carried(
                {
                    "id": "rs_1",
                    "type": "reasoning",
                    "summary": [],
                    "content": [{"type": "reasoning_text", "text": "They greet."}],
                },
                message(),
                provider="vllm",
            ),
        ),
    ),
    Unary(
        name="the phase of a message is carried",
        model=PRO,
        reply=response(
            message(part("I look. "), phase="commentary"),
            message(part("Found."), id="msg_2", phase="final_answer"),
        ),
        data=data(
            "I look. Found.",
            provider_items=carried(
                message(part("I look. "), phase="commentary"),
                message(part("Found."), id="msg_2", phase="final_answer"),
            ),
        ),
    ),
    Unary(
        name="tools that the provider runs are carried",
        model=PRO,
        reply=response({"id": "ws_1", "type": "web_search_call"}, message()),
        data=data(
            provider_items=carried({"id": "ws_1", "type": "web_search_call"}, message()),
            tool_results=[{"kind": "web_search", "name": "web_search", "input": [], "id": "ws_1"}],
        ),
    ),
    Unary(
        name="an image",
        model=GPT,
        client=RESPONSES,
        reply=response(
            {"id": "ig_1", "type": "image_generation_call", "result": "iVBO"}, message()
        ),
        data=data(
            media=[{"type": "image", "mime_type": "image/png", "data": "iVBO"}],
            provider_items=carried(
                {"id": "ig_1", "type": "image_generation_call", "result": "iVBO"}, message()
            ),
        ),
    ),
    Unary(
        name="several parts and messages are one text",
        model=GPT,
        client=RESPONSES,
        reply=response(message(part("Hel"), part("lo")), message(part("!"), id="msg_2")),
        data=HELLO,
    ),
    Unary(
        name="content that is text",
        model=LOCAL,
        client=RESPONSES,
        reply=response(message(content="Hello!")),
        data=HELLO,
    ),
    Unary(
        name="several calls",
        model=GPT,
        client=RESPONSES,
        reply=response(call(), call(2, "Rome")),
        data=called(PARIS, ROME),
    ),
    *(
        Unary(
            name=f"arguments {arguments!r}",
            model=LOCAL,
            client=RESPONSES,
            reply=response(call(arguments=arguments)),
            data=called({**PARIS, "arguments": expected}),
        )
        for arguments, expected in (
            ("", {}),
            (None, {}),
            ({"city": "Paris"}, {"city": "Paris"}),
            ('{"city": "Pa\x0fris"}', {"city": "Pa\x0fris"}),
        )
    ),
    Unary(
        name="arguments that are not JSON",
        model=LOCAL,
        client=RESPONSES,
        reply=response(call(arguments='{"city":')),
        refused=Refused(LLMResponseError),
    ),
    Unary(
        name="a call without a call_id has the id of its item, and one without any gets one",
        model=LOCAL,
        client=RESPONSES,
        reply=response(call(call_id=None), call(2, "Rome", call_id=None, id=None)),
        data=called({**PARIS, "id": "fc_1"}, {**ROME, "id": "*"}),
    ),
    Unary(
        name="a refusal",
        model=GPT,
        client=RESPONSES,
        reply=response(message({"type": "refusal", "refusal": "I cannot."})),
        data=data("I cannot.", filtered=True),
    ),
    Unary(
        name="cut off at max_output_tokens",
        model=GPT,
        client=RESPONSES,
        reply=response(
            message(status="incomplete"),
            status="incomplete",
            incomplete_details={"reason": "max_output_tokens"},
        ),
        data=data(finish="length"),
    ),
    Unary(
        name="all tokens were used for reasoning",
        model=PRO,
        reply=response(
            thought(),
            status="incomplete",
            incomplete_details={"reason": "max_output_tokens"},
        ),
        data=data("", finish="length", provider_items=carried(thought())),
    ),
    Unary(
        name="incomplete without a reason",
        model=LOCAL,
        client=RESPONSES,
        reply=response(message(), status="incomplete"),
        data=data(finish="length"),
    ),
    Unary(
        name="a filter cut the answer off",
        model=GPT,
        client=RESPONSES,
        reply=response(
            message(), status="incomplete", incomplete_details={"reason": "content_filter"}
        ),
        data=data(filtered=True),
    ),
    Unary(
        name="a filter withheld the answer",
        model=GPT,
        client=RESPONSES,
        reply=response(status="incomplete", incomplete_details={"reason": "content_filter"}),
        refused=Refused(LLMFilteredError),
    ),
    Unary(
        name="a response without a status and with unknown items",
        model=LOCAL,
        client=RESPONSES,
        reply={"output": [7, None, {"type": "future"}, message(), {}]},
        data=data(
            provider_items={
                "openai-compatible": [{"type": "future"}, message()],
            }
        ),
    ),
    *(
        Unary(
            name=f"a response that is {status} is no answer",
            model=GPT,
            client=RESPONSES,
            reply=response(status=status),
            refused=Refused(LLMResponseError, {"code": status}),
        )
        for status in ("queued", "in_progress")
    ),
    *(
        Unary(
            name=f"no output: {reply}",
            model=GPT,
            client=RESPONSES,
            reply=reply,
            refused=Refused(LLMResponseError),
        )
        for reply in NO_OUTPUT
    ),
]

ERRORS: list[Unary] = [
    *(
        Unary(
            name=f"status {status}, code {code}",
            model=GPT,
            client=RESPONSES,
            status=status,
            reply={"error": {"message": "no", "type": kind, "param": None, "code": code}},
            refused=Refused(error, {"status": status, "code": code or kind}),
        )
        for status, kind, code, error in (
            (401, "invalid_request_error", "invalid_api_key", LLMAuthenticationError),
            (429, "insufficient_quota", "insufficient_quota", LLMQuotaError),
            (400, "invalid_request_error", "context_length_exceeded", LLMContextLengthError),
            (400, "invalid_request_error", None, LLMRequestError),
            (500, "server_error", None, LLMServerError),
        )
    ),
    *(
        Unary(
            name=f"failed: {code}",
            model=GPT,
            client=RESPONSES,
            reply=response(status="failed", error={"code": code, "message": "no"}, usage=None),
            refused=Refused(error, {"status": 200, "code": code}),
        )
        for code, error in (
            ("server_error", LLMServerError),
            ("rate_limit_exceeded", LLMRateLimitError),
            ("invalid_prompt", LLMRequestError),
            ("vector_store_timeout", LLMServerError),
            ("failed_to_download_image", LLMRequestError),
            ("image_content_policy_violation", LLMFilteredError),
            ("something_new", LLMServerError),
        )
    ),
    Unary(
        name="failed without a reason",
        model=GPT,
        client=RESPONSES,
        reply=response(status="failed"),
        refused=Refused(LLMServerError, {"code": None}),
    ),
    Unary(
        name="cancelled",
        model=GPT,
        client=RESPONSES,
        reply=response(message(), status="cancelled"),
        refused=Refused(LLMServerError),
    ),
]

HELLO_DELTAS = [TextDelta("Hel"), TextDelta("lo!")]
PARIS_DELTAS = [
    ToolCallDelta(0, "call_1", "get_weather", ""),
    ToolCallDelta(0, None, None, '{"city"'),
    ToolCallDelta(0, None, None, ': "Paris"}'),
]
ONE_PARIS = [ToolCallDelta(0, "call_1", "get_weather", '{"city": "Paris"}')]
TWO_CALLS = called(PARIS, ROME)


def two_calls(index: Sequence[int] = (0, 1), *, ids: bool = True) -> list[dict[str, Any]]:
    """Two calls one after the other, with these indexes."""
    first, second = call(), call(2, "Rome")
    if not ids:
        first, second = ({**item, "id": None} for item in (first, second))
    return [
        *begin(),
        added(first, index[0]),
        arguments('{"city": "Paris"}', 1, index[0]),
        done(first, index[0]),
        added(second, index[1]),
        arguments('{"city": "Rome"}', 2, index[1]),
        done(second, index[1]),
        completed(first, second),
    ]


def without(events: Sequence[Mapping[str, Any]], *keys: str) -> list[dict[str, Any]]:
    return [{k: v for k, v in event.items() if k not in keys} for event in events]


STREAMS: list[Stream] = [
    Stream(
        name="stream: text",
        model=GPT,
        client=RESPONSES,
        path="/v1/responses",
        sent=sent("gpt-4o", stream=True),
        events=sse(*hello()),
        complete_after=10,
        deltas=HELLO_DELTAS,
        data=HELLO,
        usage=USAGE,
        priced=True,
    ),
    Stream(
        name="stream: without names, numbers and ends of parts, then [DONE]",
        model=LOCAL,
        client=RESPONSES,
        events=[
            *sse(
                *begin(),
                added(message()),
                text_delta("Hel"),
                text_delta("lo!"),
                completed(message()),
                numbered=False,
                named=False,
            ),
            b"data: [DONE]\n\n",
        ],
        complete_after=6,
        deltas=HELLO_DELTAS,
        data=HELLO,
    ),
    Stream(
        name="stream: types only in the names of events",
        model=LOCAL,
        client=RESPONSES,
        events=[
            b'event: response.output_text.delta\ndata: {"delta": "Hel"}\n\n',
            b'event: response.output_text.delta\ndata: {"delta": "lo!"}\n\n',
            b"event: response.completed\ndata: {}\n\n",
        ],
        complete_after=3,
        deltas=HELLO_DELTAS,
        data=HELLO,
        usage=ESTIMATED,
    ),
    Stream(
        name="stream: unknown events, comments and padding",
        model=PRO,
        events=[
            b": keep-alive\n\n",
            *sse(
                event("queued", response=response(status="queued", usage=None)),
                *begin(),
                event("future.delta", delta="no", code=1, message="no"),
                text_delta("Hel", obfuscation="xyz"),
                event("output_text.annotation.added", annotation={"type": "url_citation"}),
                text_delta(""),
                text_delta("lo!"),
                {"type": "keepalive"},
                completed(message()),
            ),
        ],
        complete_after=11,
        deltas=HELLO_DELTAS,
        data=HELLO,
    ),
    Stream(
        name="stream: the whole text only at the end of its part",
        model=LOCAL,
        client=RESPONSES,
        events=sse(*begin(), *text_done(), completed()),
        complete_after=5,
        deltas=[TextDelta("Hello!")],
        data=HELLO,
    ),
    Stream(
        name="stream: the whole text only at the end of its item",
        model=LOCAL,
        client=RESPONSES,
        events=sse(*begin(), done(message()), completed(message())),
        complete_after=4,
        deltas=[TextDelta("Hello!")],
        data=HELLO,
    ),
    Stream(
        name="stream: the whole answer only at its end",
        model=LOCAL,
        client=RESPONSES,
        events=sse(completed(thought("They greet."), message(), call())),
        complete_after=1,
        deltas=[ReasoningDelta("They greet."), TextDelta("Hello!"), *ONE_PARIS],
        data=called(
            PARIS,
            content="Hello!",
            reasoning="They greet.",
            provider_items=carried(
                thought("They greet."), message(), call(), provider="openai-compatible"
            ),
        ),
    ),
    Stream(
        name="stream: the end of the text only at the end of the answer",
        model=LOCAL,
        client=RESPONSES,
        events=sse(*begin(), text_delta("Hel"), completed(message())),
        complete_after=4,
        deltas=HELLO_DELTAS,
        data=HELLO,
    ),
    Stream(
        name="stream: two messages, without output at the end",
        model=PRO,
        events=sse(
            *begin(),
            done(message(part("I look. "), phase="commentary")),
            done(message(part("Found."), id="msg_2", phase="final_answer"), 1),
            completed(),
        ),
        complete_after=5,
        deltas=[TextDelta("I look. "), TextDelta("Found.")],
        data=data(
            "I look. Found.",
            provider_items=carried(
                message(part("I look. "), phase="commentary"),
                message(part("Found."), id="msg_2", phase="final_answer"),
            ),
        ),
    ),
    Stream(
        name="stream: reasoning in parts, then text",
        model=PRO,
        events=sse(
            *begin(),
            added(thought("", "")),
            event("reasoning_summary_part.added", summary_index=0),
            summary("Fir"),
            summary("st."),
            event("reasoning_summary_text.done", summary_index=0, text="First."),
            summary("Second.", 1),
            done(thought("First.", "Second.")),
            added(message(), 1),
            text_delta("Hello!", 1),
            done(message(), 1),
            completed(thought("First.", "Second."), message()),
        ),
        complete_after=13,
        deltas=[
            ReasoningDelta("Fir"),
            ReasoningDelta("st."),
            ReasoningDelta("\n\nSecond."),
            TextDelta("Hello!"),
        ],
        data=data(
            reasoning="First.\n\nSecond.",
            provider_items=carried(thought("First.", "Second."), message()),
        ),
    ),
    *(
        Stream(
            name=f"stream: {kind}",
            model=LOCAL,
            client=RESPONSES,
            events=sse(
                event(kind, delta="They ", item_id="rs_1", content_index=0),
                event(kind, delta="greet.", item_id="rs_1", content_index=0),
                text_delta("Hello!"),
                completed(),
            ),
            complete_after=4,
            deltas=[ReasoningDelta("They "), ReasoningDelta("greet."), TextDelta("Hello!")],
            data=data(reasoning="They greet."),
        )
        for kind in ("reasoning_text.delta", "reasoning.delta")
    ),
    Stream(
        name="stream: reasoning only in its items",
        model=PRO,
        events=sse(
            done(thought("First.")),
            done(thought("Second.", id="rs_2"), 1),
            done(message(), 2),
            completed(),
        ),
        complete_after=4,
        deltas=[ReasoningDelta("First."), ReasoningDelta("\n\nSecond."), TextDelta("Hello!")],
        data=data(
            reasoning="First.\n\nSecond.",
            provider_items=carried(thought("First."), thought("Second.", id="rs_2"), message()),
        ),
    ),
    Stream(
        name="stream: a call",
        model=GPT,
        client=RESPONSES,
        events=sse(
            *begin(),
            added(call()),
            arguments('{"city"'),
            arguments(': "Paris"}'),
            arguments_done('{"city": "Paris"}'),
            done(call()),
            completed(call()),
        ),
        complete_after=8,
        deltas=PARIS_DELTAS,
        data=called(PARIS),
        usage=USAGE,
    ),
    Stream(
        name="stream: arguments only when they are complete",
        model=LOCAL,
        client=RESPONSES,
        events=sse(added(call()), arguments_done('{"city": "Paris"}'), done(call()), completed()),
        complete_after=4,
        deltas=[PARIS_DELTAS[0], ToolCallDelta(0, None, None, '{"city": "Paris"}')],
        data=called(PARIS),
    ),
    Stream(
        name="stream: a call only as a complete item",
        model=LOCAL,
        client=RESPONSES,
        events=sse(done(call()), completed()),
        complete_after=2,
        deltas=ONE_PARIS,
        data=called(PARIS),
    ),
    Stream(
        name="stream: a call whose beginning is missing",
        model=LOCAL,
        client=RESPONSES,
        events=sse(arguments('{"city"'), arguments(': "Paris"}'), done(call()), completed()),
        complete_after=4,
        deltas=ONE_PARIS,
        data=called(PARIS),
    ),
    Stream(
        name="stream: a call whose id arrives last",
        model=LOCAL,
        client=RESPONSES,
        events=sse(
            {**arguments_done('{"city": "Paris"}'), "name": "get_weather"},
            done(call()),
            completed(call()),
        ),
        complete_after=3,
        deltas=[
            ToolCallDelta(0, "*", "get_weather", '{"city": "Paris"}'),
            ToolCallDelta(0, "call_1", None, ""),
        ],
        data=called(PARIS),
    ),
    *(
        Stream(
            name=f"stream: two calls, {name}",
            model=LOCAL,
            client=RESPONSES,
            events=sse(*events),
            complete_after=9,
            data=TWO_CALLS,
        )
        for name, events in (
            ("as OpenAI", two_calls()),
            ("all at the index 0", two_calls((0, 0))),
            ("after another item", two_calls((1, 2))),
            ("without an index", without(two_calls(), "output_index")),
            ("without ids of items", two_calls(ids=False)),
            ("without index and ids in deltas", without(two_calls(), "output_index", "item_id")),
            (
                "with ids that change from event to event",
                [
                    {**event, "item_id": f"x{number}"} if "item_id" in event else event
                    for number, event in enumerate(two_calls())
                ],
            ),
        )
    ),
    Stream(
        name="stream: llama.cpp has no index, and the call_id as the id of the item",
        model="llamacpp/qwen3",
        client=RESPONSES,
        events=sse(
            *without(
                [
                    added(call(id=None)),
                    added(call(2, "Rome", id=None)),
                    {**arguments('{"city": "Paris"}'), "item_id": "call_1"},
                    {**arguments('{"city": "Rome"}'), "item_id": "call_2"},
                    done(call(id=None)),
                    done(call(2, "Rome", id=None)),
                ],
                "output_index",
            ),
            completed(call(id=None), call(2, "Rome", id=None)),
            numbered=False,
        ),
        complete_after=7,
        data=TWO_CALLS,
    ),
    Stream(
        name="stream: a refusal",
        model=GPT,
        client=RESPONSES,
        events=sse(
            *begin(),
            event("refusal.delta", delta="I ", item_id="msg_1", output_index=0),
            event("refusal.delta", delta="cannot.", item_id="msg_1", output_index=0),
            event("refusal.done", refusal="I cannot.", item_id="msg_1", output_index=0),
            completed(message({"type": "refusal", "refusal": "I cannot."})),
        ),
        complete_after=6,
        deltas=[TextDelta("I "), TextDelta("cannot.")],
        data=data("I cannot.", filtered=True),
    ),
    *(
        Stream(
            name=f"stream: incomplete, {reason}",
            model=GPT,
            client=RESPONSES,
            events=sse(
                *begin(),
                text_delta("Hello!"),
                event(
                    "incomplete",
                    response=response(
                        message(), status="incomplete", incomplete_details={"reason": reason}
                    ),
                ),
            ),
            complete_after=4,
            data=expected,
        )
        for reason, expected in (
            ("max_output_tokens", data(finish="length")),
            ("content_filter", data(filtered=True)),
            ("steered", data(finish="length")),
        )
    ),
    Stream(
        name="stream: incomplete without more",
        model=LOCAL,
        client=RESPONSES,
        events=sse(text_delta("Hello!"), event("incomplete")),
        complete_after=2,
        data=data(finish="length"),
    ),
    Stream(
        name="stream: the server numbers all events with 0",
        model=LOCAL,
        client=RESPONSES,
        events=[event for one in hello() for event in sse(one)],
        complete_after=10,
        deltas=HELLO_DELTAS,
        data=HELLO,
    ),
    Stream(
        name="stream: events that are repeated are read once",
        model=PRO,
        events=[*sse(*hello())[:6], *sse(*hello())],
        complete_after=16,
        deltas=HELLO_DELTAS,
        data=HELLO,
    ),
    Stream(
        name="stream: the end has a number that was used",
        model=LOCAL,
        client=RESPONSES,
        events=[*sse(*hello())[:-1], *sse(completed(message()))],
        complete_after=10,
        deltas=HELLO_DELTAS,
        data=HELLO,
    ),
    Stream(
        name="stream: an image",
        model=GPT,
        client=RESPONSES,
        events=sse(
            done({"type": "image_generation_call", "result": "iVBO", "output_format": "webp"}),
            completed({"type": "image_generation_call", "result": "iVBO", "output_format": "webp"}),
        ),
        complete_after=2,
        deltas=[],
        data=data(
            "",
            media=[{"type": "image", "mime_type": "image/webp", "data": "iVBO"}],
            provider_items=carried(
                {"type": "image_generation_call", "result": "iVBO", "output_format": "webp"}
            ),
        ),
    ),
    Stream(
        name="stream: a surrogate pair in two pieces",
        model=LOCAL,
        client=RESPONSES,
        events=[
            b'data: {"type": "response.output_text.delta", "delta": "Hi \\ud83d"}\n\n',
            b'data: {"type": "response.output_text.delta", "delta": "\\ude00"}\n\n',
            *sse(completed(message(part("Hi \U0001f600")))),
        ],
        complete_after=3,
        data=data("Hi \U0001f600"),
    ),
    Stream(
        name="stream: half of a surrogate pair in an item",
        model=LOCAL,
        client=RESPONSES,
        events=[
            (
                b"event: response.completed\n"
                rb'data: {"response":{"output":[{"type":"reasoning","encrypted_content": "\ud83d"}'
                b', {"type": "message", "content": "Hello!"}]}}\n\n'
            ),
        ],
        complete_after=1,
        data=data(
            provider_items=carried(
                {"type": "reasoning", "encrypted_content": "\ufffd", "summary": []},
                {"type": "message", "content": "Hello!"},
                provider="openai-compatible",
            )
        ),
    ),
    Stream(
        name="stream: a complete answer instead of a stream",
        model=GPT,
        client=RESPONSES,
        events=[json.dumps(response(message())).encode()],
        complete_after=1,
        deltas=[TextDelta("Hello!")],
        data=HELLO,
        usage=USAGE,
    ),
]

BROKEN: list[Stream] = [
    *(
        Stream(
            name=f"stream: failed, {code}",
            model=GPT,
            client=RESPONSES,
            events=sse(
                *begin(),
                text_delta("Hel"),
                event(
                    "failed",
                    response=response(status="failed", error={"code": code, "message": "no"}),
                ),
            ),
            refused=Refused(error, {"code": code, "status": 200}),
            partial=data("Hel"),
        )
        for code, error in (
            ("server_error", LLMServerError),
            ("rate_limit_exceeded", LLMRateLimitError),
            ("invalid_prompt", LLMRequestError),
        )
    ),
    *(
        Stream(
            name=f"stream: error event, {name}",
            model=GPT,
            client=RESPONSES,
            events=[*sse(*begin()), written],
            refused=Refused(error, {"code": code}),
        )
        for name, written, error, code in (
            (
                "flat",
                (
                    b'event: error\ndata: {"type": "error", "code": "context_length_exceeded", '
                    b'"message": "too long", "param": null, "sequence_number": 2}\n\n'
                ),
                LLMContextLengthError,
                "context_length_exceeded",
            ),
            (
                "nested",
                (
                    b'data: {"type": "error", "error": {"type": "tokens", "code": '
                    b'"rate_limit_exceeded", "message": "slow down"}, "sequence_number": 2}\n\n'
                ),
                LLMRateLimitError,
                "rate_limit_exceeded",
            ),
            (
                "without a type",
                b'data: {"error": {"message": "no", "code": 502}}\n\n',
                LLMServerError,
                "502",
            ),
            (
                "text",
                b'data: {"error": "no", "code": "server_error"}\n\n',
                LLMServerError,
                "server_error",
            ),
            (
                "with a number that was used",
                (
                    b'data: {"type": "error", "code": "server_error", "message": "no", '
                    b'"sequence_number": 0}\n\n'
                ),
                LLMServerError,
                "server_error",
            ),
            ("without a reason", b"event: error\ndata: {}\n\n", LLMServerError, None),
            ("not JSON", b"event: error\ndata: upstream is gone\n\n", LLMServerError, None),
            (
                "llama.cpp's field",
                b'error: {"code": 500, "message": "no", "type": "server_error"}\n\n',
                LLMServerError,
                "server_error",
            ),
        )
    ),
    Stream(
        name="stream: failed without more",
        model=GPT,
        client=RESPONSES,
        events=sse(event("failed")),
        refused=Refused(LLMServerError, {"code": None}),
    ),
    Stream(
        name="stream: cancelled",
        model=GPT,
        client=RESPONSES,
        events=sse(event("cancelled", response=response(status="cancelled"))),
        refused=Refused(LLMServerError),
    ),
    Stream(
        name="stream: completed, with a status that says otherwise",
        model=GPT,
        client=RESPONSES,
        events=sse(text_delta("Hel"), completed(status="failed")),
        refused=Refused(LLMServerError),
        partial=data("Hel"),
    ),
    Stream(
        name="stream: a filter withheld the answer",
        model=GPT,
        client=RESPONSES,
        events=sse(
            *begin(),
            event(
                "incomplete",
                response=response(
                    status="incomplete", incomplete_details={"reason": "content_filter"}
                ),
            ),
        ),
        refused=Refused(LLMFilteredError),
    ),
    *(
        Stream(
            name=f"stream: malformed, {written!r}",
            model=GPT,
            client=RESPONSES,
            events=[*sse(text_delta("Hel")), written],
            refused=Refused(LLMResponseError),
            partial=data("Hel"),
        )
        for written in (b"data: {\n\n", b"data: [1]\n\n", b"data: rubbish\n\n")
    ),
]

CASES: list[Unary] = [*REQUESTS, *PROVIDERS, *ANSWERS, *ERRORS, *STREAMS, *BROKEN]
