"""The wire format of Amazon Bedrock's Converse API. Pure.

* The URL has the model and whether to stream. A stream is binary (`_eventstream.py`); each event
  has a type and a JSON payload. `messageStop` has the reason of the end, and `metadata`, the last
  event, the usage.
* `inputTokens` does not include tokens read from or written to a cache.
* Signed reasoning becomes the `signature` of the tool call that follows it.
* A `toolUse` may have a type; one of the type "server_tool_use" ran at the provider. A message with
  such blocks carries all its blocks in `provider_items`, to be sent back.
* Messages are turns of blocks (`_claude.py`).
* A conversation with tool calls must describe tools, and calls cannot be forbidden. With the tool
  choice "none" the tools are left out, if the conversation has no calls yet.
* A JSON schema goes into `outputConfig`. Models older than that are forced to call a tool with the
  schema as its parameters: the arguments of that call are the answer.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar
from urllib.parse import quote

from .._adapter import Adapter, Piece, own_items
from .._answer import End, Malformed, ModelAnswer, ProviderFault, RawToolCall, Tokens, media_of
from .._call import ModelCall, PromptCache, Schema, cached_lists, data_of, sampling
from .._citations import citation, texts, tool_result
from .._cost import with_billing
from .._frames import Framing
from .._json import as_text, count, encode, items, mapping, parse, parse_or_none, text
from .._profile import ProviderProfile
from ..errors import LLMRequestError
from ..types import Citation, Media, Message, ProviderToolResult
from ._arguments import ARGUMENTS
from ._claude import (
    KINDS,
    NO_TEMPERATURE,
    BlockReader,
    call_input,
    calls_in,
    citations_in,
    claude_at_bedrock,
    escaped_id,
    lone_prompts,
    make_turns,
    raw_call,
    supported_schema,
    tool_parts,
    with_calls,
)

__all__ = ["ADAPTER", "Bedrock", "content_blocks", "part_problem", "request_body"]

_ENDS: Mapping[str, End] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "content_filtered": "filtered",
    "guardrail_intervened": "filtered",
}
_FAILED = frozenset({"malformed_model_output", "malformed_tool_use"})
"""Reasons that mean a failure, unless the answer has content or calls."""
_PROVIDER_CALL = "server_tool_use"

_ANSWER_TOOL = "coreason_json_answer"
"""The tool whose arguments are the answer."""

_CHOICES: Mapping[str, Mapping[str, Any]] = {"auto": {"auto": {}}, "required": {"any": {}}}

_WITHOUT_OUTPUT_CONFIG = re.compile(
    r"(?:^|[./])(?:amazon\.nova|anthropic\.claude-(?:3|opus-4-(?:2025|[01]\b)|sonnet-4-2025))",
    re.ASCII,
)
"""Models that reject `outputConfig` and can be forced to call a tool."""
_CACHES_PROMPTS = re.compile(r"(?:^|[./])(?:amazon\.nova|anthropic\.claude)", re.ASCII)
"""Models that cache prompts; others reject a cache point."""

_MAX_ID = 64
_NOT_IN_ID = re.compile(r"[^a-zA-Z0-9_.:-]", re.ASCII)


class Bedrock(Adapter):
    """The format of `/model/{model}/converse`."""

    arguments = ARGUMENTS["bedrock"]

    framing: ClassVar[Framing] = "eventstream"

    def url(self, base: str, call: ModelCall) -> str:
        """Return the URL for a call; the model id, which may be an ARN, is one segment."""
        verb = "converse-stream" if call.stream else "converse"
        return f"{base}/model/{quote(call.model, safe='')}/{verb}"

    def part_problem(self, part: Mapping[str, Any], profile: ProviderProfile) -> str | None:
        """Return why a part cannot be sent, None if it can."""
        return part_problem(part, profile)

    def body(self, call: ModelCall, profile: ProviderProfile) -> dict[str, Any]:
        """Return the JSON body for a call.

        Raises:
            LLMRequestError: the schema of the answer cannot be encoded.
        """
        return request_body(call, profile.name)

    def answer(self, reply: Mapping[str, Any]) -> ModelAnswer:
        """Read a complete answer.

        Raises:
            Malformed: it has neither content nor a `stopReason`, or failed.
        """
        message = mapping(mapping(reply.get("output")).get("message"))
        blocks = [mapping(block) for block in items(message.get("content"))]
        content, calls = _content(blocks)
        forced = [call for call in calls if call.name == _ANSWER_TOOL]
        if forced:
            content, calls = as_text(forced[0].arguments), []
        answer = ModelAnswer(
            content=content or None,
            calls=calls,
            reasoning="".join(map(_reasoning_of, blocks)),
            tokens=_tokens(reply),
            media=[media for block in blocks for media in _media(block.get("image"))],
            items=_carried(blocks),
            citations=citations_in(blocks, _text_of, _block_citations),
            tool_results=_tool_results(blocks),
        )
        reason = text(reply.get("stopReason"))
        answer.end = _end(reason, usable=not answer.is_empty, forced=bool(forced))
        if answer.is_empty and not answer.reasoning and not reason:
            raise Malformed("the answer must have `output` or a `stopReason`, got neither")
        return answer

    def reader(self) -> "BedrockReader":
        """Return a new reader for one stream."""
        return BedrockReader()

    def fault(self, reply: Any) -> ProviderFault | None:
        """Return the error in a body; its type is usually only in a header."""
        reply = mapping(reply)
        message = text(reply.get("message")) or text(reply.get("Message"))
        kind = text(reply.get("__type")).rpartition("#")[2]
        if "output" in reply or not (message or kind):
            return None
        return ProviderFault(message or kind, (kind,) if kind else ())


class BedrockReader(BlockReader):
    """Reads the events of one stream."""

    __slots__ = ("_cited", "_signature")

    def __init__(self) -> None:
        super().__init__()
        self._signature = ""  # of the latest reasoning
        self._cited: list[Any] = []  # citations of the latest block, or what its tool returned

    def answer(self) -> ModelAnswer:
        """Return the answer received so far, with the blocks that must be sent back."""
        answer = super().answer()
        answer.items, answer.tool_results = _carried(self._blocks), _tool_results(self._blocks)
        return answer

    def read(self, data: bytes, event: bytes) -> Sequence[Piece]:
        """Read one event.

        Raises:
            Malformed: the event is not a JSON object, or the answer failed.
        """
        handle = _EVENTS.get(event)
        if handle is None:  # `messageStart`, and types that do not exist yet
            return ()
        try:
            value = parse(data, keep_edge_surrogates=True)
        except ValueError as error:
            raise Malformed(f"an event of the stream is not JSON: {error}") from None
        if not isinstance(value, dict):
            raise Malformed("an event of the stream must be a JSON object, got another JSON value")
        return handle(self, value)

    def _delta(self, value: Mapping[str, Any]) -> Sequence[Piece]:
        delta = mapping(value.get("delta"))
        piece = delta.get("text")
        if piece and isinstance(piece, str):
            added = self.add_text(piece)
            self._pieces.append(added.text)
            return (added,)
        self._cited += [mapping(one) for one in items(delta.get("toolResult"))]
        if "citation" in delta:
            self._cited.append(mapping(delta["citation"]))
        if "toolUse" in delta:
            return self._arguments(count(value.get("contentBlockIndex")), delta["toolUse"])
        if "reasoningContent" in delta:
            return self._reasoning_delta(mapping(delta["reasoningContent"]))
        self.media += _media(delta.get("image"))
        return ()

    def _arguments(self, index: int | None, use: Any) -> Sequence[Piece]:
        piece = as_text(mapping(use).get("input"))
        self._pieces.append(piece)
        if not piece or index not in self._open:
            return ()
        number = self._open[index]
        if number is None:
            return (self.add_text(piece),)
        return self.add_tool_call(number, arguments=piece)

    def _reasoning_delta(self, delta: Mapping[str, Any]) -> Sequence[Piece]:
        self._block = self._block or {"reasoningContent": {}}
        self._signature += text(delta.get("signature"))
        if redacted := text(delta.get("redactedContent")):
            self.keep({"reasoningContent": {"redactedContent": redacted}}, signed=True)
        piece = text(delta.get("text"))
        self._pieces.append(piece)
        return (self.add_reasoning(piece),) if piece else ()

    def _start(self, value: Mapping[str, Any]) -> Sequence[Piece]:
        cited = self._end_block()
        self._block = dict(mapping(value.get("start")))
        return [*cited, *self._start_call(value)]

    def _start_call(self, value: Mapping[str, Any]) -> Sequence[Piece]:
        use = mapping(self._block.get("toolUse"))
        name = text(use.get("name"))
        index = count(value.get("contentBlockIndex"))
        self._open.pop(index, None)
        if not name or use.get("type") == _PROVIDER_CALL:
            return ()
        if name == _ANSWER_TOOL:
            self._open[index] = None
            return ()
        number = self._open[index] = len(self._calls)
        signature = self.take_signature()
        id_ = text(use.get("toolUseId")) or None
        return self.add_tool_call(number, id=id_, name=name, signature=signature)

    def _end_block(self) -> list[Piece]:
        """Complete the latest block, and return its citations: only now their range is known."""
        block, given = self._block, "".join(self._pieces)
        cited, signature = self._cited, self._signature
        self._block, self._pieces, self._cited, self._signature = {}, [], [], ""
        if "reasoningContent" in block:
            signed = {"text": given, "signature": signature}
            block = {"reasoningContent": {"reasoningText": signed}} if signature else {}
        elif "toolUse" in block:
            sent = mapping(parse_or_none(given.encode("utf-8", "replace")))
            block = {"toolUse": {**mapping(block["toolUse"]), "input": sent}}
        elif "toolResult" in block:
            block = {"toolResult": {**mapping(block["toolResult"]), "content": cited}}
        elif cited:
            block = {"citationsContent": {"content": [{"text": given}], "citations": cited}}
        elif given:
            block = {"text": given}
        if block:
            self.keep(block, signed=_is_signed(block))
        return self.add_citations(_block_citations(block, sum(map(len, self._text))))

    def _stop(self, value: Mapping[str, Any]) -> Sequence[Piece]:
        usable = bool(self._text or self._calls or self.media)
        forced = None in self._open.values()
        self.end = _end(text(value.get("stopReason")), usable=usable, forced=forced)
        return self._end_block()

    def _metadata(self, value: Mapping[str, Any]) -> Sequence[Piece]:
        self.tokens = _tokens(value)
        self.done = self.end is not None
        return ()


_EVENTS: Mapping[bytes, Callable[[BedrockReader, Mapping[str, Any]], Sequence[Piece]]] = {
    b"contentBlockDelta": BedrockReader._delta,
    b"contentBlockStart": BedrockReader._start,
    b"contentBlockStop": lambda reader, _: reader._end_block(),
    b"messageStop": BedrockReader._stop,
    b"metadata": BedrockReader._metadata,
}

ADAPTER: Adapter = Bedrock()


# Requests.


def request_body(call: ModelCall, provider: str = "bedrock") -> dict[str, Any]:
    """Return the JSON body for a call; messages carry blocks by the name of the provider.

    Raises:
        LLMRequestError: the schema of the answer cannot be encoded.
    """
    body = _conversation(call, provider)
    if config := _inference_config(call):
        body["inferenceConfig"] = config
    if tools := _tool_config(call):
        body["toolConfig"] = tools
    # JSON without a schema has no parameter: the prompt has to ask for it.
    if call.schema is not None and call.schema.schema is not None and not _forces_tool(call):
        body["outputConfig"] = {"textFormat": _text_format(call.schema)}
    if call.prompt_cache is not None and _CACHES_PROMPTS.search(call.model):
        _set_cache_points(body, call.prompt_cache)
    return body


def _inference_config(call: ModelCall) -> dict[str, Any]:
    config = sampling(call, "temperature", "maxTokens", "stopSequences")
    if not _takes_temperature(call):
        config.pop("temperature", None)
    return config


def _set_cache_points(body: dict[str, Any], lifetime: PromptCache) -> None:
    """Mark the ends of the parts of a request that are cached."""
    point = {"type": "default"} if lifetime == "5m" else {"type": "default", "ttl": lifetime}
    tools = body.get("toolConfig", {}).get("tools", [])
    for blocks in cached_lists(tools, body.get("system", []), body["messages"]):
        blocks.append({"cachePoint": point})


# Messages.


def _conversation(call: ModelCall, provider: str) -> dict[str, Any]:
    """Return the fields `messages` and `system`."""
    system = [
        {"text": message["content"]}
        for message in call.messages
        if _is_system(message) and message["content"].strip()
    ]
    turns = make_turns(call.messages, partial(_blocks, provider))
    if not turns:
        # At least one message is required, so lone system prompts become a user message.
        return {"messages": lone_prompts(system)}
    return {"messages": turns, "system": system} if system else {"messages": turns}


def _is_system(message: Message) -> bool:
    return message["role"] in ("system", "developer")


def _blocks(provider: str, message: Message) -> list[dict[str, Any]]:
    """Return the blocks of a message, none for a system prompt or a blank message."""
    if _is_system(message):
        return []
    blocks = content_blocks(message["content"])
    if message["role"] == "tool":
        result = {"toolUseId": _sent_id(message["tool_call_id"]), "content": blocks}
        if "is_error" in message:
            result["status"] = "error"
        return [{"toolResult": result}]
    carried = [dict(block) for block in own_items(message, provider, _content)]
    return carried or with_calls(blocks, message.get("tool_calls", ()), _is_signed, _tool_use)


def _tool_use(call: Mapping[str, Any]) -> dict[str, Any]:
    id_, name = _sent_id(call["id"]), call["function"]["name"]
    return {"toolUse": {"toolUseId": id_, "name": name, "input": call_input(call)}}


def _sent_id(id_: str) -> str:
    """Return the id of a call in the allowed form and length."""
    allowed = escaped_id(id_, _NOT_IN_ID)
    if len(allowed) <= _MAX_ID:
        return allowed
    from hashlib import sha256  # rare, and slow to import

    return sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()


# Tools, parameters and schemas.


def _tool_config(call: ModelCall) -> dict[str, Any] | None:
    """Return the tools and the choice among them, None without tools."""
    forced = _forces_tool(call)
    functions = [tool["function"] for tool in call.tools if "function" in tool]
    provided = [tool for tool in call.tools if "function" not in tool]
    used = [one for message in call.messages for one in message.get("tool_calls", ())]
    if call.tool_choice == "none" and not used:
        functions, provided = [], []
    specs: list[Mapping[str, Any]] = [*map(_tool, functions), *provided]
    if used and not specs:
        names = dict.fromkeys(one["function"]["name"] for one in used)
        specs = [_tool({"name": name}) for name in names]
    if forced and call.schema is not None:
        answer = {"name": _ANSWER_TOOL, "description": "Gives the answer."}
        specs.append(_tool({**answer, "parameters": call.schema.schema}))
    if not specs:
        return None
    config: dict[str, Any] = {"tools": specs}
    if forced:
        free = functions and call.tool_choice != "none"
        config["toolChoice"] = {"any": {}} if free else {"tool": {"name": _ANSWER_TOOL}}
    elif functions and call.tool_choice not in (None, "none"):
        config["toolChoice"] = _choice(call.tool_choice)
    return config


def _forces_tool(call: ModelCall) -> bool:
    """Return True if the answer is requested as the arguments of a tool."""
    schema = call.schema
    if schema is None or schema.schema is None or not _WITHOUT_OUTPUT_CONFIG.search(call.model):
        return False
    # A tool cannot be forced while the model reasons, nor against another choice of the caller.
    return not _reasons(call) and call.tool_choice in (None, "auto", "none", "required")


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    spec, schema = tool_parts(function)
    return {"toolSpec": {**spec, "inputSchema": {"json": schema}}}


def _choice(choice: str) -> Mapping[str, Any]:
    known = _CHOICES.get(choice)
    return known if known is not None else {"tool": {"name": choice.removeprefix("tool:")}}


def _takes_temperature(call: ModelCall) -> bool:
    """Return False for models of Claude that reject it, and beside top P."""
    claude = claude_at_bedrock(call.model)
    if claude is None:
        return True
    top_p = "topP" in mapping(call.extra.get("inferenceConfig"))
    return not (top_p or _reasons(call) or claude.startswith(NO_TEMPERATURE))


def _reasons(call: ModelCall) -> bool:
    """Return True if the caller switched the reasoning of Claude on."""
    fields = mapping(call.extra.get("additionalModelRequestFields"))
    return bool(mapping(fields.get("thinking")).get("type", "disabled") != "disabled")


def _text_format(schema: Schema) -> dict[str, Any]:
    """Return the format of the answer; the schema is JSON within a text."""
    try:
        supported = encode(supported_schema(schema.schema)).decode()
    except ValueError as error:
        raise LLMRequestError(f"response_format cannot be encoded as JSON: {error}") from None
    structure = {"jsonSchema": {"name": schema.name, "schema": supported}}
    return {"type": "json_schema", "structure": structure}


# Answers.


def _is_signed(block: Mapping[str, Any]) -> bool:
    """Return True if a block is reasoning that must be sent back."""
    content = mapping(block.get("reasoningContent"))
    signed = text(mapping(content.get("reasoningText")).get("signature"))
    return bool(signed or text(content.get("redactedContent")))


def _text_of(block: Mapping[str, Any]) -> str:
    """Return the text of a block, which may be text with citations."""
    cited = items(mapping(block.get("citationsContent")).get("content"))
    return text(block.get("text")) + "".join(text(mapping(one).get("text")) for one in cited)


def _reasoning_of(block: Mapping[str, Any]) -> str:
    return text(mapping(mapping(block.get("reasoningContent")).get("reasoningText")).get("text"))


def _call(block: Mapping[str, Any]) -> RawToolCall | None:
    """Return the call in a block, None for other blocks and tools that run at the provider."""
    use = mapping(block.get("toolUse"))
    return raw_call(use, use.get("toolUseId")) if use and not _is_provider_call(block) else None


def _content(blocks: Sequence[Mapping[str, Any]]) -> tuple[str, list[RawToolCall]]:
    return "".join(map(_text_of, blocks)), [*calls_in(blocks, _is_signed, _call)]


def _carried(blocks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the blocks to send back; empty if no tool ran at the provider."""
    ran = any("toolResult" in block or _is_provider_call(block) for block in blocks)
    return [dict(block) for block in blocks if block] if ran else []


