"""The wire format of Gemini's `generateContent`, at Gemini and at Vertex. Pure.

* The URL has the model, and whether to stream. A stream consists of SSE events, each a complete
  `GenerateContentResponse`; there is no end marker, and the usage in the last event is the total.
* System messages become `systemInstruction`, the role of the assistant is `model`, and a tool
  result is a `functionResponse` of the user. The results of one turn must be in one message.
* A result must have the name of its function; it is looked up by the id of the call.
* The `thoughtSignature` of a call must be sent back with it.
* Sources are in the `groundingMetadata` of a candidate, with ranges in bytes. Parts of tools that
  the provider runs are sent back: a message with such parts carries all in `provider_items`.
* `STOP` also ends an answer with function calls; some finish reasons mean that the answer failed.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from pydantic_core import from_json

from .._adapter import Adapter, AnswerReader, Piece, own_items
from .._answer import (
    End,
    FaultReceived,
    Malformed,
    ModelAnswer,
    ProviderFault,
    RawToolCall,
    Tokens,
    media_of,
)
from .._call import ModelCall, data_of, mime_type_of, sampling
from .._citations import citation, tool_result
from .._cost import with_billing
from .._json import count, http_status, items, mapping, parse, text
from .._profile import ProviderProfile
from ..types import Citation, Media, Message, ProviderToolResult
from ._arguments import ARGUMENTS, GEMINI_3

__all__ = ["ADAPTER", "VERTEX", "Gemini", "Vertex"]

# Models.

_WITHOUT_SYSTEM = ("gemma-3",)
"""Prefixes of the names of models that reject `systemInstruction`."""

_FOREIGN_SIGNATURE = "skip_thought_signature_validator"
"""The documented signature for a call that another model made."""

# Finish reasons.

_ENDS: Mapping[str, End] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "filtered",
    "RECITATION": "filtered",
    "LANGUAGE": "filtered",
    "BLOCKLIST": "filtered",
    "PROHIBITED_CONTENT": "filtered",
    "SPII": "filtered",
    "IMAGE_SAFETY": "filtered",
    "IMAGE_PROHIBITED_CONTENT": "filtered",
    "IMAGE_RECITATION": "filtered",
    "IMAGE_OTHER": "filtered",
    "MODEL_ARMOR": "filtered",
}
"""Every other reason means a failure: "stop" if the answer has content or calls, else an error."""

_BY_NUMBER = (
    "",
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "OTHER",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
)
"""Reasons by number: the first versions of Vertex sent numbers."""

_UNSPECIFIED = frozenset({"", "FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"})

# Requests.

_ROLES = {"user": "user", "assistant": "model"}
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}

_IMAGE_TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "heic": "image/heic",
    "heif": "image/heif",
}
"""MIME types by file extension; for other extensions none is sent."""

_PROVIDER_PARTS = frozenset({"executableCode", "codeExecutionResult", "toolCall", "toolResponse"})
_SOURCES = frozenset({"groundingMetadata", "citationMetadata", "urlContextMetadata"})
_CHUNKS = ("web", "retrievedContext", "maps", "image")
_PUBLISHER = "/publishers/google"
_QUERY = re.compile("[?#]")
_DELAY = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)s", re.ASCII)
_MAX_SHOWN = 200
"""Maximum length of the provider's explanation in a message."""


