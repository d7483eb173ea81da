"""Arguments that each wire sends in its own form: one table with a row per wire."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from coreason_client.llm.errors import LLMRequestError

from .case import USER, Refused, Unary

__all__ = ["CASES", "NAMED"]

OPENAI = "openai/gpt-4o"
ANTHROPIC = "anthropic/claude-sonnet-4-5"
GEMINI = "gemini/gemini-2.5-flash"
OLLAMA = "ollama/llama3.2"
VERTEX = "vertex/gemini-2.5-flash"
BEDROCK = "bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0"
LOCAL = "qwen2.5-7b-instruct"

# An answer of each wire.
REPLIES: Mapping[str, Any] = {
    "anthropic": {"content": [{"type": "text", "text": "Hello!"}], "stop_reason": "end_turn"},
    "gemini": {
        "candidates": [{"content": {"parts": [{"text": "Hello!"}]}, "finishReason": "STOP"}]
    },
    "vertex": {
        "candidates": [{"content": {"parts": [{"text": "Hello!"}]}, "finishReason": "STOP"}]
    },
    "bedrock": {
        "output": {"message": {"role": "assistant", "content": [{"text": "Hello!"}]}},
        "stopReason": "end_turn",
    },
    "ollama": {"message": {"content": "Hello!"}, "done": True, "done_reason": "stop"},
}
COMPLETION = {"choices": [{"message": {"content": "Hello!"}, "finish_reason": "stop"}]}
HELLO = {"content": "Hello!", "tool_calls": [], "finish_reason": "stop"}
NOTHING = {"temperature": None, "max_tokens": None}


def case(name: str, model: str, sent: Mapping[str, Any], **more: Any) -> Unary:
    """A request that is answered; without other arguments, no field of it has a default."""
    reply = REPLIES.get(model.partition("/")[0], COMPLETION)
    options = {"ask": NOTHING, "reply": reply, "data": HELLO, **more}
    return Unary(name=f"{name}, {model}", model=model, sent=sent, **options)


def refused(name: str, model: str, **more: Any) -> Unary:
    """A request that is not sent."""
    provider, _, own = model.partition("/")
    fields = {"provider": provider, "model": own, "status": None, "attempts": 0}
    return Unary(
        name=f"{name}, {model}", model=model, refused=Refused(LLMRequestError, fields), **more
    )


def body(model: str, *messages: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A request of OpenAI's wire."""
    own = model if model == LOCAL else model.partition("/")[2]
    return {"model": own, "messages": list(messages or USER), **more}


