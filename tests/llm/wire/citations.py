"""Citations, tools that the provider runs, and custom tools, in every wire format."""

from typing import Any

from coreason_client.llm.errors import LLMRequestError
from coreason_client.llm.types import Citation, CitationDelta, TextDelta, ToolCallDelta

from . import gemini, openai, responses
from .case import USER, Refused, Stream, Unary

__all__ = ["CASES", "CUSTOM_TOOL"]

GPT = "openai/gpt-4o"
TEXT = "Grüße: it rains. [1]"
DATA: dict[str, Any] = {"content": TEXT, "tool_calls": [], "finish_reason": "stop"}
PAGE: Citation = {"title": "Wetter", "url": "https://w.example", "start": 7, "end": 16}
PLACE = {"start_index": 7, "end_index": 16}
NOTE = {"type": "url_citation", "url": PAGE["url"], "title": PAGE["title"], **PLACE}
WRAPPED = {"type": "url_citation", "url_citation": {**NOTE, "type": None}}
FOUND = [
    {"title": "Wetter", "url": "https://w.example", "date": None, "snippet": "Regen."},
    {"title": "Coats", "url": "https://c.example"},
]
SOURCES = [
    {"title": "Wetter", "url": "https://w.example", "cited_text": "Regen."},
    {"title": "Coats", "url": "https://c.example"},
]


def annotated(*annotations: Any) -> dict[str, Any]:
    return openai.whole(openai.choice(openai.message(TEXT, annotations=[*annotations])))


def chat(name: str, reply: Any, model: str = GPT, **expected: Any) -> Unary:
    return Unary(name=name, model=model, reply=reply, data={**DATA, **expected})


# Chat completions.

REFERENCES = [
    {"type": "text", "text": "Grüße: "},
    {"type": "reference", "reference_ids": [3, "d"]},
    {"type": "text", "text": "it rains."},
    {
        "type": "tool_reference",
        "tool": "web_search",
        "title": "Wetter",
        "url": "https://w.example",
        "description": "Regen.",
    },
    {"type": "text", "text": " [1]"},
]
REFERRED: list[Citation] = [
    {"source_id": "3", "start": 0, "end": 7},
    {"source_id": "d", "start": 0, "end": 7},
    {
        "title": "Wetter",
        "url": "https://w.example",
        "cited_text": "Regen.",
        "start": 7,
        "end": 16,
    },
]
CUSTOM_TOOL = "sql"
SQL = {"type": "custom", "name": "sql", "description": "Runs SQL", "format": {"type": "text"}}
LARK = {"syntax": "lark", "definition": "start: WORD"}
ROWS = {"id": "call_1", "name": "sql", "arguments": {"input": "SELECT 1"}, "custom": True}
CALLED = {"content": None, "tool_calls": [ROWS], "finish_reason": "tool_calls"}
CUSTOM = {"id": "call_1", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}
ASKED = [
    *USER,
    {"role": "assistant", **CALLED},
    {"role": "tool", "tool_call_id": "call_1", "content": "1"},
]