def _is_provider_call(block: Mapping[str, Any]) -> bool:
    return mapping(block.get("toolUse")).get("type") == _PROVIDER_CALL


def _block_citations(block: Mapping[str, Any], end: int) -> list[Citation]:
    """Return the citations of a block; `end` is where it ends in the text of the answer."""
    start = end - len(_text_of(block))
    cited = items(mapping(block.get("citationsContent")).get("citations"))
    return [_citation(mapping(one), start, end) for one in cited]


def _citation(given: Mapping[str, Any], start: int, end: int) -> Citation:
    kind, location = next(iter(mapping(given.get("location")).items()), ("", {}))
    location, source = mapping(location), text(given.get("source"))
    is_url = "://" in source
    return citation(
        title=given.get("title"),
        url=location.get("url") or (source if is_url else None),
        source_id=None if is_url else source,
        cited_text="".join(
            text(mapping(one).get("text")) for one in items(given.get("sourceContent"))
        ),
        start=start,
        end=end,
        document=location.get("documentIndex", location.get("searchResultIndex")),
        unit=_UNITS.get(kind),
        source_start=location.get("start"),
        source_end=location.get("end"),
    )


_UNITS: Mapping[str, str] = {
    "documentChar": "char",
    "documentPage": "page",
    "documentChunk": "block",
    "searchResultLocation": "block",
}


