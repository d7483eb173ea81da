"""Sends the conversation of a run to the model, and yields the deltas of its answer."""

import copy
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from typing import Any

from ..._agent_context import durable_sync_stream
from ..errors import LLMError, LLMResponseError, LLMTimeoutError
from ..observe._work_span import WorkSpan
from ..types import Delta, Response
from ._journal import dump_turn, load_turn, with_parsed
from ._model_client import ModelClient
from ._run_machine import AskModel, RunMachine

__all__ = ["Turns"]


class Turns:
    """The turns of one run; `options` are those of `LLMClient.generate`.

    In a durable agent each answer is a step: after a restart, the model is not asked again. There,
    the deltas of an answer are yielded when it is complete.
    """

    def __init__(self, client: ModelClient, options: Mapping[str, Any]) -> None:
        self._client = client
        self._options = options
        self._response: Response | None = None

    def complete(
        self, step: AskModel, machine: RunMachine, tools: Sequence[Mapping[str, Any]]
    ) -> Response:
        """Return the answer, without its deltas.

        Raises:
            LLMError: there is no answer, or the time limit of the run is reached.
        """
        for _ in self._asked(self._generated(step, machine, tools), machine):
            pass
        return self.answer()

    def answer(self) -> Response:
        """Return the answer, after all its deltas."""
        if self._response is None:
            raise LLMResponseError("the stream ended before the answer did")
        return self._response

    def deltas(
        self,
        step: AskModel,
        machine: RunMachine,
        tools: Sequence[Mapping[str, Any]],
        run_span: WorkSpan,
    ) -> Generator[Delta]:
        """Yield the deltas of an answer; the span of the call is a child of `run_span`.

        Raises:
            LLMError: there is no answer, or the time limit of the run is reached.
        """
        received = self._received(step, machine, tools, run_span)
        with closing(self._asked(received, machine)) as deltas:
            yield from deltas

    def _asked(self, received: Generator[Delta], machine: RunMachine) -> Generator[Delta]:
        self._response = None
        stream = durable_sync_stream()
        limited = self._limited(received, machine)
        with closing(limited if stream is None else self._journaled(limited, stream)) as deltas:
            yield from deltas

    def _limited(self, received: Generator[Delta], machine: RunMachine) -> Generator[Delta]:
        try:
            yield from received
        except LLMTimeoutError:
            left = machine.seconds_left()
            if left is None or left > 0:
                raise
            raise machine.timeout_error() from None

    def _generated(
        self, step: AskModel, machine: RunMachine, tools: Sequence[Mapping[str, Any]]
    ) -> Generator[Delta]:
        """Request a complete answer, which has no deltas."""
        client = self._limited_client(machine)
        self._response = client.generate(
            machine.checked_messages(), **step.call_options(self._options, tools)
        )
        yield from ()

    def _received(
        self,
        step: AskModel,
        machine: RunMachine,
        tools: Sequence[Mapping[str, Any]],
        run_span: WorkSpan,
    ) -> Generator[Delta]:
        client = self._limited_client(machine)
        with run_span.current():
            opened = client.stream(
                machine.checked_messages(), **step.call_options(self._options, tools)
            )
        with opened as stream:
            for delta in stream:
                yield delta
                left = machine.seconds_left()
                if left is not None and left <= 0:
                    raise machine.timeout_error()
            self._response = stream.result()

    def _limited_client(self, machine: RunMachine) -> ModelClient:
        """Return the client with the time that is left as its deadline; it shares everything."""
        left = machine.seconds_left()
        if left is None:
            return self._client
        client = copy.copy(self._client)
        client.deadline = min(left, client.deadline or left)
        client.timeout = min(left, client.timeout)
        return client

    def _journaled(self, received: Generator[Delta], stream: Any) -> Generator[Delta]:
        """Receive an answer in a step of a durable agent, or yield the stored one."""
        seen: list[Delta] = []

        def ask() -> dict[str, Any]:
            try:
                seen.extend(received)
            except LLMError as error:
                return dump_turn(seen, None, error)
            return dump_turn(seen, self._response)

        ask.__qualname__ = "model"  # in the journal
        turn = load_turn(stream.step("model", ask))
        yield from seen or turn.deltas
        if turn.error is not None:
            raise turn.error
        if self._response is None and turn.response is not None:
            self._response = with_parsed(turn.response, self._options.get("response_format"))
