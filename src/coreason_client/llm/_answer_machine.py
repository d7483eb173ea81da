"""The state machine that reads one streamed answer. No I/O.

* All complete events are delivered before an error.
* A complete JSON answer to a request for a stream is a stream with one piece.
* An answer with its end and its usage is complete, whatever happens to the connection after them.
* A cached answer is a stream with one piece of text, and of each tool call.
* Whether a failure before the first delta is retried is decided in `_attempts.py`.
* What happens after a break in the middle of the answer is decided in `_recovery.py`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from .._drive import Flow, Reply, Step
from .._http._types import FailureKind, Headers, Request, ResponseHead, TransportFailure
from ..sse import ServerSentEvent
from ._adapter import AnswerReader
from ._answer import EventsLost, FaultReceived, Malformed
from ._attempts import Attempts
from ._classify import FailedAttempt, connection_failure, http_failure, malformed_failure
from ._continuation import Continuation
from ._frames import FrameDecoder, FrameTooLarge
from ._json import parse_or_none
from ._plan import CallPlan
from ._recovery import Recovery
from ._reply import add_before, read_answer, read_reply, wrong_body
from ._route import ModelRoute
from .errors import LLMError, LLMResponseError
from .types import (
    CitationDelta,
    Delta,
    Finish,
    ReasoningDelta,
    Response,
    ResponseData,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageDelta,
)

if TYPE_CHECKING:
    from .router._cached_answer import CachedAnswer


_NO_HEAD = ResponseHead(0, Headers())


class AnswerMachine:
    """Turns the responses to one streamed call into deltas.

    Attributes:
        response: the response object, once the answer is complete.
        on_break: what happens if the stream breaks in the middle of the answer.
        schema: that of the answer, None without a `response_format`.
    """

    def __init__(
        self,
        attempts: Attempts[CallPlan],
        parse_as: Any = None,
        cached: "CachedAnswer | None" = None,
    ) -> None:
        self.response: Response | None = None
        self.on_break = attempts.policy.on_break
        self.schema = attempts.plan.call.schema
        self._attempts = attempts
        self._parse_as = parse_as
        self._cached = cached
        self._head = _NO_HEAD
        self._settled = False  # the outcome of the current attempt is recorded
        self._done = False
        self._recovery = Recovery(attempts)
        self._reset()

    def spent(self) -> Usage | None:
        """Return the usage of all attempts so far, None if nothing was received."""
        if self.response is not None:
            return self.response.get("spent", self.response["usage"])
        if self._settled or not self._reader.billed:
            return self._attempts.spent.total()
        usage = self._recovery.received(self._reader)["usage"]
        return self._attempts.spent.total(usage) or usage

    def incomplete_error(self) -> LLMError:
        """Return the error for a stream that was closed before its answer was complete."""
        message = "the stream was closed before its answer was complete"
        error = self._recovery.with_partial(LLMResponseError(message))
        error.spent = self.spent()
        return error

    def close_flow(self) -> Flow[None]:
        """End the call, whatever its state.

        What was received of an answer that the caller left counts as spent. An answer that the
        provider would go on producing is cancelled.
        """
        if not self._settled and self._reader.billed:
            self._settled = True
            self._recovery.left(self._reader)
        action = self._attempts.close()  # first: it needs no I/O unless the state is elsewhere
        if self.response is None:
            yield from self._recovery.cancel_flow(self._reader)
        elif self._cached is not None and "cached" not in self.response:
            yield from self._cached.store_flow(self.response)
        if action is not None:
            yield action

    def cache_flow(self) -> Flow[Sequence[Delta]]:
        """Look for the answer in the cache; return all its deltas, none if it is not there."""
        found = None if self._cached is None else (yield from self._cached.find_flow())
        if found is None:
            return ()
        self.response = found
        self._done = self._settled = True
        data = found["data"]
        return [*_as_deltas(data), UsageDelta(found["usage"]), Finish(data["finish_reason"])]

    def _reset(self) -> None:
        """Prepare for a new attempt, which may use another adapter."""
        adapter = self._attempts.plan.route.adapter
        self._reader: AnswerReader = adapter.reader()
        self._frames = FrameDecoder(adapter.framing)
        self._settled = False
        plan = self._attempts.plan
        self._raw = RawEvents() if plan.call.raw else None
        self._continuation: Continuation | None = None
        if plan.prefix is not None:
            repeats = plan.route.profile.repeats_prefix
            self._continuation = Continuation(plan.prefix, repeats=repeats)

    def next_step(self) -> Step | None:
        """Return the next step, None if the call is finished.

        Raises:
            LLMTimeoutError: the deadline has passed.
        """
        if self._done:
            return None
        try:
            step = self._attempts.next_step()
        except LLMError as error:
            raise self._recovery.with_partial(error) from None
        if isinstance(step, Request):
            self._settled = False
            if not self._recovery.resuming:
                self._reset()
        return step

    def accepts(self, head: ResponseHead) -> bool:
        """Return True if the body of this response is a stream or a complete answer."""
        self._head = head
        self._attempts.observer.head_received(head)
        if self._attempts.gate is not None:
            self._attempts.gate.received(head)
        framing = self._attempts.plan.route.adapter.framing
        is_json = head.content_type == "application/json"
        self._frames = FrameDecoder(framing, declared_json=is_json)
        accepted = head.status == 200 and head.content_type != "text/html"
        if accepted:
            self._recovery.accepted()
        return accepted

    def refused(self, head: ResponseHead, body: bytes) -> None:
        """Record a response that `accepts` has rejected.

        Raises:
            LLMError: there will be no other attempt.
        """
        route = self._attempts.plan.route
        self._settled = True
        self._attempts.observer.body_received(body)
        fault = route.adapter.fault(parse_or_none(body))
        if head.status != 200 or fault is not None:
            self._fail(http_failure(route, head, fault, body))
        else:
            self._fail(_wrong_body(route, head, body))

    def receive(self, chunk: bytes) -> Iterator[Delta]:
        """Decode bytes and yield their deltas.

        Raises:
            LLMError: the stream contains an error, or is malformed.
        """
        deltas = self._read(self._attempts.observer.watched(self._frames.events(chunk)))
        return self._recovery.announced(deltas) if self._recovery.restarted else deltas

    @property
    def reading(self) -> bool:
        """True while more bytes of this response are needed."""
        return not self._settled

    def lost(self, failure: TransportFailure | None) -> Iterator[Delta]:
        """Record the end of the connection.

        The answer is complete if it has its end, and its usage if there is a `failure`.

        Raises:
            LLMError: the answer is incomplete, and there will be no other attempt.
        """
        if self._settled:
            return
        if failure is None:
            whole = self._frames.whole()
            rest = self._read_last_line() if whole is None else self._read_whole(whole)
            yield from self._recovery.announced(rest)
            if self._settled:
                return
        reader = self._reader
        if reader.end is not None and (failure is None or reader.tokens is not None):
            yield from self._finish()
            return
        if failure is None and (body := self._frames.not_a_stream()) is not None:
            self._fail(_wrong_body(self._attempts.plan.route, self._head, body))
            return
        ended = TransportFailure(FailureKind.BROKEN, "the stream ended before the answer did")
        self._fail_broken(failure or ended)

    def _read_whole(self, body: bytes) -> Iterator[Delta]:
        """Yield the deltas of an answer that is one JSON value instead of a stream."""
        attempts, reply = self._attempts, parse_or_none(body)
        if isinstance(reply, list):  # Gemini's format without SSE
            fault = attempts.plan.route.adapter.fault(reply)
            if fault is None:
                yield from self._read([ServerSentEvent(body)])
            else:
                self._fail(http_failure(attempts.plan.route, self._head, fault, body))
            if self._settled or self._reader.started or self._reader.end is not None:
                return
        self._settled = True
        attempts.observer.body_received(body)
        result = Reply(self._head, body)
        outcome = read_reply(attempts.plan, result, attempts.timeout, self._parse_as)
        if isinstance(outcome, FailedAttempt):
            self._fail(outcome)
            return
        yield from _as_deltas(outcome["data"])
        if before := self._recovery.before:
            add_before(outcome["data"], before)
        yield from self._complete(outcome)

    def _read(self, events: Iterable[ServerSentEvent]) -> Iterator[Delta]:
        """Yield the deltas of events.

        Raises:
            LLMError: an event is an error, or too large.
        """
        reader = self._reader
        if self._raw is not None:
            events = self._raw.collect(events)
        broken: Exception | None = None
        try:
            for event in events:
                pieces = reader.read(event.data_bytes, event.event_bytes)
                if not pieces and not reader.done:
                    reader.begun = True
                if self._continuation is not None:
                    pieces = self._continuation.pieces(pieces)
                yield from pieces
        except (EventsLost, FaultReceived, Malformed, FrameTooLarge) as error:
            broken = error
        # Not inside `except`: the error would become the context of ours and show secrets.
        if reader.done:
            yield from self._finish()
        elif broken is not None:
            self._fail_broken(broken)
        elif not reader.started and self._attempts.seconds_left() <= 0:  # only keep-alives came
            raise self._recovery.with_partial(self._attempts.deadline_error())

    def _read_last_line(self) -> Iterator[Delta]:
        """Read a last line without a line end; an incomplete one is ignored."""
        for line in self._frames.flush():
            if parse_or_none(line.data_bytes) is not None:
                yield from self._read([line])

    def _finish(self) -> Iterator[Delta]:
        self._settled = True
        plan, reader = self._attempts.plan, self._reader
        yield from self._flush()
        if not reader.has_answer:
            why = "the stream contains no answer"
            self._fail(malformed_failure(plan.route, self._head, why, b"", retryable=True))
            return
        outcome = read_answer(
            plan, self._head, reader.answer(), self._parse_as, self._recovery.before
        )
        if isinstance(outcome, FailedAttempt):
            self._fail(outcome)
            return
        if self._raw is not None:
            outcome["raw"] = self._raw.values
        yield from self._complete(outcome)

    def _flush(self) -> Iterator[Delta]:
        """Yield the text that was held back."""
        pieces = self._reader.flush()
        if self._continuation is None:
            yield from pieces
            return
        yield from self._continuation.pieces(pieces)
        if text := self._continuation.flush():
            yield TextDelta(text)

    def _complete(self, response: Response) -> Iterator[Delta]:
        self._done = True
        self.response = self._attempts.record_success(response)
        yield UsageDelta(response["usage"])
        yield Finish(response["data"]["finish_reason"])

    def _fail_broken(self, error: Exception) -> None:
        attempts, plan = self._attempts, self._attempts.plan
        if isinstance(error, EventsLost):
            error = TransportFailure(FailureKind.BROKEN, str(error))
        if isinstance(error, TransportFailure):
            partway = self._reader.started
            self._fail(connection_failure(plan.route, error, attempts.timeout, partway=partway))
        elif isinstance(error, FaultReceived):
            self._fail(http_failure(plan.route, self._head, error.fault, b""))
        else:
            why = error if isinstance(error, Malformed) else str(error)
            self._fail(malformed_failure(plan.route, self._head, why, b""))

    def _fail(self, failure: FailedAttempt) -> None:
        """End this attempt.

        Raises:
            LLMError: there will be no other attempt.
        """
        self._settled = True
        self._recovery.fail(failure, self._reader, self._continuation)


def _wrong_body(route: ModelRoute, head: ResponseHead, body: bytes) -> FailedAttempt:
    return malformed_failure(route, head, wrong_body(head, body), body, retryable=True)


def _as_deltas(data: ResponseData) -> Iterator[Delta]:
    """Yield the deltas of a complete answer."""
    if reasoning := data.get("reasoning"):
        yield ReasoningDelta(reasoning)
    if content := data["content"]:
        yield TextDelta(content)
    for citation in data.get("citations", ()):
        yield CitationDelta(citation)
    for index, call in enumerate(data["tool_calls"]):
        arguments = call.get("invalid_arguments")
        if arguments is None:
            given = call["arguments"]
            is_text = call.get("custom", False)
            arguments = given["input"] if is_text else _json_text(given)
        yield ToolCallDelta(index, call["id"], call["name"], arguments)


def _json_text(arguments: dict[str, Any]) -> str:
    return to_json(arguments, inf_nan_mode="constants").decode()


class RawEvents:
    """Collects the JSON values of the events of one stream; events without JSON are left out."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: list[Any] = []

    def collect(self, events: Iterable[ServerSentEvent]) -> Iterator[ServerSentEvent]:
        """Yield events unchanged, and add their values; a list counts as several events."""
        for event in events:
            value = parse_or_none(event.data_bytes)
            if isinstance(value, list):
                self.values += value
            elif value is not None:
                self.values.append(value)
            yield event
