"""The wire format of OpenAI's Responses API and compatible servers. Pure.

* Nothing is stored by the provider (`store` is false), so each request has the whole conversation.
* Messages, tool calls and their results are items of one list. What an assistant message carries
  in `provider_items` is sent instead of its text and calls; see `_responses_items.py`.
* Messages have no names. There are no stop texts: for models that reason, which reject them in chat
  completions too, they are left out; for others they are an error.
* The limit of the answer includes the reasoning.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from .._adapter import Adapter
from .._answer import Malformed, ModelAnswer, ProviderFault
from .._call import ModelCall, cache_key
from .._cost import with_billing
from .._json import items, mapping, text
from .._profile import ProviderProfile
from ._arguments import ARGUMENTS
from ._openai import custom_input, flat_custom, part_problem, reasoning_mode, reasons, sent_schema
from ._responses_items import (
    CALLS,
    call_of,
    carried_items,
    citations_of,
    image_of,
    items_of_message,
    reasoning_text,
    texts_of,
    tool_results_of,
)
from ._responses_reader import ResponsesReader, end_of, error_in, tokens_of

__all__ = ["ADAPTER", "Responses", "input_content"]

_ENCRYPTED = "reasoning.encrypted_content"
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
_UNFINISHED = frozenset({"queued", "in_progress"})


class Responses(Adapter):
    """The format of `/responses`."""

    arguments = ARGUMENTS["responses"]

    def url(self, base: str, call: ModelCall) -> str:
        """Return the URL of the Responses endpoint."""
        return f"{base}/responses"

    def part_problem(self, part: Mapping[str, Any], profile: ProviderProfile) -> str | None:
        """Return why a part cannot be sent and what to do instead, None if it can."""
        if part["type"] == "input_audio":
            return (
                "which the Responses API does not accept: send a transcript as a text part, or use "
                'chat completions with wire="chat"'
            )
        # Where chat completions accept only PDF files, this API accepts all.
        return None if profile.file_form == "pdf" else part_problem(part, profile)

    def body(self, call: ModelCall, profile: ProviderProfile) -> dict[str, Any]:
        """Return the JSON body.

        Raises:
            LLMRequestError: the call has stop texts.
        """
        if call.stop and not _reasons(call):
            raise profile.rejected(
                "stop must be left out, because the Responses API has no stop texts; or use chat "
                'completions, with wire="chat"',
                call.model,
            )
        body: dict[str, Any] = {"model": call.model, **_conversation(call, profile), "store": False}
        body.update(_limits(call))
        if profile.encrypted_reasoning and _may_encrypt(call.model, profile):
            body["include"] = [_ENCRYPTED]
        if profile.cache_keys and (key := cache_key(call)) is not None:
            body["prompt_cache_key"] = key
        if call.tools:
            body["tools"] = [_tool(tool) for tool in call.tools]
        if call.tool_choice is not None:
            body["tool_choice"] = _tool_choice(call.tool_choice)
        if call.schema is not None:
            body["text"] = {"format": _format(call, profile)}
        if call.stream:
            body["stream"] = True
        return body

    def answer(self, reply: Mapping[str, Any]) -> ModelAnswer:
        """Read a complete answer.

        Raises:
            Malformed: it has no output, or is not complete.
        """
        status = reply.get("status")
        if isinstance(status, str) and status in _UNFINISHED:
            raise Malformed(f"the answer is not complete, its status is {status}", code=status)
        if not isinstance(reply.get("output"), list):
            raise Malformed("the answer has no output")
        output = [mapping(item) for item in items(reply["output"])]
        content, refused = texts_of(output)
        thoughts = [reasoning_text(item) for item in output if item.get("type") == "reasoning"]
        return ModelAnswer(
            content=content or None,
            calls=[call_of(item) for item in output if text(item.get("type")) in CALLS],
            end="filtered" if refused else end_of(reply),
            reasoning="\n\n".join(filter(None, thoughts)),
            tokens=with_billing(tokens_of(reply), reply),
            media=[image for item in output for image in image_of(item)],
            items=carried_items(output),
            citations=citations_of(output),
            tool_results=tool_results_of(output),
        )

    def reader(self) -> ResponsesReader:
        """Return a new reader for one stream."""
        return ResponsesReader()

    def fault(self, reply: Any) -> ProviderFault | None:
        """Return the error in a body, which may be that of an answer that failed."""
        return error_in(reply)


ADAPTER: Adapter = Responses()


# Requests.


def _conversation(call: ModelCall, profile: ProviderProfile) -> dict[str, Any]:
    """Return the fields `input` and `instructions`; the latter is the first system prompt."""
    messages = call.messages
    fields: dict[str, Any] = {}
    if len(messages) > 1 and messages[0]["role"] == "system":
        fields["instructions"] = messages[0]["content"]
        messages = messages[1:]
    calls = (call for message in messages for call in message.get("tool_calls", ()))
    custom = {call["id"] for call in calls if call.get("custom")}
    sent: list[Mapping[str, Any]] = []
    for message in messages:
        sent += _input_items(message, profile, custom)
    return {**fields, "input": sent}


def _input_items(
    message: Mapping[str, Any], profile: ProviderProfile, custom: Container[str]
) -> Sequence[Mapping[str, Any]]:
    """Return the items of a message; `custom` are the ids of calls of custom tools."""
    role, content = message["role"], message.get("content")
    if role == "tool":
        kind = "custom_tool_call" if message["tool_call_id"] in custom else "function_call"
        return [{"type": f"{kind}_output", "call_id": message["tool_call_id"], "output": content}]
    if role == "assistant":
        return items_of_message(message, profile.name) or _assistant_items(message)
    return [_message(role, input_content(content))]


def input_content(content: Any) -> Any:
    """Return the content of a user message: text, or its parts in the form of this API."""
    is_text = not isinstance(content, list)
    return content if is_text else [_PARTS[part["type"]](part) for part in content]


def _message(role: str, content: Any) -> dict[str, Any]:
    # OpenAI does not need the type, but the open standard and llama.cpp do.
    return {"type": "message", "role": role, "content": content}


def _assistant_items(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    sent: list[Mapping[str, Any]] = []
    if message["content"]:
        sent.append(_message("assistant", message["content"]))
    for call in message.get("tool_calls", ()):
        function, id_ = call["function"], {"call_id": call["id"]}
        named = {**id_, "name": function["name"]}
        if call.get("custom"):
            sent.append({"type": "custom_tool_call", **named, "input": custom_input(call)})
        else:
            given = {"arguments": function["arguments"]}
            sent.append({"type": "function_call", **named, **given})
    return sent


def _text(part: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "input_text", "text": part["text"]}


def _image(part: Mapping[str, Any]) -> dict[str, Any]:
    image = part["image_url"]
    # Some servers require `detail`.
    return {
        "type": "input_image",
        "image_url": image["url"],
        "detail": image.get("detail") or "auto",
    }


def _file(part: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "input_file", **part["file"]}


_PARTS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "text": _text,
    "image_url": _image,
    "file": _file,
    "input_audio": dict,
}


def _limits(call: ModelCall) -> Mapping[str, Any]:
    """Return the temperature, unless the model rejects it, and the limit of the answer."""
    temperature = None if _reasons(call) else call.temperature
    fields = {"temperature": temperature, "max_output_tokens": call.max_tokens}
    return {name: value for name, value in fields.items() if value is not None}


def _reasons(call: ModelCall) -> bool:
    return reasons(call.model, mapping(call.extra.get("reasoning")).get("effort"))


def _may_encrypt(model: str, profile: ProviderProfile) -> bool:
    """Return True if the reasoning of a model can be requested in encrypted form.

    OpenAI rejects the request for its models that never reason. The names of other models are not
    known here, so that only the provider decides.
    """
    return profile.encrypted_reasoning == "all models" or reasoning_mode(model) != "never"


def _tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a tool; by default this API is strict, unlike ours."""
    if "function" not in tool:
        return flat_custom(tool) if tool.get("type") == "custom" else tool
    function = tool["function"]
    sent = {"type": "function", "name": function["name"]}
    if description := function.get("description"):
        sent["description"] = description
    parameters = function.get("parameters") or _NO_PARAMETERS
    return {**sent, "parameters": parameters, "strict": function.get("strict", False)}


def _tool_choice(choice: str) -> Any:
    name = choice.removeprefix("tool:")
    return choice if name == choice else {"type": "function", "name": name}


def _format(call: ModelCall, profile: ProviderProfile) -> Mapping[str, Any]:
    sent = sent_schema(call, profile)
    return {"type": "json_object"} if sent is None else {"type": "json_schema", **sent}