class Gemini(Adapter):
    """The format of Gemini."""

    arguments = ARGUMENTS["gemini"]

    def url(self, base: str, call: ModelCall) -> str:
        """Return the URL for a call; the model may begin with `models/` or `tunedModels/`."""
        kind, slash, name = call.model.partition("/")
        if not slash or kind not in ("models", "tunedModels"):
            kind, name = "models", call.model
        verb = "streamGenerateContent?alt=sse" if call.stream else "generateContent"
        return f"{base}/{kind}/{quote(name, safe='')}:{verb}"

    def body(self, call: ModelCall, profile: ProviderProfile) -> dict[str, Any]:
        """Return the JSON body for a call."""
        model = call.model.rpartition("/")[2]
        system = [
            part
            for message in call.messages
            if message["role"] == "system"
            for part in _parts(message.get("content"))
        ]
        signed = GEMINI_3.match(model) is not None
        contents = _contents(call.messages, profile.name, signed=signed)
        body: dict[str, Any] = {"contents": contents}
        if system and (not contents or model.startswith(_WITHOUT_SYSTEM)):
            # A request without contents is rejected, so the system prompt becomes a user message.
            contents.insert(0, {"role": "user", "parts": system})
        elif system:
            body["systemInstruction"] = {"parts": system}
        if call.tools:
            declared = [_declaration(tool) for tool in call.tools if "function" in tool]
            body["tools"] = [tool for tool in call.tools if "function" not in tool]
            if declared:
                body["tools"].insert(0, {"functionDeclarations": declared})
            if declared and call.tool_choice is not None:
                body["toolConfig"] = {"functionCallingConfig": _choice(call.tool_choice)}
        if config := _config(call):
            body["generationConfig"] = config
        return body

    def answer(self, reply: Mapping[str, Any]) -> ModelAnswer:
        """Read a complete answer.

        Raises:
            Malformed: it has no content and no finish reason, or failed.
        """
        reply = mapping(reply)
        candidate = _candidate(reply)
        parts = _parts_of(candidate)
        content, calls = _content(parts)
        media = [one for part in parts for one in _media(part)]
        usable = bool(content or calls or media)
        end = _end(reply, candidate, usable=usable)
        if end is None and not usable:
            raise Malformed(
                "the answer must have a candidate with content, calls or a finishReason, got none"
            )
        return ModelAnswer(
            content=content or None,
            calls=calls,
            end=end or "stop",
            reasoning="".join(
                text(part.get("text")) for part in parts if part.get("thought") is True
            ),
            tokens=with_billing(_tokens(reply.get("usageMetadata")), reply),
            media=media,
            items=_carried(parts),
            citations=[*_citations(candidate, content)],
            tool_results=[*_tool_results([candidate], parts)],
        )

    def reader(self) -> AnswerReader:
        """Return a new reader for one stream."""
        return _GeminiReader()

    def fault(self, reply: Any) -> ProviderFault | None:
        """Return the error in a body; for a streaming request it is in a list."""
        for one in reply if isinstance(reply, list) else (reply,):
            error = mapping(one).get("error")
            if error and isinstance(error, dict):
                return _fault(error)
            if error and isinstance(error, str):
                return ProviderFault(error)
        return None


class Vertex(Gemini):
    """The same format at Vertex, where models belong to publishers within a project."""

    def url(self, base: str, call: ModelCall) -> str:
        """Return the URL for a call; the model may also be `endpoints/ID`, a tuned model."""
        verb = "streamGenerateContent?alt=sse" if call.stream else "generateContent"
        kind, _, name = call.model.rpartition("/")
        if kind == "endpoints":
            return f"{base}/endpoints/{quote(name, safe='')}:{verb}"
        if kind not in ("models", f"{_PUBLISHER[1:]}/models"):
            name = call.model
        base = base.removesuffix(_PUBLISHER)
        return f"{base}{_PUBLISHER}/models/{quote(name, safe='')}:{verb}"


