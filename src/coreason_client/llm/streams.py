"""`LLMStream`: a streamed answer."""

from collections.abc import AsyncGenerator, AsyncIterator

from .._closing_async import AsyncClosing
from ._answer_machine import AnswerMachine
from .errors import LLMError, LLMResponseError
from .types import Delta, Response

__all__ = ["LLMStream"]


class LLMStream(AsyncClosing):
    """An async iterator of deltas; iterating may raise `LLMError`.

    Use `async with`, or call `aclose`, to close the connection as soon as it is not needed.
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
