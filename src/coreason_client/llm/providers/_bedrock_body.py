"""Requests in the format of Amazon Bedrock's Converse API. Pure.

* Messages are turns of blocks (`_claude.py`).
* A conversation with tool calls must describe tools, and calls cannot be forbidden. With the tool
  choice "none" the tools are left out, if the conversation has no calls yet.
* A JSON schema goes into `outputConfig`. Models older than that are forced to call a tool with the
  schema as its parameters: the arguments of that call are the answer.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from .._call import ModelCall, PromptCache, Schema, cached_lists, data_of
from .._json import encode, mapping, text
from .._profile import ProviderProfile
from ..errors import LLMRequestError
from ..types import Message
from ._claude import (
    NO_TEMPERATURE,
    call_input,
    claude_at_bedrock,
    escaped_id,
    lone_prompts,
    make_turns,
    supported_schema,
    tool_parts,
    with_calls,
)

ANSWER_TOOL = "coreason_json_answer"
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


def request_body(
    call: ModelCall, carried: Callable[[Message], list[dict[str, Any]]] = lambda _: []
) -> dict[str, Any]:
    """Return the JSON body for a call; `carried` returns the blocks that a message carries.

    Raises:
        LLMRequestError: the schema of the answer cannot be encoded.
    """
    body = _conversation(call, carried)
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
    config: dict[str, Any] = {}
    if call.max_tokens is not None:
        config["maxTokens"] = call.max_tokens
    if _takes_temperature(call):
        config["temperature"] = call.temperature
    if call.stop:
        config["stopSequences"] = list(call.stop)
    return config


def _set_cache_points(body: dict[str, Any], lifetime: PromptCache) -> None:
    """Mark the ends of the parts of a request that are cached."""
    point = {"type": "default"} if lifetime == "5m" else {"type": "default", "ttl": lifetime}
    tools = body.get("toolConfig", {}).get("tools", [])
    for blocks in cached_lists(tools, body.get("system", []), body["messages"]):
        blocks.append({"cachePoint": point})


# Messages.


def _conversation(
    call: ModelCall, carried: Callable[[Message], list[dict[str, Any]]]
) -> dict[str, Any]:
    """Return the fields `messages` and `system`."""
    system = [
        {"text": message["content"]}
        for message in call.messages
        if _is_system(message) and message["content"].strip()
    ]
    turns = make_turns(call.messages, lambda message: carried(message) or _blocks(message))
    if not turns:
        # At least one message is required, so lone system prompts become a user message.
        return {"messages": lone_prompts(system)}
    return {"messages": turns, "system": system} if system else {"messages": turns}


def _is_system(message: Message) -> bool:
    return message["role"] in ("system", "developer")


def _blocks(message: Message) -> list[dict[str, Any]]:
    """Return the blocks of a message, none for a system prompt or a blank message."""
    if _is_system(message):
        return []
    blocks = content_blocks(message["content"])
    if message["role"] == "tool":
        result = {"toolUseId": _sent_id(message["tool_call_id"]), "content": blocks}
        if "is_error" in message:
            result["status"] = "error"
        return [{"toolResult": result}]
    return with_calls(blocks, message.get("tool_calls", ()), is_signed, _tool_use)


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
        answer = {"name": ANSWER_TOOL, "description": "Gives the answer."}
        specs.append(_tool({**answer, "parameters": call.schema.schema}))
    if not specs:
        return None
    config: dict[str, Any] = {"tools": specs}
    if forced:
        free = functions and call.tool_choice != "none"
        config["toolChoice"] = {"any": {}} if free else {"tool": {"name": ANSWER_TOOL}}
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
    """Return False without one, for models of Claude that reject it, and beside top P."""
    if call.temperature is None:
        return False
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


# Reasoning.


def is_signed(block: Any) -> bool:
    """Return True if a block is reasoning that must be sent back."""
    content = mapping(mapping(block).get("reasoningContent"))
    signed = text(mapping(content.get("reasoningText")).get("signature"))
    return bool(signed or text(content.get("redactedContent")))


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
