"""Sends the conversation of a run to the model, and yields the deltas of its answer."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from ..._agent_context import durable_stream
from ..errors import LLMError, LLMResponseError
from ..observe._work_span import WorkSpan
from ..types import Delta, Response
from ._journal import dump_turn, load_turn, with_parsed
from ._model_client import AsyncModelClient
from ._run_machine import AskModel, RunMachine

__all__ = ["AsyncTurns"]

T = TypeVar("T")


class AsyncTurns:
    """The turns of one run; `options` are those of `AsyncLLMClient.generate`.

    In a durable agent each answer is a step: after a restart, the model is not asked again.
    """

    def __init__(self, client: AsyncModelClient, options: Mapping[str, Any]) -> None:
        self._client = client
        self._options = options
        self._response: Response | None = None

    async def complete(
        self, step: AskModel, machine: RunMachine, tools: Sequence[Mapping[str, Any]]
    ) -> Response:
        """Return the answer, without its deltas.

        Raises:
            LLMError: there is no answer, or the time limit of the run is reached.
        """
        options = step.call_options(self._options, tools)
        stream = durable_stream()
        if stream is not None:
            return await self._stored(step, machine, options, stream)
        answer = self._client.generate(machine.checked_messages(), **options)
        return await (answer if machine.seconds_left() is None else _limited(machine, answer))

    async def _stored(
        self, step: AskModel, machine: RunMachine, options: dict[str, Any], stream: Any
    ) -> Response:
        """Request an answer in a step of a durable agent, or return the stored one."""
        self._response = None

        async def ask() -> dict[str, Any]:
            try:
                answer = self._client.generate(machine.checked_messages(), **options)
                self._response = await _limited(machine, answer)
            except LLMError as error:
                return dump_turn((), None, error)
            return dump_turn((), self._response)

        ask.__qualname__ = "model"  # in the journal
        turn = load_turn(await stream.step("model", ask))
        if turn.error is not None:
            raise turn.error
        answered: Response | None = self._response  # None if the step is a stored one
        if answered is None and turn.response is not None:
            answered = with_parsed(turn.response, self._options.get("response_format"))
        self._response = answered
        return self.answer()

    def answer(self) -> Response:
        """Return the answer, after all its deltas."""
        if self._response is None:
            raise LLMResponseError("the stream ended before the answer did")
        return self._response

    async def deltas(
        self,
        step: AskModel,
        machine: RunMachine,
        tools: Sequence[Mapping[str, Any]],
        run_span: WorkSpan,
    ) -> AsyncGenerator[Delta]:
        """Yield the deltas of an answer; the span of the call is a child of `run_span`.

        Raises:
            LLMError: there is no answer, or the time limit of the run is reached.
        """
        self._response = None
        stream = durable_stream()
        received = self._received(step, machine, step.call_options(self._options, tools), run_span)
        if stream is not None:
            received = self._journaled(received, stream)
        async with aclosing(received) as deltas:
            async for delta in deltas:
                yield delta

    async def _received(
        self, step: AskModel, machine: RunMachine, options: dict[str, Any], run_span: WorkSpan
    ) -> AsyncGenerator[Delta]:
        with run_span.current():
            opened = self._client.stream(machine.checked_messages(), **options)
        async with opened as stream:
            while (delta := await _limited(machine, anext(stream, None))) is not None:
                yield delta
            self._response = await stream.result()

    async def _journaled(
        self, received: AsyncGenerator[Delta], stream: Any
    ) -> AsyncGenerator[Delta]:
        """Receive an answer in a step of a durable agent, or yield the stored one."""
        answer = _AnswerStep(received, lambda: self._response)

        async def ask() -> dict[str, Any]:
            return await answer.receive()

        ask.__qualname__ = "model"  # in the journal
        task = asyncio.create_task(stream.step("model", ask))
        task.add_done_callback(lambda _: answer.deltas.put_nowait(None))
        try:
            while (delta := await answer.deltas.get()) is not None:
                yield delta
        finally:
            answer.closing = True
            task.cancel()
            await asyncio.wait({task})
            await received.aclose()
        turn = load_turn(task.result())
        if not answer.called:
            for delta in turn.deltas:
                yield delta
            if turn.response is not None:
                self._response = with_parsed(turn.response, self._options.get("response_format"))
        if turn.error is not None:
            raise turn.error


class _AnswerStep:
    """Receives an answer in a step, in a task of its own; `deltas` is read by another task.

    `called` is True if the answer was received, and is not a stored one. `closing` is True once
    nobody reads the deltas any more.
    """

    def __init__(
        self, received: AsyncGenerator[Delta], response: Callable[[], Response | None]
    ) -> None:
        self.deltas: asyncio.Queue[Delta | None] = asyncio.Queue()
        self.called = False
        self.closing = False
        self._received = received
        self._response = response

    async def receive(self) -> dict[str, Any]:
        """Receive the answer and return it for the journal."""
        self.called = True
        seen: list[Delta] = []
        error: LLMError | None = None
        try:
            async for delta in self._received:
                seen.append(delta)
                self.deltas.put_nowait(delta)
        except LLMError as failure:
            error = failure
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self.closing or task is None:
                raise
            task.uncancel()  # the reader has left, and will leave at the same delta again
        return dump_turn(seen, self._response(), error)


async def _limited(machine: RunMachine, work: Awaitable[T]) -> T:
    """Wait for something until the time limit of the run.

    Raises:
        LLMRunTimeoutError: the time limit is reached.
    """
    left = machine.seconds_left()
    if left is None:
        return await work
    limit = asyncio.timeout(left)
    try:
        async with limit:
            return await work
    except TimeoutError:
        if limit.expired():
            raise machine.timeout_error() from None
        raise
