"""Any model as an agent: a conversation goes to it, and its answer comes back as a stream.

What a reader gets:

* Text, as DELTA packets, piece by piece as the model writes it.
* What the model thinks, where its provider tells, as THOUGHT_TRACE events: that is what they are
  for. A paragraph each, because an event for every token would be most of the stream. They are no
  part of the answer, and no model is sent them later.
* At the end one EVENT of the type USAGE, with the model, the tokens and the cost. It has the keys
  of a presentation event and is a plain object: none of the types there is for numbers, and as a
  MARKDOWN_BLOCK they would be read as part of the answer.
* Or an error that ends the stream, after whatever came before it. Its code is one of the table
  below and its words are ours: a provider's words are for whoever runs the agent, in the log.
"""

import json
import logging
import re
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from coreason_manifest.definitions._base import utc_now
from coreason_manifest.definitions.message import (
    BlobPart,
    ChatMessage,
    MessagePart,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolCallResponsePart,
    UriPart,
)
from coreason_manifest.definitions.presentation import StreamOpCode
from coreason_manifest.definitions.service import ServiceRequest

from ..llm import LLMClient, Message, ReasoningDelta, Response, TextDelta
from ..llm._call import check_call
from ..llm.errors import (
    LLMAuthenticationError,
    LLMConnectionError,
    LLMContextLengthError,
    LLMError,
    LLMFilteredError,
    LLMNotFoundError,
    LLMOverloadedError,
    LLMPermissionError,
    LLMQuotaError,
    LLMRateLimitError,
    LLMRequestError,
    LLMResponseError,
    LLMServerError,
    LLMTimeoutError,
)

if TYPE_CHECKING:
    from ..server import AgentStream

__all__ = ["USAGE", "llm_agent"]

logger = logging.getLogger("coreason_client.agents")

USAGE = "USAGE"
"""The type of the event with the model, the tokens and the cost."""

_ASK_THE_OPERATOR = "Whoever runs the agent has to see to that."
# What the errors of the AI client are to readers: a code that stays, and a sentence without any
# word of the provider's.
_ERRORS: dict[type[LLMError], tuple[str, str]] = {
    LLMAuthenticationError: (
        "model_authentication",
        f"The agent has no key that its model takes. {_ASK_THE_OPERATOR}",
    ),
    LLMPermissionError: (
        "model_permission",
        f"The agent may not use its model. {_ASK_THE_OPERATOR}",
    ),
    LLMRequestError: ("model_request", "The model does not take this request."),
    LLMContextLengthError: (
        "model_context_length",
        "The conversation is longer than the model can read: begin another one, or ask with less.",
    ),
    LLMNotFoundError: (
        "model_not_found",
        f"The agent's model is not to be found. {_ASK_THE_OPERATOR}",
    ),
    LLMRateLimitError: (
        "model_rate_limit",
        "The model is asked too much just now: try again later.",
    ),
    LLMQuotaError: (
        "model_quota",
        f"The agent's quota for its model is used up. {_ASK_THE_OPERATOR}",
    ),
    LLMTimeoutError: ("model_timeout", "The model did not answer in time: try again."),
    LLMConnectionError: (
        "model_connection",
        "The model cannot be reached, or the connection to it broke: try again.",
    ),
    LLMServerError: ("model_server", "The model's provider failed: try again later."),
    LLMOverloadedError: (
        "model_overloaded",
        "The model's provider has too much to do: try again later.",
    ),
    LLMFilteredError: ("model_filtered", "The model's provider withheld the answer."),
    LLMResponseError: ("model_response", "What the model's provider sent cannot be read."),
    LLMError: ("model_error", "The model gave no answer."),
}

_LONGEST_PIECE = 100_000  # characters of one packet, far below what readers accept
_LONGEST_THOUGHT = 4_000
_PARAGRAPH = "\n\n"
# What OpenAI takes as a name; another one would have the whole request refused.
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}", re.ASCII)

Agent: TypeAlias = "Callable[[ServiceRequest, AgentStream], Coroutine[Any, Any, None]]"


