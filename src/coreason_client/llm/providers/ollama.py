"""The wire format of Ollama's chat API. Pure.

* A stream is NDJSON: the line with `"done": true` is the last one and has the token counts; a line
  with `error` ends the stream with an error. Ollama streams unless `stream` is false.
* A tool call is always complete: its arguments are an object. It has no id; a result has the name
  of the tool.
* Images are base64 data in the message; Ollama does not fetch URLs.
* `prompt_eval_count` is missing if the whole prompt was cached.
* There is no tool choice; "none" is expressed by sending no tools.
* Messages have no `name`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from .._adapter import Adapter, AnswerReader, Piece
from .._answer import End, FaultReceived, Malformed, ModelAnswer, ProviderFault, RawToolCall, Tokens
from .._call import ModelCall, data_of, sampling
from .._json import as_text, codes, count, items, mapping, parse, text
from .._profile import ProviderProfile
from ..types import Media, Message
from ._arguments import ARGUMENTS

__all__ = ["ADAPTER", "Ollama"]

# All other reasons, including "load" and "unload", or none, mean "stop".
_ENDS: Mapping[str, End] = {"length": "length"}


class Ollama(Adapter):
    """The format of `/api/chat`."""

    arguments = ARGUMENTS["ollama"]

    framing: ClassVar[Literal["sse", "ndjson"]] = "ndjson"

    def url(self, base: str, call: ModelCall) -> str:
        """Return the URL of the chat endpoint."""
        return f"{base}/chat"

    def part_problem(self, part: Mapping[str, Any], profile: ProviderProfile) -> str | None:
        """Return why a part cannot be sent, None if it can: only images can be."""
        found = data_of(_image_url(part))
        if found is not None and found[0].startswith("image/"):
            return None
        if part["type"] == "image_url":
            return (
                f"but {profile.name} does not fetch its URL: load the image and pass it as "
                "data:image/…;base64,…"
            )
        instead = "a transcript" if part["type"] == "input_audio" else "the text of the file"
        return f"which {profile.name} does not accept: send {instead} as a text part"

    def body(self, call: ModelCall, profile: ProviderProfile) -> dict[str, Any]:
        """Return the JSON body for a call."""
        body: dict[str, Any] = {
            "model": call.model,
            "messages": _messages(call),
            "stream": call.stream,
        }
        if options := sampling(call, "temperature", "num_predict", "stop"):
            body["options"] = options
        if call.tools and call.tool_choice != "none":
            body["tools"] = list(call.tools)
        if call.schema is not None:
            body["format"] = "json" if call.schema.schema is None else call.schema.schema
        return body

    def answer(self, reply: Mapping[str, Any]) -> ModelAnswer:
        """Read a complete answer.

        Raises:
            Malformed: it has no message.
        """
        message = reply.get("message")
        if not isinstance(message, dict):
            raise Malformed("the answer must have a message, got none")
        return ModelAnswer(
            content=text(message.get("content")) or None,
            calls=[
                RawToolCall(_id(call), text(function.get("name")), _arguments(function))
                for call, function in _functions(message)
            ],
            end=_end(reply),
            reasoning=text(message.get("thinking")),
            tokens=_tokens(reply),
            media=_images(message),
        )

    def reader(self) -> "OllamaReader":
        """Return a new reader for one stream."""
        return OllamaReader()

    def fault(self, reply: Any) -> ProviderFault | None:
        """Return the error in a body: a text, or an object from a gateway."""
        error = mapping(reply).get("error")
        if not error:
            return None
        if not isinstance(error, dict):
            return ProviderFault(error if isinstance(error, str) else _shown(error))
        return ProviderFault(
            text(error.get("message")) or _shown(error),
            codes(error.get("code"), error.get("type")),
            param=text(error.get("param")) or None,
        )


class OllamaReader(AnswerReader):
    """Reads the lines of one stream."""

    __slots__ = ()

    def read(self, data: bytes, event: bytes) -> Sequence[Piece]:
        """Read one line.

        Raises:
            FaultReceived: the line is an error.
            Malformed: the line is not a JSON object.
        """
        try:
            line = parse(data, keep_edge_surrogates=True)
        except ValueError as error:
            if not data.strip():
                return ()
            message = f"a line of the stream must be a JSON object, got invalid JSON: {error}"
            raise Malformed(message) from error
        if not isinstance(line, dict):
            raise Malformed("a line of the stream must be a JSON object, got another JSON value")
        fault = ADAPTER.fault(line) if "error" in line else None
        if fault is not None:
            raise FaultReceived(fault)
        pieces = self._message(mapping(line.get("message")))
        if line.get("done") is True:
            self.end = _end(line)
            self.tokens = _tokens(line)
            self.done = True
        return pieces

    def _message(self, message: Mapping[str, Any]) -> list[Piece]:
        pieces: list[Piece] = []
        if thinking := text(message.get("thinking")):
            pieces.append(self.add_reasoning(thinking))
        if content := text(message.get("content")):
            pieces.append(self.add_text(content))
        if "tool_calls" in message:
            for call, function in _functions(message):
                # Calls are complete: each is a new one, whatever its index.
                index, name = len(self._calls), text(function.get("name"))
                arguments = as_text(_arguments(function))
                pieces += self.add_tool_call(index, id=_id(call), name=name, arguments=arguments)
        self.media += _images(message)
        return pieces


ADAPTER: Adapter = Ollama()


# Requests.


def _messages(call: ModelCall) -> list[Message]:
    names: dict[str, str] = {}  # names of the called tools, by call id
    return [_message(message, names) for message in call.messages]


def _message(message: Message, names: dict[str, str]) -> Message:
    content, images = _content(message["content"])
    sent: Message = {"role": message["role"], "content": content}
    if images:
        sent["images"] = images
    if message.get("reasoning"):
        sent["thinking"] = message["reasoning"]
    if message.get("tool_calls"):
        sent["tool_calls"] = [_sent_call(call, names) for call in message["tool_calls"]]
    if message["role"] == "tool":
        sent["tool_name"] = names[message["tool_call_id"]]
    return sent


def _content(content: Any) -> tuple[str, list[str]]:
    """Return the text and the images of a message."""
    if not isinstance(content, list):
        return text(content), []
    texts = [part["text"] for part in content if part["type"] == "text"]
    images = [data_of(_image_url(part)) for part in content if part["type"] != "text"]
    return "\n".join(texts), [image[1] for image in images if image is not None]


def _image_url(part: Mapping[str, Any]) -> str:
    """Return the URL of an image or a file, empty if the part has none."""
    if part["type"] == "image_url":
        return text(part["image_url"]["url"])
    return text(part.get("file", {}).get("file_data"))


def _sent_call(call: Mapping[str, Any], names: dict[str, str]) -> dict[str, Any]:
    function = call["function"]
    name = names[call["id"]] = function["name"]
    # Lenient: arguments written by a model may contain control characters.
    arguments = json.loads(function["arguments"], strict=False)
    return {"function": {"name": name, "arguments": arguments}}


# Answers.


def _functions(message: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Return each tool call with its function, without calls that have no name."""
    listed = map(mapping, items(message.get("tool_calls")))
    calls = [(call, mapping(call.get("function"))) for call in listed]
    return [(call, function) for call, function in calls if text(function.get("name"))]


def _images(message: Mapping[str, Any]) -> list[Media]:
    images = items(message.get("images"))
    return [{"type": "image", "data": image} for image in images if text(image)]


def _id(call: Mapping[str, Any]) -> str | None:
    return text(call.get("id")) or None


def _arguments(function: Mapping[str, Any]) -> str | dict[str, Any] | None:
    arguments = function.get("arguments")
    return arguments if isinstance(arguments, str | dict) else None


def _end(reply: Mapping[str, Any]) -> End:
    return _ENDS.get(text(reply.get("done_reason")), "stop")


def _tokens(reply: Mapping[str, Any]) -> Tokens | None:
    prompt, completion = count(reply.get("prompt_eval_count")), count(reply.get("eval_count"))
    return None if prompt is None and completion is None else Tokens(prompt, completion)


def _shown(value: Any) -> str:
    """Return a value as JSON, cut for an error message."""
    return json.dumps(value)[:200]
