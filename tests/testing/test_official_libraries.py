"""The official libraries read the same bytes as our client, on every wire, and find the same.

The bytes are those of the fake models, encoded once: both readers get exactly these.
"""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from coreason_client import LLMClient
from coreason_client.testing import ModelToolCall, ModelTurn, fake_model
from coreason_client.testing._fake_model import wire_at
from coreason_client.testing._loopback import HTTPRequest, LoopbackServer, ResponseWriter
from coreason_client.testing._models._wire import dumped, script_of

QUESTION = "How is the weather?"
ASK: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
USAGE = {"prompt_tokens": 20, "completion_tokens": 7, "cached_tokens": 4}
TURNS = {
    "text": ModelTurn(["Let me ", "see. é😀"], usage=USAGE),
    "calls": ModelTurn(
        ["I look. "],
        [
            ModelToolCall("weather", {"city": "Köln", "days": [1, 2.5, None]}),
            ModelToolCall("weather", ['{"ci', 'ty": "Bonn"}']),
        ],
        usage=USAGE,
    ),
    "reasoning": ModelTurn("So.", (), ["I think", " so"], usage=USAGE),
    "citations": ModelTurn(
        ["Grüße 😀: it ", "rains. Take", " a coat."],
        citations=[
            {"url": "https://a.example", "title": "Wetter für Köln", "start": 9, "end": 18},
            {"url": "https://b.example", "title": "Coats", "start": 19, "end": 31},
        ],
        usage=USAGE,
    ),
    "cut off": ModelTurn("Too lo", finish="length", usage=USAGE),
}


@dataclass(frozen=True)
class Found:
    """The content that a reader has found in an answer."""

    text: str
    calls: list[tuple[str, Any]]
    cut: bool
    tokens: int
    reasoning: str = ""
    cited: tuple[tuple[str, str, str], ...] = ()  # title, URL, and the text that it supports


@contextmanager
def serving(turn: ModelTurn) -> Iterator[str]:
    """Serve the same bytes to every request of a wire, whoever sends it."""

    async def answer(request: HTTPRequest, response: ResponseWriter) -> None:
        wire = wire_at(request.method, request.path)
        assert wire is not None, request.path
        asked = wire.read(request.path, json.loads(request.body))
        # Not the body of the request, so that the bytes do not depend on who asks.
        script = script_of(turn, _ASKED, "m", 1, 1)
        if not asked.stream:
            kind = [("content-type", "application/json")]
            await response.whole(200, kind, dumped(wire.body(script)))
            return
        await response.start(200, [("content-type", wire.content_type)])
        for chunk in wire.stream(script):
            await response.send(chunk.data)
        await response.finish()

    server = LoopbackServer(answer, "same-bytes")
    server.start()
    try:
        yield server.url
    finally:
        server.stop()
    assert not server.errors


_ASKED: Mapping[str, Any] = {"stream_options": {"include_usage": True}}


def ours(url: str, provider: str, *, stream: bool, **options: Any) -> Found:
    with LLMClient("key", url, "m", provider=provider, max_retries=0, **options) as client:
        response = client.stream(ASK).result() if stream else client.generate(ASK)
    data = response["data"]
    content = data["content"] or ""
    return Found(
        content,
        [(call["name"], call["arguments"]) for call in data["tool_calls"]],
        data["finish_reason"] == "length",
        response["usage"]["total_tokens"],
        data.get("reasoning", ""),
        tuple(
            (one["title"], one["url"], content[one["start"] : one["end"]])
            for one in data.get("citations", ())
        ),
    )


# The readers.


def openai_chat(url: str, *, stream: bool) -> Found:
    import openai

    with openai.OpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0) as client:
        if stream:
            with client.chat.completions.stream(model="m", messages=_messages()) as events:
                done: Any = events.until_done().current_completion_snapshot
        else:
            done = client.chat.completions.create(model="m", messages=_messages())
    [choice] = done.choices
    calls = [call.function for call in choice.message.tool_calls or ()]
    content = choice.message.content or ""
    # In a stream the library keeps annotations as they are: they are not in its type of a delta.
    notes = [getattr(note, "url_citation", note) for note in choice.message.annotations or ()]
    return Found(
        content,
        [(call.name, json.loads(call.arguments)) for call in calls],
        choice.finish_reason == "length",
        done.usage.total_tokens,
        cited=tuple(
            (note.title, note.url, content[note.start_index : note.end_index]) for note in notes
        ),
    )


def _messages() -> Any:
    return ASK


def openai_responses(url: str, *, stream: bool) -> Found:
    import openai

    with openai.OpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0) as client:
        if stream:
            with client.responses.stream(model="m", input=QUESTION) as events:
                done: Any = None
                for event in events:
                    if event.type in ("response.completed", "response.incomplete"):
                        done = event.response
        else:
            done = client.responses.create(model="m", input=QUESTION)
    calls = [item for item in done.output if item.type == "function_call"]
    thoughts = [item for item in done.output if item.type == "reasoning"]
    return Found(
        done.output_text,
        [(call.name, json.loads(call.arguments)) for call in calls],
        done.status == "incomplete",
        done.usage.total_tokens,
        "".join(part.text for item in thoughts for part in item.summary),
        tuple(
            (note.title, note.url, part.text[note.start_index : note.end_index])
            for item in done.output
            if item.type == "message"
            for part in item.content
            for note in part.annotations
        ),
    )


