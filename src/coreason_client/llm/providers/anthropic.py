"""The wire format of Anthropic's Messages API. Pure.

* An answer is a list of blocks; the events of a stream add to them.
* System prompts are one text beside the messages. User and assistant messages must alternate, so
  adjacent messages of one role are merged, including the results of all tool calls of a turn.
* Blank text is rejected everywhere, so it is left out; a message with nothing else is dropped.
* Messages have no `name`, and JSON cannot be requested without a schema.
* `input_tokens` does not include tokens read from or written to a cache. In a stream the input is
  counted at the start and the output at the end; later counts include the earlier ones.
* A stream ends with `message_stop`; an `error` event ends it with an error, despite status 200.
* Blocks of tools that the provider runs must be sent back unchanged, such as encrypted results. So
  a message with such blocks carries all its blocks in `provider_items`.
* The thinking of a model must be sent back, unchanged and signed, before the tool calls that
  followed it. Our messages carry it as the `signature` of the next call.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote

from pydantic_core import to_json

from .._adapter import Adapter, Piece, own_items
from .._answer import End, FaultReceived, Malformed, ModelAnswer, ProviderFault, RawToolCall, Tokens
from .._call import ModelCall, PromptCache, cached_lists, data_of, is_text, mime_type_of, text_of
from .._citations import citation, texts, tool_result
from .._cost import with_billing, with_iterations
from .._json import as_text, codes, count, http_status, items, mapping, parse, parse_or_none, text
from .._profile import ProviderProfile
from ..types import Citation, Message, ProviderToolResult
from ._arguments import ARGUMENTS
from ._claude import (
    CLAUDE_ON_VERTEX,
    KINDS,
    NO_TEMPERATURE,
    BlockReader,
    call_input,
    calls_in,
    citations_in,
    default_max_tokens,
    escaped_id,
    lone_prompts,
    make_turns,
    raw_call,
    supported_schema,
    tool_parts,
    with_calls,
)

__all__ = ["ADAPTER", "FILES_BETA", "VERTEX", "Anthropic", "VertexClaude"]

_HEADERS: Mapping[str, str] = {"anthropic-version": "2023-06-01"}
_BETA = "anthropic-beta"
FILES_BETA = {_BETA: "files-api-2025-04-14"}
"""The header of requests that have to do with stored files."""
_FILE_ID = b'"file_id":'  # inside a text, its quotes would be escaped

# All other reasons, or none, mean "stop", among them `compaction`.
_ENDS: Mapping[str, End] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "filtered",
    "tool_use": "tool_calls",
    "pause_turn": "paused",
}

_CHOICES: Mapping[str, str] = {"auto": "auto", "none": "none", "required": "any"}

_SERVER_CALLS = ("server_tool_use", "mcp_tool_use")
_SERVER_TYPES = (*_SERVER_CALLS, "_tool_result")

# Not allowed in the id of a tool call; ids of other providers may contain them.
_NOT_IN_ID = re.compile(r"[^a-zA-Z0-9_-]", re.ASCII)


class Anthropic(Adapter):
    """The format of `/messages`."""

    arguments = ARGUMENTS["anthropic"]
    has_betas = True

    def url(self, base: str, call: ModelCall) -> str:
        """Return the URL of the Messages endpoint."""
        return f"{base}/messages"

    def headers(self) -> Mapping[str, str]:
        """Return the version header, which every request must have."""
        return _HEADERS

    def request_headers(self, headers: Mapping[str, str], content: bytes) -> Mapping[str, str]:
        """Return the headers; a request with a stored file needs a beta header."""
        if _FILE_ID not in content:
            return headers
        betas = [value for name, value in headers.items() if name.lower() == _BETA]
        kept = {name: value for name, value in headers.items() if name.lower() != _BETA}
        return {**kept, _BETA: ",".join(dict.fromkeys([*betas, *FILES_BETA.values()]))}

    def part_problem(self, part: Mapping[str, Any], profile: ProviderProfile) -> str | None:
        """Return why a part cannot be sent, None if it can."""
        return part_problem(part, profile)

    def body(self, call: ModelCall, profile: ProviderProfile) -> dict[str, Any]:
        """Return the JSON body for a call."""
        max_tokens = default_max_tokens(call.model) if call.max_tokens is None else call.max_tokens
        body: dict[str, Any] = {"model": call.model, "max_tokens": max_tokens}
        body.update(_conversation(call.messages, profile.name))
        if _takes_temperature(call):
            body["temperature"] = call.temperature
        if call.stop:
            body["stop_sequences"] = list(call.stop)
        if call.tools:
            body["tools"] = [
                _tool(tool["function"]) if "function" in tool else tool for tool in call.tools
            ]
            if call.tool_choice is not None:
                body["tool_choice"] = _choice(call.tool_choice)
        # JSON without a schema has no parameter: the prompt has to ask for it.
        if call.schema is not None and call.schema.schema is not None:
            schema = supported_schema(call.schema.schema)
            body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        if call.prompt_cache is not None:
            _set_breakpoints(body, call.prompt_cache)
        if call.stream:
            body["stream"] = True
        return body

    def answer(self, reply: Mapping[str, Any]) -> ModelAnswer:
        """Read a complete answer.

        Raises:
            Malformed: it has neither content nor a `stop_reason`.
        """
        content = reply.get("content")
        blocks = [mapping(block) for block in items(content)]
        joined, calls = _content(blocks)
        answer = ModelAnswer(
            content=text(content) or joined or None,
            calls=calls,
            end=_end(reply.get("stop_reason")),
            reasoning=_joined(blocks, "thinking"),
            tokens=with_billing(_tokens(mapping(reply.get("usage"))), reply),
            items=_carried(blocks),
            citations=citations_in(blocks, _text_of, _block_citations),
            tool_results=_tool_results(blocks),
        )
        if answer.content or answer.calls or answer.reasoning or text(reply.get("stop_reason")):
            return answer
        raise Malformed("the answer must have `content` or a `stop_reason`, got neither")

    def reader(self) -> "AnthropicReader":
        """Return a new reader for one stream."""
        return AnthropicReader()

    def fault(self, reply: Any) -> ProviderFault | None:
        """Return the error in a body: an object, or a text from a gateway."""
        reply = mapping(reply)
        error = reply.get("error")
        if not error and reply.get("type") != "error":
            return None
        if isinstance(error, str) and error:
            return ProviderFault(error)
        described = mapping(error)
        specific = mapping(described.get("details")).get("error_code")
        return ProviderFault(
            text(described.get("message")) or text(reply.get("message")) or _shown(reply),
            codes(specific, described.get("code"), described.get("type")),
            status=http_status(described.get("code")),
        )


class VertexClaude(Anthropic):
    """The same format at Vertex, with the model in the URL and the version in the body."""

    def url(self, base: str, call: ModelCall) -> str:
        """Return the URL for a call; the model may also be `publishers/anthropic/models/NAME`."""
        verb = "streamRawPredict" if call.stream else "rawPredict"
        name = quote(call.model.removeprefix(CLAUDE_ON_VERTEX[1]), safe="@")
        return f"{base.partition('/publishers/')[0]}/publishers/anthropic/models/{name}:{verb}"

    def headers(self) -> Mapping[str, str]:
        """Return no header: the version is in the body."""
        return {}

    def body(self, call: ModelCall, profile: ProviderProfile) -> dict[str, Any]:
        """Return the JSON body for a call."""
        body = super().body(call, profile)
        del body["model"]
        return {"anthropic_version": "vertex-2023-10-16", **body}

    def fault(self, reply: Any) -> ProviderFault | None:
        """Return the error in a body: one of Google's may be in a list, and names a status."""
        found = mapping(items(reply)[0]) if isinstance(reply, list) and reply else reply
        fault = super().fault(found)
        status = text(mapping(mapping(found).get("error")).get("status"))
        return fault if fault is None or not status else replace(fault, codes=codes(status))