def llm_agent(
    model: str | None = None,
    *,
    client: LLMClient | None = None,
    system: str | None = None,
    temperature: float = 0.7,
    max_tokens: int = 2000,
    fallbacks: Sequence[str] = (),
    history_turns: int = 20,
    history_chars: int = 50_000,
    thoughts: bool = True,
    tell_errors: bool = False,
) -> Agent:
    """Return an agent that lets a model answer; without a name, the default of its client.

    Without a `client` it makes one from the environment for its first request, shares it among
    all, and its connections are closed with the event loop. `system` goes before any instructions
    of a request. Of what was said earlier, the latest `history_turns` turns go along, as long as
    they have no more than `history_chars` characters together; none when a request brings answers
    of its own, which makes it the conversation. `thoughts=False` keeps from readers what the model
    thinks. `tell_errors` gives them the AI client's own words about an error, which may hold the
    provider's: only for readers who run the agent themselves.

    Raises:
        LLMRequestError: an argument is wrong.
    """
    probe = [{"role": "system", "content": "" if system is None else system}]
    check_call(probe, "a model" if model is None else model, None, temperature, max_tokens)
    _check_bound("history_turns", history_turns)
    _check_bound("history_chars", history_chars)
    answering = _Answering(
        model=model,
        client=client,
        system=system,
        options={"temperature": temperature, "max_tokens": max_tokens, "fallbacks": fallbacks},
        history_turns=history_turns,
        history_chars=history_chars,
        thoughts=thoughts,
        tell_errors=tell_errors,
    )

    async def llm(request: ServiceRequest, stream: "AgentStream") -> None:
        await answering.answer(request, stream)

    return llm


def _check_bound(name: str, bound: Any) -> None:
    if isinstance(bound, bool) or not isinstance(bound, int) or bound < 0:
        raise LLMRequestError(f"{name} must be a whole number from 0 on, and it is {bound!r}")


@dataclass(slots=True)
class _Answering:
    """Asks the model and passes on what it says."""

    model: str | None
    client: LLMClient | None = field(repr=False)
    system: str | None
    options: dict[str, Any]
    history_turns: int
    history_chars: int
    thoughts: bool
    tell_errors: bool

    async def answer(self, request: ServiceRequest, stream: "AgentStream") -> None:
        """Answer one request."""
        asked = request.payload.messages or []
        brings_answers = any(message.role is Role.ASSISTANT for message in asked)
        wanted = 0 if brings_answers else self.history_turns
        earlier = await stream.history(wanted) if wanted else []
        try:
            messages = _conversation(asked, earlier, self.system, self.history_chars)
        except _UnreadableError as error:
            await stream.fail("unsupported_content", str(error))
            return
        thinking = _Thinking(stream if self.thoughts else None)
        try:
            model, response = await self._ask(messages, stream, thinking)
        except LLMError as error:
            await thinking.end()
            await self._fail(error, stream)
            return
        await thinking.end()
        await stream.write_packet(StreamOpCode.EVENT, _usage_event(model, response))

    async def _ask(
        self, messages: list[Message], stream: "AgentStream", thinking: "_Thinking"
    ) -> tuple[str, Response]:
        if self.client is None:
            self.client = LLMClient.from_env()
        model = self.client.default_model if self.model is None else self.model
        # A cancelled agent leaves this block, which closes the connection to the provider.
        async with self.client.stream(messages, model, **self.options) as answer:
            async for delta in answer:
                if isinstance(delta, TextDelta):
                    await thinking.end()
                    for piece in _pieces(delta.text):
                        await stream.write(piece)
                elif isinstance(delta, ReasoningDelta):
                    await thinking.add(delta.text)
            return model, await answer.result()

    async def _fail(self, error: LLMError, stream: "AgentStream") -> None:
        logger.error(
            "the model of stream %s failed: %s (model %s, provider's request %s, attempt %d)",
            *(stream.stream_id, error, error.model, error.request_id, error.attempts),
        )
        code, words = next(_ERRORS[kind] for kind in type(error).__mro__ if kind in _ERRORS)
        details: dict[str, Any] = {}
        if error.retry_after is not None:
            details["retry_after"] = error.retry_after
        if error.partial is not None:  # it was paid for, though it broke
            details["usage"] = error.partial["usage"]
        await stream.fail(code, str(error) if self.tell_errors else words, details or None)


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), _LONGEST_PIECE):
        yield text[start : start + _LONGEST_PIECE]


class _Thinking:
    """Gathers what the model thinks and shows it paragraph by paragraph, to whom it may be shown.

    A paragraph is over at a blank line, when it becomes too long, or when the answer goes on.
    """

    def __init__(self, stream: "AgentStream | None") -> None:
        self._stream = stream
        self._text = ""

    async def add(self, text: str) -> None:
        """Take a piece."""
        if self._stream is None:
            return
        self._text += text
        whole, found, rest = self._text.rpartition(_PARAGRAPH)
        if not found and len(self._text) > _LONGEST_THOUGHT:
            whole, rest = self._text, ""
        if whole:
            self._text = whole
            await self.end()
            self._text = rest

    async def end(self) -> None:
        """Show what has been gathered."""
        text, self._text = self._text.strip(), ""
        if text and self._stream is not None:
            await self._stream.thought(text)


def _usage_event(model: str, response: Response) -> dict[str, Any]:
    data: dict[str, Any] = {
        "model": response.get("model", model),
        "finish_reason": response["data"]["finish_reason"],
        **response["usage"],
    }
    if response["data"].get("filtered"):
        data["filtered"] = True
    return {
        "id": str(uuid4()),
        "timestamp": utc_now().isoformat(),
        "type": USAGE,
        "data": data,
    }


