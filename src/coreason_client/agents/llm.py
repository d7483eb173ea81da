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

import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from coreason_manifest.definitions._base import utc_now
from coreason_manifest.definitions.message import Role
from coreason_manifest.definitions.presentation import StreamOpCode
from coreason_manifest.definitions.service import ServiceRequest

from ..errors import ArgumentError
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
from ._prompt import UnreadableError, conversation

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

_UNSUPPORTED = "unsupported_content"
# Turns that the model or its provider refused: sent again, they would be refused again, and with
# them every later question of the conversation.
_REFUSED = frozenset(
    (
        _UNSUPPORTED,
        *(_ERRORS[kind][0] for kind in (LLMRequestError, LLMContextLengthError, LLMFilteredError)),
    )
)

_LONGEST_PIECE = 100_000  # characters of one packet, far below what readers accept
_LONGEST_THOUGHT = 4_000
_PARAGRAPH = "\n\n"

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
    of its own, which makes it the conversation. Cancelled and broken turns count as turns; those
    that the model refused are left out. `thoughts=False` keeps from readers what the model
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
        error = ArgumentError(name, "must be a whole number, 0 or more", bound)
        raise LLMRequestError(str(error), argument_error=error)


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
        turns = (await stream.history(wanted)).turns if wanted else ()
        earlier = [turn for turn in turns if turn.outcome not in _REFUSED]
        try:
            messages = conversation(asked, earlier, self.system, self.history_chars)
        except UnreadableError as error:
            await stream.fail(_UNSUPPORTED, str(error))
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