def _tool_results(blocks: Sequence[Mapping[str, Any]]) -> list[ProviderToolResult]:
    """Return the uses of tools that ran at the provider."""
    results = {
        text(result.get("toolUseId")): result
        for result in (mapping(block.get("toolResult")) for block in blocks)
    }
    uses = [block["toolUse"] for block in blocks if _is_provider_call(block)]
    return [_tool_result(use, results.get(text(use.get("toolUseId")), {})) for use in uses]


def _tool_result(use: Mapping[str, Any], result: Mapping[str, Any]) -> ProviderToolResult:
    name, failed = text(use.get("name")), result.get("status") == "error"
    parts = [mapping(part) for part in items(result.get("content"))]
    output = [part.get("json") or part.get("text") for part in parts]
    return tool_result(
        KINDS.get(name, "other"),
        name,
        texts(mapping(use.get("input")), "query", "code", "snippet"),
        id=use.get("toolUseId"),
        output=None if failed else output,
        error=output if failed else None,
    )


def _media(image: Any) -> list[Media]:
    image = mapping(image)
    data = text(mapping(image.get("source")).get("bytes"))
    return [media_of(f"image/{text(image.get('format')) or 'png'}", data=data)] if data else []


def _end(reason: str, *, usable: bool, forced: bool) -> End:
    """Return the reason why the answer ended; `forced`: a forced tool call was the answer.

    Raises:
        Malformed: the answer failed and nothing in it is usable.
    """
    if reason in _FAILED and not usable:
        raise Malformed(f"the model finished with {reason} and no answer", code=reason)
    return "stop" if forced and reason == "tool_use" else _ENDS.get(reason, "stop")


