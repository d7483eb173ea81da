"""The async stream of an answer."""

from collections.abc import AsyncGenerator, AsyncIterator

from ._answer_machine import AnswerMachine
from ._returned_async import AsyncStreamBase
from .errors import LLMError, LLMResponseError
from .types import Delta, Response, TextDelta

__all__ = ["AsyncLLMStream"]


class AsyncLLMStream(AsyncStreamBase):
    """An async iterator of deltas; iterating may raise `LLMError`.

    Used as a context manager, it closes the connection as soon as it is not needed.
    """

    def __init__(self, machine: AnswerMachine, deltas: AsyncGenerator[Delta]) -> None:
        self._machine = machine
        self._deltas = deltas
        self._error: LLMError | None = None

    def __aiter__(self) -> AsyncIterator[Delta]:
        return self

    async def __anext__(self) -> Delta:
        try:
            return await anext(self._deltas)
        except LLMError as error:
            self._error = error
            raise

    async def text(self) -> AsyncGenerator[str]:
        """Yield only the pieces of the answer's text."""
        async for delta in self:
            if isinstance(delta, TextDelta):
                yield delta.text

    async def result(self) -> Response:
        """Read the rest and return the response object, as `generate` would.

        Raises:
            LLMError: there is no answer, or it is incomplete.
        """
        if self._error is not None:
            raise self._error
        async for _ in self:
            pass
        if self._machine.response is None:
            raise LLMResponseError("the stream was closed before its answer was complete")
        return self._machine.response

    async def aclose(self) -> None:
        """Stop reading and close the connection; may be called twice."""
        await self._deltas.aclose()
