"""The stream that an agent writes its answer to: the public view of a `StreamWriter`."""

import mimetypes
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import UTC, datetime
from math import inf
from typing import Any, Literal, TypeVar, TypeVarTuple, Unpack, overload
from uuid import UUID, uuid4

from pydantic_core import from_json, to_json

from coreason_manifest.definitions.presentation import (
    CitationBlock,
    CitationItem,
    ErrorSeverity,
    EventData,
    MediaCarousel,
    MediaItem,
    PresentationEvent,
    PresentationEventType,
    ProgressUpdate,
    StreamError,
    StreamOpCode,
)
from coreason_manifest.definitions.reports import TOOL_CALL, TOOL_RESULT, USAGE
from coreason_manifest.definitions.service import ServiceRequest

from ..errors import ArgumentError
from ._names import (
    ARTIFACT,
    AUTH_REQUIRED,
    INPUT_REQUIRED,
    MESSAGE,
    QUESTION,
    REJECTED,
    Principal,
    approval_question,
    parse_principal,
)
from ._off_loop import LARGE_BODY, off_loop
from .durable._approvals import ApprovalPending
from .durable._notes import Policy
from .engine._conversation import (
    MAX_HISTORY_BYTES,
    MAX_STATE_BYTES,
    AnsweredQuestion,
    History,
    StoredQuestion,
    last_question,
    parse_history,
)
from .engine._inbox import Inbox, InboxMessage
from .engine._steps import Resumed, Steps
from .engine._writer import StreamWriter, until_it_answers
from .parts import PartContent, dump_parts, text_of