class _GeminiReader(AnswerReader):
    """Reads a stream of complete responses."""

    __slots__ = ("_parts", "_sources")

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[Mapping[str, Any]] = []
        self._sources: list[Mapping[str, Any]] = []  # candidates with sources

    def answer(self) -> ModelAnswer:
        """Return the answer received so far, with the parts that must be sent back."""
        answer = super().answer()
        answer.citations = self._cited()
        answer.items = _carried(self._parts)
        answer.tool_results = [*_tool_results(self._sources, self._parts)]
        return answer

    def _cited(self) -> list[Citation]:
        content = "".join(self._text)
        return [one for known in self._sources for one in _citations(known, content)]

    def read(self, data: bytes, event: bytes) -> Sequence[Piece]:
        """Read one event; a list of responses, sent without SSE, counts as several events.

        Raises:
            FaultReceived: the event is an error.
            Malformed: it is not a response, or the answer failed.
        """
        try:
            reply = parse(data, keep_edge_surrogates=True)
        except ValueError as error:
            if data.strip() == b"[DONE]":  # sent by some gateways
                self.done = True
                return ()
            raise Malformed(f"an event of the stream is not JSON: {error}") from None
        try:  # by far the most common: one piece of text, not the last
            (candidate,) = reply["candidates"]
            (part,) = candidate["content"]["parts"]
            piece = part["text"]
            if piece.__class__ is str and len(part) == 1 and _has_only_content(reply, candidate):
                self._count(reply)
                self._parts.append(part)
                return (self.add_text(piece),) if piece else ()
        except (KeyError, TypeError, ValueError):
            pass
        if isinstance(reply, dict):
            return self._read_response(reply)
        if isinstance(reply, list):
            return [piece for one in reply for piece in self._read_response(mapping(one))]
        raise Malformed("an event of the stream must be a JSON object, got another JSON value")

    def _read_response(self, reply: Mapping[str, Any]) -> list[Piece]:
        if "error" in reply:
            fault = ADAPTER.fault(reply)
            if fault is not None:
                raise FaultReceived(fault)
        candidate = _candidate(reply)
        pieces: list[Piece] = []
        self._parts += _parts_of(candidate)
        for part in _parts_of(candidate):
            piece = part.get("text")
            if piece and isinstance(piece, str):
                thought = part.get("thought") is True
                pieces.append(self.add_reasoning(piece) if thought else self.add_text(piece))
            if "functionCall" in part:
                pieces.extend(self._call(part))
            self.media += _media(part)
        self._count(reply)
        usable = bool(self._text or self._calls or self.media)
        end = _end(reply, candidate, usable=usable)
        if end is not None:
            self.end = end
        if not _SOURCES.isdisjoint(candidate):
            self._sources.append(candidate)
        if self.end is not None and self._sources:  # ranges may be in text that comes before it
            pieces += self.add_citations(self._cited())
        return pieces

    def _count(self, reply: Mapping[str, Any]) -> None:
        """Read the usage so far, which replaces the previous one."""
        usage = reply.get("usageMetadata")
        tokens = _tokens(usage) if usage else None
        if tokens is not None:
            if self.tokens is None:
                with_billing(tokens, reply)
            else:  # it is the same in every event
                tokens.billing = self.tokens.billing
            self.tokens = tokens

    def _call(self, part: Mapping[str, Any]) -> Sequence[Piece]:
        call = mapping(part["functionCall"])
        name = text(call.get("name"))
        if not name:
            return ()
        return self.add_tool_call(
            len(self._calls),
            id=_id(call),
            name=name,
            arguments=_arguments(call.get("args")),
            signature=_signature(part),
        )


# Building requests.


def _contents(messages: Sequence[Message], provider: str, *, signed: bool) -> list[dict[str, Any]]:
    """Return the messages, with all tool results of a turn in one message."""
    contents: list[dict[str, Any]] = []
    names: dict[str, str] = {}  # function names by call id
    results: list[dict[str, Any]] | None = None
    for message in messages:
        role = message["role"]
        if role == "tool":
            if results is None:
                results = []
                contents.append({"role": "user", "parts": results})
            results.append({"functionResponse": _result(message, names)})
        elif role != "system":
            results = None
            parts = _parts(message.get("content"))
            parts += _calls(items(message.get("tool_calls")), names, signed=signed)
            parts = [*own_items(message, provider, _content)] or parts
            if parts:
                contents.append({"role": _ROLES[role], "parts": parts})
    return contents


def _calls(
    calls: Sequence[Mapping[str, Any]], names: dict[str, str], *, signed: bool
) -> list[dict[str, Any]]:
    """Return the calls of one turn; the function names are added to `names`, for the results."""
    parts: list[dict[str, Any]] = []
    for call in calls:
        function = call["function"]
        names[call["id"]] = function["name"]
        arguments = json.loads(function["arguments"], strict=False)
        part: dict[str, Any] = {
            "functionCall": {"id": call["id"], "name": function["name"], "args": arguments}
        }
        signature = _own_signature(call.get("signature")) or (
            _FOREIGN_SIGNATURE if signed and not parts else None
        )
        if signature:
            part["thoughtSignature"] = signature
        parts.append(part)
    return parts


