"""Ollama's own chat format, `/api/chat`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from coreason_client.llm.errors import (
    LLMAuthenticationError,
    LLMContextLengthError,
    LLMNotFoundError,
    LLMPermissionError,
    LLMRateLimitError,
    LLMRequestError,
    LLMResponseError,
    LLMServerError,
)
from coreason_client.llm.types import ReasoningDelta, TextDelta, ToolCallDelta

from .case import Refused, Stream, Unary

__all__ = ["CASES"]

MODEL = "ollama/llama3.2"
QUESTION: list[Mapping[str, Any]] = [{"role": "user", "content": "Weather in Paris?"}]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9aw=="
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
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["city", "people"],
    "additionalProperties": False,
}
OPTIONS = {"temperature": 0.7, "num_predict": 2000}
SENT = {
    "model": "llama3.2",
    "messages": [{"role": "user", "content": "Hi"}],
    "stream": False,
    "options": OPTIONS,
}
DURATIONS = {
    "total_duration": 4883583458,
    "load_duration": 1334875,
    "prompt_eval_duration": 342546000,
    "eval_duration": 4535599000,
}
COUNTS = {"prompt_eval_count": 26, "eval_count": 29}
USAGE = {"prompt_tokens": 26, "completion_tokens": 29, "total_tokens": 55}
ESTIMATED = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7, "estimated": True}
"""The estimate for "Hi" and "Hello!" where Ollama counted nothing."""
HELLO = {"content": "Hello!", "tool_calls": [], "finish_reason": "stop"}


def message(content: Any = "", **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def line(message: Any = None, /, **more: Any) -> dict[str, Any]:
    """An object as Ollama sends them, one of a stream or the whole answer."""
    return {
        "model": "llama3.2",
        "created_at": "2026-11-02T09:21:07.483921Z",
        "message": message,
        **more,
    }


def done(message: Any, /, reason: str | None = "stop", **more: Any) -> dict[str, Any]:
    ending = {"done": True} if reason is None else {"done_reason": reason, "done": True}
    return line(message, **ending, **{**DURATIONS, **COUNTS, **more})


def uncounted(message: Any, /, *missing: str) -> dict[str, Any]:
    return {key: value for key, value in done(message).items() if key not in missing}


def call(name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments, **more}}


def called(*calls: tuple[str, Mapping[str, Any]], content: str | None = None) -> dict[str, Any]:
    return {
        "content": content,
        "tool_calls": [
            {"id": "*", "name": name, "arguments": arguments} for name, arguments in calls
        ],
        "finish_reason": "tool_calls",
    }


def ndjson(*lines: Mapping[str, Any], ending: str = "\n") -> Sequence[bytes]:
    return [
        f"{json.dumps(one, ensure_ascii=False, separators=(',', ':'))}{ending}".encode()
        for one in lines
    ]


def says(content: str) -> dict[str, Any]:
    return line(message(content), done=False)


def thinks(thinking: str) -> dict[str, Any]:
    return line(message(thinking=thinking), done=False)


PARIS_TEXT = '{"city":"Paris"}'
PARIS = ("get_weather", {"city": "Paris"})
ROME = ("get_weather", {"city": "Rome"})
NO_CALLS: Sequence[Any] = (None, [], {}, "get_weather")
CALLS = [call(*PARIS), call(*ROME, index=1)]

# Whole answers.

ANSWERS: list[Unary] = [
    Unary(
        name="text",
        model=MODEL,
        path="/api/chat",
        headers={"Content-Type": "application/json", "Authorization": "Bearer sk-test-key"},
        sent=SENT,
        reply=done(message("Hello!")),
        data=HELLO,
        usage=USAGE,
    ),
    Unary(
        name="only the first part of the model is the prefix",
        model="ollama/hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M",
        sent={**SENT, "model": "hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M"},
        reply=done(message("Hello!")),
        data=HELLO,
    ),
    Unary(
        name="one system prompt",
        model=MODEL,
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi"},
        ],
        sent={
            **SENT,
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hi"},
            ],
        },
        reply=done(message("Hello!")),
        data=HELLO,
    ),
    Unary(
        name="several system prompts, names, and earlier turns",
        model=MODEL,
        messages=[
            {"role": "system", "content": "Be brief.", "name": "House"},
            {"role": "user", "content": "Hi", "name": "Architect"},
            {"role": "assistant", "content": "Yes?", "name": "Narrator"},
            {"role": "system", "content": "Now be long."},
            {"role": "user", "content": "Why?"},
        ],
        sent={
            **SENT,
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "Yes?"},
                {"role": "system", "content": "Now be long."},
                {"role": "user", "content": "Why?"},
            ],
        },
        reply=done(message("Hello!")),
        data=HELLO,
    ),
    Unary(
        name="temperature, max_tokens and one stop text",
        model=MODEL,
        ask={"temperature": 0.0, "max_tokens": 5, "stop": "END"},
        sent={**SENT, "options": {"temperature": 0.0, "num_predict": 5, "stop": ["END"]}},
        reply=done(message("Hello!")),
        data=HELLO,
    ),
    Unary(
        name="several stop texts",
        model=MODEL,
        ask={"stop": ["END", "\n\n"]},
        sent={**SENT, "options": {**OPTIONS, "stop": ["END", "\n\n"]}},
        reply=done(message("Hello!")),
        data=HELLO,
    ),
    Unary(
        name="fields for the provider",
        model=MODEL,
        ask={
            "extra": {
                "think": False,
                "keep_alive": "5m",
                "options": {"num_ctx": 8192, "temperature": 2},
            }
        },
        sent={
            **SENT,
            "think": False,
            "keep_alive": "5m",
            "options": {"temperature": 2, "num_predict": 2000, "num_ctx": 8192},
        },
        reply=done(message("Hello!")),
        data=HELLO,
    ),
    Unary(
        name="a data: image",
        model="ollama/llava",
        messages=[
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
                    {"type": "text", "text": "Be brief."},
                ],
            }
        ],
        sent={
            **SENT,
            "model": "llava",
            "messages": [
                {"role": "user", "content": "What is this?\nBe brief.", "images": [PIXEL]}
            ],
        },
        reply=done(message("A pixel.")),
        data={"content": "A pixel.", "tool_calls": [], "finish_reason": "stop"},
    ),
    Unary(
        name="a schema",
        model=MODEL,
        ask={"response_format": CITY},
        sent={**SENT, "format": CITY},
        reply=done(message('{"city": "Paris", "people": 2103778}')),
        data={
            "content": '{"city": "Paris", "people": 2103778}',
            "tool_calls": [],
            "finish_reason": "stop",
            "parsed": {"city": "Paris", "people": 2103778},
        },
    ),
    Unary(
        name="a schema in OpenAI's form",
        model=MODEL,
        ask={
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "city", "schema": CITY, "strict": True},
            }
        },
        sent={**SENT, "format": CITY},
        reply=done(message('{"city": "Paris", "people": 2103778}')),
    ),
    Unary(
        name="any JSON",
        model=MODEL,
        ask={"response_format": {"type": "json_object"}},
        sent={**SENT, "format": "json"},
        reply=done(message('{"a": [1, 2]}')),
        data={
            "content": '{"a": [1, 2]}',
            "tool_calls": [],
            "finish_reason": "stop",
            "parsed": {"a": [1, 2]},
        },
    ),
    Unary(
        name="thinking",
        model="ollama/qwen3",
        reply=done(message("Hello!", thinking="They greet me. I greet them.")),
        data={**HELLO, "reasoning": "They greet me. I greet them."},
        usage=USAGE,
    ),
    Unary(
        name="length",
        model=MODEL,
        reply=done(message("Once upon"), reason="length"),
        data={"content": "Once upon", "tool_calls": [], "finish_reason": "length"},
    ),
    *(
        Unary(
            name=f"done_reason {reason}",
            model=MODEL,
            reply=done(message("Hello!"), reason=reason),
            data=HELLO,
        )
        for reason in ("load", "unload", "", "something_new", None)
    ),
    Unary(
        name="no count of a prompt that was cached",
        model=MODEL,
        reply=uncounted(message("Hello!"), "prompt_eval_count", "prompt_eval_duration"),
        data=HELLO,
        usage={**ESTIMATED, "completion_tokens": 29, "total_tokens": 34},
    ),
    Unary(
        name="no counts at all",
        model=MODEL,
        reply=uncounted(message("Hello!"), "prompt_eval_count", "eval_count", *DURATIONS),
        data=HELLO,
        usage=ESTIMATED,
    ),
    Unary(
        name="counts of a wrong kind",
        model=MODEL,
        reply=done(message("Hello!"), prompt_eval_count="26", eval_count=-1),
        data=HELLO,
        usage=ESTIMATED,
    ),
]

# Tools.

TOOLS: list[Unary] = [
    Unary(
        name="a tool call, ended with stop",
        model=MODEL,
        messages=QUESTION,
        ask={"tools": [WEATHER]},
        sent={**SENT, "messages": QUESTION, "tools": [WEATHER]},
        reply=done(message(tool_calls=[call(*PARIS)])),
        data=called(PARIS),
        usage=USAGE,
    ),
    Unary(
        name="a tool call beside text",
        model=MODEL,
        ask={"tools": [WEATHER]},
        reply=done(message("Let me look.", tool_calls=[call(*PARIS)])),
        data=called(PARIS, content="Let me look."),
    ),
    Unary(
        name="parallel tool calls",
        model=MODEL,
        ask={"tools": [WEATHER]},
        reply=done(message(tool_calls=CALLS)),
        data=called(PARIS, ROME),
    ),
    Unary(
        name="parallel tool calls that all claim the same index",
        model=MODEL,
        ask={"tools": [WEATHER]},
        reply=done(message(tool_calls=[call(*PARIS, index=0), call(*ROME, index=0)])),
        data=called(PARIS, ROME),
    ),
    Unary(
        name="a tool call with an id keeps it",
        model=MODEL,
        ask={"tools": [WEATHER]},
        reply=done(message(tool_calls=[{"id": "call_x1", **call(*PARIS)}])),
        data={
            "content": None,
            "tool_calls": [{"id": "call_x1", "name": PARIS[0], "arguments": PARIS[1]}],
            "finish_reason": "tool_calls",
        },
    ),
    Unary(
        name="arguments as text, empty, null and missing",
        model=MODEL,
        ask={"tools": [WEATHER]},
        reply=done(
            message(
                tool_calls=[
                    call("get_weather", PARIS_TEXT),
                    call("get_weather", ""),
                    call("get_weather", None),
                    {"function": {"name": "get_weather"}},
                ]
            )
        ),
        data=called(PARIS, ("get_weather", {}), ("get_weather", {}), ("get_weather", {})),
    ),
    Unary(
        name="what is no tool call is passed over",
        model=MODEL,
        ask={"tools": [WEATHER]},
        reply=done(message(tool_calls=[None, 7, {}, {"function": None}, call(*PARIS)])),
        data=called(PARIS),
    ),
    *(
        Unary(
            name=f"tool_calls {calls!r}",
            model=MODEL,
            ask={"tools": [WEATHER]},
            reply=done(message("Hello!", tool_calls=calls)),
            data=HELLO,
        )
        for calls in NO_CALLS
    ),
    Unary(
        name="results go back with the names of their tools",
        model=MODEL,
        messages=[
            *QUESTION,
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "one", "name": "get_weather", "arguments": {"city": "Paris"}},
                    {
                        "id": "two",
                        "type": "function",
                        "function": {"name": "get_time", "arguments": '{"zone": "CET"}'},
                    },
                ],
            },
            {"role": "tool", "tool_call_id": "two", "content": "noon"},
            {"role": "tool", "tool_call_id": "one", "content": "rain"},
        ],
        ask={"tools": [WEATHER]},
        sent={
            **SENT,
            "messages": [
                *QUESTION,
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [
                        {"function": {"name": "get_weather", "arguments": {"city": "Paris"}}},
                        {"function": {"name": "get_time", "arguments": {"zone": "CET"}}},
                    ],
                },
                {"role": "tool", "content": "noon", "tool_name": "get_time"},
                {"role": "tool", "content": "rain", "tool_name": "get_weather"},
            ],
            "tools": [WEATHER],
        },
        reply=done(message("It rains.")),
        data={"content": "It rains.", "tool_calls": [], "finish_reason": "stop"},
    ),
    *(
        Unary(
            name=f"tool_choice {choice!r} has no counterpart",
            model=MODEL,
            ask={"tools": [WEATHER], "tool_choice": choice},
            sent={**SENT, "tools": [WEATHER]},
            reply=done(message(tool_calls=[call(*PARIS)])),
            data=called(PARIS),
        )
        for choice in (
            "auto",
            "required",
            {"type": "function", "function": {"name": "get_weather"}},
        )
    ),
    Unary(
        name="tool_choice none offers no tool",
        model=MODEL,
        ask={"tools": [WEATHER], "tool_choice": "none"},
        sent=SENT,
        reply=done(message("Hello!")),
        data=HELLO,
    ),
]

# Errors.


def error(text: str, **more: Any) -> dict[str, Any]:
    return {"error": text, **more}


ERRORS: list[Unary] = [
    Unary(
        name="400",
        model=MODEL,
        ask={"tools": [WEATHER]},
        status=400,
        reply=error("registry.ollama.ai/library/llama3.2:latest does not support tools"),
        refused=Refused(
            LLMRequestError,
            {"status": 400, "code": None, "provider": "ollama", "model": "llama3.2"},
        ),
    ),
    Unary(
        name="401",
        model="ollama/gpt-oss:120b-cloud",
        status=401,
        reply=error("unauthorized", signin_url="https://ollama.com/connect?name=host"),
        refused=Refused(LLMAuthenticationError, {"status": 401, "model": "gpt-oss:120b-cloud"}),
    ),
    Unary(
        name="403",
        model=MODEL,
        status=403,
        refused=Refused(LLMPermissionError, {"status": 403}),
    ),
    Unary(
        name="404",
        model="ollama/no-such",
        status=404,
        reply=b'{"error":"model \'no-such\' not found"}',
        refused=Refused(
            LLMNotFoundError, {"status": 404, "body": '{"error":"model \'no-such\' not found"}'}
        ),
    ),
    Unary(
        name="429",
        model=MODEL,
        status=429,
        reply_headers={"Retry-After": "7"},
        reply=error("too many concurrent requests"),
        refused=Refused(LLMRateLimitError, {"status": 429, "retry_after": 7.0}),
    ),
    Unary(
        name="500",
        model=MODEL,
        status=500,
        reply=error("llama runner process has terminated: exit status 2"),
        refused=Refused(LLMServerError, {"status": 500, "code": None}),
    ),
    Unary(
        name="502 from what stands before it",
        model=MODEL,
        status=502,
        reply=b"<html><body><h1>502 Bad Gateway</h1></body></html>",
        refused=Refused(LLMServerError, {"status": 502}),
    ),
    Unary(
        name="503",
        model=MODEL,
        status=503,
        reply=error("server busy, please try again.  maximum pending requests exceeded"),
        refused=Refused(LLMServerError, {"status": 503}),
    ),
    Unary(
        name="an error as an object, of a gateway",
        model=MODEL,
        status=400,
        reply={"error": {"message": "no", "type": "invalid_request_error", "code": "bad_model"}},
        refused=Refused(LLMRequestError, {"status": 400, "code": "bad_model"}),
    ),
    Unary(
        name="200 with an error",
        model=MODEL,
        reply=error("an error was encountered while running the model"),
        refused=Refused(LLMServerError, {"status": 200}),
    ),
    *(
        Unary(name=name, model=MODEL, reply=reply, refused=Refused(LLMResponseError))
        for name, reply in {
            "200 with nothing": b"",
            "200 with a page": b"<!DOCTYPE html><html><body>Welcome</body></html>",
            "200 with a broken object": b'{"model":"llama3.2","message":{"role":"assi',
            "200 with a list": [],
            "200 without a message": {"model": "llama3.2", "done": True},
            "200 with a null message": line(None, done=True),
            "200 with a text for a message": line("Hello!", done=True),
        }.items()
    ),
]

# Streams.

TALK = ndjson(says("Hel"), says("lo"), says(""), says("!"), done(message()))
THOUGHTS = ndjson(thinks("They "), thinks("greet."), says("Hello!"), done(message()))
LOOKING = ndjson(
    says("Let me look."),
    line(message(tool_calls=[call(*PARIS)]), done=False),
    line(message(tool_calls=[call(*ROME)]), done=False),
    done(message()),
)
BOTH_AT_ONCE = ndjson(line(message(tool_calls=CALLS), done=False), done(message()))
AT_THE_END = ndjson(done(message("Hello!", tool_calls=[call("get_time", {})])))
FAILING = ndjson(says("Hel"), error("an error was encountered while running the model"))

STREAMS: list[Unary] = [
    Stream(
        name="stream: text",
        model=MODEL,
        path="/api/chat",
        sent={**SENT, "stream": True},
        events=TALK,
        complete_after=len(TALK),
        deltas=[TextDelta("Hel"), TextDelta("lo"), TextDelta("!")],
        data=HELLO,
        usage=USAGE,
    ),
    Stream(
        name="stream: CRLF and an empty line",
        model=MODEL,
        events=[*ndjson(says("Hello"), ending="\r\n"), b"\r\n", *ndjson(done(message("!")))],
        complete_after=3,
        data=HELLO,
        usage=USAGE,
    ),
    Stream(
        name="stream: unknown lines and fields",
        model=MODEL,
        events=ndjson({"status": "loading"}, says("Hello"), {"message": None}, done(message("!"))),
        complete_after=4,
        data=HELLO,
    ),
    Stream(
        name="stream: thinking",
        model="ollama/qwen3",
        events=THOUGHTS,
        complete_after=len(THOUGHTS),
        deltas=[ReasoningDelta("They "), ReasoningDelta("greet."), TextDelta("Hello!")],
        data={**HELLO, "reasoning": "They greet."},
        usage=USAGE,
    ),
    Stream(
        name="stream: tool calls, one in a line",
        model=MODEL,
        ask={"tools": [WEATHER]},
        sent={**SENT, "stream": True, "tools": [WEATHER]},
        events=LOOKING,
        complete_after=len(LOOKING),
        deltas=[
            TextDelta("Let me look."),
            ToolCallDelta(0, "*", "get_weather", PARIS_TEXT),
            ToolCallDelta(1, "*", "get_weather", '{"city":"Rome"}'),
        ],
        data=called(PARIS, ROME, content="Let me look."),
        usage=USAGE,
    ),
    Stream(
        name="stream: tool calls, all in one line",
        model=MODEL,
        ask={"tools": [WEATHER]},
        events=BOTH_AT_ONCE,
        complete_after=len(BOTH_AT_ONCE),
        data=called(PARIS, ROME),
    ),
    Stream(
        name="stream: everything in the last line",
        model=MODEL,
        ask={"tools": [WEATHER]},
        events=AT_THE_END,
        complete_after=1,
        data=called(("get_time", {}), content="Hello!"),
        usage=USAGE,
    ),
    Stream(
        name="stream: length",
        model=MODEL,
        events=ndjson(says("Once upon"), done(message(), reason="length")),
        complete_after=2,
        data={"content": "Once upon", "tool_calls": [], "finish_reason": "length"},
    ),
    Stream(
        name="stream: no count of a prompt that was cached",
        model=MODEL,
        events=ndjson(says("Hello!"), uncounted(message(), "prompt_eval_count")),
        complete_after=2,
        data=HELLO,
        usage={**ESTIMATED, "completion_tokens": 29, "total_tokens": 34},
    ),
    Stream(
        name="stream: an error in its midst",
        model=MODEL,
        events=FAILING,
        complete_after=len(FAILING),
        deltas=[TextDelta("Hel")],
        refused=Refused(LLMServerError, {"provider": "ollama", "model": "llama3.2"}),
        partial={"content": "Hel", "tool_calls": [], "finish_reason": "stop"},
    ),
    Stream(
        name="stream: an error at once",
        model=MODEL,
        events=ndjson(error("model runner has unexpectedly stopped")),
        complete_after=1,
        refused=Refused(LLMServerError),
    ),
    Stream(
        name="stream: a line that is not JSON",
        model=MODEL,
        events=[*ndjson(says("Hel")), b"<html>502</html>\n"],
        complete_after=2,
        refused=Refused(LLMResponseError),
        partial={"content": "Hel", "tool_calls": [], "finish_reason": "stop"},
    ),
    Stream(
        name="stream: refused before it began",
        model="ollama/no-such",
        status=404,
        reply=error("model 'no-such' not found"),
        refused=Refused(LLMNotFoundError, {"status": 404}),
    ),
]

# Awkward answers.

AWKWARD: list[Unary] = [
    Unary(
        name="a call that ends with length",
        model=MODEL,
        reply=done(message(tool_calls=[call(*PARIS)]), reason="length"),
        data={**called(PARIS), "truncated": True},
        usage=USAGE,
    ),
    Unary(
        name="a call without a name is none",
        model=MODEL,
        reply=done(message("Hello!", tool_calls=[call("", {"a": 1})])),
        data=HELLO,
    ),
    Unary(
        name="a call with NaN in its arguments",
        model=MODEL,
        reply=json.dumps(done(message(tool_calls=[call("f", {"n": float("nan")})]))).encode(),
        refused=Refused(LLMResponseError, {"body": '{"n": NaN}'}),
    ),
    Unary(
        name="an image",
        model=MODEL,
        reply=done(message("Here.", images=[PIXEL])),
        data={
            "content": "Here.",
            "tool_calls": [],
            "finish_reason": "stop",
            "media": [{"type": "image", "data": PIXEL}],
        },
    ),
    Unary(
        name="a prompt that is too long",
        model=MODEL,
        status=400,
        reply=error("prompt too long; exceeded max context length by 4 tokens"),
        refused=Refused(LLMContextLengthError, {"status": 400}),
    ),
    Stream(
        name="stream: a byte order mark, a byte that is not UTF-8, and half of a surrogate pair",
        model=MODEL,
        events=[
            b"\xef\xbb\xbf" + ndjson(says("a#"))[0].replace(b"#", b"\xff"),
            ndjson(says("b#"))[0].replace(b"#", b"\\ud83d"),
            *ndjson(done(message())),
        ],
        complete_after=3,
        data={"content": "a\ufffdb\ufffd", "tool_calls": [], "finish_reason": "stop"},
        usage=USAGE,
    ),
    Stream(
        name="stream: calls that are cut off at the length",
        model=MODEL,
        events=ndjson(
            line(message(tool_calls=[call(*PARIS)]), done=False), done(message(), reason="length")
        ),
        complete_after=2,
        data={**called(PARIS), "truncated": True},
    ),
    Stream(
        name="stream: NaN in arguments",
        model=MODEL,
        events=[
            *ndjson(says("Hel")),
            *ndjson(line(message(tool_calls=[call("f", {"n": float("nan")})]), done=False)),
            *ndjson(done(message())),
        ],
        complete_after=3,
        refused=Refused(LLMResponseError, {"body": '{"n":NaN}'}),
        partial={"content": "Hel", "tool_calls": [], "finish_reason": "stop"},
    ),
]

CASES: list[Unary | Stream] = [*ANSWERS, *TOOLS, *ERRORS, *STREAMS, *AWKWARD]
