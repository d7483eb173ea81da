"""The wire format of OpenAI's chat completions and compatible APIs. Pure.

The differences in requests are data (`profiles.py`). Extensions in answers are accepted from every
provider, because they do not conflict.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from pydantic_core import from_json

from .._adapter import Adapter, AnswerReader, Piece
from .._answer import (
    End,
    FaultReceived,
    Malformed,
    ModelAnswer,
    ProviderFault,
    RawToolCall,
    Tokens,
    audio_of,
    image_at,
    joined_audio,
)
from .._call import ModelCall, PlainMessages, cache_key
from .._citations import citation
from .._cost import with_billing
from .._json import as_text, count, items, mapping, parse, text
from .._profile import ProviderProfile
from ..types import Citation, Media
from ._arguments import ARGUMENTS
from ._openai import (
    custom_input,
    error_of,
    nested_custom,
    part_problem,
    reasoning_mode,
    reasons,
    sent_content,
    sent_schema,
    url_citation,
)

__all__ = ["ADAPTER"]

_ENDS: Mapping[str, End] = {
    "stop": "stop",
    "eos": "stop",
    "length": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "filtered",
    "sensitive": "filtered",
}
# The keys of a message that may have something besides its text.
_BESIDE_TEXT = (
    *("tool_calls", "function_call", "refusal", "reasoning_content", "reasoning"),
    *("images", "audio", "annotations"),
)
_SOURCES = frozenset({"search_results", "citations"})  # of a reply of Perplexity or xAI
_FAILED = frozenset({"error", "network_error"})
_DONE = b"[DONE]"
_ONLY_FUNCTIONS = frozenset({"openai", "azure"})  # providers whose chat has no tools of its own
_PLAIN_ROLES = ("system", "developer", "user")
_SHORT_ID = re.compile(r"[a-zA-Z0-9]{9}", re.ASCII)


class OpenAI(Adapter):
    """Chat completions."""

    arguments = ARGUMENTS["openai"]

    def url(self, base: str, call: ModelCall) -> str:
        """Return the URL of the chat completions endpoint."""
        return f"{base}/chat/completions"

    def part_problem(self, part: Mapping[str, Any], profile: ProviderProfile) -> str | None:
        """Return why a part cannot be sent, None if it can."""
        return part_problem(part, profile)

    def body(self, call: ModelCall, profile: ProviderProfile) -> dict[str, Any]:
        """Return the JSON body."""
        body: dict[str, Any] = {"model": call.model, "messages": _messages(call.messages, profile)}
        if not reasons(call.model, call.extra.get("reasoning_effort")):
            _add_sampling(body, call)  # a model that reasons rejects it
        if call.max_tokens is not None:
            never = reasoning_mode(call.model) == "never"  # others reject the older field
            body[profile.max_tokens_field if never else "max_completion_tokens"] = call.max_tokens
        if call.tools:
            body["tools"] = [_tool(tool, index, profile) for index, tool in enumerate(call.tools)]
        if call.tool_choice is not None:
            body["tool_choice"] = _tool_choice(call.tool_choice, profile)
        if call.schema is not None:
            body["response_format"] = _response_format(call, profile)
        if profile.cache_keys and (key := cache_key(call)) is not None:
            body["prompt_cache_key"] = key
        if call.stream:
            body["stream"] = True
            if profile.stream_usage:
                body["stream_options"] = {"include_usage": True}
        return body

    def answer(self, reply: Mapping[str, Any]) -> ModelAnswer:
        """Read a completion."""
        try:  # by far the most common answer: one text that ended by itself
            [choice] = reply["choices"]
            message = choice["message"]
            content = message["content"]
            if (
                content.__class__ is str
                and choice["finish_reason"] == "stop"
                and not any(map(message.get, _BESIDE_TEXT))
                and _SOURCES.isdisjoint(reply)
            ):
                return ModelAnswer(content, tokens=with_billing(_tokens(reply), reply))
        except (KeyError, ValueError, TypeError, AttributeError):
            pass
        return self._any_answer(reply)

    def _any_answer(self, reply: Mapping[str, Any]) -> ModelAnswer:
        choices = items(reply.get("choices"))
        if not choices:
            raise Malformed("the answer has no choices")
        choice = _first_choice(choices) or mapping(choices[0])
        message = mapping(choice.get("message"))
        end = _end(choice.get("finish_reason"))
        if not message and end != "filtered":
            raise Malformed("the answer has no message")
        content, reasoning = _content(message)
        if refusal := text(message.get("refusal")):
            content, end = (content or "") + refusal, "filtered"
        return ModelAnswer(
            content=content,
            calls=_calls(message),
            end=end,
            reasoning=reasoning,
            tokens=with_billing(_tokens(reply), reply),
            media=_media(message),
            citations=[
                *_references(message.get("content"), _Supported()),
                *_sources(reply, message),
            ],
        )

    def reader(self) -> AnswerReader:
        """Return a new reader for one stream."""
        return _ChatReader()

    def fault(self, reply: Any) -> ProviderFault | None:
        """Return the error in a body."""
        return error_of(reply)


ADAPTER: Adapter = OpenAI()


# Requests.


def _messages(
    messages: Sequence[Mapping[str, Any]], profile: ProviderProfile
) -> Sequence[Mapping[str, Any]]:
    if messages.__class__ is PlainMessages:
        return list(messages)  # JSON is faster from a list than from its subclass
    return [
        message
        if len(message) == 2
        and message["role"] in _PLAIN_ROLES
        and message["content"].__class__ is str  # the most common message
        else _message(message, profile)
        for message in messages
    ]


def _message(message: Mapping[str, Any], profile: ProviderProfile) -> Mapping[str, Any]:
    if message["content"].__class__ is list:
        message = {**message, "content": sent_content(message["content"], profile)}
    plain = message["role"] in _PLAIN_ROLES or not profile.short_ids
    if (
        plain
        and message["role"] != "assistant"
        and "is_error" not in message
        and ("name" not in message or profile.message_names)
    ):
        return message
    sent = dict(message)
    if not profile.message_names:
        sent.pop("name", None)
    sent.pop("provider_items", None)
    reasoning = sent.pop("reasoning", None)
    if reasoning and profile.echoes_reasoning:
        sent["reasoning_content"] = reasoning
    if "tool_calls" in sent:
        sent["tool_calls"] = [_sent_call(call, profile) for call in sent["tool_calls"]]
    if "tool_call_id" in sent:
        sent["tool_call_id"] = _sent_id(sent["tool_call_id"], profile)
        sent.pop("is_error", None)
    return sent


def _sent_call(call: Mapping[str, Any], profile: ProviderProfile) -> Mapping[str, Any]:
    id_ = _sent_id(call["id"], profile)
    if call.get("custom"):
        custom = {"name": call["function"]["name"], "input": custom_input(call)}
        return {"id": id_, "type": "custom", "custom": custom}
    return {"id": id_, "type": "function", "function": call["function"]}


def _sent_id(id_: str, profile: ProviderProfile) -> str:
    """Return an id of a call that the provider accepts; ids of other providers may be too long."""
    if not profile.short_ids or _SHORT_ID.fullmatch(id_):
        return id_
    return blake2b(id_.encode(), digest_size=5).hexdigest()[:9]


def _add_sampling(body: dict[str, Any], call: ModelCall) -> None:
    if call.temperature is not None:
        body["temperature"] = call.temperature
    if call.stop:
        body["stop"] = list(call.stop)


def _tool(tool: Mapping[str, Any], index: int, profile: ProviderProfile) -> Mapping[str, Any]:
    kind = tool.get("type")
    if kind == "custom":
        return nested_custom(tool)
    if kind != "function" and profile.name in _ONLY_FUNCTIONS:
        raise profile.rejected(
            f"tools[{index}] must be a function or a custom tool: {profile.name} has its own tools "
            'only in the Responses API; create the client with wire="responses"'
        )
    return tool


def _tool_choice(choice: str, profile: ProviderProfile) -> Any:
    if choice.startswith("tool:"):
        return {"type": "function", "function": {"name": choice.removeprefix("tool:")}}
    return profile.required_choice if choice == "required" else choice


def _response_format(call: ModelCall, profile: ProviderProfile) -> Mapping[str, Any]:
    sent = sent_schema(call, profile)
    return {"type": "json_object"} if sent is None else {"type": "json_schema", "json_schema": sent}


# Answers.


def _content(message: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return the text and the reasoning of a message or a delta."""
    content = message.get("content")
    reasoning = text(message.get("reasoning_content")) or text(message.get("reasoning"))
    if isinstance(content, list):
        joined, thinking = _parts(content)
        return joined or None, reasoning + thinking
    return content if isinstance(content, str) else None, reasoning