class AnthropicReader(BlockReader):
    """Reads the events of one stream."""

    __slots__ = ("_model", "_usage")

    def __init__(self) -> None:
        super().__init__()
        self._usage: dict[str, Any] = {}
        self._model = ""

    def answer(self) -> ModelAnswer:
        """Return the answer received so far, with the blocks that must be sent back."""
        answer = super().answer()
        answer.items, answer.tool_results = _carried(self._blocks), _tool_results(self._blocks)
        return answer

    def read(self, data: bytes, event: bytes) -> Sequence[Piece]:
        """Read one event; the type in its data takes precedence over its name.

        Raises:
            FaultReceived: the event is an error.
            Malformed: the event is not a JSON object.
        """
        try:
            value = parse(data, keep_edge_surrogates=True)
        except ValueError as error:
            return self._unreadable(data, event, f"got invalid JSON: {error}")
        if not isinstance(value, dict):
            return self._unreadable(data, event, "got another JSON value")
        kind = value.get("type")
        if kind == "content_block_delta":
            return self._delta(value)
        if not isinstance(kind, str):
            kind = event.decode(errors="replace")
        handle = _EVENTS.get(kind)
        if handle is not None:
            return handle(self, value)
        fault = ADAPTER.fault(value)
        if fault is not None:
            raise FaultReceived(fault)
        return ()

    def _unreadable(self, data: bytes, event: bytes, why: str) -> Sequence[Piece]:
        """Handle data that is not a JSON object; some gateways send it."""
        content = data.strip()
        if content == b"[DONE]":
            self.done = True
        elif event == b"error":
            raise FaultReceived(ProviderFault(content.decode(errors="replace")))
        elif content and event != b"ping":
            raise Malformed(f"an event must be a JSON object, {why}")
        return ()

    def _delta(self, value: dict[str, Any]) -> Sequence[Piece]:
        delta, block = mapping(value.get("delta")), self._block
        kind = delta.get("type")
        if kind == "text_delta":
            return self._add_text(text(delta.get("text")))
        if kind == "input_json_delta":
            number = self._open.get(count(value.get("index")))
            piece = text(delta.get("partial_json"))
            self._pieces.append(piece)
            return (
                self.add_tool_call(number, arguments=piece) if piece and number is not None else ()
            )
        if kind == "thinking_delta":
            return self._add_thinking(text(delta.get("thinking")))
        if kind == "signature_delta" and block:
            block["signature"] = text(block.get("signature")) + text(delta.get("signature"))
        if kind == "citations_delta" and block:
            block["citations"] = [*items(block.get("citations")), mapping(delta.get("citation"))]
        return ()

    def _add_text(self, piece: str) -> Sequence[Piece]:
        if not piece:
            return ()
        added = self.add_text(piece)
        self._pieces.append(added.text)
        return (added,)

    def _add_thinking(self, piece: str) -> Sequence[Piece]:
        self._pieces.append(piece)
        return (self.add_reasoning(piece),) if piece else ()

    def _start_block(self, value: dict[str, Any]) -> Sequence[Piece]:
        """Read the start of a block, which may contain the complete block."""
        cited = self._end_block()
        block = self._block = dict(mapping(value.get("content_block")))
        kind = block.get("type")
        if kind == "tool_use":
            return [*cited, *self._tool_use(block, count(value.get("index")))]
        if kind == "text":
            return [*cited, *self._add_text(text(block.get("text")))]
        if kind == "thinking":
            return [*cited, *self._add_thinking(text(block.get("thinking")))]
        return cited

    def _end_block(self) -> list[Piece]:
        """Complete the latest block, and return its citations: only now their range is known."""
        block, pieces = self._block, "".join(self._pieces)
        self._block, self._pieces = {}, []
        if not block:
            return []
        kind = text(block.get("type"))
        if kind in ("text", "thinking"):
            block[kind] = pieces
        elif pieces and "input" in block:
            block["input"] = mapping(parse_or_none(pieces.encode("utf-8", "replace")))
        self.keep(block, signed=_is_signed(block))
        if not block.get("citations"):
            return []
        return self.add_citations(_block_citations(block, sum(map(len, self._text))))

    def _tool_use(self, block: Mapping[str, Any], index: int | None) -> Sequence[Piece]:
        if not text(block.get("name")):  # not a call
            self._open.pop(index, None)
            return ()
        number = len(self._calls)
        signature = self.take_signature()
        arguments = as_text(block.get("input") or "")
        if arguments:
            self._open.pop(index, None)  # complete: later pieces would be wrong
        else:
            self._open[index] = number
        id_, name = text(block.get("id")) or None, text(block.get("name"))
        return self.add_tool_call(
            number, id=id_, name=name, arguments=arguments, signature=signature
        )

    def _start(self, value: dict[str, Any]) -> Sequence[Piece]:
        message = mapping(value.get("message"))
        self._model = text(message.get("model"))
        self._count(mapping(message.get("usage")))
        return ()

    def _change(self, value: dict[str, Any]) -> Sequence[Piece]:
        reason = mapping(value.get("delta")).get("stop_reason")
        if reason is not None:
            self.end = _end(reason)
        self._count(mapping(value.get("usage")))
        return ()

    def _stop(self, value: dict[str, Any]) -> Sequence[Piece]:
        self.done = True
        return self._end_block()

    def _error(self, value: dict[str, Any]) -> Sequence[Piece]:
        raise FaultReceived(
            ADAPTER.fault(value) or ProviderFault(text(value.get("message")) or _shown(value))
        )

    def _count(self, usage: Mapping[str, Any]) -> None:
        """Read counts, which include the earlier ones; a count never decreases."""
        for key, value in usage.items():
            known, new = count(self._usage.get(key)), count(value)
            if value is not None and (known is None or (new is not None and new >= known)):
                self._usage[key] = value
        reply = {"model": self._model, "usage": self._usage}
        self.tokens = with_billing(_tokens(self._usage), reply)


