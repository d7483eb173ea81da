"""A streamed answer, as the caller holds it."""

from collections.abc import AsyncGenerator, AsyncIterator

from .._closing_async import AsyncClosing
from ._flow import AnswerMachine
from .errors import LLMError, LLMResponseError
from .types import Delta, Response

__all__ = ["LLMStream"]


class LLMStream(AsyncClosing):
    """An async iterator of deltas; iterating raises `LLMError`.

    Leave it by `async with` or `aclose`, which closes the connection at once.
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
        """Read what is left and return the response object that `generate` would have returned.

        Raises:
            LLMError: the answer did not come, or not all of it.
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