def _parts(parts: Sequence[Any]) -> tuple[str, str]:
    """Return the text and the thinking in a list of parts, which Mistral sends."""
    texts, thinking = [], []
    for part in map(mapping, parts):
        if part.get("type") == "thinking":
            thinking += [text(mapping(piece).get("text")) for piece in items(part.get("thinking"))]
        else:
            texts.append(text(part.get("text")))
    return "".join(texts), "".join(thinking)


def _first_choice(choices: Sequence[Any]) -> Mapping[str, Any]:
    """Return the choice with index 0, empty if there is none; the others are alternatives."""
    for choice in choices:
        if isinstance(choice, dict) and not choice.get("index"):
            return choice
    return {}


def _media(message: Mapping[str, Any]) -> list[Media]:
    """Return the images and the audio of a message."""
    audio = message.get("audio")
    spoken = audio_of(audio) if isinstance(audio, dict) else []
    return [*_images(message), *spoken]


def _images(message: Mapping[str, Any]) -> list[Media]:
    """Return the images in `images` and `content` of a message or a delta."""
    parts = [*items(message.get("images")), *items(message.get("content"))]
    if not parts:
        return []
    found = [_image(mapping(part).get("image_url")) for part in parts]
    return [image for image in found if image is not None]


def _image(image: Any) -> Media | None:
    url = text(image) or text(mapping(image).get("url"))
    return image_at(url) if url else None