_EVENTS: Mapping[str, Callable[[AnthropicReader, dict[str, Any]], Sequence[Piece]]] = {
    "content_block_delta": AnthropicReader._delta,
    "content_block_start": AnthropicReader._start_block,
    "content_block_stop": lambda reader, _: reader._end_block(),
    "message_start": AnthropicReader._start,
    "message_delta": AnthropicReader._change,
    "message_stop": AnthropicReader._stop,
    "error": AnthropicReader._error,
}

ADAPTER: Adapter = Anthropic()
VERTEX: Adapter = VertexClaude()


# Requests.


def _set_breakpoints(body: dict[str, Any], lifetime: PromptCache) -> None:
    """Mark the ends of the parts of a request that are cached."""
    if "system" in body:
        body["system"] = [text_block(body["system"])]
    mark = {"type": "ephemeral"} if lifetime == "5m" else {"type": "ephemeral", "ttl": lifetime}
    for blocks in cached_lists(body.get("tools", []), body.get("system", []), body["messages"]):
        blocks[-1] = {**blocks[-1], "cache_control": mark}


def _conversation(messages: Sequence[Message], provider: str) -> dict[str, Any]:
    """Return the fields `messages` and `system`."""
    system = [m["content"] for m in messages if m["role"] == "system" and m["content"].strip()]
    turns = make_turns(messages, partial(_blocks, provider))
    if not turns:
        # At least one message is required, so lone system prompts become a user message.
        return {"messages": lone_prompts([text_block(prompt) for prompt in system])}
    return {"system": "\n\n".join(system), "messages": turns} if system else {"messages": turns}