CHAT = [
    chat(
        "annotations",
        annotated(WRAPPED, WRAPPED, {"type": "file"}, None),
        citations=[PAGE],
    ),
    chat(
        "annotations of OpenRouter have the text; a range outside of the answer is dropped",
        annotated(
            {
                "type": "url_citation",
                "url_citation": {**NOTE, "content": "Regen.", "end_index": 99},
            }
        ),
        "openrouter/perplexity/sonar",
        citations=[{"title": "Wetter", "url": "https://w.example", "cited_text": "Regen."}],
    ),
    chat(
        "search results of Perplexity",
        {**openai.says(TEXT), "search_results": FOUND, "citations": ["https://w.example"]},
        "perplexity/sonar",
        citations=SOURCES,
    ),
    chat(
        "citations of xAI are URLs",
        {**openai.says(TEXT), "citations": ["https://w.example", None]},
        "xai/grok-4",
        citations=[{"url": "https://w.example"}],
    ),
    chat(
        "references of Mistral",
        openai.says(REFERENCES),
        "mistral/mistral-large-latest",
        citations=REFERRED,
    ),
    Stream(
        name="stream: references of Mistral",
        model="mistral/mistral-large-latest",
        events=[
            *openai.sse(
                openai.delta(content=REFERENCES[:1]),
                openai.delta(content=REFERENCES[1:3]),
                openai.delta(content=REFERENCES[3:4]),
                openai.delta(content=" [1]"),
                openai.delta("stop"),
            ),
            openai.DONE,
        ],
        complete_after=5,
        data={**DATA, "citations": REFERRED},
    ),
    Stream(
        name="stream: sources of Perplexity are in every chunk, annotations in one",
        model="perplexity/sonar",
        events=[
            *openai.sse(
                openai.delta(
                    more={"search_results": FOUND[:1]}, content=TEXT[:16], role="assistant"
                ),
                openai.delta(more={"search_results": FOUND}, content=" [1]", role="assistant"),
                openai.delta(annotations=[WRAPPED]),
                openai.delta("stop", {"search_results": FOUND}),
            ),
            openai.DONE,
        ],
        complete_after=4,
        data={**DATA, "citations": [*SOURCES, PAGE]},
    ),
    Unary(
        name="a custom tool, with the result of its call",
        model=GPT,
        messages=ASKED,
        ask={"tools": [{**SQL, "format": {"type": "grammar", **LARK}}]},
        sent={
            **openai.sent("gpt-4o"),
            "messages": [
                *USER,
                {"role": "assistant", "content": None, "tool_calls": [CUSTOM]},
                {"role": "tool", "tool_call_id": "call_1", "content": "1"},
            ],
            "tools": [
                {
                    "type": "custom",
                    "custom": {
                        "name": "sql",
                        "description": "Runs SQL",
                        "format": {"type": "grammar", "grammar": LARK},
                    },
                }
            ],
        },
        reply=openai.calls(CUSTOM, finish="stop"),
        data=CALLED,
    ),
    Stream(
        name="stream: a custom tool",
        model=GPT,
        events=[
            *openai.sse(
                openai.delta(
                    tool_calls=[
                        {**CUSTOM, "index": 0, "custom": {"name": "sql", "input": "SELECT"}}
                    ]
                ),
                openai.delta(tool_calls=[{"index": 0, "custom": {"input": " 1"}}]),
                openai.delta("tool_calls"),
            ),
            openai.DONE,
        ],
        complete_after=3,
        deltas=[
            ToolCallDelta(0, "call_1", "sql", "SELECT"),
            ToolCallDelta(0, None, None, " 1"),
        ],
        data=CALLED,
    ),
    Unary(
        name="OpenAI's own tools need the Responses API",
        model=GPT,
        ask={"tools": [{"type": "web_search"}]},
        refused=Refused(LLMRequestError, {"provider": "openai", "status": None}),
    ),
    Unary(
        name="another provider's own tools are sent as they are",
        model="groq/openai/gpt-oss-120b",
        ask={"tools": [{"type": "browser_search"}]},
        reply=openai.says(TEXT),
        data=DATA,
    ),
]

# The Responses API.

FILE = {"type": "file_citation", "file_id": "file-1", "filename": "report.pdf", "index": 5}
BOXED = {
    "type": "container_file_citation",
    "container_id": "cntr_1",
    "file_id": "cfile_1",
    "filename": "plot.png",
    "start_index": 0,
    "end_index": 3,
}
RAN = [
    {
        "id": "ws_1",
        "type": "web_search_call",
        "status": "completed",
        "action": {
            "type": "search",
            "query": "weather",
            "queries": ["weather", "rain"],
            "sources": [{"type": "url", "url": "https://w.example"}],
        },
    },
    {
        "id": "ws_2",
        "type": "web_search_call",
        "status": "failed",
        "action": {"type": "open_page", "url": "https://w.example"},
    },
    {
        "id": "fs_1",
        "type": "file_search_call",
        "status": "completed",
        "queries": ["rain"],
        "results": [{"file_id": "file-1", "filename": "r.pdf", "score": 0.9, "text": "Rain."}],
    },
    {
        "id": "ci_1",
        "type": "code_interpreter_call",
        "status": "completed",
        "container_id": "cntr_1",
        "code": "print(1)",
        "outputs": [{"type": "logs", "logs": "1\n"}, {"type": "image", "url": "https://i.example"}],
    },
    {
        "id": "mcp_1",
        "type": "mcp_call",
        "name": "roll",
        "server_label": "dice",
        "arguments": '{"n":2}',
        "output": "7",
    },
]
RESULTS = [
    {
        "kind": "web_search",
        "name": "web_search",
        "input": ["weather", "rain"],
        "id": "ws_1",
        "sources": [{"url": "https://w.example"}],
    },
    {
        "kind": "web_fetch",
        "name": "web_search",
        "input": ["https://w.example"],
        "id": "ws_2",
        "error": "failed",
    },
    {
        "kind": "file_search",
        "name": "file_search",
        "input": ["rain"],
        "id": "fs_1",
        "sources": [{"title": "r.pdf", "source_id": "file-1", "cited_text": "Rain."}],
    },
    {
        "kind": "code_execution",
        "name": "code_interpreter",
        "input": ["print(1)"],
        "id": "ci_1",
        "output": "1\n\nhttps://i.example",
    },
    {"kind": "mcp", "name": "roll", "input": ['{"n":2}'], "id": "mcp_1", "output": "7"},
]
NOTED = responses.message(
    {**responses.part("Hé. "), "annotations": [FILE, {"type": "file_path", "file_id": "f"}]},
    {**responses.part(TEXT), "annotations": [NOTE, BOXED]},
)
CITED: list[Citation] = [
    {"title": "report.pdf", "source_id": "file-1"},
    {**PAGE, "start": 11, "end": 20},
    {"title": "plot.png", "source_id": "cfile_1", "start": 4, "end": 7},
]
ANSWERED = {
    **DATA,
    "content": f"Hé. {TEXT}",
    "citations": CITED,
    "tool_results": RESULTS,
    "provider_items": responses.carried(*RAN, NOTED),
}
CALL_ITEM = {
    "id": "ctc_1",
    "type": "custom_tool_call",
    "call_id": "call_1",
    "name": "sql",
    "input": "SELECT 1",
}
AT = {"output_index": 0, "item_id": "ctc_1"}
WHERE = {"output_index": 5, "item_id": "msg_1"}