def _calls(message: Mapping[str, Any]) -> list[RawToolCall]:
    calls = [_call(call) for call in _functions(message)]
    legacy = mapping(message.get("function_call"))  # some providers send a call in both forms
    return [_call({"function": legacy})] if legacy and not calls else calls


def _functions(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the calls in a message or a delta, without those that have no function."""
    calls = map(mapping, items(message.get("tool_calls")))
    return [call for call in calls if mapping(call.get("function")) or mapping(call.get("custom"))]


def _call(call: Mapping[str, Any]) -> RawToolCall:
    id_, custom = text(call.get("id")) or None, mapping(call.get("custom"))
    if custom:
        given = {"input": text(custom.get("input"))}
        return RawToolCall(id_, text(custom.get("name")), given, custom=True)
    function = mapping(call.get("function"))
    return RawToolCall(id_, text(function.get("name")), _arguments(function))


def _arguments(function: Mapping[str, Any]) -> str | dict[str, Any]:
    arguments = function.get("arguments")
    return arguments if isinstance(arguments, str | dict) else ""


# Citations.


class _Supported:
    """Finds the text that a reference of Mistral supports: all since the reference before it."""

    __slots__ = ("_end", "_start")

    def __init__(self) -> None:
        self._start = self._end = 0

    def before(self, position: int) -> dict[str, int]:
        """Return the range that ends at a position; references in a row have the same one."""
        if position != self._end:
            self._start, self._end = self._end, position
        return {"start": self._start, "end": position}


def _references(content: Any, supported: _Supported, position: int = 0) -> Iterator[Citation]:
    """Yield the citations in a content of Mistral, which begins at a position of the answer."""
    for part in map(mapping, items(content)):
        position += len(text(part.get("text")))
        kind = part.get("type")
        if kind == "tool_reference":
            found = {"title": part.get("title"), "cited_text": part.get("description")}
            yield citation(url=part.get("url"), **found, **supported.before(position))
        elif kind == "reference":
            for id_ in items(part.get("reference_ids")):
                yield citation(source_id=str(id_), **supported.before(position))


def _sources(reply: Mapping[str, Any], message: Mapping[str, Any]) -> Iterator[Citation]:
    """Yield the annotations of a message or a delta, and the sources of its reply."""
    for annotation in map(mapping, items(message.get("annotations"))):
        if annotation.get("type") == "url_citation":
            yield url_citation(mapping(annotation.get("url_citation")) or annotation)
    found = items(reply.get("search_results")) or items(reply.get("citations"))
    for source in found:
        one = {"url": source} if isinstance(source, str) else mapping(source)
        yield citation(url=one.get("url"), title=one.get("title"), cited_text=one.get("snippet"))


def _end(finish: Any) -> End:
    if isinstance(finish, str) and finish in _FAILED:
        raise Malformed("the provider failed in the middle of the answer", code=finish)
    return _ENDS.get(finish, "stop") if isinstance(finish, str) else "stop"


def _tokens(reply: Mapping[str, Any]) -> Tokens | None:
    usage = reply.get("usage")
    if usage.__class__ is not dict or not usage:
        usage = mapping(mapping(reply.get("x_groq")).get("usage"))
    prompt, completion = count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))
    if prompt is None and completion is None:
        return None
    asked = mapping(usage.get("prompt_tokens_details"))
    answered = mapping(usage.get("completion_tokens_details"))
    cached = asked.get("cached_tokens", usage.get("prompt_cache_hit_tokens"))
    if cached is None:
        cached = usage.get("num_cached_tokens")
    written, reasoning = asked.get("cache_write_tokens"), answered.get("reasoning_tokens")
    # Most of these are 0 or missing, and need not be checked.
    return Tokens(
        prompt,
        completion,
        (count(cached) or 0) if cached else 0,
        (count(written) or 0) if written else 0,
        reasoning=(count(reasoning) or 0) if reasoning else 0,
    )


class _ChatReader(AnswerReader):
    """Reads the chunks of one stream.

    The index identifies a tool call. Some gateways omit it, or give every call the index 0 and a
    different id. So a new id at a used index is a new call, and later pieces with that index and
    without an id belong to the latest call there.
    """

    __slots__ = ("_at", "_audio", "_ids", "_refused", "_supported")

    def __init__(self) -> None:
        super().__init__()
        self._refused = False
        self._supported = _Supported()
        self._audio: list[Mapping[str, Any]] = []
        self._at: dict[int, int] = {}  # number of the latest call, by index
        self._ids: list[str | None] = []  # ids by call number

    def read(self, data: bytes, event: bytes) -> Sequence[Piece]:
        if data == _DONE:
            self.done = True
            if self._refused:
                self.end = "filtered"
            return ()
        try:
            chunk = from_json(data)
        except ValueError:
            return self._read_any(mapping(_parse_lenient(data)), event)
        try:  # by far the most common chunk
            choice = chunk["choices"][0]
            delta = choice["delta"]
            if len(delta) == 1 and not chunk.get("error") and not chunk.get("usage"):
                content = delta["content"]
                goes_on = choice["finish_reason"] is None and not choice.get("index")
                if goes_on and content.__class__ is str:
                    return (self.add_text(content),) if content else ()
        except (KeyError, IndexError, TypeError, AttributeError):
            pass
        return self._read_any(mapping(chunk), event)

    def answer(self) -> ModelAnswer:
        """Return the answer received so far, with the pieces of audio joined."""
        answer = super().answer()
        answer.media += joined_audio(self._audio)
        return answer

    @property
    def has_answer(self) -> bool:
        """True if a part of an answer was received, including audio."""
        return super().has_answer or bool(self._audio)

    def _read_any(self, chunk: Mapping[str, Any], event: bytes) -> Sequence[Piece]:
        self._check(chunk, event)
        tokens = with_billing(_tokens(chunk), chunk)
        if tokens is not None:
            self.tokens = tokens
        choice = _first_choice(items(chunk.get("choices")))
        delta = mapping(choice.get("delta"))
        pieces = [*self._pieces(delta), *self.add_citations(_sources(chunk, delta))]
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:  # some providers send an empty one with every chunk
            self.end = "filtered" if self._refused else _end(finish)
        return pieces

    def _check(self, chunk: Mapping[str, Any], event: bytes) -> None:
        fault = error_of(chunk)
        if fault is None and event == b"error":
            fault = ProviderFault(text(chunk.get("message")) or "the provider sent an error event")
        if fault is not None:
            raise FaultReceived(fault)

    def _pieces(self, delta: Mapping[str, Any]) -> list[Piece]:
        content, reasoning = _content(delta)
        pieces: list[Piece] = []
        if isinstance(delta.get("content"), list):
            position = sum(map(len, self._text))
            found = _references(delta["content"], self._supported, position)
            pieces += self.add_citations(found)
        if reasoning:
            pieces.append(self.add_reasoning(reasoning))
        if content:
            pieces.append(self.add_text(content))
        if refusal := text(delta.get("refusal")):
            self._refused = True
            pieces.append(self.add_text(refusal))
        functions = _functions(delta)
        for call in functions:
            pieces += self._call(call)
        legacy = mapping(delta.get("function_call"))
        if legacy and not functions:  # some providers send a call in both forms
            pieces += self._call({"index": 0, "function": legacy})
        self.media += _images(delta)
        if audio := mapping(delta.get("audio")):
            self._audio.append(audio)
        return pieces

    def _call(self, call: Mapping[str, Any]) -> Sequence[Piece]:
        custom = mapping(call.get("custom"))
        function = {**custom, "arguments": custom.get("input")} if custom else call["function"]
        id_, name = text(call.get("id")) or None, text(function.get("name")) or None
        index = count(call.get("index"))
        if index is None and id_ is None and name is not None:
            self._at.pop(0, None)  # without index and id, a name starts a new call
        return self.add_tool_call(
            self._number(index or 0, id_),
            id=id_,
            name=name,
            arguments=as_text(_arguments(function)),
            custom=bool(custom),
        )

    def _number(self, index: int, id_: str | None) -> int:
        """Return the number of the call that a piece belongs to."""
        number = self._at.get(index)
        if number is not None and (id_ is None or self._ids[number] in (None, id_)):
            self._ids[number] = self._ids[number] or id_
            return number
        if id_ is not None and id_ in self._ids:  # continued at another index
            return self._ids.index(id_)
        self._ids.append(id_)
        self._at[index] = len(self._ids) - 1
        return len(self._ids) - 1


def _parse_lenient(data: bytes) -> Any:
    """Parse JSON that a strict parser rejects.

    Raises:
        Malformed: it is not JSON.
    """
    try:
        return parse(data, keep_edge_surrogates=True)
    except ValueError:
        raise Malformed("a chunk of the stream is not JSON") from None