__all__ = ["AgentStream", "AnsweredQuestion", "Inbox", "InboxMessage", "Principal", "Resumed"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def _utc_now() -> datetime:
    return datetime.now(UTC)


class AgentStream:
    """The stream of one answer: its packets are numbered, logged and then delivered.

    The methods that write wait only for the log, never for a reader. They must be called on the
    event loop of the agent.
    """

    def __init__(self, writer: StreamWriter, steps: Steps, inbox: Inbox | None = None) -> None:
        self._writer = writer
        self._request = writer.request
        self._steps = steps
        self._inbox = inbox

    # Read access.

    @property
    def request(self) -> ServiceRequest:
        """The request that this stream answers; after an approval, the one that led to it."""
        return self._request

    @property
    def question(self) -> str:
        """The text of the last user message in the request, an empty string if there is none."""
        return last_question(self._request)

    @property
    def principal(self) -> Principal:
        """The caller: the name of its key, or the subject of its ticket."""
        return parse_principal(self._writer.turns.principal)

    @property
    def stream_id(self) -> UUID:
        """The id of this stream."""
        return self._writer.stream_id

    @property
    def has_inbox(self) -> bool:
        """True if clients may send messages to this stream, as with `AgentApp(inbox=True)`."""
        return self._inbox is not None

    @property
    def inbox(self) -> Inbox:
        """The messages that clients send to this stream while it runs.

        Raises:
            RuntimeError: the application was made without `inbox=True`.
        """
        if self._inbox is None:
            raise RuntimeError("this agent takes no messages: make it with AgentApp(inbox=True)")
        return self._inbox

    @property
    def durable(self) -> bool:
        """True if another process continues the agent when its own dies."""
        return self._steps.durable

    @property
    def cancelled(self) -> bool:
        """True if the stream is being cancelled; the task of the agent gets a CancelledError."""
        return self._writer.cancelled

    @property
    def ended(self) -> bool:
        """True if the last packet has been written."""
        return self._writer.ending.ended

    # Steps.

    @overload
    def step(
        self,
        name: str,
        function: Callable[[Unpack[Ts]], Awaitable[T]],
        *args: *Ts,
        on_restart: Policy = ...,
        key: str | None = ...,
        timeout: float | None = ...,
    ) -> Coroutine[Any, Any, T]: ...

    @overload
    def step(
        self,
        name: str,
        function: Callable[[Unpack[Ts]], T],
        *args: *Ts,
        on_restart: Policy = ...,
        key: str | None = ...,
        timeout: float | None = ...,
    ) -> Coroutine[Any, Any, T]: ...

    def step(  # type: ignore[misc]  # mypy cannot compare *args with *Ts
        self,
        name: str,
        function: Callable[..., Any],
        *args: Any,
        on_restart: Policy = "rerun",
        key: str | None = None,
        timeout: float | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Call a function and return its result; a durable agent calls it once.

        After a restart, a step that has ended returns the stored result, and its function is not
        called. `on_restart` says what happens to a step that had not ended: "rerun" calls the
        function again, "fail" ends the stream with `step_uncertain`, and "resume" calls the
        function again, which continues after `stream.resumed`.

        An async function is awaited; a plain one runs in a thread. The result must be JSON or fit
        the return annotation of the function. Keyword arguments go into a `functools.partial`.
        Calls of the same name are numbered in their order; calls from several tasks need a `key`.

        Raises:
            StepFailed: the function raised an error, or took longer than `timeout` seconds.
            ArgumentError: an argument cannot be used.
            RuntimeError: several tasks of a durable agent call the step without a `key`.
        """
        return self._steps.run(name, function, args, policy=on_restart, key=key, timeout=timeout)

    async def now(self) -> datetime:
        """Return the current time in UTC; a restarted agent gets the time of its first run."""
        return await self.step("now", _utc_now)

    def uuid(self) -> UUID:
        """Return a new id; a restarted agent gets the same ids in the same order."""
        return self._steps.uuid()

    def step_key(self) -> str:
        """Return a key of the current step that is the same after a restart.

        A service that accepts idempotency keys does not do the same work twice with it.

        Raises:
            RuntimeError: the caller is not in a step.
        """
        return self._steps.key()

    @property
    def attempt(self) -> int:
        """The number of this run of the agent: 1, and one more after each restart."""
        return self._steps.attempt

    @property
    def resumed(self) -> Resumed | None:
        """The output of an earlier run of the current step, if it continues one."""
        return self._steps.resumed

    def start_over(self) -> None:
        """Run the current step from its beginning, because it cannot continue after `resumed`.

        Then it is compared with its earlier run, as with on_restart="rerun".

        Raises:
            RuntimeError: `resumed` is None, or the step has already written or called a step.
        """
        self._steps.start_over()

    async def checkpoint(self, value: Any) -> None:
        """Store what the current step needs to continue, without a packet.

        Raises:
            ArgumentError: the value is not JSON.
            RuntimeError: the caller is not in a step with on_restart="resume".
            LogError: the log did not accept it.
        """
        await self._writer.checkpoint(value)

    async def history(self, limit: int = 50, *, max_bytes: int = MAX_HISTORY_BYTES) -> History:
        """Return the messages of the latest turns of this conversation, oldest first.

        A turn has the messages that a request added to the conversation and the text of the answer.
        A turn that was cancelled or failed has the text written so far; `history.turns` has the
        `outcome` of each. Only turns of the same key and agent are returned: at most `limit`, at
        most 1,000, and at most `max_bytes` bytes of JSON in total. The last turn is always
        returned, whatever its size. They come from the store or, for a client of the
        OpenAI-compatible API that sends its whole conversation, from the request.
        """
        stored = await self._steps.turns(self._writer.turns.latest, limit, max_bytes)
        if sum(map(len, stored)) <= LARGE_BODY:
            return parse_history(stored)
        return await off_loop(lambda: parse_history(stored))

    async def answered_question(self) -> AnsweredQuestion | None:
        """Return the question that this turn answers, with the answer; None if there is none.

        It is the question with which the turn before ended, or the one that the client names. Of
        several answers the first one counts: the others get None, unless its turn has failed and
        it was not a yes: what was approved may have been done.
        A durable agent gets the same after a restart. While the log does not answer, an agent that
        is not durable waits, because a yes counts once.

        Raises:
            LogError: the log refuses it, or the stream cannot be written any more.
        """
        ask = self._writer.turns.answered_question
        if self._steps.durable:
            return await self.step("answered_question", ask)
        return await until_it_answers(self._writer, ask)

    # Write access.

    async def write(self, text: str, *, checkpoint: Any = None) -> None:
        """Write text as one DELTA packet.

        `checkpoint` is stored in one operation with the packet, for a step with
        on_restart="resume". It may cover only input whose output has been written.

        Raises:
            ArgumentError: `checkpoint` is not JSON.
            RuntimeError: a durable agent stores a checkpoint outside such a step, or another task
                than its own writes outside steps.
            TypeError: `text` is not a string.
            ValueError: `text` is not valid Unicode, or too long for one packet.
            StreamEnded: the stream has ended.
            LogError: the log did not accept it.
        """
        await self._writer.write(text, checkpoint)

    async def write_packet(self, op: StreamOpCode | str, p: Any) -> None:
        """Write any packet. A FATAL error and a CLOSE end the stream.

        Raises:
            ValueError: the payload does not match the op, or the code of an error is not in
                snake_case.
            StreamEnded: the stream has ended.
            LogError: the log did not accept it.
        """
        await self._writer.write_packet(op, p)

    async def thought(self, text: str) -> None:
        """Show a thought of the agent, which is not a part of the answer."""
        await self._event(PresentationEventType.THOUGHT_TRACE, {"content": text})

    async def progress(
        self,
        label: str,
        percent: float | None = None,
        *,
        status: Literal["running", "complete", "failed"] = "running",
    ) -> None:
        """Show the progress of a step.

        Args:
            label: the name of the step; a later call with the same label updates it.
            percent: how much is done, 0 to 100; None if that is not known.
            status: "complete" or "failed" at the end.
        """
        data = ProgressUpdate(label=label, status=status, progress_percent=percent)
        await self._event(PresentationEventType.PROGRESS_INDICATOR, data)

    async def cite(
        self,
        *sources: str | CitationItem,
        title: str | None = None,
        snippet: str | None = None,
        confidence: float = 1.0,
    ) -> None:
        """Cite sources.

        Args:
            sources: URLs, which the other arguments describe, or complete citations.
            title: the title; by default the URL.
            snippet: the text that is cited.
            confidence: how well the source supports the answer, 0 to 1.
        """
        citations = [
            CitationItem(
                source_id=source,
                uri=source,
                title=title or source,
                snippet=snippet,
                confidence=confidence,
            )
            if isinstance(source, str)
            else source
            for source in sources
        ]
        await self._event(PresentationEventType.CITATION_BLOCK, CitationBlock(citations=citations))

    async def media(
        self,
        *items: str | MediaItem,
        mime_type: str | None = None,
        alt_text: str | None = None,
    ) -> None:
        """Show media in one block.

        Args:
            items: URLs, which the other arguments describe, or complete items.
            mime_type: the media type; by default it is guessed from the URL.
            alt_text: the text for people who do not see it.
        """
        shown = [
            MediaItem(url=item, mime_type=mime_type or _mime_type(item), alt_text=alt_text)
            if isinstance(item, str)
            else item
            for item in items
        ]
        await self._event(PresentationEventType.MEDIA_CAROUSEL, MediaCarousel(items=shown))

    async def markdown(self, text: str) -> None:
        """Show a block of Markdown."""
        await self._event(PresentationEventType.MARKDOWN_BLOCK, {"content": text})

    async def artifact(
        self,
        name: str,
        *parts: PartContent,
        artifact_id: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        append: bool = False,
        last_chunk: bool = True,
    ) -> None:
        """Write a result beside the text: text, data (a dict or a list), a `File` or a `Link`.

        A result in several pieces has one `artifact_id`, by default its name; all but the first are
        written with `append`, and all but the last with `last_chunk=False`.

        Args:
            name: the name of the result.
            parts: its content.
            artifact_id: its id.
            description: a description for people.
            metadata: any JSON object.
            append: True to add to the result of this id.
            last_chunk: False if more of it follows.

        Raises:
            ArgumentError: there is no part, or one has another type.
        """
        data: dict[str, Any] = {
            "artifactId": artifact_id or name,
            "name": name,
            "parts": dump_parts(parts),
            "append": append,
            "lastChunk": last_chunk,
        }
        if description is not None:
            data["description"] = description
        if metadata is not None:
            data["metadata"] = dict(metadata)
        await self.write_packet(StreamOpCode.EVENT, {"type": ARTIFACT, "data": data})

    async def tool_call(
        self,
        name: str,
        arguments: Any,
        id: str | None = None,  # noqa: A002 - its usual name
        *,
        turn: int | None = None,
    ) -> str:
        """Report that the agent calls a tool; return the id of the call, for `tool_result`.

        Args:
            name: the name of the tool.
            arguments: the arguments, any JSON value, usually an object.
            id: the id of the call; by default a new one, the same after a restart.
            turn: the answer of the model that made the call, counted from 1.

        Raises:
            ArgumentError: an argument is invalid.
            ValueError: the arguments are too long for one packet.
        """
        data = {
            **_optional(_count, turn=turn),
            "call_id": str(self.uuid()) if id is None else _text("id", id),
            "name": _text("name", name),
            "arguments": _json("arguments", arguments),
        }
        await self._report(TOOL_CALL, data)
        return str(data["call_id"])

    async def tool_result(
        self,
        call_id: str,
        value: Any,
        is_error: bool = False,
        *,
        name: str | None = None,
        turn: int | None = None,
        seconds: float | None = None,
    ) -> None:
        """Report the result of a tool call.

        Args:
            call_id: the id that `tool_call` returned.
            value: the result, or the error: text or any other JSON value.
            is_error: True if the call failed.
            name: the name of the tool, for readers that have not kept the call.
            turn: the answer of the model that made the call, counted from 1.
            seconds: how long the call took.

        Raises:
            ArgumentError: an argument is invalid.
            ValueError: the value is too long for one packet.
        """
        data = {
            **_optional(_count, turn=turn),
            "call_id": _text("call_id", call_id),
            **_optional(_text, name=name),
            "result": _json("value", value),
            "is_error": _flag("is_error", is_error),
            **_optional(_number, seconds=seconds),
        }
        await self._report(TOOL_RESULT, data)

    async def usage(
        self,
        *,
        prompt_tokens: int,
        completion_tokens: int,
        total_tokens: int | None = None,
        cost_estimate: float | None = None,
        cached_tokens: int | None = None,
        cache_write_tokens: int | None = None,
        reasoning_tokens: int | None = None,
        estimated: bool = False,
        model: str | None = None,
        finish_reason: str | None = None,
        filtered: bool = False,
        turns: int | None = None,
    ) -> None:
        """Report the tokens of requests to a model; several reports of one stream add up.

        `await stream.usage(**response["usage"], model=response["model"])` reports a response of the
        AI client.

        Args:
            prompt_tokens: the tokens that the model read, with those of a cache.
            completion_tokens: the tokens that it wrote, with those of its reasoning.
            total_tokens: by default the sum of both.
            cost_estimate: the cost in dollars, None if it is not known.
            cached_tokens: the tokens that were read from a cache.
            cache_write_tokens: the tokens that were written to a cache.
            reasoning_tokens: the tokens of the reasoning.
            estimated: True if the numbers are estimates.
            model: the name of the model.
            finish_reason: the reason for which the model stopped.
            filtered: True if a filter changed or ended the answer, or the model refused.
            turns: the number of answers of the model.

        Raises:
            ArgumentError: an argument is invalid.
        """
        counts = {
            "prompt_tokens": _count("prompt_tokens", prompt_tokens),
            "completion_tokens": _count("completion_tokens", completion_tokens),
        }
        flags = {"estimated": estimated, "filtered": filtered}
        data = {
            **_optional(_text, model=model, finish_reason=finish_reason),
            **counts,
            "total_tokens": sum(counts.values()),
            "cost_estimate": None,
            **_optional(_count, total_tokens=total_tokens),
            **_optional(_number, cost_estimate=cost_estimate),
            **_optional(
                _count,
                cached_tokens=cached_tokens,
                cache_write_tokens=cache_write_tokens,
                reasoning_tokens=reasoning_tokens,
                turns=turns,
            ),
            **{name: True for name, value in flags.items() if _flag(name, value)},
        }
        await self._report(USAGE, data)

    async def ask(
        self,
        question: str,
        *,
        auth: bool = False,
        call_id: str | None = None,
        state: Any = None,
    ) -> None:
        """Ask the user and end the stream: the answer is the next message of the conversation.

        The question is written as text too, so that every client shows it; an event before it says
        that this text is a question. The agent must return after this.

        With `auth`, the question says where the user can grant an authorization that the agent
        needs. The next message says that this is done; it should not contain the credentials.

        With `call_id`, the question is whether a tool may be called, and the id is that of a
        `tool_call` without a result. Clients that can show buttons for it do so.

        `state` is what the agent needs to go on, any JSON of at most 2 MiB. Clients do not get it;
        the turn that answers the question does, from `answered_question`.

        Raises:
            ArgumentError: an argument is invalid.
        """
        data = {"question": question} | _optional(_text, call_id=call_id)
        state = _json("state", state)
        if len(to_json(state)) > MAX_STATE_BYTES:
            raise ArgumentError("state", f"must have at most {MAX_STATE_BYTES:,} bytes of JSON")
        self._writer.turns.asked = StoredQuestion(question, call_id, state)
        asked = {"type": QUESTION, "data": data}
        await self.write_packet(StreamOpCode.EVENT, asked)
        await self.write(question)
        closing = {"reason": AUTH_REQUIRED if auth else INPUT_REQUIRED, "question": question}
        await self.write_packet(StreamOpCode.CLOSE, closing)

    async def approve(
        self, name: str, arguments: Any = None, *, question: str | None = None
    ) -> AnsweredQuestion:
        """Ask the user whether something may be done; return the answer.

        The stream ends with the question. The turn that answers it, in any process, however much
        later, runs the agent again from its start: steps return what they returned before, what was
        written is not written again, and this call returns. The agent must be durable. Report the
        result with `tool_result`, if it has one, and the `call_id` of the answer.

        Args:
            name: the name of the tool, or of the action.
            arguments: its arguments, any JSON; the answer may have others.
            question: the question as text; by default it names the tool and its arguments.

        Raises:
            RuntimeError: the agent is not durable, calls this in a step, or a step has not ended.
            ArgumentError: an argument is invalid.
        """
        call_id = str(self.uuid())
        shown = {"name": _text("name", name), "arguments": _json("arguments", arguments)}
        answered = self._steps.approved(shown)
        if isinstance(answered, dict):
            await self.tool_call(name, arguments, call_id)
            text = question or approval_question(name, to_json(shown["arguments"]).decode())
            await self.ask(text, call_id=call_id, state=answered)
            raise ApprovalPending
        changed = answered.arguments
        await self.tool_call(name, arguments if changed is None else changed, call_id)
        if not answered.approved:
            refusal = f"Not approved: {answered.reason}" if answered.reason else "Not approved."
            await self.tool_result(call_id, refusal, is_error=True)
        return answered

    async def reject(self, reason: str) -> None:
        """Refuse the request and end the stream; the agent must return after this."""
        await self.fail(REJECTED, reason)

    async def message(self, *parts: PartContent) -> None:
        """Answer with one message, and end the stream; an A2A client then gets no task.

        It must be the only thing that the agent writes. Clients of other protocols get its text.

        Raises:
            ArgumentError: there is no part, or one has another type.
            RuntimeError: the agent has already written something.
        """
        if self._writer.last_seq:
            raise RuntimeError("message() must be the first and only thing that an agent writes")
        dumped = dump_parts(parts)
        if text := text_of(dumped):
            # A reader that gets the text gets the end with it, and knows that this is all.
            await self._writer.write(text, held=True)
        await self.write_packet(StreamOpCode.CLOSE, {"reason": MESSAGE, "parts": dumped})

    async def warn(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        """Report a minor failure; the stream continues.

        Args:
            code: for programs, in snake_case.
            message: for people.
            details: any JSON object.
        """
        await self._write_error(ErrorSeverity.WARNING, code, message, details)

    async def fail(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        """End the stream with an error, which readers get; the agent must return after this.

        Args:
            code: for programs, in snake_case.
            message: for people.
            details: any JSON object.
        """
        await self._write_error(ErrorSeverity.FATAL, code, message, details)

    async def _event(self, kind: PresentationEventType, data: EventData) -> None:
        await self.write_packet(StreamOpCode.EVENT, PresentationEvent(type=kind, data=data))

    async def _report(self, kind: str, data: Mapping[str, Any]) -> None:
        about = {"id": str(uuid4()), "timestamp": _utc_now().isoformat(), "type": kind}
        await self.write_packet(StreamOpCode.EVENT, {**about, "data": data})

    async def _write_error(
        self,
        severity: ErrorSeverity,
        code: str,
        message: str,
        details: Mapping[str, Any] | None,
    ) -> None:
        error = StreamError(
            code=code,
            message=message,
            severity=severity,
            details=None if details is None else dict(details),
        )
        await self.write_packet(StreamOpCode.ERROR, error)


def _mime_type(url: str) -> str:
    return mimetypes.guess_type(url)[0] or "application/octet-stream"


# Arguments of the reports, checked.


def _optional(check: Callable[[str, Any], Any], **given: Any) -> dict[str, Any]:
    """Return the arguments that are not None."""
    return {name: check(name, value) for name, value in given.items() if value is not None}


def _text(argument: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ArgumentError(argument, "must be text that is not empty", value)
    return value


def _count(argument: str, value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ArgumentError(argument, "must be a whole number, 0 or more", value)
    return value


def _number(argument: str, value: float) -> float:
    if type(value) not in (int, float) or not 0 <= value < inf:
        raise ArgumentError(argument, "must be a number, 0 or more", value)
    return value


def _flag(argument: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ArgumentError(argument, "must be True or False", value)
    return value


def _json(argument: str, value: Any) -> Any:
    try:
        return from_json(to_json(value))  # the caller may change its own one while this one waits
    except (ValueError, RecursionError):
        raise ArgumentError(argument, "must be JSON", value) from None
