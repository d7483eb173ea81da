"""A request of a page that uses the AI SDK, as the request that an agent gets.

`messages` brings the whole conversation, and the store is not asked; `message` brings one message
of a conversation that the store has, under the id of the chat. A field decides, never a number.

The same request joins the answer that is running or complete. An answer that failed or was stopped,
and one that is to be generated again, is a new answer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID, uuid4

from pydantic_core import to_json
from starlette.requests import Request

from coreason_manifest.definitions.message import (
    ChatMessage,
    MessagePart,
    ReasoningPart,
    Role,
    TextPart,
)
from coreason_manifest.definitions.service import ServiceRequest

from .._options import Options
from ..answer import Question
from ..engine._conversation import COMPLETE
from ..engine._runtime import Runtime
from ..http._admission import ParsedBody, StreamRequest
from ..http._body import fingerprint
from ..http._chat_body import (
    MAX_ID,
    Ask,
    bad_request,
    by_role,
    call_part,
    check_sizes,
    is_id,
    json_object,
    request_of,
    resource_part,
    result_part,
    text_in,
)
from ..http._chats import (
    Chat,
    Note,
    asking_stream,
    joined_stream,
    open_question,
    session_of,
    stream_in,
)
from ..http._problems import question_not_open
from ..log.base import StreamMeta
from . import CAPABILITIES, AnswerFacts, GivenApproval
from ._writer import is_call_id

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


PROTOCOL: Final = "ai-sdk"
"""The name under which the chats of this protocol are noted."""

_JSON = dict[str, Any]
_OWN_NAMES: Final = frozenset(("messages", "message", "capabilities"))


@dataclass(frozen=True, slots=True)
class AskedChat:
    """The content of a body; `chat_id` is None if the client gives none."""

    messages: Sequence[ChatMessage]
    is_in_store: bool
    chat_id: str | None
    regenerates: bool
    facts: AnswerFacts
    settings: Mapping[str, Any]


class PageRequest(StreamRequest):
    """A `POST` to the path of the chat; `asked` is set once its body has been read."""

    is_plain_text_allowed = True  # the workflow transport sends its JSON so
    asked: AskedChat

    def __init__(self, request: Request, options: Options) -> None:
        super().__init__(request)
        self._options = options
        self._note: Note | None = None

    def parse(self, body: bytes) -> ParsedBody:
        """Validate the body.

        Raises:
            Problem: 400.
        """
        self.asked = asked = _asked(json_object(body))
        check_sizes(asked.messages, self._options)
        return ParsedBody(self._request(uuid4()), asked.facts.fingerprint)

    async def complete(self, parsed: ParsedBody, runtime: Runtime, principal: str) -> ParsedBody:
        """Find the answer that the request joins, or note the request in its chat.

        Raises:
            Problem: 409 or 410, the question that the request answers is not open.
            LogError: the log does not answer.
        """
        log, chat_id, facts = runtime.log, self.asked.chat_id, self.asked.facts
        if chat_id is None:
            return parsed
        chat, approval = Chat(log, principal, PROTOCOL, chat_id), facts.approval
        asker = None if approval is None else asking_stream(approval.question_id)
        if asker is None:
            known = (note.number for note in await chat.notes() if note.key == facts.key)
            note = Note(facts.key, next(known, 0), facts.continues)
        else:
            note = Note(f"{PROTOCOL}:answer:{asker.hex}", 0, facts.continues)
        note, found = await joined_stream(log, principal, note, parsed.fingerprint, self._joins)
        self._note, request = note, parsed.request
        if found is None:
            if approval is not None and asker is not None:
                question = await open_question(log, chat, note, asker)
                request = self._request(request.request_id, _approved(approval, question))
            await chat.add(note, self.stream_id)
        return parsed._replace(request=request.model_copy(update={"request_id": note.request_id}))

    def other_id(self, found: StreamMeta) -> UUID | None:
        """Return the next id, if the stream that has this one is not joined.

        Raises:
            Problem: 409, it was to join the answer to a question, which has just failed.
        """
        if self._note is None or self._joins(found):
            return None
        if self.asked.facts.approval is not None:  # what it answers was not looked up
            raise question_not_open()
        self._note = self._note._replace(number=self._note.number + 1)
        return self._note.request_id

    def _joins(self, found: StreamMeta) -> bool:
        if found.outcome is None:
            return not found.cancel_requested
        is_new = self.asked.regenerates or found.body_gone
        return found.outcome == COMPLETE and not is_new

    def _request(self, request_id: UUID, approved: _JSON | None = None) -> ServiceRequest:
        asked = self.asked
        messages, metadata = [*asked.messages], {**asked.settings}
        if approved is not None:
            metadata["approval"] = approved
            messages.append(ChatMessage.user(_spoken(approved)))
        thread = "" if asked.chat_id is None else session_of(PROTOCOL, asked.chat_id)
        own = f"{PROTOCOL}:{self.stream_id.hex}"
        ask = Ask(
            messages=messages,
            session_id=thread if asked.is_in_store and thread else own,
            thread=thread,
            is_in_store=asked.is_in_store,
            metadata={"ai_sdk": metadata},
            can_rewind="reset-step" in asked.facts.capabilities,
        )
        return request_of(ask, request_id)


def check_chat_id(chat_id: Any) -> str:
    """Return the id of a chat.

    Raises:
        Problem: 400.
    """
    if not is_id(chat_id) or "/" in chat_id:
        rule = f"id must have 1 to {MAX_ID} printable characters and no slash."
        raise bad_request("id", rule)
    if stream_in("run", chat_id) is not None:
        raise bad_request("id", "id must not be the id of a run.")
    return chat_id


def _asked(values: _JSON) -> AskedChat:
    trigger = values.get("trigger") or "submit-message"
    if trigger not in ("submit-message", "regenerate-message"):
        raise bad_request("trigger", "trigger must be submit-message or regenerate-message.")
    chat_id = None if values.get("id") is None else check_chat_id(values["id"])
    regenerates = trigger == "regenerate-message"
    given, is_in_store = _given(values, chat_id, regenerates=regenerates)
    messages: list[ChatMessage] = []
    for index, message in enumerate(given):
        messages += messages_of(message, "message" if is_in_store else f"messages.{index}")
    capabilities, approval = _capabilities(values), approval_in(given[-1])
    if approval is not None and chat_id is None:
        raise bad_request("id", "id must be given with the answer to a question.")
    key = fingerprint(to_json([chat_id or uuid4().hex, trigger, capabilities, is_in_store, given]))
    return AskedChat(
        messages=messages,
        is_in_store=is_in_store,
        chat_id=chat_id,
        regenerates=regenerates,
        facts=AnswerFacts(key, capabilities, _continued(given[-1]), approval),
        settings={name: value for name, value in values.items() if name not in _OWN_NAMES},
    )


def _given(values: _JSON, chat_id: str | None, *, regenerates: bool) -> tuple[list[Any], bool]:
    """Return the messages of a body, and whether the store has those before them."""
    if "messages" not in values and values.get("message") is not None:
        if chat_id is None:
            raise bad_request("id", "id must be given with message: it names the conversation.")
        if regenerates:
            rule = "message cannot be used with regenerate-message: send messages."
            raise bad_request("message", rule)
        return [values["message"]], True
    messages = values.get("messages")
    if not isinstance(messages, list) or not messages:
        raise bad_request("messages", "messages must be a list with at least one message.")
    return messages, False


def _continued(last: _JSON) -> str:
    """Return the id of the message that the answer continues, empty if it begins one."""
    if last["role"] != "assistant":
        return ""
    if not is_id(last.get("id")):
        raise bad_request("messages", "The last message needs an id, because it is continued.")
    return str(last["id"])


def _capabilities(values: _JSON) -> list[str]:
    given = values.get("capabilities")
    if given is None:
        return []
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise bad_request("capabilities", "capabilities must be a list of names of chunks.")
    return [name for name in CAPABILITIES if name in given]


def _spoken(approval: _JSON) -> str:
    if approval["approved"]:
        return "approved"
    return f"denied: {approval['reason']}" if approval["reason"] else "denied"


def _approved(approval: GivenApproval, question: Question) -> _JSON:
    """Return what the user has answered, with the call as the log has it.

    Raises:
        Problem: 409.
    """
    call = question.call
    if call is None or not is_call_id(approval.call_id, call.call_id):
        raise question_not_open()
    return {**approval._asdict(), **call._asdict()}