def _tokens(reply: Mapping[str, Any]) -> Tokens | None:
    usage = mapping(reply.get("usage"))
    fresh, completion = count(usage.get("inputTokens")), count(usage.get("outputTokens"))
    if fresh is None and completion is None:
        return None
    cached = count(usage.get("cacheReadInputTokens")) or 0
    written = count(usage.get("cacheWriteInputTokens")) or 0
    details = [mapping(detail) for detail in items(usage.get("cacheDetails"))]
    hour = sum(count(one.get("inputTokens")) or 0 for one in details if one.get("ttl") == "1h")
    tokens = Tokens(
        prompt=None if fresh is None else fresh + cached + written,
        completion=completion,
        cached=cached,
        cache_write=written,
        cache_write_1h=min(hour, written),
    )
    router = mapping(mapping(reply.get("trace")).get("promptRouter"))
    return with_billing(tokens, {"model": router.get("invokedModelId")})


# Parts of messages: text, images and documents. They are sent as data; Bedrock fetches no URLs.

_IMAGE_FORMATS: Mapping[str, str] = {
    "image/gif": "gif",
    "image/jpeg": "jpeg",
    "image/jpg": "jpeg",
    "image/png": "png",
    "image/webp": "webp",
}
_DOCUMENT_FORMATS: Mapping[str, str] = {
    "application/msword": "doc",
    "application/pdf": "pdf",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "md",
    "text/plain": "txt",
}
_NOT_IN_DOCUMENT_NAME = re.compile(r"[^a-zA-Z0-9()\[\]-]+", re.ASCII)
_MAX_DOCUMENT_NAME = 200