def noted(annotation: Any, index: int) -> dict[str, Any]:
    at = {**WHERE, "content_index": index, "annotation_index": 0}
    return responses.event("output_text.annotation.added", annotation=annotation, **at)


def begun(index: int) -> dict[str, Any]:
    at = {**WHERE, "content_index": index}
    return responses.event("content_part.added", part=responses.part(""), **at)


RESPONSES = [
    Unary(
        name="annotations, and the provider's own tools",
        model=GPT,
        client=responses.RESPONSES,
        ask={"tools": [openai.WEATHER, {"type": "web_search"}]},
        reply=responses.response(*RAN, NOTED),
        data=ANSWERED,
    ),
    Stream(
        name="stream: annotations, and the provider's own tools",
        model=GPT,
        client=responses.RESPONSES,
        events=responses.sse(
            *responses.begin(),
            *(responses.done(item, index) for index, item in enumerate(RAN)),
            responses.added({**NOTED, "content": []}, 5),
            begun(0),
            responses.text_delta("Hé. ", 5),
            noted(FILE, 0),
            begun(1),
            responses.text_delta(TEXT, 5),
            noted(NOTE, 1),
            responses.done(NOTED, 5),
            responses.completed(*RAN, NOTED),
        ),
        complete_after=len(responses.begin()) + len(RAN) + 9,
        deltas=[
            TextDelta("Hé. "),
            CitationDelta(CITED[0]),
            TextDelta(TEXT),
            CitationDelta(CITED[1]),
            CitationDelta(CITED[2]),  # only in the complete answer
        ],
        data=ANSWERED,
    ),
    Unary(
        name="a custom tool of the Responses API, with the result of its call",
        model=GPT,
        client=responses.RESPONSES,
        messages=ASKED,
        ask={"tools": [{"type": "custom", "custom": {"name": "sql", "format": {"grammar": LARK}}}]},
        sent={
            **responses.sent("gpt-4o"),
            "input": [
                responses.said("user", "Hi"),
                {key: CALL_ITEM[key] for key in ("type", "call_id", "name", "input")},
                {"type": "custom_tool_call_output", "call_id": "call_1", "output": "1"},
            ],
            "tools": [{"type": "custom", "name": "sql", "format": {"type": "grammar", **LARK}}],
        },
        reply=responses.response(CALL_ITEM),
        data=CALLED,
    ),
    Stream(
        name="stream: a custom tool of the Responses API",
        model=GPT,
        client=responses.RESPONSES,
        events=responses.sse(
            *responses.begin(),
            responses.added({**CALL_ITEM, "input": ""}),
            responses.event("custom_tool_call_input.delta", delta="SELECT", **AT),
            responses.event("custom_tool_call_input.delta", delta=" 1", **AT),
            responses.event("custom_tool_call_input.done", input="SELECT 1", **AT),
            responses.done(CALL_ITEM),
            responses.completed(CALL_ITEM),
        ),
        complete_after=len(responses.begin()) + 6,
        deltas=[
            ToolCallDelta(0, "call_1", "sql", ""),
            ToolCallDelta(0, None, None, "SELECT"),
            ToolCallDelta(0, None, None, " 1"),
        ],
        data=CALLED,
    ),
]