def anthropic(url: str, *, stream: bool) -> Found:
    from anthropic import Anthropic

    with Anthropic(base_url=url, api_key="key", max_retries=0) as client:
        asked: Any = {"model": "m", "max_tokens": 100, "messages": ASK}
        if stream:
            with client.messages.stream(**asked) as events:
                done: Any = events.get_final_message()
        else:
            done = client.messages.create(**asked)
    blocks = {kind: [b for b in done.content if b.type == kind] for kind in _BLOCKS}
    usage = done.usage
    return Found(
        "".join(block.text for block in blocks["text"]),
        [(block.name, block.input) for block in blocks["tool_use"]],
        done.stop_reason == "max_tokens",
        usage.input_tokens + (usage.cache_read_input_tokens or 0) + usage.output_tokens,
        "".join(block.thinking for block in blocks["thinking"]),
        tuple(
            (one.title, one.url, block.text)
            for block in blocks["text"]
            for one in block.citations or ()
        ),
    )


_BLOCKS = ("text", "tool_use", "thinking")


def gemini(url: str, *, stream: bool) -> Found:
    with warnings.catch_warnings():  # its source has an escape that Python warns about
        warnings.simplefilter("ignore", DeprecationWarning)
        from google import genai

    with genai.Client(api_key="key", http_options={"base_url": url}) as client:
        asked: Any = {"model": "m", "contents": QUESTION}
        if stream:
            replies: list[Any] = [*client.models.generate_content_stream(**asked)]
        else:
            replies = [client.models.generate_content(**asked)]
    parts = [part for reply in replies for part in (reply.candidates[0].content.parts or ())]
    calls = [part.function_call for part in parts if part.function_call]
    return Found(
        "".join(part.text or "" for part in parts if not part.thought),
        [(call.name, call.args) for call in calls],
        replies[-1].candidates[0].finish_reason.name == "MAX_TOKENS",
        replies[-1].usage_metadata.total_token_count,
        "".join(part.text or "" for part in parts if part.thought),
        tuple(_gemini_cited(replies[-1].candidates[0], parts)),
    )


def _gemini_cited(candidate: Any, parts: list[Any]) -> Iterator[tuple[str, str, str]]:
    encoded = "".join(part.text or "" for part in parts if not part.thought).encode()
    grounding = candidate.grounding_metadata
    for support in grounding.grounding_supports if grounding else ():
        segment = support.segment
        supported = encoded[segment.start_index or 0 : segment.end_index].decode()
        assert supported == segment.text
        for index in support.grounding_chunk_indices:
            web = grounding.grounding_chunks[index].web
            yield web.title, web.uri, supported


def bedrock(url: str, *, stream: bool) -> Found:
    import boto3  # type: ignore[import-untyped]
    from botocore.config import Config  # type: ignore[import-untyped]

    client: Any = boto3.client(
        "bedrock-runtime",
        region_name="eu-west-1",
        endpoint_url=url,
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="secret",
        config=Config(retries={"total_max_attempts": 1}),
    )
    asked = {"modelId": "m", "messages": [{"role": "user", "content": [{"text": QUESTION}]}]}
    try:
        if stream:
            return _bedrock_stream(client.converse_stream(**asked)["stream"])
        done = client.converse(**asked)
    finally:
        client.close()
    blocks = done["output"]["message"]["content"]
    uses = [block["toolUse"] for block in blocks if "toolUse" in block]
    thoughts = [block["reasoningContent"] for block in blocks if "reasoningContent" in block]
    return Found(
        "".join(map(_bedrock_text, blocks)),
        [(use["name"], use["input"]) for use in uses],
        done["stopReason"] == "max_tokens",
        done["usage"]["totalTokens"],
        "".join(thought["reasoningText"]["text"] for thought in thoughts),
        tuple(
            (one["title"], one["location"]["web"]["url"], _bedrock_text(block))
            for block in blocks
            for one in block.get("citationsContent", {}).get("citations", ())
        ),
    )


def _bedrock_text(block: Any) -> str:
    cited = block.get("citationsContent", {}).get("content", ())
    return str(block.get("text", "")) + "".join(one["text"] for one in cited)


