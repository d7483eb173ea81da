"""The messages of the AI SDK as messages of a request. No I/O."""

from collections.abc import Callable
from typing import Any, Final

from coreason_manifest.definitions.message import (
    ChatMessage,
    MessagePart,
    ReasoningPart,
    Role,
    TextPart,
)

from ..http._chat_body import bad_request, by_role, call_part, resource_part, result_part, text_in
from . import GivenApproval

__all__ = ["approval_in", "messages_of"]

_ROLES: Final = {"system": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT}
_MODALITIES: Final = ("image", "audio", "video")


def messages_of(message: Any, where: str) -> list[ChatMessage]:
    """Return a message of a page; results of tools are messages of their own.

    Parts that only a page needs are left out: sources, data and the beginnings of steps. So are
    calls without a result, which no model accepts.

    Raises:
        Problem: 400.
    """
    if not isinstance(message, dict):
        raise bad_request(where, f"{where} must be an object with id, role and parts.")
    role, parts = by_role(message, where, _ROLES), message.get("parts")
    if not isinstance(parts, list):
        raise bad_request(f"{where}.parts", f"{where}.parts must be a list of parts.")
    messages: list[ChatMessage] = []
    found: list[MessagePart] = []
    for index, part in enumerate(parts):
        place = f"{where}.parts.{index}"
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str):
            raise bad_request(place, f"{place} must be an object with a type.")
        if (read := _PARTS.get(kind)) is not None:
            found.append(read(part, place))
        elif _is_tool(kind):
            call, result = _tool(part, place)
            if result is not None:
                messages.append(ChatMessage(role=role, parts=[*found, call]))
                messages.append(ChatMessage(role=Role.TOOL, parts=[result]))
                found = []
    if found or not messages:
        messages.append(ChatMessage(role=role, parts=found))
    return messages


def approval_in(message: dict[str, Any]) -> GivenApproval | None:
    """Return the user's answer to the last question in a message, None if it has none."""
    parts = message["parts"] if message["role"] == "assistant" else []
    for part in reversed(parts):
        approval = part.get("approval") if _is_tool(part["type"]) else None
        if isinstance(approval, dict) and part.get("state") == "approval-responded":
            answered, reason = approval.get("approved") is True, approval.get("reason")
            known = reason if isinstance(reason, str) else None
            return GivenApproval(str(approval.get("id")), str(part["toolCallId"]), answered, known)
    return None


def _is_tool(kind: str) -> bool:
    return kind == "dynamic-tool" or kind.startswith("tool-")


def _tool(part: dict[str, Any], where: str) -> tuple[MessagePart, MessagePart | None]:
    """Return a tool call and its result, if it has one."""
    kind, call_id = part["type"], part.get("toolCallId")
    name = part.get("toolName") if kind == "dynamic-tool" else kind.removeprefix("tool-")
    if not isinstance(call_id, str):
        raise bad_request(where, f"{where}: a call needs a toolCallId.")
    call = call_part(name, call_id, part.get("input"), where)
    match part.get("state"):
        case "output-available":
            return call, result_part(call_id, part.get("output"), where)
        case "output-error":
            return call, result_part(call_id, {"error": part.get("errorText")}, where)
        case "output-denied":
            return call, result_part(call_id, {"error": "The user has denied the call."}, where)
    return call, None


def _file(part: dict[str, Any], where: str) -> MessagePart:
    media_type = text_in(part, "mediaType", where)
    main = media_type.partition("/")[0]
    found = resource_part(text_in(part, "url", where), main if main in _MODALITIES else "file")
    if found is None:
        raise bad_request(f"{where}.url", f"{where}.url must be a link, or a data URL with base64.")
    return found.model_copy(update={"mime_type": media_type})


_PARTS: Final[dict[str, Callable[[dict[str, Any], str], MessagePart]]] = {
    "text": lambda part, where: TextPart(content=text_in(part, "text", where)),
    "reasoning": lambda part, where: ReasoningPart(content=text_in(part, "text", where)),
    "file": _file,
}