# Gemini.

GROUNDED: dict[str, Any] = {
    "groundingMetadata": {
        "webSearchQueries": ["weather", "rain"],
        "groundingChunks": [
            {"web": {"uri": "https://w.example", "title": "Wetter"}},
            {"retrievedContext": {"title": "r.pdf", "documentName": "d/1", "text": "Rain."}},
            {"maps": {"uri": "https://m.example", "title": "Zoo", "placeId": "p"}},
            None,
        ],
        "groundingSupports": [
            # Its text decides: the indices count from the beginning of a part.
            {
                "segment": {"startIndex": 0, "endIndex": 9, "text": "it rains."},
                "groundingChunkIndices": [1, 9, -1, None],
            },
            {
                "segment": {"startIndex": 9, "endIndex": 18, "text": "it rains."},
                "groundingChunkIndices": [0],
            },
            {"segment": {"endIndex": 7, "text": "Grüße"}, "groundingChunkIndices": [0]},
            {"segment": {"endIndex": 999}, "groundingChunkIndices": [0]},
            {"segment": {"endIndex": 3, "text": "nowhere"}, "groundingChunkIndices": [0]},
        ],
    },
    "citationMetadata": {"citationSources": [{"endIndex": 9, "uri": "https://s.example"}, {}]},
    "urlContextMetadata": {
        "urlMetadata": [
            {
                "retrievedUrl": "https://u.example",
                "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_ERROR",
            }
        ]
    },
}
WEB: Citation = {"title": "Wetter", "url": "https://w.example"}
BOOK: Citation = {"title": "r.pdf", "source_id": "d/1", "cited_text": "Rain."}
ZOO: Citation = {"title": "Zoo", "url": "https://m.example", "source_id": "p"}
CODE = [
    {"executableCode": {"language": "PYTHON", "code": "1/0", "id": "c1"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "ZeroDivisionError"}},
]
GEMINI_DATA = {
    **DATA,
    "citations": [
        {**BOOK, "start": 7, "end": 16},
        {**WEB, "start": 7, "end": 16},
        {**WEB, "start": 0, "end": 5},
        WEB,
        ZOO,
        {"url": "https://s.example", "start": 0, "end": 7},
    ],
    "tool_results": [
        {
            "kind": "code_execution",
            "name": "code_execution",
            "input": ["1/0"],
            "id": "c1",
            "error": "ZeroDivisionError",
        },
        {
            "kind": "web_search",
            "name": "google_search",
            "input": ["weather", "rain"],
            "sources": [WEB, BOOK, ZOO],
        },
        {
            "kind": "web_fetch",
            "name": "url_context",
            "input": ["https://u.example"],
            "error": "URL_RETRIEVAL_STATUS_ERROR",
        },
    ],
}
SAID = [gemini.words("Grüße: "), gemini.words(TEXT[7:])]
CARRIED = {"provider_items": {"gemini": [*CODE, *SAID]}}
GEMINI = [
    Unary(
        name="grounding of Gemini, beside a function",
        model="gemini/gemini-2.5-flash",
        messages=[*USER, {"role": "assistant", **DATA, **CARRIED}, *USER],
        ask={
            "tools": [{"googleSearch": {}}, gemini.WEATHER],
            "temperature": None,
            "max_tokens": None,
        },
        sent={
            "contents": [
                {"role": "user", "parts": [gemini.words("Hi")]},
                {"role": "model", "parts": [*CODE, *SAID]},
                {"role": "user", "parts": [gemini.words("Hi")]},
            ],
            "tools": [*gemini.DECLARED, {"googleSearch": {}}],
        },
        reply=gemini.reply(*CODE, *SAID, **GROUNDED),
        data={**GEMINI_DATA, **CARRIED},
    ),
    Stream(
        name="stream: grounding of Gemini",
        model="gemini/gemini-2.5-flash",
        events=[
            gemini.event(gemini.reply(*CODE, reason=None)),
            gemini.event(gemini.reply(SAID[0], reason=None)),
            gemini.event(gemini.reply(SAID[1], **GROUNDED)),
        ],
        complete_after=3,
        data={**GEMINI_DATA, **CARRIED},
    ),
]

CASES = [*CHAT, *RESPONSES, *GEMINI]
