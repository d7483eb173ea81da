"""The messages and items of OpenAI as messages of a request. No I/O."""

from collections.abc import Callable
from typing import Any, Final

from coreason_manifest.definitions.message import (
    BlobPart,
    ChatMessage,
    FilePart,
    MessagePart,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallResponsePart,
    UriPart,
)

from ..answer._writer import as_text
from ..http._chat_body import (
    bad_request,
    by_role,
    call_part,
    content_parts,
    objects_in,
    resource_part,
    result_part,
)

_ROLES: Final = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}


def chat_message(message: Any, where: str) -> ChatMessage:
    """Return a message of chat completions; `where` names it in an error.

    Raises:
        Problem: 400.
    """
    role = _role(message, where)
    if role is Role.TOOL:
        call_id = message.get("tool_call_id") or message.get("name")
        parts = _content(message.get("content"), where)
        result = "".join(part.content for part in parts if isinstance(part, TextPart))
        return ChatMessage(role=role, parts=[result_part(call_id, result, where)])
    parts = _content(message.get("content"), f"{where}.content")
    if role is Role.ASSISTANT:
        if isinstance(thought := message.get("reasoning_content"), str) and thought:
            parts.insert(0, ReasoningPart(content=thought))
        if isinstance(refusal := message.get("refusal"), str):
            parts.append(TextPart(content=refusal))
        parts += _calls(message.get("tool_calls"), f"{where}.tool_calls")
    elif message.get("content") is None:
        raise bad_request(f"{where}.content", f"{where}.content must be text or a list of parts.")
    name = message.get("name")
    return ChatMessage(role=role, parts=parts, name=name if isinstance(name, str) else None)


def item_messages(item: Any, where: str) -> list[ChatMessage]:
    """Return the messages of an item of the Responses API, which may be one of its own output.

    Raises:
        Problem: 400.
    """
    if not isinstance(item, dict):
        raise bad_request(where, f"{where} must be an object.")
    match item.get("type", "message"):
        case "message":
            role = _role(item, where)
            return [ChatMessage(role=role, parts=_content(item.get("content"), f"{where}.content"))]
        case "function_call" | "custom_tool_call" | "mcp_call" as kind:
            return _itemcall_part(item, where, has_result=kind == "mcp_call")
        case "function_call_output" | "custom_tool_call_output":
            result = result_part(item.get("call_id"), item.get("output"), where)
            return [ChatMessage(role=Role.TOOL, parts=[result])]
        case "reasoning":
            return []  # it is not sent to a model again
    supported = "message, function_call, function_call_output, mcp_call and reasoning"
    raise bad_request(f"{where}.type", f"{where}: only items of type {supported} are supported.")


def _itemcall_part(item: dict[str, Any], where: str, *, has_result: bool) -> list[ChatMessage]:
    call_id = item.get("call_id") or item.get("id")
    arguments = item.get("arguments", item.get("input"))
    call = call_part(item.get("name"), call_id, arguments, where)
    messages = [ChatMessage(role=Role.ASSISTANT, parts=[call])]
    if has_result:
        result = item.get("output") if item.get("error") is None else item["error"]
        messages.append(ChatMessage(role=Role.TOOL, parts=[result_part(call_id, result, where)]))
    return messages


def _role(message: Any, where: str) -> Role:
    if not isinstance(message, dict):
        raise bad_request(where, f"{where} must be an object with role and content.")
    return by_role(message, where, _ROLES)


def _calls(calls: Any, where: str) -> list[MessagePart]:
    if not calls:
        return []
    calls = objects_in(calls, where)
    functions = [call.get("function") or call.get("custom") or {} for call in calls]
    if not all(isinstance(function, dict) for function in functions):
        raise bad_request(where, f"{where}: the function of a call must be an object.")
    parts: list[MessagePart] = []
    for call, function in zip(calls, functions, strict=True):
        arguments = function.get("arguments", function.get("input"))
        parts.append(call_part(function.get("name"), call.get("id"), arguments, where))
    return parts


def _content(content: Any, where: str) -> list[MessagePart]:
    return [] if content is None else content_parts(content, where, _part)


def _part(part: Any, where: str) -> MessagePart:
    kind = part.get("type") if isinstance(part, dict) else None
    read = _PARTS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise bad_request(where, f"{where} must be a part with text, an image or a file.")
    found = read(part)
    if found is None:
        raise bad_request(where, f"{where}: the part of type {kind} has no usable content.")
    return found


def _text(part: dict[str, Any]) -> MessagePart | None:
    text = part.get("text", part.get("refusal"))
    return TextPart(content=text) if isinstance(text, str) else None


def _image(part: dict[str, Any]) -> MessagePart | None:
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, dict) else image
    return _resource(url, part.get("file_id"), "image")


def _file(part: dict[str, Any]) -> MessagePart | None:
    file = part.get("file") if isinstance(part.get("file"), dict) else part
    assert isinstance(file, dict)  # noqa: S101 - one of the two is
    data = file.get("file_data")
    if isinstance(data, str) and not data.startswith("data:"):
        data = f"data:;base64,{data}"
    return _resource(data or file.get("file_url"), file.get("file_id"), "file")


def _resource(url: Any, file_id: Any, modality: str) -> MessagePart | None:
    if not isinstance(url, str) or not url:
        is_file = isinstance(file_id, str) and file_id
        return FilePart(file_id=file_id, modality=modality) if is_file else None
    return resource_part(url, modality)


_PARTS: Final[dict[str, Callable[[dict[str, Any]], MessagePart | None]]] = {
    "text": _text,
    "input_text": _text,
    "output_text": _text,
    "refusal": _text,
    "image_url": _image,
    "input_image": _image,
    "file": _file,
    "input_file": _file,
}


def input_item(message: ChatMessage, item_id: str) -> dict[str, Any]:
    """Return a message of a request as an item of the input of a response."""
    results = [part for part in message.parts if isinstance(part, ToolCallResponsePart)]
    item: dict[str, Any]
    if results:
        output = "".join(as_text(part.response) for part in results)
        item = {"type": "function_call_output", "call_id": results[0].id or "", "output": output}
    else:
        content = [shown for part in message.parts if (shown := _input_part(part)) is not None]
        item = {"type": "message", "role": str(message.role), "content": content}
    return {"id": item_id, "status": "completed", **item}


def _input_part(part: MessagePart) -> dict[str, Any] | None:
    match part:
        case TextPart():
            return {"type": "input_text", "text": part.content}
        case BlobPart():
            return _input_resource(part, f"data:{part.mime_type or ''};base64,{part.content}")
        case UriPart():
            return _input_resource(part, part.uri)
        case FilePart():
            return {"type": "input_file", "file_id": part.file_id}
    return None


def _input_resource(part: BlobPart | UriPart, url: str) -> dict[str, Any]:
    if part.modality == "image":
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    return {"type": "input_file", "file_data" if isinstance(part, BlobPart) else "file_url": url}
