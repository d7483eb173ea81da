"""The async batch: many requests that a provider answers within a day, at half the price."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any, cast

from .._drive_async import drive_async
from ._batch import BatchCore, BatchResult, ResultsMachine, poll_delays, read_batch

# async only: begin
from ._batches_sync import Batch

# async only: end
from ._client_core import side_route
from ._cost import PricesAction
from ._files import read_json
from ._returned import AsyncClientBase
from .providers.batches import FoundBatch
from .types import BatchStatus

__all__ = [
    "AsyncBatch",
    # async only: begin
    "Batch",
    # async only: end
]

_DAY = 86_400.0


class AsyncBatch:
    """A batch that was submitted, by this process or by another one.

    Args:
        client: a client with the key that submitted it.
        id: the `id` of the batch, which can be saved.

    Attributes:
        id: the id.

    Raises:
        LLMRequestError: the id is not that of a batch, or its provider has no batches.
        LLMAuthenticationError: there is no key.
    """

    def __init__(self, client: AsyncClientBase, id: str) -> None:  # noqa: A002 - what it is
        self._client = cast("Any", client)
        self._core = BatchCore(id, partial(side_route, self._client))
        self.id = self._core.id

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r})"

    async def status(self) -> BatchStatus:
        """Ask the provider how far the batch is.

        Raises:
            LLMError: there is no answer; the class and the fields of the error give the reason.
        """
        return (await self._found()).status

    async def wait(self, timeout: float = _DAY) -> BatchStatus:
        """Wait until the batch has ended, and return its status.

        The provider is asked after 5 seconds, and then less and less often, up to once a minute.

        Args:
            timeout: seconds to wait at most.

        Raises:
            LLMTimeoutError: the batch has not ended in time; it goes on.
            LLMError: there is no answer; the batch goes on.
        """
        delays = poll_delays(self.id, timeout)
        while (status := await self.status())["state"] == "running":
            session = await self._client._session()
            await session.sender(whole=True).sleep(next(delays))
        return status

    async def cancel(self) -> BatchStatus:
        """Cancel the batch, and return its status; requests that were answered have results.

        Raises:
            LLMError: the provider refused it; the class and the fields of the error give the
                reason.
        """
        await self._client._ask(self._core.cancel_plan(), read_json)
        return await self.status()

    async def results(self, response_format: Any = None) -> AsyncGenerator[BatchResult]:
        """Yield the result of each request, in the order of the provider, always the same one.

        They can be read again. Memory is used for one result at a time, except for Gemini, which
        sends all of them at once.

        Args:
            response_format: the JSON schema or the pydantic model of the requests, if all have the
                same one.

        Raises:
            LLMRequestError: the batch is still running, or the provider rejected all of it.
            LLMError: the results cannot be read; the class and the fields of the error give the
                reason.
        """
        found = await self._found()
        read, inline, files = self._core.results(found, response_format)
        await PricesAction().perform_async()
        for line in inline:
            yield read(line)
        session = await self._client._session()
        for plan in files:
            attempts = self._client._new_attempts([plan])
            machine = ResultsMachine(attempts, read)
            received = drive_async(machine, session.sender(whole=False))
            with attempts.observer:
                async with aclosing(received) as results:
                    async for result in results:
                        yield result

    async def _found(self) -> FoundBatch:
        found: FoundBatch = await self._client._ask(self._core.status_plan(), read_batch)
        return found
