"""The async stream of an answer."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Generic

from .._drive import Reading
from .._drive_async import close_items_async
from ._answer_machine import AnswerMachine
from ._json import GrowingValue
from ._returned import AsyncStreamBase

# async only: begin
from ._streams_sync import LLMStream

# async only: end
from .errors import LLMError, LLMRequestError
from .types import Delta, Parsed, Response, TextDelta, Usage

__all__ = [
    "AsyncLLMStream",
    # async only: begin
    "LLMStream",
    # async only: end
]


class AsyncLLMStream(AsyncStreamBase, Generic[Parsed]):
    """An async iterator of deltas; iterating may raise `LLMError`.

    Used as a context manager, it closes the connection as soon as it is not needed.
    """

    def __init__(
        self, machine: AnswerMachine, deltas: AsyncGenerator[Delta], reading: Reading
    ) -> None:
        self._machine = machine
        self._deltas = deltas
        self._reading = reading
        self._error: LLMError | None = None

    def __aiter__(self) -> AsyncIterator[Delta]:
        return self

    async def __anext__(self) -> Delta:
        try:
            async for delta in self._deltas:
                # async only: begin
                if delta is None:  # this is another event loop
                    break
                # async only: end
                return delta
        except LLMError as error:
            self._error = error
            raise
        # async only: begin
        if self._machine.response is None and self._error is None:
            self._reading.check_loop()
        # async only: end
        raise StopAsyncIteration

    @property
    def spent(self) -> Usage | None:
        """The usage so far of all attempts; None if nothing was received.

        It is also known after an error, and after the stream was closed early: the provider bills
        what it has produced. Tokens that the provider did not count are estimated (`estimated`).
        Attempts of which nothing was received are not included.
        """
        return self._machine.spent()

    def text(self) -> AsyncGenerator[str]:
        """Yield only the pieces of the answer's text.

        Raises:
            LLMRequestError: the stream may restart, and the texts would run into each other.
        """
        if self._machine.on_break == "restart":
            raise LLMRequestError(
                'text() cannot be used with on_break="restart", which may begin the answer again: '
                "read the deltas, and drop the text before a Restarted"
            )
        return self._texts()

    def objects(self) -> AsyncGenerator[Any]:
        """Yield the JSON value of the answer as it grows, for a call with `response_format`.

        Each value has what was received so far: the last string may be cut off, and missing parts
        are absent. A value is yielded when it has changed. `result()` has the parsed answer.

        Raises:
            LLMRequestError: the call has no `response_format`.
        """
        if self._machine.schema is None:
            raise LLMRequestError("objects() needs a call with response_format; use text() instead")
        return self._objects(GrowingValue(wrapped=self._machine.schema.wrapped))

    async def _objects(self, growing: GrowingValue) -> AsyncGenerator[Any]:
        async for delta in self:
            if growing.add(delta):
                yield growing.value
        if growing.finish():
            yield growing.value

    async def result(self) -> Response[Parsed]:
        """Read the rest and return the response object, as `generate` would.

        Raises:
            LLMError: there is no answer, or it is incomplete.
        """
        if self._error is not None:
            raise self._error
        async for _ in self:
            pass
        if self._machine.response is None:
            raise self._machine.incomplete_error()
        return self._machine.response

    async def _texts(self) -> AsyncGenerator[str]:
        async for delta in self:
            if isinstance(delta, TextDelta):
                yield delta.text

    async def aclose(self) -> None:
        """Stop reading and close the connection; may be called twice.

        While another thread or task is reading, its read ends with the next bytes.
        """
        await close_items_async(self._deltas, self._reading)
