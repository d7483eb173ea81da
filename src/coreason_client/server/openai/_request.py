"""A request to chat completions or to the Responses API, as the request that an agent gets.

A field of the request decides where the turns before it come from, never the number of its
messages:

* `messages` of a chat and `input` bring them, and the store is not asked.
* `previous_response_id` takes the turns that were stored with that response. Each response has all
  turns before it, so two requests may continue after the same one.
* `conversation` is the name of a conversation in the store.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import NAMESPACE_URL, UUID, uuid4, uuid5

from starlette.requests import Request

from coreason_manifest.definitions.message import ChatMessage
from coreason_manifest.definitions.service import ServiceRequest

from ..engine._conversation import StoredTurn
from ..engine._runtime import Runtime
from ..errors import UnknownStream
from ..http._admission import ParsedBody, StreamRequest, owned
from ..http._body import fingerprint
from ..http._chat_body import MAX_ID, Ask, bad_request, check_sizes, is_id, json_object, request_of
from ..http._chats import session_of
from ..http._decision import RequestFacts
from ..http._problems import Problem
from ..log.base import StreamLog, StreamMeta
from . import Model, OpenAIAPI
from ._chat import CHAT_PREFIX
from ._messages import chat_message, item_messages
from ._stored import RESPONSE_PREFIX, answer_of, item_stream, load_turns, stream_of
from ._wire import unknown_response

_RETRY_COUNT: Final = "x-stainless-retry-count"
_NAMESPACE: Final = uuid5(NAMESPACE_URL, "urn:coreason:openai:idempotency-key")
_OWN_TOOLS: Final = "an agent calls its own tools and cannot call those of the request"
# What the request itself means; everything else is handed to the agent.
_OWN_NAMES: Final = frozenset(
    (
        *("model", "messages", "input", "instructions", "stream", "stream_options", "background"),
        *("store", "previous_response_id", "conversation", "tools", "functions", "tool_choice"),
    )
)


@dataclass(frozen=True, slots=True)
class Asked:
    """The content of a body.

    `previous` is the response to continue after, and `conversation` the stored conversation.
    """

    settings: Mapping[str, Any]
    streams: bool
    messages: Sequence[ChatMessage]
    instructions: str | None = None
    previous: UUID | None = None
    conversation: str | None = None
    in_background: bool = False
    is_stored: bool = False
    includes_usage: bool = False


class OpenAIRequest(StreamRequest, ABC):
    """A request that opens a stream; `asked` is set once its body has been read."""

    asked: Asked
    prefix: str
    """The prefix of the ids of its responses."""

    def __init__(self, request: Request, model: Model) -> None:
        super().__init__(request)
        self._model = model
        self._values: dict[str, Any] = {}
        self._new_digest: str | None = None  # of a request that must open its own stream
        self._key: UUID | None = None

    @abstractmethod
    def read(self, values: dict[str, Any], found: Mapping[str, ChatMessage | None]) -> Asked:
        """Return the content of a body; `found` are the messages that it refers to.

        Raises:
            Problem: 400.
        """

    def references(self, values: dict[str, Any]) -> list[str]:
        """Return the ids of messages that a body refers to."""
        return []

    def facts(self, principal: str) -> RequestFacts:
        """Return the id that `Idempotency-Key` gives the request; raises as in the base class."""
        self._key = _idempotency_key(self.http)
        return RequestFacts(principal, named=self._key)

    def parse(self, body: bytes) -> ParsedBody:
        """Validate the body.

        Raises:
            Problem: 400 or 404, naming the parameter.
        """
        self._values = values = json_object(body)
        check_model(values.get("model"), self._model.name)
        _check_supported(values, self._model.settings)
        self.asked = self.read(values, {})
        check_sizes(self.asked.messages, self._model.options)
        return ParsedBody(self._request([]), f"{self.prefix}{fingerprint(body)}")

    async def complete(self, parsed: ParsedBody, runtime: Runtime, principal: str) -> ParsedBody:
        """Load what the request refers to, and find the request that this one repeats."""
        log, request = runtime.log, parsed.request
        previous, references = self.asked.previous, self.references(self._values)
        if references:
            found = {name: await _referenced(runtime, principal, name) for name in references}
            self.asked = self.read(self._values, found)
        if previous is not None or references:
            before = [] if previous is None else await _previous(runtime, principal, previous)
            request = self._request(before)
        repeated = await self._repeated(log, principal, parsed.fingerprint)
        if repeated is not None:
            request = request.model_copy(update={"request_id": repeated})
        return parsed._replace(request=request)

    def other_id(self, found: StreamMeta) -> UUID | None:
        """Return the next id, if the request must open its own stream."""
        digest = self._new_digest
        return None if digest is None else self._model.repeats.new_id(digest)

    async def _repeated(self, log: StreamLog, principal: str, digest: str) -> UUID | None:
        """Return the id of a request of an SDK, None for any other request."""
        retries = self.http.headers.get(_RETRY_COUNT)
        if retries is None or self._key is not None:
            return None
        repeats, digest = self._model.repeats, f"{principal}\n{digest}"
        found = None if retries == "0" else await repeats.repeated(log, principal, digest)
        if found is None:
            self._new_digest = digest
            found = repeats.new_id(digest)
        return found

    def _request(self, before: list[StoredTurn]) -> ServiceRequest:
        asked = self.asked
        metadata: dict[str, Any] = {"openai": dict(asked.settings)}
        if headers := self._headers():
            metadata["headers"] = headers
        ask = Ask(
            messages=asked.messages,
            session_id=self._session(),
            is_in_store=asked.conversation is not None,
            before=before,
            metadata=metadata,
            can_rewind=not (asked.streams or asked.in_background),
            user=asked.settings.get("user"),
            instructions=asked.instructions,
            keeps_turn=asked.is_stored,
        )
        return request_of(ask, uuid4() if self._key is None else self._key)

    def _session(self) -> str:
        if self.asked.conversation is None:
            return f"{self.prefix}{self.stream_id.hex}"
        return session_of("openai", self.asked.conversation)

    def _headers(self) -> dict[str, str]:
        headers, wanted = self.http.headers, self._model.settings.headers
        return {name.lower(): headers[name] for name in wanted if name in headers}


class ChatRequest(OpenAIRequest):
    """A `POST /v1/chat/completions`."""

    prefix = CHAT_PREFIX

    def read(self, values: dict[str, Any], found: Mapping[str, ChatMessage | None]) -> Asked:
        """Return the content of a body; raises as the method of the base class."""
        messages = values.get("messages")
        if not isinstance(messages, list) or not messages:
            raise bad_request("messages", "messages must be a list with at least one message.")
        options = values.get("stream_options") or {}
        return Asked(
            settings=_settings(values),
            streams=_flag(values, "stream"),
            messages=[chat_message(one, f"messages.{i}") for i, one in enumerate(messages)],
            includes_usage=isinstance(options, dict) and options.get("include_usage") is True,
        )


class ResponsesRequest(OpenAIRequest):
    """A `POST /v1/responses`."""

    prefix = RESPONSE_PREFIX

    def references(self, values: dict[str, Any]) -> list[str]:
        """Return the ids of messages that a body refers to."""
        items = values.get("input")
        return [one["id"] for one in items if _is_reference(one)] if isinstance(items, list) else []

    def read(self, values: dict[str, Any], found: Mapping[str, ChatMessage | None]) -> Asked:
        """Return the content of a body; raises as the method of the base class."""
        previous, conversation = values.get("previous_response_id"), _conversation(values)
        if previous is not None and conversation is not None:
            message = "previous_response_id and conversation cannot be used together: give one."
            raise bad_request("previous_response_id", message)
        is_stored, in_background = values.get("store") is not False, _flag(values, "background")
        if in_background and not is_stored:
            raise bad_request("background", "background needs store: true.")
        stream = None if previous is None else stream_of(str(previous))
        if previous is not None and stream is None:
            raise unknown_response("previous_response_id")
        instructions = values.get("instructions")
        if not isinstance(instructions, str | None):
            raise bad_request("instructions", "instructions must be text.")
        return Asked(
            settings=_settings(values),
            streams=_flag(values, "stream"),
            messages=_input_messages(values.get("input"), found),
            instructions=instructions or None,
            previous=stream,
            conversation=conversation,
            in_background=in_background,
            is_stored=is_stored,
        )


async def _previous(runtime: Runtime, principal: str, previous: UUID) -> list[StoredTurn]:
    """Return the turns to continue after.

    Raises:
        Problem: 404, or 409 if the response has not ended.
    """
    where = "previous_response_id"
    try:
        meta = await owned(runtime, principal, previous)
    except UnknownStream:
        raise unknown_response(where) from None
    if meta.outcome is None:
        detail = "The previous response has not ended yet: wait for it, or cancel it."
        errors = [{"loc": [where], "msg": detail}]
        raise Problem(409, "response-in-progress", detail, errors=errors)
    turns = await load_turns(runtime.log, principal, previous)
    if turns is None:
        raise unknown_response(where)
    return turns


async def _referenced(runtime: Runtime, principal: str, item: str) -> ChatMessage | None:
    """Return the answer of which an item is a part, None for an item that is not a message.

    Raises:
        Problem: 404.
    """
    known = item_stream(item)
    if known is None:
        raise unknown_response("input")
    kind, stream_id = known
    turns = await load_turns(runtime.log, principal, stream_id)
    if turns is None:
        raise unknown_response("input")
    return answer_of(turns[-1]) if kind == "msg" else None


def _input_messages(given: Any, found: Mapping[str, ChatMessage | None]) -> list[ChatMessage]:
    if isinstance(given, str):
        return [ChatMessage.user(given)]
    if not isinstance(given, list) or not given:
        raise bad_request("input", "input must be text or a list with at least one item.")
    messages: list[ChatMessage] = []
    for index, item in enumerate(given):
        if not _is_reference(item):
            messages += item_messages(item, f"input.{index}")
        elif not isinstance(item.get("id"), str):
            raise bad_request(f"input.{index}.id", f"input.{index}.id must be the id of an item.")
        elif (answer := found.get(item["id"])) is not None and answer not in messages[-1:]:
            messages.append(answer)  # one answer may have several messages
    return messages


def _is_reference(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "item_reference"


def _conversation(values: dict[str, Any]) -> str | None:
    given = values.get("conversation")
    if isinstance(given, dict):
        given = given.get("id")
    if given is None:
        return None
    if not is_id(given):
        raise bad_request(
            "conversation", f"conversation must be an id of 1 to {MAX_ID} characters."
        )
    return given


def _idempotency_key(request: Request) -> UUID | None:
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not is_id(key):
        rule = f"must have 1 to {MAX_ID} printable characters"
        raise Problem(400, "bad-idempotency-key", f"The header Idempotency-Key {rule}.")
    return uuid5(_NAMESPACE, f"{request.url.path}\n{key}")


def check_model(given: Any, *names: str) -> str:
    """Return the name of a model that a request gives.

    Raises:
        Problem: 400 or 404, naming the known models.
    """
    if not isinstance(given, str) or not given:
        raise bad_request("model", f"model must be given: this server has {', '.join(names)}.")
    if given not in names:
        raise unknown_model(*names, param="model")
    return given


def unknown_model(*names: str, param: str | None = None) -> Problem:
    """Return the refusal of a model that does not exist, naming those that do."""
    detail = f"There is no such model: this server has {', '.join(names)}."
    errors = [] if param is None else [{"loc": [param], "msg": detail}]
    return Problem(404, "model-not-found", detail, errors=errors)


def _check_supported(values: dict[str, Any], settings: OpenAIAPI) -> None:
    """Refuse what the agent cannot do; a value that asks for nothing is accepted.

    Raises:
        Problem: 400, naming the parameter.
    """
    for param, is_refused, reason in (
        ("n", values.get("n") not in (None, 1), "an agent gives one answer"),
        (
            "tools",
            settings.tools == "refuse" and bool(values.get("tools") or values.get("functions")),
            _OWN_TOOLS,
        ),
        ("tool_choice", values.get("tool_choice") not in (None, "none", "auto"), _OWN_TOOLS),
        ("response_format", not _is_text(values.get("response_format")), "the answer is text"),
        ("text.format", not _is_text(_member(values, "text", "format")), "the answer is text"),
        ("modalities", values.get("modalities") not in (None, ["text"]), "the answer is text"),
        ("audio", values.get("audio") is not None, "the answer is text"),
        ("logprobs", bool(values.get("logprobs")), "an agent has no log probabilities"),
        ("top_logprobs", bool(values.get("top_logprobs")), "an agent has no log probabilities"),
        ("prompt", values.get("prompt") is not None, "there are no stored prompts"),
    ):
        if is_refused:
            raise bad_request(
                param, f"{param} is not supported: {reason}.", "unsupported-parameter"
            )


def _member(values: dict[str, Any], name: str, member: str) -> Any:
    inner = values.get(name)
    return inner.get(member) if isinstance(inner, dict) else None


def _is_text(form: Any) -> bool:
    return form is None or (isinstance(form, dict) and form.get("type") == "text")


def _flag(values: dict[str, Any], name: str) -> bool:
    value = values.get(name)
    if not isinstance(value, bool | None):
        raise bad_request(name, f"{name} must be true or false.")
    return bool(value)


def _settings(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in _OWN_NAMES}
