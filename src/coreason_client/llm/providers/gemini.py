"""The wire format of Gemini's `generateContent`. Pure.

* The model is in the address, and so is whether to stream. An answer streams as SSE events that
  are each a whole `GenerateContentResponse`; there is no end mark, and the usage in the last event
  counts for all.
* System messages are `systemInstruction`, the assistant is `model`, a tool's result is the user's
  `functionResponse`. Results that belong together must be in one message.
* A result names its function, which our messages do not: it is found by the id of the call.
* A call's `thoughtSignature` must come back with it.
* `STOP` also ends an answer that calls functions; some reasons to finish say that it failed.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from pydantic_core import from_json

from .._bill import with_bill
from .._json import count, http_status, items, mapping, parse, text
from .._media import media_of
from .._reader import Piece, Reader
from .._terms import (
    Answer,
    Call,
    End,
    Fault,
    Faulted,
    Malformed,
    Profile,
    RawCall,
    Schema,
    Tokens,
)
from .._wire import Adapter
from ..types import Media, Message

__all__ = ["ADAPTER", "Gemini"]

# ---------------------------------------------------------------- models

_WITHOUT_SYSTEM = ("gemma-3",)
"""Models, by the beginning of their names, that refuse `systemInstruction`."""

_SIGNED = re.compile(r"gemini-(?:[3-9]|[1-9][0-9]|[a-z-]+-latest)", re.ASCII)
"""Models that refuse a call of the model, the first of its turn, without a signature."""

_UNSIGNED = "skip_thought_signature_validator"
"""What the provider documents as the signature of a call that another model made."""

# ---------------------------------------------------------------- the ends of an answer

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
"""Every other reason, known or not, says that something failed: it ends an answer that has content
or calls, and is an error without."""

_NUMBERED = (
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
"""The reasons as numbers, as the first versions of Vertex sent them."""

_NO_REASONS = frozenset({"", "FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"})

# ---------------------------------------------------------------- what is sent

_ROLES = {"user": "user", "assistant": "model"}
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}

_IMAGES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "heic": "image/heic",
    "heif": "image/heif",
}
"""Types by the ends of addresses; where the end says nothing, so do we."""

_QUERY = re.compile("[?#]")
_DELAY = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)s", re.ASCII)
_SHOWN = 200
"""How much of the provider's explanation goes into a sentence."""


class Gemini(Adapter):
    """Speaks to Gemini, on its own host or on Vertex."""

    def url(self, base: str, call: Call) -> str:
        """Return the address for a call; a model may say itself of which kind it is."""
        kind, slash, name = call.model.partition("/")
        if not slash or kind not in ("models", "tunedModels"):
            kind, name = "models", call.model
        verb = "streamGenerateContent?alt=sse" if call.stream else "generateContent"
        return f"{base}/{kind}/{quote(name, safe='')}:{verb}"

    def body(self, call: Call, profile: Profile) -> dict[str, Any]:
        """Return the JSON body for a call."""
        model = call.model.rpartition("/")[2]
        system = [
            part
            for message in call.messages
            if message["role"] == "system"
            for part in _parts(message.get("content"))
        ]
        contents = _contents(call.messages, signed=_SIGNED.match(model) is not None)
        body: dict[str, Any] = {"contents": contents}
        if system and (not contents or model.startswith(_WITHOUT_SYSTEM)):
            # Without any content the request is refused, and a prompt is a prompt.
            contents.insert(0, {"role": "user", "parts": system})
        elif system:
            body["systemInstruction"] = {"parts": system}
        if call.tools:
            body["tools"] = [{"functionDeclarations": [_declaration(tool) for tool in call.tools]}]
            if call.tool_choice is not None:
                body["toolConfig"] = {"functionCallingConfig": _choice(call.tool_choice)}
        body["generationConfig"] = _config(call)
        return body

    def answer(self, reply: Mapping[str, Any]) -> Answer:
        """Read a whole answer.

        Raises:
            Malformed: it is not one.
        """
        reply = mapping(reply)
        candidate = _candidate(reply)
        content: list[str] = []
        reasoning: list[str] = []
        calls: list[RawCall] = []
        media: list[Media] = []
        for part in _parts_of(candidate):
            media += _media(part)
            words = text(part.get("text"))
            if words:
                (reasoning if part.get("thought") is True else content).append(words)
            call = mapping(part.get("functionCall"))
            name = text(call.get("name"))
            if name:
                arguments = call.get("args")
                if not isinstance(arguments, dict):
                    arguments = _arguments(arguments)
                calls.append(RawCall(_id(call), name, arguments, _signature(part)))
        usable = bool(content or calls or media)
        end = _end(reply, candidate, usable=usable)
        if end is None and not usable:
            raise Malformed("the answer has no candidate with content, calls or a finishReason")
        return Answer(
            content="".join(content) or None,
            calls=calls,
            end=end or "stop",
            reasoning="".join(reasoning),
            tokens=with_bill(_tokens(reply.get("usageMetadata")), reply),
            media=media,
        )

    def reader(self) -> Reader:
        """Return what reads one stream."""
        return _GeminiReader()

    def fault(self, reply: Any) -> Fault | None:
        """Return the error that a body describes; on the way to a stream it comes in a list."""
        for one in reply if isinstance(reply, list) else (reply,):
            error = mapping(one).get("error")
            if error and isinstance(error, dict):
                return _fault(error)
            if error and isinstance(error, str):
                return Fault(error)
        return None