def part_problem(part: Mapping[str, Any], profile: ProviderProfile) -> str | None:
    """Return why a part cannot be sent and what to do instead, None if it can be sent."""
    if part["type"] == "input_audio":
        return f"which {profile.name} does not accept: send a transcript as a text part"
    found = data_of(_url(part))
    if found is None:
        return f"but {profile.name} fetches nothing: load it and pass its data"
    kind = found[0].lower()
    if part["type"] == "image_url":
        if kind in _IMAGE_FORMATS:
            return None
        return (
            f"but {profile.name} accepts only GIF, JPEG, PNG and WebP images, got {kind}: convert "
            "the image"
        )
    if kind in _DOCUMENT_FORMATS or kind in _IMAGE_FORMATS:
        return None
    accepted = ", ".join(sorted(_DOCUMENT_FORMATS.values()))
    return f"but {profile.name} accepts only {accepted} and images, got {kind}: convert the file"


def content_blocks(content: Any) -> list[dict[str, Any]]:
    """Return the blocks of a content, without blank text."""
    if not isinstance(content, list):
        return [{"text": content}] if content and content.strip() else []
    return [_block(part) for part in content if part["type"] != "text" or part["text"].strip()]


def _block(part: Mapping[str, Any]) -> dict[str, Any]:
    if part["type"] == "text":
        return {"text": part["text"]}
    kind, data = data_of(_url(part)) or ("", "")
    source = {"bytes": data}
    if (image := _IMAGE_FORMATS.get(kind.lower())) is not None:
        return {"image": {"format": image, "source": source}}
    form, name = (
        _DOCUMENT_FORMATS.get(kind.lower(), "txt"),
        _document_name(part["file"]["filename"]),
    )
    return {"document": {"format": form, "name": name, "source": source}}


def _document_name(filename: str) -> str:
    """Return a name in which all characters are accepted."""
    stem = filename.rpartition(".")[0] or filename
    return _NOT_IN_DOCUMENT_NAME.sub(" ", stem).strip()[:_MAX_DOCUMENT_NAME] or "document"


def _url(part: Mapping[str, Any]) -> str:
    """Return the URL of an image or a file, empty if it is not data."""
    if part["type"] == "image_url":
        return str(part["image_url"]["url"])
    return str(part["file"].get("file_data", ""))
