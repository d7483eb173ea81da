"""Anthropic's Messages format: an answer is a list of blocks, a stream tells how they grow.

* System prompts are one text beside the messages, and users and assistants take turns: neighbours
  of one role become one message, with the results of all tool calls of a turn together in it.
* Blank text is refused wherever it stands, so it is left out; a message of nothing else vanishes.
* A message has no `name`, and there is no way to ask for JSON without a schema.
* `input_tokens` counts only what was neither read from nor written to a cache. In a stream the
  input is counted at the start and the output at the end; later counts include the earlier ones.
* A stream ends with `message_stop`; an `error` event ends it with an error, after a status of 200.
* A model that thinks wants its thoughts back, unchanged and signed, before the tool calls that
  came of them. They travel as the `signature` of the call that follows them.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic_core import from_json, to_json

from .._bill import with_bill, with_iterations
from .._json import codes, count, http_status, items, mapping, parse, text
from .._reader import Piece, Reader
from .._terms import Answer, Call, End, Fault, Faulted, Malformed, Profile, RawCall, Tokens
from .._wire import Adapter
from ..types import Message

__all__ = ["ADAPTER", "Anthropic"]

_HEADERS: Mapping[str, str] = {"anthropic-version": "2023-06-01"}

# Models that refuse a temperature, by how their names begin.
_NO_TEMPERATURE = (
    "claude-opus-4-7",
    "claude-opus-4-8",
    "claude-opus-5",
    "claude-sonnet-5",
    "claude-haiku-5-5",
    "claude-fable-5",
    "claude-mythos-5",
)

# All other reasons, and none at all: the model was done. Among them are `pause_turn`, which only
# tools of the server cause, and `compaction`.
_ENDS: Mapping[str, End] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "filtered",
    "tool_use": "tool_calls",
}

_CHOICES: Mapping[str, str] = {"auto": "auto", "none": "none", "required": "any"}

_MEDIA_TYPES: Mapping[str, str] = {"image/jpg": "image/jpeg"}

_THOUGHTS = frozenset({"thinking", "redacted_thinking"})

# What the id of a tool call may not hold; those of other providers do.
_NOT_IN_ID = re.compile(r"[^a-zA-Z0-9_-]", re.ASCII)

# What a schema may not say, so that it is refused with it.
_REFUSED_KEYWORDS = frozenset(
    {
        "discriminator",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "uniqueItems",
    }
)
_FORMATS = frozenset(
    {
        "date",
        "date-time",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "time",
        "uri",
        "uuid",
    }
)


class Anthropic(Adapter):
    """The format of `/messages`."""

    def url(self, base: str, call: Call) -> str:
        """Return the address of the messages below the base."""
        return f"{base}/messages"

    def headers(self) -> Mapping[str, str]:
        """Return the version of the format, which every request must name."""
        return _HEADERS

    def body(self, call: Call, profile: Profile) -> dict[str, Any]:
        """Return the JSON body for a call."""
        body: dict[str, Any] = {"model": call.model, "max_tokens": call.max_tokens}
        body.update(_conversation(call.messages))
        if _takes_temperature(call):
            body["temperature"] = call.temperature
        if call.stop:
            body["stop_sequences"] = list(call.stop)
        if call.tools:
            body["tools"] = [_tool(tool["function"]) for tool in call.tools]
            if call.tool_choice is not None:
                body["tool_choice"] = _choice(call.tool_choice)
        # For JSON without a schema there is nothing to send: the prompt has to ask for it.
        if call.schema is not None and call.schema.schema is not None:
            schema = _fitted(call.schema.schema)
            body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        if call.stream:
            body["stream"] = True
        return body

    def answer(self, reply: Mapping[str, Any]) -> Answer:
        """Read a whole answer.

        Raises:
            Malformed: it has neither content nor a reason why it has none.
        """
        content = reply.get("content")
        blocks = [mapping(block) for block in items(content)]
        answer = Answer(
            content=text(content) or _joined(blocks, "text") or None,
            calls=list(_calls(blocks)),
            end=_end(reply.get("stop_reason")),
            reasoning=_joined(blocks, "thinking"),
            tokens=with_bill(_tokens(mapping(reply.get("usage"))), reply),
        )
        if answer.content or answer.calls or answer.reasoning or text(reply.get("stop_reason")):
            return answer
        sentence = "An answer of Anthropic must have `content` or a `stop_reason`; this has none."
        raise Malformed(sentence)

    def reader(self) -> "AnthropicReader":
        """Return what reads one stream."""
        return AnthropicReader()

    def fault(self, reply: Any) -> Fault | None:
        """Return the error that a body describes: an object, or a text from a gateway."""
        reply = mapping(reply)
        error = reply.get("error")
        if not error and reply.get("type") != "error":
            return None
        if isinstance(error, str) and error:
            return Fault(error)
        described = mapping(error)
        special = mapping(described.get("details")).get("error_code")
        return Fault(
            text(described.get("message")) or text(reply.get("message")) or _shown(reply),
            codes(special, described.get("code"), described.get("type")),
            status=http_status(described.get("code")),
        )


class AnthropicReader(Reader):
    """Reads the events of one stream."""

    __slots__ = ("_model", "_open", "_seal", "_thought", "_thoughts", "_usage")

    def __init__(self) -> None:
        super().__init__()
        self._open: dict[int | None, int] = {}  # the number of a call, by the index of its block
        self._thought: list[str] = []
        self._seal = ""
        self._thoughts: list[dict[str, Any]] = []
        self._usage: dict[str, Any] = {}
        self._model = ""

    def read(self, data: bytes, event: bytes) -> Sequence[Piece]:
        """Take one event; the type within it counts for more than its name.

        Raises:
            Faulted: it is an error.
            Malformed: it is no JSON object.
        """
        try:
            value = parse(data, keep_halves=True)
        except ValueError as error:
            return self._unreadable(data, event, f"this is not JSON: {error}")
        if not isinstance(value, dict):
            return self._unreadable(data, event, "this is other JSON")
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
            raise Faulted(fault)
        return ()

    def _unreadable(self, data: bytes, event: bytes, why: str) -> Sequence[Piece]:
        """Take what is no JSON object, which some gateways mix in."""
        words = data.strip()
        if words == b"[DONE]":
            self.over = True
        elif event == b"error":
            raise Faulted(Fault(words.decode(errors="replace")))
        elif words and event != b"ping":
            raise Malformed(f"An event of Anthropic must be a JSON object; {why}.")
        return ()

    def _delta(self, value: dict[str, Any]) -> Sequence[Piece]:
        delta = mapping(value.get("delta"))
        kind = delta.get("type")
        if kind == "text_delta":
            words = text(delta.get("text"))
            return (self.text(words),) if words else ()
        if kind == "input_json_delta":
            number = self._open.get(count(value.get("index")))
            words = text(delta.get("partial_json"))
            return self.call(number, arguments=words) if words and number is not None else ()
        if kind == "thinking_delta":
            words = text(delta.get("thinking"))
            self._thought.append(words)
            return (self.reasoning(words),) if words else ()
        if kind == "signature_delta":
            self._seal += text(delta.get("signature"))
        return ()

    def _block(self, value: dict[str, Any]) -> Sequence[Piece]:
        """Take the start of a block, which may have all of it already."""
        self._end_thought()
        block = mapping(value.get("content_block"))
        kind = block.get("type")
        if kind == "tool_use":
            return self._tool_use(block, count(value.get("index")))
        if kind == "text":
            words = text(block.get("text"))
            return (self.text(words),) if words else ()
        if kind == "thinking":
            words = text(block.get("thinking"))
            self._thought.append(words)
            self._seal = text(block.get("signature"))
            return (self.reasoning(words),) if words else ()
        if kind == "redacted_thinking":
            self._thoughts.append(dict(block))
        return ()

    def _tool_use(self, block: Mapping[str, Any], index: int | None) -> Sequence[Piece]:
        if not text(block.get("name")):  # it calls nothing
            self._open.pop(index, None)
            return ()
        number = len(self._calls)
        signature = _signature(self._thoughts)
        self._thoughts = []
        arguments = _written(block.get("input")) if block.get("input") else ""
        if arguments:
            self._open.pop(index, None)  # what came whole does not grow
        else:
            self._open[index] = number
        id_, name = text(block.get("id")) or None, text(block.get("name"))
        return self.call(number, id=id_, name=name, arguments=arguments, signature=signature)

    def _end_thought(self) -> None:
        if self._seal:
            thought = "".join(self._thought)
            block = {"type": "thinking", "thinking": thought, "signature": self._seal}
            self._thoughts.append(block)
        self._thought = []
        self._seal = ""

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
        self.over = True
        return ()

    def _error(self, value: dict[str, Any]) -> Sequence[Piece]:
        raise Faulted(ADAPTER.fault(value) or Fault(text(value.get("message")) or _shown(value)))

    def _count(self, usage: Mapping[str, Any]) -> None:
        """Take counts that include the earlier ones: none of them becomes less."""
        for key, value in usage.items():
            known, new = count(self._usage.get(key)), count(value)
            if value is not None and (known is None or (new is not None and new >= known)):
                self._usage[key] = value
        reply = {"model": self._model, "usage": self._usage}
        self.tokens = with_bill(_tokens(self._usage), reply)


_EVENTS: Mapping[str, Callable[[AnthropicReader, dict[str, Any]], Sequence[Piece]]] = {
    "content_block_delta": AnthropicReader._delta,
    "content_block_start": AnthropicReader._block,
    "message_start": AnthropicReader._start,
    "message_delta": AnthropicReader._change,
    "message_stop": AnthropicReader._stop,
    "error": AnthropicReader._error,
}

ADAPTER: Adapter = Anthropic()


# What a request is made of.


def _conversation(messages: Sequence[Message]) -> dict[str, Any]:
    """Return the messages, and the system prompts beside them."""
    system = [m["content"] for m in messages if m["role"] == "system" and m["content"].strip()]
    turns: list[dict[str, Any]] = []
    for message in messages:
        _add(turns, "assistant" if message["role"] == "assistant" else "user", _blocks(message))
    if not turns:
        # There must be a message, so system prompts that stand alone are the user's.
        _add(turns, "user", [_text(prompt) for prompt in system])
        return {"messages": turns}
    last = turns[-1]["content"][-1]
    if turns[-1]["role"] == "assistant" and last["type"] == "text":
        # An answer that is to be continued is refused with blanks at its end.
        last["text"] = last["text"].rstrip()
    return {"system": "\n\n".join(system), "messages": turns} if system else {"messages": turns}


def _add(turns: list[dict[str, Any]], role: str, blocks: list[dict[str, Any]]) -> None:
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"].extend(blocks)
    elif blocks:
        turns.append({"role": role, "content": blocks})


def _blocks(message: Message) -> list[dict[str, Any]]:
    """Return the blocks of a message, none for one that goes elsewhere or says nothing."""
    if message["role"] == "system":
        return []
    blocks = _parts(message["content"])
    if message["role"] == "tool":
        result = {"type": "tool_result", "tool_use_id": _sent_id(message["tool_call_id"])}
        return [{**result, "content": blocks} if blocks else result]
    for number, call in enumerate(message.get("tool_calls", ())):
        thoughts = _thoughts(call.get("signature"))
        if number == 0:
            blocks = [*thoughts, *blocks]  # a turn that began with thoughts must begin with them
        else:
            blocks.extend(thoughts)
        blocks.append(_tool_call(call))
    return blocks


def _parts(content: Any) -> list[dict[str, Any]]:
    if not isinstance(content, list):
        return [_text(content)] if content and content.strip() else []
    return [
        _image(part["image_url"]["url"]) if part["type"] == "image_url" else _text(part["text"])
        for part in content
        if part["type"] == "image_url" or part["text"].strip()
    ]


def _text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def _image(url: str) -> dict[str, Any]:
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:"):
        return {"type": "image", "source": {"type": "url", "url": url}}
    kind = head.removeprefix("data:").partition(";")[0].lower()
    media_type = _MEDIA_TYPES.get(kind, kind)
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "image", "source": source}


def _tool_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {
        "type": "tool_use",
        "id": _sent_id(call["id"]),
        "name": function["name"],
        # As lenient as the check of it: control characters are allowed within strings.
        "input": json.loads(function["arguments"] or "{}", strict=False),
    }


def _sent_id(id_: str) -> str:
    return _NOT_IN_ID.sub(lambda match: f"_{ord(match[0]):x}_", id_)


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    tool: dict[str, Any] = {"name": function["name"]}
    if function.get("description"):
        tool["description"] = function["description"]
    schema: Mapping[str, Any] = {"type": "object", **function.get("parameters", {})}
    if function.get("strict"):
        return {**tool, "input_schema": _fitted(schema), "strict": True}
    return {**tool, "input_schema": schema}


def _choice(choice: str) -> dict[str, Any]:
    name = choice.removeprefix("tool:")
    return {"type": _CHOICES[choice]} if name == choice else {"type": "tool", "name": name}


def _takes_temperature(call: Call) -> bool:
    """Say whether a temperature may be sent: not to all models, nor beside `top_p` or thinking."""
    thinking = mapping(call.extra.get("thinking")).get("type", "disabled")
    return (
        thinking == "disabled"
        and "top_p" not in call.extra
        and not call.model.startswith(_NO_TEMPERATURE)
    )


def _fitted(schema: Any) -> Any:
    """Return a schema without what is refused, and with the `additionalProperties` it must have."""
    if not isinstance(schema, Mapping):
        return schema
    fitted = dict(_fitted_keywords(schema))
    if schema.get("type") == "object" or "properties" in schema:
        fitted.setdefault("additionalProperties", False)
    return fitted


def _fitted_keywords(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in schema.items():
        if key in {"properties", "$defs", "definitions"} and isinstance(value, Mapping):
            yield key, {name: _fitted(named) for name, named in value.items()}
        elif key in {"anyOf", "oneOf", "allOf"} and isinstance(value, list | tuple):
            yield "anyOf" if key == "oneOf" else key, [_fitted(option) for option in value]
        elif key == "items":
            yield key, _fitted(value)
        elif not _is_refused(key, value):
            yield key, value


def _is_refused(key: str, value: Any) -> bool:
    if key == "format":
        return text(value) not in _FORMATS
    return key in _REFUSED_KEYWORDS or (key == "minItems" and value not in (0, 1))


# What an answer is made of.


def _joined(blocks: Iterable[Mapping[str, Any]], kind: str) -> str:
    """Return what all blocks of a type say: it stands under the name of the type."""
    return "".join(text(block.get(kind)) for block in blocks if block.get("type") == kind)


def _calls(blocks: Iterable[Mapping[str, Any]]) -> Iterator[RawCall]:
    """Return the tool calls; calls of tools of the server are none of ours."""
    thoughts: list[Mapping[str, Any]] = []
    for block in blocks:
        kind = block.get("type")
        if kind == "redacted_thinking" or (kind == "thinking" and text(block.get("signature"))):
            thoughts.append(block)
        elif kind == "tool_use":
            given = block.get("input")
            arguments = given if isinstance(given, dict | str | None) else _written(given)
            id_, name = text(block.get("id")) or None, text(block.get("name"))
            yield RawCall(id_, name, arguments, _signature(thoughts))
            thoughts = []


def _written(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value).decode()


def _signature(thoughts: Sequence[Mapping[str, Any]]) -> str | None:
    return to_json(thoughts).decode() if thoughts else None


def _thoughts(signature: Any) -> list[dict[str, Any]]:
    """Return the thoughts that a signature holds, none when it is of another provider."""
    try:
        thoughts = from_json(text(signature))
    except ValueError:
        return []
    return [
        thought for thought in items(thoughts) if text(mapping(thought).get("type")) in _THOUGHTS
    ]


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
    """Return a value as JSON, short enough for a sentence."""
    return to_json(value).decode()[:200]