class _GeminiReader(Reader):
    """Reads a stream of whole responses."""

    __slots__ = ()

    def read(self, data: bytes, event: bytes) -> Sequence[Piece]:
        """Take one event; a list of responses, as comes without SSE, is as many events.

        Raises:
            Faulted: it is an error.
            Malformed: it is not a response, or says that the answer failed.
        """
        try:
            reply = parse(data, keep_halves=True)
        except ValueError as error:
            if data.strip() == b"[DONE]":  # not Gemini's, but some gateway's
                self.over = True
                return ()
            raise Malformed(f"an event of the stream is not JSON: {error}") from None
        try:  # the commonest shape by far: one piece of text, and more to come
            (candidate,) = reply["candidates"]
            (part,) = candidate["content"]["parts"]
            words = part["text"]
            if words.__class__ is str and len(part) == 1 and _goes_on(reply, candidate):
                self._count(reply)
                return (self.text(words),) if words else ()
        except (KeyError, TypeError, ValueError):
            pass
        if isinstance(reply, dict):
            return self._take(reply)
        if isinstance(reply, list):
            return [piece for one in reply for piece in self._take(mapping(one))]
        raise Malformed("an event of the stream is JSON, and not an object")

    def _take(self, reply: Mapping[str, Any]) -> list[Piece]:
        if "error" in reply:
            fault = ADAPTER.fault(reply)
            if fault is not None:
                raise Faulted(fault)
        candidate = _candidate(reply)
        pieces: list[Piece] = []
        for part in _parts_of(candidate):
            words = part.get("text")
            if words and isinstance(words, str):
                thought = part.get("thought") is True
                pieces.append(self.reasoning(words) if thought else self.text(words))
            if "functionCall" in part:
                pieces.extend(self._call(part))
            self.media += _media(part)
        self._count(reply)
        usable = bool(self._text or self._calls or self.media)
        end = _end(reply, candidate, usable=usable)
        if end is not None:
            self.end = end
        return pieces

    def _count(self, reply: Mapping[str, Any]) -> None:
        """Take the usage so far, which replaces what was told before."""
        usage = reply.get("usageMetadata")
        tokens = _tokens(usage) if usage else None
        if tokens is not None:
            if self.tokens is None:
                with_bill(tokens, reply)
            else:  # the model is the same in every event
                tokens.bill = self.tokens.bill
            self.tokens = tokens

    def _call(self, part: Mapping[str, Any]) -> Sequence[Piece]:
        call = mapping(part["functionCall"])
        name = text(call.get("name"))
        if not name:
            return ()
        return self.call(
            len(self._calls),
            id=_id(call),
            name=name,
            arguments=_arguments(call.get("args")),
            signature=_signature(part),
        )


# ---------------------------------------------------------------- sending


def _contents(messages: Sequence[Message], *, signed: bool) -> list[dict[str, Any]]:
    """Return the conversation, with the results of one turn's calls in one message."""
    contents: list[dict[str, Any]] = []
    names: dict[str, str] = {}  # of functions, by the ids of their calls
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
            if parts:
                contents.append({"role": _ROLES[role], "parts": parts})
    return contents


def _calls(
    calls: Sequence[Mapping[str, Any]], names: dict[str, str], *, signed: bool
) -> list[dict[str, Any]]:
    """Return the calls of one turn; the names of their functions are kept for the results."""
    parts: list[dict[str, Any]] = []
    for call in calls:
        function = call["function"]
        names[call["id"]] = function["name"]
        arguments = json.loads(function["arguments"], strict=False)
        part: dict[str, Any] = {
            "functionCall": {"id": call["id"], "name": function["name"], "args": arguments}
        }
        signature = _own(call.get("signature")) or (_UNSIGNED if signed and not parts else None)
        if signature:
            part["thoughtSignature"] = signature
        parts.append(part)
    return parts


def _own(signature: str | None) -> str | None:
    """Return a signature of Gemini's, which is base64; that of another provider is none."""
    return None if signature is None or signature.startswith("[") else signature


def _result(message: Message, names: Mapping[str, str]) -> dict[str, Any]:
    """Return a function's result, which must be an object; what is none goes as text into one."""
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
        return [{"text": content}] if content else []  # an empty part is refused
    return [_part(part) for part in items(content)]


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    if part["type"] == "text":
        return {"text": part["text"]}
    url = part["image_url"]["url"]
    if url.startswith("data:"):
        kind, _, data = url.removeprefix("data:").partition(";base64,")
        return {"inlineData": {"mimeType": kind, "data": data}}
    kind = _IMAGES.get(_QUERY.split(url, maxsplit=1)[0].rpartition(".")[2].lower())
    return {"fileData": {"mimeType": kind, "fileUri": url} if kind else {"fileUri": url}}


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