def _blocks(provider: str, message: Message) -> list[dict[str, Any]]:
    """Return the blocks of a message, none for a system prompt or a blank message."""
    if message["role"] == "system":
        return []
    blocks = content_blocks(message["content"])
    if message["role"] == "tool":
        result: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": _sent_id(message["tool_call_id"]),
        }
        if "is_error" in message:
            result["is_error"] = True
        return [{**result, "content": blocks} if blocks else result]
    if carried := own_items(message, provider, _content):
        said = [one for one in carried if one.get("type") != "text" or one["text"].strip()]
        return [dict(block) for block in said]
    return with_calls(blocks, message.get("tool_calls", ()), _is_signed, _tool_use)


def _tool_use(call: Mapping[str, Any]) -> dict[str, Any]:
    id_, name = _sent_id(call["id"]), call["function"]["name"]
    return {"type": "tool_use", "id": id_, "name": name, "input": call_input(call)}


def _sent_id(id_: str) -> str:
    return escaped_id(id_, _NOT_IN_ID)


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    tool, schema = tool_parts(function)
    return {**tool, "input_schema": schema}


def _choice(choice: str) -> dict[str, Any]:
    name = choice.removeprefix("tool:")
    return {"type": _CHOICES[choice]} if name == choice else {"type": "tool", "name": name}