def contents(*parts: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A request of Gemini's wire."""
    sent = list(parts) or [{"text": "Hi"}]
    return {"contents": [{"role": "user", "parts": sent}], **more}


def blocks(*content: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A request of Anthropic's wire."""
    turn = {"role": "user", "content": list(content) or [{"type": "text", "text": "Hi"}]}
    return {"model": "claude-sonnet-4-5", "max_tokens": 32_000, "messages": [turn], **more}


def converse(*content: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A request of Bedrock's wire."""
    return {"messages": [{"role": "user", "content": list(content) or [{"text": "Hi"}]}], **more}


def claude(model: str, max_tokens: int) -> Unary:
    """The limit that is sent to a model that requires one."""
    sent = {**blocks(), "model": model, "max_tokens": max_tokens}
    return case("no limit", f"anthropic/{model}", sent)


DEFAULTS: list[Unary] = [
    case("provider's defaults", OPENAI, body(OPENAI)),
    case("provider's defaults", LOCAL, body(LOCAL)),
    case("provider's defaults", "openai/o3", body("openai/o3")),
    case("provider's defaults", "mistral/m", body("mistral/m")),
    case("provider's defaults", GEMINI, contents()),
    case("provider's defaults", VERTEX, contents()),
    case("provider's defaults", BEDROCK, converse()),
    case("provider's defaults", OLLAMA, body(OLLAMA, stream=False)),
    claude("claude-2.1", 4096),
    claude("claude-instant-1.2", 4096),
    claude("claude-3-haiku-20240307", 4096),
    claude("claude-3-5-sonnet-20241022", 8192),
    claude("claude-3-7-sonnet-latest", 32_000),
    claude("claude-opus-4-1", 32_000),
    claude("claude-opus-9", 32_000),
    case(
        "only the temperature",
        GEMINI,
        contents(generationConfig={"temperature": 0}),
        ask={"temperature": 0, "max_tokens": None},
    ),
    case(
        "only the limit",
        OLLAMA,
        body(OLLAMA, stream=False, options={"num_predict": 5}),
        ask={"temperature": None, "max_tokens": 5},
    ),
    case(
        "a stop text without a temperature",
        OPENAI,
        body(OPENAI, stop=["END"]),
        ask={**NOTHING, "stop": "END"},
    ),
]


def hot(temperature: float) -> dict[str, Any]:
    return {"temperature": temperature, "max_tokens": None}


TEMPERATURES: list[Unary] = [
    case("temperature 2", OPENAI, body(OPENAI, temperature=2), ask=hot(2)),
    case("temperature 1.8", LOCAL, body(LOCAL, temperature=1.8), ask=hot(1.8)),
    case("temperature 2", GEMINI, contents(generationConfig={"temperature": 2}), ask=hot(2)),
    case(
        "temperature 1.5",
        OLLAMA,
        body(OLLAMA, stream=False, options={"temperature": 1.5}),
        ask=hot(1.5),
    ),
    case("temperature 1.5", "mistral/m", body("mistral/m", temperature=1.5), ask=hot(1.5)),
    case("temperature 1", ANTHROPIC, blocks(temperature=1), ask=hot(1)),
    case("temperature 1", BEDROCK, converse(inferenceConfig={"temperature": 1}), ask=hot(1)),
    refused("temperature 1.01", ANTHROPIC, ask=hot(1.01)),
    refused("temperature 1.01", BEDROCK, ask=hot(1.01)),
    refused("temperature 1.6", "mistral/m", ask=hot(1.6)),
    refused("temperature 1.6", "cerebras/m", ask=hot(1.6)),
]

DEVELOPER = [{"role": "developer", "content": "Be brief."}, *USER]
SYSTEM = [{"role": "system", "content": "Be brief."}, *USER]

ROLES: list[Unary] = [
    *(
        case("a developer message", model, body(model, *DEVELOPER), messages=DEVELOPER)
        for model in (OPENAI, "azure/gpt-4o", "openrouter/openai/gpt-4o")
    ),
    *(
        case("a developer message", model, body(model, *SYSTEM), messages=DEVELOPER)
        for model in (LOCAL, "mistral/m", "groq/llama-3.3-70b-versatile", "deepseek/deepseek-chat")
    ),
    case("a developer message", ANTHROPIC, blocks(system="Be brief."), messages=DEVELOPER),
    case(
        "a developer message",
        GEMINI,
        contents(systemInstruction={"parts": [{"text": "Be brief."}]}),
        messages=DEVELOPER,
    ),
    case(
        "a developer message",
        BEDROCK,
        converse(system=[{"text": "Be brief."}]),
        messages=DEVELOPER,
    ),
    case("a developer message", OLLAMA, body(OLLAMA, *SYSTEM, stream=False), messages=DEVELOPER),
    case(
        "a developer message with a name",
        OPENAI,
        body(OPENAI, {**DEVELOPER[0], "name": "House"}),
        messages=[{**DEVELOPER[0], "name": "House"}],
    ),
]

PDF = "data:application/pdf;base64,JVBERi0xLjc="
ADDRESS = "https://files.example/a.pdf?page=2"
FILE = {"type": "file", "file": {"file_data": PDF, "filename": "a.pdf"}}
UNNAMED = {"type": "file", "file": {"file_data": PDF}}
AT = {"type": "file", "file": {"file_url": ADDRESS, "filename": "a.pdf"}}
STORED = {"type": "file", "file": {"file_id": "file-1"}}
CSV = {"type": "file", "file": {"file_data": b"a,b", "filename": "a.csv"}}
PICTURE = {"type": "file", "file": {"file_data": "data:image/png;base64,iVBORw0KGgo="}}
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
GROQ = "groq/llama-3.3-70b-versatile"


def asked(*parts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [{"role": "user", "content": list(parts)}]


def attached(model: str, part: Mapping[str, Any], sent: Mapping[str, Any] | None = None) -> Unary:
    """A part on OpenAI's wire, sent as it is unless `sent` differs."""
    whole = body(model, *asked(sent or part))
    return case(f"{_named(part)}", model, whole, messages=asked(part))


def _named(part: Mapping[str, Any]) -> str:
    return f"{part['type']} with {' and '.join(part[part['type']])}"


def not_attached(model: str, part: Mapping[str, Any]) -> Unary:
    return refused(f"{_named(part)} is not sent", model, messages=asked(part))


def document(source: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return blocks({"type": "document", "source": source, **more})


PARTS: list[Unary] = [
    attached(OPENAI, FILE),
    attached(OPENAI, UNNAMED, {"type": "file", "file": {"file_data": PDF, "filename": "file.pdf"}}),
    attached(OPENAI, STORED),
    attached(OPENAI, SOUND),
    not_attached(OPENAI, AT),
    not_attached(OPENAI, CSV),
    attached("azure/gpt-4o", FILE),
    attached(LOCAL, AT),
    attached(LOCAL, SOUND),
    attached(
        "openrouter/openai/gpt-4o",
        AT,
        {"type": "file", "file": {"file_data": ADDRESS, "filename": "a.pdf"}},
    ),
    attached("openrouter/openai/gpt-4o", SOUND),
    not_attached("openrouter/openai/gpt-4o", STORED),
    attached(
        "mistral/m",
        FILE,
        {"type": "document_url", "document_url": PDF, "document_name": "a.pdf"},
    ),
    attached(
        "mistral/m",
        {"type": "file", "file": {"file_url": ADDRESS}},
        {"type": "document_url", "document_url": ADDRESS},
    ),
    attached("mistral/m", STORED, {"type": "file", "file_id": "file-1"}),
    attached("mistral/m", SOUND, {"type": "input_audio", "input_audio": "UklGRg=="}),
    *(
        not_attached(model, part)
        for model in (GROQ, "deepseek/deepseek-chat", "cerebras/m", "lmstudio/m")
        for part in (FILE, SOUND)
    ),
    not_attached("vllm/m", FILE),
    attached("llamacpp/m", SOUND),
    case(
        "a PDF",
        ANTHROPIC,
        document(
            {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjc="},
            title="a.pdf",
        ),
        messages=asked(FILE),
    ),
    case(
        "a text file",
        ANTHROPIC,
        document({"type": "text", "media_type": "text/plain", "data": "a,b"}, title="a.csv"),
        messages=asked(CSV),
    ),
    case(
        "the URL of a file",
        ANTHROPIC,
        document({"type": "url", "url": ADDRESS}),
        messages=asked({"type": "file", "file": {"file_url": ADDRESS}}),
    ),
    case(
        "an uploaded file",
        ANTHROPIC,
        document({"type": "file", "file_id": "file-1"}),
        messages=asked(STORED),
    ),
    case(
        "an image as a file",
        ANTHROPIC,
        blocks(
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
            }
        ),
        messages=asked(PICTURE),
    ),
    not_attached(ANTHROPIC, SOUND),
    refused(
        "a file of another type",
        ANTHROPIC,
        messages=asked({"type": "file", "file": {"file_data": "data:application/zip;base64,UEs="}}),
    ),
    case(
        "a PDF, text and audio",
        GEMINI,
        contents(
            {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0xLjc="}},
            {"inlineData": {"mimeType": "text/csv", "data": "YSxi"}},
            {"inlineData": {"mimeType": "audio/wav", "data": "UklGRg=="}},
        ),
        messages=asked(FILE, CSV, SOUND),
    ),
    case(
        "a PDF and an image as a file",
        BEDROCK,
        converse(
            {"document": {"format": "pdf", "name": "a", "source": {"bytes": "JVBERi0xLjc="}}},
            {"image": {"format": "png", "source": {"bytes": "iVBORw0KGgo="}}},
        ),
        messages=asked(FILE, PICTURE),
    ),
    *(not_attached(BEDROCK, part) for part in (AT, STORED, SOUND)),
    case(
        "audio",
        VERTEX,
        contents({"inlineData": {"mimeType": "audio/wav", "data": "UklGRg=="}}),
        messages=asked(SOUND),
    ),
    case(
        "files by URL and id",
        GEMINI,
        contents(
            {"fileData": {"mimeType": "application/pdf", "fileUri": ADDRESS}},
            {"fileData": {"fileUri": "file-1"}},
        ),
        messages=asked({"type": "file", "file": {"file_url": ADDRESS}}, STORED),
    ),
    case(
        "an image as a file",
        OLLAMA,
        body(OLLAMA, {"role": "user", "content": "", "images": ["iVBORw0KGgo="]}, stream=False),
        messages=asked(PICTURE),
    ),
    *(not_attached(OLLAMA, part) for part in (FILE, AT, STORED, SOUND)),
]

MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
WEATHER = {"type": "function", "function": {"name": "get_weather"}}
TIME = {"type": "function", "function": {"name": "get_time"}}
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "call_1", "name": "get_time", "arguments": {}}],
}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "noon"}


def cached(**more: Any) -> dict[str, Any]:
    return {**NOTHING, "prompt_cache": True, **more}


def marked(words: str, mark: Mapping[str, Any] = MARK) -> dict[str, Any]:
    return {"type": "text", "text": words, "cache_control": mark}


def claude_tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "input_schema": {"type": "object"}, **more}


CACHES: list[Unary] = [
    case("a cached message", ANTHROPIC, blocks(marked("Hi")), ask=cached()),
    case(
        "a cached message for an hour",
        ANTHROPIC,
        blocks(marked("Hi", HOUR)),
        ask=cached(prompt_cache="1h"),
    ),
    case(
        "cached tools, system prompt and messages",
        ANTHROPIC,
        {
            **blocks(marked("Hi"), system=[marked("Be brief.")]),
            "tools": [claude_tool("get_weather"), claude_tool("get_time", cache_control=MARK)],
        },
        ask=cached(tools=[WEATHER, TIME]),
        messages=SYSTEM,
    ),
    case(
        "the last user message is cached, with a result in it",
        ANTHROPIC,
        {
            **blocks(),
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "tool_use", "id": "call_1", "name": "get_time", "input": {}}
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "call_1",
                            "content": [{"type": "text", "text": "noon"}],
                            "cache_control": MARK,
                        }
                    ],
                },
            ],
        },
        ask=cached(),
        messages=[*USER, CALLED, RESULT],
    ),
    case("no cache", ANTHROPIC, blocks(), ask=cached(prompt_cache=False)),
    case(
        "cached instructions",
        OPENAI,
        body(OPENAI, *SYSTEM, prompt_cache_key="ace7608c2ec20cd9cc49057a3f9b755f"),
        ask=cached(),
        messages=SYSTEM,
    ),
    case("nothing to cache by", OPENAI, body(OPENAI), ask=cached()),
    case("cached by itself", LOCAL, body(LOCAL, *SYSTEM), ask=cached(), messages=SYSTEM),
    case(
        "cached by itself",
        GEMINI,
        contents(systemInstruction={"parts": [{"text": "Be brief."}]}),
        ask=cached(),
        messages=SYSTEM,
    ),
    case(
        "cached tools, system prompt and messages",
        BEDROCK,
        converse(
            {"text": "Hi"},
            {"cachePoint": {"type": "default"}},
            system=[{"text": "Be brief."}, {"cachePoint": {"type": "default"}}],
            toolConfig={
                "tools": [
                    {"toolSpec": {"name": "get_time", "inputSchema": {"json": {"type": "object"}}}},
                    {"cachePoint": {"type": "default"}},
                ]
            },
        ),
        ask=cached(tools=[TIME]),
        messages=SYSTEM,
    ),
    case(
        "a cached message for an hour",
        BEDROCK,
        converse({"text": "Hi"}, {"cachePoint": {"type": "default", "ttl": "1h"}}),
        ask=cached(prompt_cache="1h"),
    ),
    case("cached by itself", OLLAMA, body(OLLAMA, stream=False), ask=cached()),
]