def _bedrock_stream(events: Any) -> Found:
    text, thought, cut, tokens = "", "", False, 0
    calls: dict[int, list[str]] = {}
    texts: dict[int, str] = {}  # by block
    cited: list[tuple[int, Any]] = []
    for event in events:
        start = event.get("contentBlockStart", {})
        if "toolUse" in start.get("start", {}):
            calls[start["contentBlockIndex"]] = [start["start"]["toolUse"]["name"], ""]
        block = event.get("contentBlockDelta", {})
        delta = block.get("delta", {})
        text += delta.get("text", "")
        if "text" in delta:
            index = block["contentBlockIndex"]
            texts[index] = texts.get(index, "") + delta["text"]
        if "citation" in delta:
            cited.append((block["contentBlockIndex"], delta["citation"]))
        thought += delta.get("reasoningContent", {}).get("text", "")
        if "toolUse" in delta:
            calls[block["contentBlockIndex"]][1] += delta["toolUse"]["input"]
        cut = cut or event.get("messageStop", {}).get("stopReason") == "max_tokens"
        tokens = event.get("metadata", {}).get("usage", {}).get("totalTokens", tokens)
    found = [(name, json.loads(arguments)) for name, arguments in calls.values()]
    sources = [(one["title"], one["location"]["web"]["url"], texts[at]) for at, one in cited]
    return Found(text, found, cut, tokens, thought, tuple(sources))


def ollama(url: str, *, stream: bool) -> Found:
    from ollama import Client

    client = Client(host=url)
    if stream:
        replies: list[Any] = [*client.chat("m", ASK, stream=True)]
    else:
        replies = [client.chat("m", ASK)]
    client._client.close()
    calls = [call.function for reply in replies for call in reply.message.tool_calls or ()]
    last = replies[-1]
    return Found(
        "".join(reply.message.content or "" for reply in replies),
        [(call.name, dict(call.arguments)) for call in calls],
        last.done_reason == "length",
        last.prompt_eval_count + last.eval_count,
        "".join(reply.message.thinking or "" for reply in replies),
    )


READERS: dict[str, tuple[Callable[..., Found], str, dict[str, Any]]] = {
    "chat": (openai_chat, "openai", {}),
    "responses": (openai_responses, "openai", {"wire": "responses"}),
    "anthropic": (anthropic, "anthropic", {}),
    "gemini": (gemini, "gemini", {}),
    "bedrock": (bedrock, "bedrock", {}),
    "ollama": (ollama, "ollama", {}),
}


@pytest.mark.proves("KIT-model-official")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("wire", READERS)
def test_both_read_the_same(wire: str, *, stream: bool) -> None:
    read, provider, options = READERS[wire]
    for name, turn in TURNS.items():
        with serving(turn) as url:
            theirs = read(url, stream=stream)
            found = ours(url, provider, stream=stream, **options)
        if wire == "chat":  # reasoning is not part of that API
            found = Found(found.text, found.calls, found.cut, found.tokens, cited=found.cited)
        assert found == theirs, name
        supported = [text for _, _, text in found.cited]
        assert supported == (
            ["it rains.", "Take a coat."][: 2 * (wire != "ollama")] if turn.citations else []
        )
        assert found.text == "".join(turn.text_pieces)
        assert found.calls == [(call.name, call.value) for call in turn.calls]
        assert found.tokens == 27


@pytest.mark.parametrize("stream", [False, True])
def test_claude_at_vertex_gets_the_request_of_the_official_library(stream: bool) -> None:
    from anthropic import AnthropicVertex

    model, project = "claude-sonnet-4-5@20250929", "fake-project"
    asked: Any = {"model": model, "max_tokens": 100, "messages": ASK}
    with fake_model([ModelTurn("Hello"), ModelTurn("Hello")], require_all=True) as fake:
        settings: Any = fake.options("vertex")
        with AnthropicVertex(
            base_url=f"{fake.url}/v1",
            region="global",
            project_id=project,
            access_token=settings["api_key"],
            max_retries=0,
        ) as theirs:
            if stream:
                with theirs.messages.stream(**asked) as events:
                    assert events.get_final_text() == "Hello"
            else:
                theirs.messages.create(**asked)
        with LLMClient(**settings) as ours:
            options: Any = {"temperature": None, "max_tokens": 100}
            if stream:
                answer = ours.stream(ASK, model, **options).result()
            else:
                answer = ours.generate(ASK, model, **options)
    first, second = fake.requests
    streamed = ["stream"] if stream else []
    assert second.path == first.path
    # The library has a newer version; ours is that of Anthropic's own API (`2023-06-01`).
    assert second.json.pop("anthropic_version") == "vertex-2023-10-16"
    assert first.json.pop("anthropic_version")
    assert second.json.keys() == first.json.keys() == {"max_tokens", "messages", *streamed}
    assert (second.model, second.text, second.stream) == (model, first.text, stream)
    assert second.headers["authorization"] == first.headers["authorization"]
    assert answer["data"]["content"] == "Hello"
    assert answer["usage"]["cost_estimate"] is not None


@pytest.mark.parametrize(
    "model",
    ["perplexity/pplx-embed-v1-4b", "cohere/embed-v4.0", "vertex/gemini-embedding-2"],
)
def test_embeddings_of_every_provider(model: str) -> None:
    with fake_model([]) as fake, LLMClient(**fake.options(model.partition("/")[0])) as client:
        found = client.embed(["one word", "two"], model)
    assert [len(vector) > 0 for vector in found["data"]["embeddings"]] == [True, True]
    assert found["usage"]["prompt_tokens"] == 3
    assert found["usage"]["cost_estimate"] is not None