def _own_signature(signature: str | None) -> str | None:
    """Return a signature if it is Gemini's (base64), else None."""
    return None if signature is None or signature.startswith("[") else signature


def _result(message: Message, names: Mapping[str, str]) -> dict[str, Any]:
    """Return a function result, which must be an object; other results are wrapped in one."""
    id_, content = message["tool_call_id"], message["content"]
    try:
        response = from_json(content, allow_inf_nan=False)
    except ValueError:
        response = None
    if not isinstance(response, dict):
        response = {"result": content}
    return {"id": id_, "name": names[id_], "response": response}


def _parts(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"text": content}] if content else []  # an empty part is rejected
    return [_part(part) for part in items(content)]


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    if part["type"] == "text":
        return {"text": part["text"]}
    if part["type"] == "input_audio":
        audio = part["input_audio"]
        return {"inlineData": {"mimeType": f"audio/{audio['format']}", "data": audio["data"]}}
    if part["type"] == "file":
        file = part["file"]
        url = file.get("file_data") or file.get("file_url") or file["file_id"]
        return _at(url, mime_type_of(file.get("filename") or url))
    url = part["image_url"]["url"]
    return _at(url, _IMAGE_TYPES.get(_QUERY.split(url, maxsplit=1)[0].rpartition(".")[2].lower()))


def _at(url: str, mime_type: str | None) -> dict[str, Any]:
    """Return the part for a URL; a `data:` URL has its own MIME type."""
    found = data_of(url)
    if found is not None:
        return {"inlineData": {"mimeType": found[0], "data": found[1]}}
    file = {"mimeType": mime_type, "fileUri": url} if mime_type else {"fileUri": url}
    return {"fileData": file}