ALL = {
    "reasoning_effort": "low",
    "top_p": 0.9,
    "seed": 7,
    "parallel_tool_calls": False,
    "service_tier": "flex",
}
"""Every argument that not every provider has."""

FUNCTION = {"type": "function", "function": {"name": "get_time"}}
NEW_CLAUDE = "anthropic/claude-sonnet-4-6"
OPUS = "anthropic/claude-opus-4-8"
NEW_GEMINI = "gemini/gemini-3-pro-preview"
CLAUDE_TOOL = [{"name": "get_time", "input_schema": {"type": "object"}}]
TOOL_SPEC = {"toolSpec": {"name": "get_time", "inputSchema": {"json": {"type": "object"}}}}
TOOL_CONFIG = {"toolConfig": {"tools": [TOOL_SPEC]}}
OPENAI_WIRE = {
    OPENAI: (),
    LOCAL: (),
    "azure/gpt-4o": (),
    "groq/llama-3.3-70b-versatile": (),
    "openrouter/openai/gpt-4o": (),
    "fireworks/accounts/fireworks/models/x": (),
    "cerebras/m": (),
    "xai/grok-4": ("service_tier",),
    "vllm/m": ("service_tier",),
    "llamacpp/m": ("service_tier",),
    "together/m": ("parallel_tool_calls", "service_tier"),
    "lmstudio/m": ("parallel_tool_calls", "service_tier"),
    "deepseek/deepseek-chat": ("seed", "parallel_tool_calls", "service_tier"),
}
"""What the providers of OpenAI's wire do not have."""
LACKED = {
    **OPENAI_WIRE,
    ANTHROPIC: ("seed",),
    BEDROCK: ("seed",),
    GEMINI: ("parallel_tool_calls",),
    OLLAMA: ("parallel_tool_calls", "service_tier"),
    "bedrock/amazon.nova-pro-v1:0": ("reasoning_effort", "seed", "parallel_tool_calls"),
}