# What the model is sent


class _UnreadableError(Exception):
    """A request holds what no model could be sent; the words are for the reader."""


def _conversation(
    asked: Sequence[ChatMessage], earlier: Sequence[ChatMessage], system: str | None, chars: int
) -> list[Message]:
    """Return what was said and asked, in order, with all instructions before it.

    The instructions of the request replace those of earlier ones, which would else add up when a
    client sends them each time.

    Raises:
        _UnreadableError: there is nothing to ask, or something that cannot be read.
    """
    new = [message for part in asked for message in _strictly(part)]
    if not new:
        raise _UnreadableError("The request has no message for the model.")
    instructions = _instructions(asked) or _instructions(earlier)[-1:]
    if system is not None:
        instructions.insert(0, system)
    return [
        *({"role": "system", "content": text} for text in instructions),
        *_latest(earlier, chars),
        *new,
    ]


def _instructions(messages: Sequence[ChatMessage]) -> list[str]:
    return [message.text for message in messages if message.role is Role.SYSTEM and message.text]


def _latest(earlier: Sequence[ChatMessage], chars: int) -> list[Message]:
    """Return the latest whole turns that fit into so many characters."""
    kept: list[Message] = []
    for turn in reversed(_turns(earlier)):
        messages = [message for part in turn for message in _leniently(part)]
        chars -= sum(_length(message) for message in messages)
        if chars < 0:
            break
        kept[:0] = messages
    return kept


def _turns(messages: Sequence[ChatMessage]) -> list[list[ChatMessage]]:
    """Split at the answers, each of which ends a turn."""
    turns: list[list[ChatMessage]] = [[]]
    for message in messages:
        turns[-1].append(message)
        if message.role is Role.ASSISTANT:
            turns.append([])
    return turns


def _length(message: Message) -> int:
    content = message["content"]
    return len(content) if isinstance(content, str) else len(json.dumps(content))


def _leniently(message: ChatMessage) -> list[Message]:
    """Return an earlier message, or its text when the rest cannot be read again.

    The calls that tools answered are not kept with a conversation, so their results say nothing.
    """
    if message.role is Role.USER:
        with suppress(_UnreadableError):
            return _strictly(message)
    spoken = message.role in (Role.USER, Role.ASSISTANT)
    return [_named(message, message.text)] if spoken and message.text else []


def _strictly(message: ChatMessage) -> list[Message]:
    """Return a message as the AI client wants it; none for what says nothing.

    Raises:
        _UnreadableError: it holds what a model cannot be sent.
    """
    if message.role is Role.SYSTEM:
        return []  # it has gone before all others
    if message.role is Role.TOOL:
        return [_result(part) for part in message.parts if not isinstance(part, ReasoningPart)]
    if message.role is Role.ASSISTANT:
        return _said(message)
    if all(isinstance(part, TextPart) for part in message.parts):
        return [_named(message, message.text)]
    return [_named(message, [_seen(part) for part in message.parts])]


def _named(message: ChatMessage, content: Any) -> Message:
    named: Message = {"role": str(message.role), "content": content}
    if message.name is not None and _NAME.fullmatch(message.name):
        named["name"] = message.name
    return named


def _said(message: ChatMessage) -> list[Message]:
    calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
    if not calls:
        # Some providers refuse an empty answer in what was said.
        return [_named(message, message.text)] if message.text else []
    asked = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]
    return [{**_named(message, message.text or None), "tool_calls": asked}]


def _result(part: MessagePart) -> Message:
    if not isinstance(part, ToolCallResponsePart):
        raise _unreadable(part)
    told = part.response
    content = told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)
    return {"role": "tool", "tool_call_id": part.id, "content": content}


def _seen(part: MessagePart) -> dict[str, Any]:
    """Return a part of what the user says: text, a picture, or the address of anything else."""
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.content}
    if isinstance(part, UriPart):
        return _picture(part.uri) if _is_picture(part) else {"type": "text", "text": part.uri}
    if isinstance(part, BlobPart) and part.mime_type and _is_picture(part):
        return _picture(f"data:{part.mime_type};base64,{part.content}")
    raise _unreadable(part)


def _picture(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def _is_picture(part: BlobPart | UriPart) -> bool:
    return (part.mime_type or "").startswith("image/") or part.modality == "image"


def _unreadable(part: MessagePart) -> _UnreadableError:
    kind = getattr(part, "mime_type", None)
    told = f" ({kind})" if kind else ""
    return _UnreadableError(
        f"A message has a part of type {part.type}{told}, which the model cannot be sent: send "
        "text, pictures or addresses."
    )
