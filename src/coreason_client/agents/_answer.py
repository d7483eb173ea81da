"""Writes the answers of a model to a stream, and those of a model that calls tools.

An answer is a step that resumes: one that was interrupted is continued. So is each tool call a
step: a restarted agent neither asks the model again for an answer that was complete, nor executes a
call again that had ended.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, cast

from coreason_manifest.definitions.presentation import CitationItem

from ..llm import (
    Approval,
    AsyncLLMClient,
    Citation,
    Message,
    ReasoningDelta,
    Response,
    TextDelta,
    ToolCall,
    ToolCallFinished,
    ToolCallStarted,
    Usage,
)
from ..llm._answer import NO_USAGE, Tokens, add_usages, estimate
from ..llm._citations import sources_of
from ..llm.errors import LLMApprovalRequired, LLMError, LLMRequestError
from ..llm.tools._given_tools import GivenTools
from ..llm.tools._output import bounded
from ..llm.tools._run_machine import AskModel, RunLimits, RunMachine
from ..llm.tools._steps_async import AsyncCalls
from ._output import PARAGRAPH, Reasoning, approval_question, write_text

if TYPE_CHECKING:
    from ..llm.tools._perform import AsyncModelClient
    from ..server import AgentStream, AnsweredQuestion, Resumed

_Tools: TypeAlias = Sequence[Mapping[str, Any]]  # as the model sees them
_RUN = "llm_agent"  # in the state of a question


@dataclass(frozen=True, slots=True)
class AnswerProgress:
    """The text of an answer before the current request, and the tokens of the requests so far.

    A provider reports the usage of an answer at its end. So the usage of an answer that was
    interrupted is estimated, as it is for a stream that breaks off.

    `reasoned` is True if the model has reasoned: then it does not continue its answer, because the
    reasoning cannot be sent back.
    """

    text: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoned: bool = False

    @classmethod
    def of(cls, resumed: "Resumed", messages: list[Message]) -> Self:
        """Return the progress of an interrupted answer to messages."""
        stored = resumed.checkpoint or {}
        length = stored.get("length", 0)
        before, written = resumed.text[:length], resumed.text[length:]
        return cls(
            text=resumed.text,
            prompt_tokens=stored.get("prompt_tokens", 0) + estimate([*_texts(messages), before]),
            completion_tokens=stored.get("completion_tokens", 0) + estimate([written]),
            reasoned=stored.get("reasoned", False),
        )

    @property
    def can_continue(self) -> bool:
        """True if the model can continue the text, as far as that depends on the text."""
        return bool(self.text.strip()) and not self.reasoned

    def with_reasoning(self) -> Self:
        """Return the progress of a model that has reasoned."""
        return replace(self, reasoned=True)

    def checkpoint(self) -> dict[str, Any]:
        """Return what another process needs, besides the text, which is in the log."""
        return {
            "length": len(self.text),
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "reasoned": self.reasoned,
        }

    def messages(self, messages: list[Message]) -> list[Message]:
        """Return the messages for a model that continues the text."""
        return [*messages, {"role": "assistant", "content": self.text, "prefix": True}]

    def tokens_left(self, max_tokens: int | None) -> int | None:
        """Return the maximum length of the rest of the answer, None if it has none."""
        if max_tokens is None:
            return None
        return max(max_tokens - estimate([self.text]), 1)


def added(
    usage: Usage, progress: AnswerProgress, price: Callable[[int, int], float | None]
) -> Usage:
    """Return the usage of the last request together with that of the requests before it.

    `price` returns the price of prompt and completion tokens.
    """
    prompt, completion = progress.prompt_tokens, progress.completion_tokens
    # Without a price of the last request, the table may not be loaded.
    known = usage["cost_estimate"] is not None
    before: Usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "cost_estimate": price(prompt, completion) if known else None,
        "estimated": True,
    }
    return add_usages([usage, before])


def _texts(messages: list[Message]) -> list[str]:
    """Return the text of each message; images are not estimated."""
    return ["".join(_parts(message.get("content"))) for message in messages]


def _parts(content: Any) -> list[str]:
    if isinstance(content, list):
        return [part.get("text", "") for part in content]
    return [content or ""]


class AnswerWriter:
    """Writes one answer, in a step that resumes.

    `options` are those of `AsyncLLMClient.stream`. If `thoughts` is False, the reasoning of the
    model is not written.
    """

    def __init__(
        self,
        client: AsyncLLMClient,
        model: str,
        options: dict[str, Any],
        stream: "AgentStream",
        *,
        thoughts: bool,
    ) -> None:
        self._client = client
        self._model = model
        self._options = options
        self._stream = stream
        self._reasoning = Reasoning(stream if thoughts else None)
        self._progress = AnswerProgress()

    async def write(self, messages: list[Message]) -> Response:
        """Write the answer, or the rest of it, and return the response object.

        Raises:
            LLMError: there is no answer, or it is incomplete.
        """
        resumed = self._stream.resumed
        if resumed is None:
            return await self._request(messages, self._options)
        progress = AnswerProgress.of(resumed, messages)
        if progress.can_continue and self._accepts_prefix(self._model):
            try:
                return await self._continue(messages, progress)
            except LLMRequestError as error:
                if error.partial is not None:
                    raise
                # The model does not continue the text, so it answers again.
        self._stream.start_over()
        self._progress = AnswerProgress()
        if resumed.checkpoint is not None:
            await self._stream.checkpoint(self._progress.checkpoint())
        return await self._request(messages, self._options)

    def _accepts_prefix(self, model: str) -> bool:
        try:
            return self._client.accepts_prefix(model)
        except LLMError:  # the request itself will show it
            return False

    async def _continue(self, messages: list[Message], progress: AnswerProgress) -> Response:
        self._progress = progress
        await self._stream.checkpoint(progress.checkpoint())
        fallbacks = self._options["fallbacks"]
        options = {
            **self._options,
            "max_tokens": progress.tokens_left(self._options["max_tokens"]),
            "fallbacks": [name for name in fallbacks if self._accepts_prefix(name)],
        }
        try:
            response = await self._request(progress.messages(messages), options)
        except LLMError as error:
            if error.partial is not None:
                error.partial["usage"] = added(error.partial["usage"], progress, self._price)
            raise
        response["usage"] = added(response["usage"], progress, self._price)
        data = response["data"]
        data["content"] = f"{progress.text}{data['content'] or ''}"
        return response

    def _price(self, prompt: int, completion: int) -> float | None:
        return self._client._price(self._model, Tokens(prompt, completion))

    async def _request(self, messages: list[Message], options: dict[str, Any]) -> Response:
        # If the agent is cancelled, leaving this block closes the connection to the provider.
        async with self._client.stream(messages, self._model, **options) as answer:
            try:
                async for delta in answer:
                    if isinstance(delta, TextDelta):
                        await self._reasoning.flush()
                        await write_text(self._stream, delta.text)
                    elif isinstance(delta, ReasoningDelta):
                        await self._add_reasoning(delta.text)
            except LLMError:
                await self._reasoning.flush()
                raise
            await self._reasoning.flush()
            response = await answer.result()
        sources = sources_of(response["data"].get("citations", ()))
        if sources:
            await self._stream.cite(*(_citation_item(*source) for source in sources.items()))
        return response

    async def _add_reasoning(self, text: str) -> None:
        if not self._progress.reasoned:
            self._progress = self._progress.with_reasoning()
            await self._stream.checkpoint(self._progress.checkpoint())
        await self._reasoning.add(text)


def _citation_item(uri: str, cited: Citation) -> CitationItem:
    title, snippet = cited.get("title") or uri, cited.get("cited_text")
    return CitationItem(source_id=uri, uri=uri, title=title, snippet=snippet, confidence=1.0)


class AnswerFailed(Exception):
    """The step of an answer ended with an error; `error` is the one for readers.

    `usage` is that of the answers before it.
    """

    def __init__(self, error: dict[str, Any], usage: Usage) -> None:
        super().__init__(error["code"])
        self.error = error
        self.usage = usage

    def with_usage(self) -> dict[str, Any]:
        """Return the error with the usage of all answers in its details."""
        details = self.error["details"] or {}
        usage = add_usages([self.usage, details.get("usage", NO_USAGE)])
        return {**self.error, "details": {**details, "usage": usage}}


class WaitingRun(NamedTuple):
    """A run that waited for an approval, with the answer of the user."""

    messages: list[Message]
    approvals: dict[str, Approval]


def waiting_run(answered: "AnsweredQuestion | None") -> WaitingRun | None:
    """Return the run that a turn continues, None if it continues none."""
    state = answered.state.get(_RUN) if answered and isinstance(answered.state, dict) else None
    if answered is None or state is None:
        return None
    arguments = answered.arguments if isinstance(answered.arguments, dict) else None
    decided = {id_: Approval(**one) for id_, one in state["approvals"].items()}
    decided[state["call_id"]] = Approval(answered.approved, answered.reason, arguments)
    return WaitingRun(state["messages"], decided)


class ToolRun:
    """Runs a model with tools and writes what happens to a stream.

    Readers get `max_shown` characters of a result; None hides the calls and their results.

    `write_answer` writes one answer to messages, with tools as the model sees them, and returns the
    response, or the error for readers, for the journal.
    """

    def __init__(
        self,
        stream: "AgentStream",
        tools: GivenTools,
        limits: RunLimits,
        client: AsyncLLMClient,
        *,
        max_shown: int | None,
        approvals: Mapping[str, Approval] | None = None,
    ) -> None:
        self._approvals = approvals
        self._stream = stream
        self._tools = tools
        self._limits = limits
        self._client = client
        self._max_shown = max_shown
        self._needs_paragraph = False

    async def run(
        self,
        messages: list[Message],
        write_answer: Callable[[list[Message], _Tools], Awaitable[dict[str, Any]]],
    ) -> RunMachine:
        """Run until there is an answer, and return the machine with the result.

        If a call needs an approval, the user is asked, and there is no result.

        Raises:
            AnswerFailed: the model gave no answer.
            LLMError: a limit is reached, a tool ended the run, or a server cannot be opened.
        """
        machine = RunMachine(messages, self._limits, approvals=self._approvals)
        async with self._tools.open_async() as toolset:
            parallel = self._limits.max_parallel_calls
            client = cast("AsyncModelClient", self._client)
            calls = AsyncCalls(toolset, parallel, client, stream=self._stream)
            while (step := machine.next_step()) is not None:
                if isinstance(step, AskModel):
                    if step.turn > 1 and self._stream.has_inbox:
                        said = await self._stream.inbox.waiting()
                        step.messages += machine.add_messages([one.text for one in said])
                    ended = await self._answer(step, toolset.definitions, write_answer)
                    if "error" in ended:
                        raise AnswerFailed(ended["error"], machine.usage)
                    machine.record_answer(ended["response"])
                    self._needs_paragraph = bool(ended["response"]["data"]["content"])
                else:
                    try:
                        async with aclosing(calls.events(step, machine)) as events:
                            async for happened in events:
                                await self._show(happened)
                    except LLMApprovalRequired as error:
                        await self._ask(machine, error.calls[0])
                        break
        return machine

    async def _ask(self, machine: RunMachine, call: ToolCall) -> None:
        """Ask whether a call may be made, and end the stream."""
        stream = self._stream
        state = {
            "messages": machine.messages,
            "approvals": {id_: asdict(one) for id_, one in machine.approvals.items()},
            "call_id": call["id"],
        }
        if machine.usage["total_tokens"]:
            await stream.usage(**machine.usage, turns=machine.turns)
        shown = None
        if self._max_shown is not None:
            shown = await stream.tool_call(call["name"], call["arguments"], call["id"])
        question = approval_question(call["name"], call["arguments"])
        await stream.ask(question, call_id=shown, state={_RUN: state})

    async def _answer(
        self, step: AskModel, tools: _Tools, write_answer: Callable[..., Any]
    ) -> dict[str, Any]:
        if self._needs_paragraph:  # or the text of two answers would run together
            self._needs_paragraph = False
            await self._stream.write(PARAGRAPH)

        async def answer() -> dict[str, Any]:
            ended: dict[str, Any] = await write_answer(step.messages, tools)
            return ended

        return await self._stream.step("answer", answer, on_restart="resume")

    async def _show(self, happened: ToolCallStarted | ToolCallFinished) -> None:
        if self._max_shown is None:
            return
        stream, turn = self._stream, happened.turn
        if isinstance(happened, ToolCallStarted):
            await stream.tool_call(happened.name, happened.arguments, happened.id, turn=turn)
            return
        # It fits into a packet: `RunLimits.max_result_chars` has cut it before.
        result = bounded(happened.result, self._max_shown)
        about: Any = {"name": happened.name, "turn": turn, "seconds": happened.seconds}
        await stream.tool_result(happened.id, result, happened.is_error, **about)