def named(**arguments: Any) -> dict[str, Any]:
    """The arguments of a call with a tool, because one of them applies to tools."""
    return {**NOTHING, "tools": [FUNCTION], **arguments}


def chat(model: str, lacked: Sequence[str]) -> Unary:
    """All arguments that a provider of OpenAI's wire has, under their names."""
    asked = {name: value for name, value in ALL.items() if name not in lacked}
    sent: dict[str, Any] = {"tools": [FUNCTION], **asked}
    if model == "deepseek/deepseek-chat":
        sent["thinking"] = {"type": "enabled"}
    return case("arguments by name", model, body(model, **sent), ask=named(**asked))


def one(name: str, model: str, sent: Mapping[str, Any], **arguments: Any) -> Unary:
    """Arguments of a call without tools."""
    return case(name, model, sent, ask={**NOTHING, **arguments})


def thinks(budget: int, max_tokens: int) -> dict[str, Any]:
    thinking = {"type": "enabled", "budget_tokens": budget}
    return {**blocks(thinking=thinking), "max_tokens": max_tokens}


def considers(**config: Any) -> dict[str, Any]:
    return contents(generationConfig={"thinkingConfig": config})


NAMED: list[Unary] = [
    *(chat(model, lacked) for model, lacked in OPENAI_WIRE.items()),
    case(
        "arguments by name",
        "mistral/m",
        body(
            "mistral/m",
            tools=[FUNCTION],
            random_seed=7,
            **{name: value for name, value in ALL.items() if name != "seed"},
        ),
        ask=named(**ALL),
    ),
    case(
        "arguments by name",
        ANTHROPIC,
        {
            **thinks(2048, 32_000),
            "top_p": 0.9,
            "tools": CLAUDE_TOOL,
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
            "service_tier": "auto",
        },
        ask=named(**ALL | {"seed": None, "service_tier": "auto"}),
    ),
    case(
        "arguments by name",
        BEDROCK,
        converse(
            additionalModelRequestFields={
                "thinking": {"type": "enabled", "budget_tokens": 2048},
                "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
            },
            inferenceConfig={"topP": 0.9},
            serviceTier={"type": "flex"},
            **TOOL_CONFIG,
        ),
        ask=named(**ALL | {"seed": None}),
    ),
    *(
        case(
            "arguments by name",
            model,
            contents(
                generationConfig={
                    "thinkingConfig": {"thinkingBudget": 2048},
                    "topP": 0.9,
                    "seed": 7,
                },
                tools=[{"functionDeclarations": [{"name": "get_time"}]}],
                serviceTier="flex",
            ),
            ask=named(**ALL | {"parallel_tool_calls": True}),
        )
        for model in (GEMINI, VERTEX)
    ),
    case(
        "arguments by name",
        OLLAMA,
        body(
            OLLAMA, tools=[FUNCTION], stream=False, think="low", options={"top_p": 0.9, "seed": 7}
        ),
        ask=named(**ALL | {"parallel_tool_calls": True, "service_tier": None}),
    ),
    *(
        refused(f"{name} is not sent", model, ask=named(**{name: ALL[name]}))
        for model, names in LACKED.items()
        for name in names
    ),
    # Reasoning.
    one(
        "reasoning",
        "openai/o3",
        body("openai/o3", reasoning_effort="high"),
        top_p=0.5,
        reasoning_effort="high",
    ),
    one(
        "no reasoning",
        "openai/gpt-5.1",
        body("openai/gpt-5.1", reasoning_effort="none", top_p=0.5),
        top_p=0.5,
        reasoning_effort="none",
    ),
    one(
        "no reasoning",
        "deepseek/m",
        body("deepseek/m", thinking={"type": "disabled"}),
        reasoning_effort="none",
    ),
    one("no reasoning", ANTHROPIC, blocks(thinking={"type": "disabled"}), reasoning_effort="none"),
    case(
        "the room for reasoning",
        ANTHROPIC,
        thinks(8192, 10_192),
        ask={"reasoning_effort": "medium"},
    ),
    case(
        "the room for reasoning is limited",
        ANTHROPIC,
        thinks(24_576, 32_000),
        ask={"max_tokens": 20_000, "reasoning_effort": "max"},
    ),
    case(
        "a larger limit stays",
        ANTHROPIC,
        thinks(2048, 50_000),
        ask={"max_tokens": 50_000, "reasoning_effort": "low"},
    ),
    case(
        "the effort and a schema",
        NEW_CLAUDE,
        {
            **blocks(thinking={"type": "adaptive"}),
            "model": "claude-sonnet-4-6",
            "output_config": {
                "effort": "low",
                "format": {"type": "json_schema", "schema": {"anyOf": []}},
            },
        },
        ask={**NOTHING, "reasoning_effort": "minimal", "response_format": {"anyOf": []}},
        reply={"content": [{"type": "text", "text": "{}"}], "stop_reason": "end_turn"},
        data={**HELLO, "content": "{}", "parsed": {}},
    ),
    one("no top P", OPUS, {**blocks(), "model": "claude-opus-4-8"}, top_p=0.5),
    case(
        "one call at a time, of a tool that is required",
        ANTHROPIC,
        blocks(tools=CLAUDE_TOOL, tool_choice={"type": "any", "disable_parallel_tool_use": True}),
        ask=named(parallel_tool_calls=False, tool_choice="required"),
    ),
    case(
        "parallel calls", ANTHROPIC, blocks(tools=CLAUDE_TOOL), ask=named(parallel_tool_calls=True)
    ),
    refused(
        "one call at a time, of a tool that is required",
        BEDROCK,
        ask=named(parallel_tool_calls=False, tool_choice="required"),
    ),
    one(
        "effort",
        "bedrock/eu.anthropic.claude-opus-4-8-v1",
        converse(
            additionalModelRequestFields={"thinking": {"type": "adaptive"}},
            outputConfig={"effort": "max"},
        ),
        reasoning_effort="max",
        top_p=0.5,
    ),
    one(
        "effort",
        "bedrock/openai.gpt-oss-120b-1:0",
        converse(additionalModelRequestFields={"reasoning_effort": "high"}),
        reasoning_effort="high",
    ),
    case(
        "the room for reasoning",
        BEDROCK,
        converse(
            additionalModelRequestFields={"thinking": {"type": "enabled", "budget_tokens": 1024}},
            inferenceConfig={"maxTokens": 1524},
        ),
        ask={"max_tokens": 500, "reasoning_effort": "minimal"},
    ),
    one("a level", NEW_GEMINI, considers(thinkingLevel="medium"), reasoning_effort="medium"),
    one(
        "the lowest level", NEW_GEMINI, considers(thinkingLevel="minimal"), reasoning_effort="none"
    ),
    one("no thinking", GEMINI, considers(thinkingBudget=0), reasoning_effort="none"),
    one(
        "the least thinking",
        "gemini/gemini-2.5-pro",
        considers(thinkingBudget=128),
        reasoning_effort="none",
    ),
    one("no thinking", OLLAMA, body(OLLAMA, stream=False, think=False), reasoning_effort="none"),
    # Not in conflict with other arguments.
    one("no tools", OPENAI, body(OPENAI), parallel_tool_calls=False),
    one("extra wins", OPENAI, body(OPENAI, seed=8), seed=7, extra={"seed": 8}),
    one(
        "extra is added",
        GEMINI,
        contents(generationConfig={"seed": 7, "topK": 4}),
        seed=7,
        extra={"generationConfig": {"topK": 4}},
    ),
]