def _config(call: Call) -> dict[str, Any]:
    config: dict[str, Any] = {"temperature": call.temperature, "maxOutputTokens": call.max_tokens}
    if call.stop:
        config["stopSequences"] = list(call.stop)
    if call.schema is not None:
        config |= _format(call.schema)
    return config


def _format(schema: Schema) -> dict[str, Any]:
    form: dict[str, Any] = {"responseMimeType": "application/json"}
    if schema.schema is not None:
        form["responseJsonSchema"] = schema.schema
    return form


# ---------------------------------------------------------------- reading


def _candidate(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first candidate; a request for several is answered with the first alone."""
    for candidate in items(reply.get("candidates")):
        if isinstance(candidate, dict) and not candidate.get("index"):
            return candidate
    return {}


def _goes_on(reply: Mapping[str, Any], candidate: Mapping[str, Any]) -> bool:
    """Say whether an event can bring nothing but content."""
    return not (
        "finishReason" in candidate
        or candidate.get("index")
        or "promptFeedback" in reply
        or "error" in reply
    )


def _parts_of(candidate: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    parts = mapping(candidate.get("content")).get("parts")
    return [part for part in items(parts) if isinstance(part, dict)]


def _end(reply: Mapping[str, Any], candidate: Mapping[str, Any], *, usable: bool) -> End | None:
    """Return how an answer ended, None when it does not say.

    Raises:
        Malformed: it failed, and nothing had come that could be used.
    """
    reason = _word(candidate.get("finishReason"))
    if not reason:
        if "promptFeedback" not in reply:
            return None
        blocked = mapping(reply["promptFeedback"]).get("blockReason")
        return "filtered" if _word(blocked) else None
    end = _ENDS.get(reason)
    if end is not None:
        return end
    if usable:
        return "stop"
    message = text(candidate.get("finishMessage"))[:_SHOWN]
    because = f": {message}" if message else ""
    raise Malformed(f"the model finished with {reason} and no answer{because}", code=reason)


def _word(reason: Any) -> str:
    """Return a reason by its name, empty when there is none."""
    if isinstance(reason, str):
        return "" if reason in _NO_REASONS else reason
    number = count(reason)
    if not number:
        return ""
    return _NUMBERED[number] if number < len(_NUMBERED) else str(number)


def _media(part: Mapping[str, Any]) -> list[Media]:
    """Return the image or sound in a part; drafts of a model that thinks are none."""
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
    """Return arguments as text, whatever they are."""
    if arguments is None:
        return ""
    if isinstance(arguments, str):
        return arguments
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def _tokens(usage: Any) -> Tokens | None:
    """Return what was counted; a count of zero is left out on the wire."""
    told = mapping(usage).get
    prompt, written = count(told("promptTokenCount")), count(told("candidatesTokenCount"))
    thought = count(told("thoughtsTokenCount"))
    # What the provider's own tools put before the model is paid as prompt and counted apart.
    if prompt is not None and "toolUsePromptTokenCount" in usage:
        prompt += count(told("toolUsePromptTokenCount")) or 0
    completion = None
    if written is not None:
        completion = written + (thought or 0)
    elif prompt is not None:
        total = count(told("totalTokenCount"))
        completion = total - prompt if total is not None and total >= prompt else thought
    if prompt is None and completion is None:
        return None
    cached = count(told("cachedContentTokenCount"))
    return Tokens(prompt, completion, cached=cached or 0, reasoning=thought or 0)


# ---------------------------------------------------------------- errors


def _fault(error: Mapping[str, Any]) -> Fault:
    details = [mapping(detail) for detail in items(error.get("details"))]
    codes = [text(detail.get("reason")) for detail in details]
    codes += [text(error.get("status")), text(error.get("code"))]
    told = tuple(dict.fromkeys(filter(None, codes)))
    return Fault(
        message=text(error.get("message")) or (told[0] if told else ""),
        codes=told,
        status=http_status(error.get("code")),
        param=next(filter(None, map(_field, details)), None),
        retry_after=next(filter(None, map(_delay, details)), None),
    )


def _field(detail: Mapping[str, Any]) -> str | None:
    """Return the field of the request that a `BadRequest` names first."""
    violations = map(mapping, items(detail.get("fieldViolations")))
    return next(filter(None, (text(one.get("field")) for one in violations)), None)


def _delay(detail: Mapping[str, Any]) -> float | None:
    """Return the seconds that a `RetryInfo` asks to wait."""
    match = _DELAY.fullmatch(text(detail.get("retryDelay")))
    return float(match[1]) if match else None


ADAPTER: Adapter = Gemini()