def _takes_temperature(call: ModelCall) -> bool:
    """Return False without one, for models that reject it, and beside `top_p` or thinking."""
    if call.temperature is None:
        return False
    thinking = mapping(call.extra.get("thinking")).get("type", "disabled")
    return (
        thinking == "disabled"
        and "top_p" not in call.extra
        and not call.model.startswith(NO_TEMPERATURE)
    )


# Answers.


def _joined(blocks: Iterable[Mapping[str, Any]], kind: str) -> str:
    """Join the texts of all blocks of a type; the key of a text is that type."""
    return "".join(text(block.get(kind)) for block in blocks if block.get("type") == kind)


def _call(block: Mapping[str, Any]) -> RawToolCall | None:
    """Return the call in a block, None for other blocks and those of server-side tools."""
    return raw_call(block, block.get("id")) if block.get("type") == "tool_use" else None


def _content(blocks: Sequence[Mapping[str, Any]]) -> tuple[str, list[RawToolCall]]:
    return _joined(blocks, "text"), [*calls_in(blocks, _is_signed, _call)]


def _carried(blocks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the blocks to send back; empty if `content` and `tool_calls` say the same."""
    typed = [block for block in blocks if text(block.get("type"))]
    if not any(block["type"].endswith(_SERVER_TYPES) for block in typed):
        return []
    # A request rejects `citations` that are null.
    return [{key: one for key, one in block.items() if one is not None} for block in typed]


def _text_of(block: Mapping[str, Any]) -> str:
    return text(block.get("text")) if block.get("type") == "text" else ""


def _block_citations(block: Mapping[str, Any], end: int) -> list[Citation]:
    """Return the citations of a text block, all of which support the whole block.

    `end` is where the block ends in the text of the answer.
    """
    start = end - len(_text_of(block))
    return [_citation(mapping(one), start, end) for one in items(block.get("citations"))]


def _citation(location: Mapping[str, Any], start: int, end: int) -> Citation:
    unit, first, last = _UNITS.get(text(location.get("type")), ("", "", ""))
    source = text(location.get("source"))
    is_url = "://" in source
    return citation(
        title=location.get("title") or location.get("document_title"),
        url=source if is_url else location.get("url"),
        source_id=location.get("file_id") or (None if is_url else source),
        cited_text=location.get("cited_text"),
        start=start,
        end=end,
        document=location.get("document_index", location.get("search_result_index")),
        unit=unit,
        source_start=location.get(first),
        source_end=location.get(last),
    )


_UNITS: Mapping[str, tuple[str, str, str]] = {
    "char_location": ("char", "start_char_index", "end_char_index"),
    "page_location": ("page", "start_page_number", "end_page_number"),
    "content_block_location": ("block", "start_block_index", "end_block_index"),
    "search_result_location": ("block", "start_block_index", "end_block_index"),
}


def _tool_results(blocks: Sequence[Mapping[str, Any]]) -> list[ProviderToolResult]:
    """Return the uses of server-side tools; a result may be missing, if the answer is paused."""
    results = {
        text(block.get("tool_use_id")): block.get("content")
        for block in blocks
        if text(block.get("type")).endswith("_tool_result")
    }
    return [
        _tool_result(block, results.get(text(block.get("id"))))
        for block in blocks
        if block.get("type") in _SERVER_CALLS
    ]


def _tool_result(use: Mapping[str, Any], content: Any) -> ProviderToolResult:
    name, one = text(use.get("name")), mapping(content)
    found = [mapping(result) for result in items(content)]
    fetched = {"title": mapping(one.get("content")).get("title"), "url": one.get("url")}
    is_mcp = use.get("type") == "mcp_tool_use"
    output = [one.get("stdout"), one.get("stderr")] if "stdout" in one else None
    return tool_result(
        "mcp" if is_mcp else KINDS.get(name, "other"),
        name,
        texts(mapping(use.get("input")), "query", "url", "code", "command"),
        id=use.get("id"),
        sources=[citation(title=r.get("title"), url=r.get("url")) for r in [*found, fetched]],
        output=content if is_mcp else output,
        error=one.get("error_code"),
    )


def _is_signed(block: Mapping[str, Any]) -> bool:
    """Return True if a block is thinking that must be sent back."""
    kind = block.get("type")
    return kind == "redacted_thinking" or (
        kind == "thinking" and bool(text(block.get("signature")))
    )


def _end(reason: Any) -> End:
    return _ENDS.get(text(reason), "stop")


def _tokens(usage: Mapping[str, Any]) -> Tokens | None:
    return with_iterations(_counted(usage), usage.get("iterations"), _counted)


def _counted(usage: Mapping[str, Any]) -> Tokens | None:
    fresh, completion = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
    if fresh is None and completion is None:
        return None
    kept = mapping(usage.get("cache_creation"))
    hour = count(kept.get("ephemeral_1h_input_tokens")) or 0
    written = count(usage.get("cache_creation_input_tokens"))
    if written is None:
        written = hour + (count(kept.get("ephemeral_5m_input_tokens")) or 0)
    cached = count(usage.get("cache_read_input_tokens")) or 0
    return Tokens(
        prompt=None if fresh is None else fresh + cached + written,
        completion=completion,
        cached=cached,
        cache_write=written,
        cache_write_1h=min(hour, written),
        reasoning=count(mapping(usage.get("output_tokens_details")).get("thinking_tokens")) or 0,
    )


def _shown(value: Any) -> str:
    """Return a value as JSON, cut for an error message."""
    return to_json(value).decode()[:200]


# Parts of messages: text, images and documents.

_MEDIA_TYPES: Mapping[str, str] = {"image/jpg": "image/jpeg"}
_PDF = "application/pdf"


def part_problem(part: Mapping[str, Any], profile: ProviderProfile) -> str | None:
    """Return why a part cannot be sent and what to do instead, None if it can be sent."""
    if part["type"] == "input_audio":
        return f"which {profile.name} does not accept: send a transcript as a text part"
    return _file_problem(part["file"], profile) if part["type"] == "file" else None


def content_blocks(content: Any) -> list[dict[str, Any]]:
    """Return the blocks of a content, without blank text."""
    if not isinstance(content, list):
        return [text_block(content)] if content and content.strip() else []
    return [_part(part) for part in content if part["type"] != "text" or part["text"].strip()]


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    if part["type"] == "file":
        return _file(part["file"])
    return text_block(part["text"]) if part["type"] == "text" else _image(part["image_url"]["url"])


def text_block(content: str) -> dict[str, Any]:
    """Return a block of text."""
    return {"type": "text", "text": content}


def _image(url: str) -> dict[str, Any]:
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:"):
        return {"type": "image", "source": {"type": "url", "url": url}}
    kind = head.removeprefix("data:").partition(";")[0].lower()
    media_type = _MEDIA_TYPES.get(kind, kind)
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "image", "source": source}


def _file_problem(file: Mapping[str, Any], profile: ProviderProfile) -> str | None:
    found = data_of(file.get("file_data", ""))
    if found is None or found[0] == _PDF or found[0].startswith("image/"):
        return None
    if not is_text(found[0]):
        return (
            f"but {profile.name} accepts only PDF, text and image files, got {found[0]}: convert "
            "the file to PDF or text"
        )
    if text_of(found[1]) is None:
        return f"but {profile.name} accepts only text in UTF-8: convert the file"
    return None


def _file(file: Mapping[str, Any]) -> dict[str, Any]:
    found = data_of(file.get("file_data", ""))
    if found is not None and found[0].startswith("image/"):
        return _image(file["file_data"])
    if "file_id" in file and (mime_type_of(file.get("filename", "")) or "").startswith("image/"):
        return {"type": "image", "source": _source(file, None)}
    document: dict[str, Any] = {"type": "document", "source": _source(file, found)}
    return {**document, "title": file["filename"]} if "filename" in file else document


def _source(file: Mapping[str, Any], found: tuple[str, str] | None) -> dict[str, Any]:
    if found is None:
        if "file_id" in file:
            return {"type": "file", "file_id": file["file_id"]}
        return {"type": "url", "url": file["file_url"]}
    kind, data = found
    if kind == _PDF:
        return {"type": "base64", "media_type": kind, "data": data}
    return {"type": "text", "media_type": "text/plain", "data": text_of(data)}