LIST = {
    "title": "list[int]",
    "type": "object",
    "properties": {"answer": {"title": "Answer", "type": "array", "items": {"type": "integer"}}},
    "required": ["answer"],
}
CLOSED = {**LIST, "additionalProperties": False}
FREE = ("vllm/m", "llamacpp/m", "lmstudio/m", LOCAL, "groq/llama-3.3-70b-versatile")
STRICT = (
    *(OPENAI, "azure/gpt-4o", "mistral/m", "xai/grok-4", "together/m", "cerebras/m"),
    *("fireworks/accounts/fireworks/models/x", "openrouter/openai/gpt-4o"),
    "groq/openai/gpt-oss-120b",
)


def numbers(model: str, sent: Mapping[str, Any]) -> Unary:
    """A list of numbers, which every provider sends in an object."""
    reply = json.dumps(REPLIES.get(model.partition("/")[0], COMPLETION))
    content = json.dumps({"answer": [7]})
    return case(
        "a list of numbers",
        model,
        sent,
        ask={**NOTHING, "response_format": list[int]},
        reply=json.loads(reply.replace('"Hello!"', json.dumps(content))),
        data={**HELLO, "content": content, "parsed": [7]},
    )


def schema_of(schema: Mapping[str, Any], *, strict: bool) -> dict[str, Any]:
    named = {"name": "list_int_", "schema": schema, "strict": strict}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


FORMATS: list[Unary] = [
    *(numbers(model, body(model, **schema_of(CLOSED, strict=True))) for model in STRICT),
    *(numbers(model, body(model, **schema_of(LIST, strict=False))) for model in FREE),
    numbers("deepseek/m", body("deepseek/m", response_format={"type": "json_object"})),
    numbers(
        ANTHROPIC,
        blocks(output_config={"format": {"type": "json_schema", "schema": CLOSED}}),
    ),
    *(
        numbers(
            model,
            contents(
                generationConfig={
                    "responseMimeType": "application/json",
                    "responseJsonSchema": LIST,
                }
            ),
        )
        for model in (GEMINI, VERTEX)
    ),
    numbers(OLLAMA, body(OLLAMA, stream=False, format=LIST)),
]

CASES: list[Unary] = [*DEFAULTS, *TEMPERATURES, *ROLES, *PARTS, *CACHES, *NAMED, *FORMATS]