def _declaration(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    declaration = {"name": function["name"]}
    if function.get("description"):
        declaration["description"] = function["description"]
    if function.get("parameters"):
        declaration["parametersJsonSchema"] = function["parameters"]
    return declaration


def _choice(choice: str) -> dict[str, Any]:
    mode = _MODES.get(choice)
    if mode is not None:
        return {"mode": mode}
    return {"mode": "ANY", "allowedFunctionNames": [choice.removeprefix("tool:")]}


def _config(call: ModelCall) -> dict[str, Any]:
    config = sampling(call, "temperature", "maxOutputTokens", "stopSequences")
    if call.schema is not None:
        config["responseMimeType"] = "application/json"
        if call.schema.schema is not None:
            config["responseJsonSchema"] = call.schema.schema
    return config


# Reading answers.


def _candidate(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first candidate; others are ignored."""
    for candidate in items(reply.get("candidates")):
        if isinstance(candidate, dict) and not candidate.get("index"):
            return candidate
    return {}


def _has_only_content(reply: Mapping[str, Any], candidate: Mapping[str, Any]) -> bool:
    """Return True if an event has only content: no end and no error."""
    return not (
        "finishReason" in candidate
        or not _SOURCES.isdisjoint(candidate)
        or candidate.get("index")
        or "promptFeedback" in reply
        or "error" in reply
    )


def _parts_of(candidate: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    parts = mapping(candidate.get("content")).get("parts")
    return [part for part in items(parts) if isinstance(part, dict)]


def _content(parts: Sequence[Mapping[str, Any]]) -> tuple[str, list[RawToolCall]]:
    """Return the text and the calls in parts."""
    calls: list[RawToolCall] = []
    for part in parts:
        call = mapping(part.get("functionCall"))
        if name := text(call.get("name")):
            arguments = call.get("args")
            if not isinstance(arguments, dict):
                arguments = _arguments(arguments)
            calls.append(RawToolCall(_id(call), name, arguments, _signature(part)))
    return "".join(text(p.get("text")) for p in parts if p.get("thought") is not True), calls


def _carried(parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the parts to send back; empty if no tool ran at the provider."""
    ran = any(not _PROVIDER_PARTS.isdisjoint(part) for part in parts)
    return [dict(part) for part in parts if part != {"text": ""}] if ran else []


# Sources, and tools that the provider runs.


def _citations(candidate: Mapping[str, Any], content: str) -> Iterator[Citation]:
    """Yield the citations of a candidate; `content` is the text of the answer."""
    grounding = mapping(candidate.get("groundingMetadata"))
    chunks = [_source(chunk) for chunk in items(grounding.get("groundingChunks"))]
    supported: set[int] = set()
    for support in map(mapping, items(grounding.get("groundingSupports"))):
        place = _range(mapping(support.get("segment")), content)
        for index in map(count, items(support.get("groundingChunkIndices"))):
            if index is not None and index < len(chunks):
                supported.add(index)
                yield {**chunks[index], **place}
    yield from (chunk for index, chunk in enumerate(chunks) if index not in supported)
    cited = mapping(candidate.get("citationMetadata"))
    for one in map(mapping, items(cited.get("citationSources") or cited.get("citations"))):
        found = citation(url=one.get("uri"), title=one.get("title"))
        if found:
            yield {**found, **_range(one, content)}


def _source(chunk: Any) -> Citation:
    found = mapping(next(filter(None, map(mapping(chunk).get, _CHUNKS)), None))
    return citation(
        title=found.get("title"),
        url=found.get("uri"),
        source_id=found.get("documentName") or found.get("placeId"),
        cited_text=found.get("text"),
    )


def _range(segment: Mapping[str, Any], content: str) -> Citation:
    """Return the range of a segment in characters; the provider counts bytes of UTF-8.

    The provider leaves out a start of zero. If the segment has its text, that decides.
    """
    start, end = count(segment.get("startIndex")) or 0, count(segment.get("endIndex"))
    encoded, known = content.encode("utf-8", "replace"), text(segment.get("text"))
    if end is None or not start <= end <= len(encoded):
        return {}
    first, last = (len(encoded[:at].decode(errors="ignore")) for at in (start, end))
    if known and content[first:last] != known:  # it counts from the beginning of a part
        first = content.find(known)
        last = first + len(known)
    return {"start": first, "end": last} if first >= 0 else {}


def _tool_results(
    candidates: Sequence[Mapping[str, Any]], parts: Sequence[Mapping[str, Any]]
) -> Iterator[ProviderToolResult]:
    """Yield the uses of tools; the result of code follows it."""
    for index, part in enumerate(parts):
        if code := mapping(part.get("executableCode")):
            rest = (mapping(later.get("codeExecutionResult")) for later in parts[index + 1 :])
            result = next(filter(None, rest), {})
            failed = text(result.get("outcome")) not in ("", "OUTCOME_OK")
            output = result.get("output")
            yield tool_result(
                *("code_execution", "code_execution", [text(code.get("code"))]),
                id=code.get("id"),
                output=None if failed else output,
                error=(output or result.get("outcome")) if failed else None,
            )
    for candidate in candidates:
        yield from _searches(mapping(candidate.get("groundingMetadata")))
        fetched = mapping(candidate.get("urlContextMetadata")).get("urlMetadata")
        for url in map(mapping, items(fetched)):
            asked, status = text(url.get("retrievedUrl")), text(url.get("urlRetrievalStatus"))
            failed = not status.endswith("SUCCESS")
            yield tool_result("web_fetch", "url_context", [asked], error=status if failed else None)


def _searches(grounding: Mapping[str, Any]) -> Iterator[ProviderToolResult]:
    sources = [_source(chunk) for chunk in items(grounding.get("groundingChunks"))]
    if queries := items(grounding.get("webSearchQueries")):
        yield tool_result("web_search", "google_search", map(text, queries), sources=sources)
    if queries := items(grounding.get("retrievalQueries")):
        yield tool_result("file_search", "file_search", map(text, queries), sources=sources)


def _end(reply: Mapping[str, Any], candidate: Mapping[str, Any], *, usable: bool) -> End | None:
    """Return the reason why the answer ended, None if there is none yet.

    Raises:
        Malformed: the answer failed and nothing in it is usable.
    """
    reason = _reason_name(candidate.get("finishReason"))
    if not reason:
        if "promptFeedback" not in reply:
            return None
        blocked = mapping(reply["promptFeedback"]).get("blockReason")
        return "filtered" if _reason_name(blocked) else None
    end = _ENDS.get(reason)
    if end is not None:
        return end
    if usable:
        return "stop"
    message = text(candidate.get("finishMessage"))[:_MAX_SHOWN]
    because = f": {message}" if message else ""
    raise Malformed(f"the model finished with {reason} and no answer{because}", code=reason)


def _reason_name(reason: Any) -> str:
    """Return the name of a reason, empty if there is none."""
    if isinstance(reason, str):
        return "" if reason in _UNSPECIFIED else reason
    number = count(reason)
    if not number:
        return ""
    return _BY_NUMBER[number] if number < len(_BY_NUMBER) else str(number)


def _media(part: Mapping[str, Any]) -> list[Media]:
    """Return the image or audio in a part, except drafts from the reasoning."""
    if part.get("thought") is True:
        return []
    inline, file = mapping(part.get("inlineData")), mapping(part.get("fileData"))
    data, url = text(inline.get("data")), text(file.get("fileUri"))
    if not data and not url:
        return []
    return [media_of(text((inline or file).get("mimeType")), data=data, url=url)]


def _id(call: Mapping[str, Any]) -> str | None:
    return text(call.get("id")) or None


def _signature(part: Mapping[str, Any]) -> str | None:
    return text(part.get("thoughtSignature")) or None


def _arguments(arguments: Any) -> str:
    """Return arguments of any type as text."""
    if arguments is None:
        return ""
    if isinstance(arguments, str):
        return arguments
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def _tokens(usage: Any) -> Tokens | None:
    """Return the token counts; the provider leaves out a count of zero."""
    field = mapping(usage).get
    prompt, written = count(field("promptTokenCount")), count(field("candidatesTokenCount"))
    thought = count(field("thoughtsTokenCount"))
    # Output of the provider's own tools is billed as prompt but counted separately.
    if prompt is not None and "toolUsePromptTokenCount" in usage:
        prompt += count(field("toolUsePromptTokenCount")) or 0
    completion = None
    if written is not None:
        completion = written + (thought or 0)
    elif prompt is not None:
        total = count(field("totalTokenCount"))
        completion = total - prompt if total is not None and total >= prompt else thought
    if prompt is None and completion is None:
        return None
    cached = count(field("cachedContentTokenCount"))
    return Tokens(prompt, completion, cached=cached or 0, reasoning=thought or 0)


# Reading errors.


def _fault(error: Mapping[str, Any]) -> ProviderFault:
    details = [mapping(detail) for detail in items(error.get("details"))]
    names = [text(detail.get("reason")) for detail in details]
    names += [text(error.get("status")), text(error.get("code"))]
    codes = tuple(dict.fromkeys(filter(None, names)))
    return ProviderFault(
        message=text(error.get("message")) or (codes[0] if codes else ""),
        codes=codes,
        status=http_status(error.get("code")),
        param=next(filter(None, map(_field, details)), None),
        retry_after=next(filter(None, map(_delay, details)), None),
    )


def _field(detail: Mapping[str, Any]) -> str | None:
    """Return the first field of the request in a `BadRequest`."""
    violations = map(mapping, items(detail.get("fieldViolations")))
    return next(filter(None, (text(one.get("field")) for one in violations)), None)


def _delay(detail: Mapping[str, Any]) -> float | None:
    """Return the delay in a `RetryInfo`, in seconds."""
    match = _DELAY.fullmatch(text(detail.get("retryDelay")))
    return float(match[1]) if match else None


ADAPTER: Adapter = Gemini()
VERTEX: Adapter = Vertex()
