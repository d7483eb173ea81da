"""The `with` block of a server on loopback, and how it reports what went wrong in it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

from ._loopback import HTTPRequest, LoopbackServer, ResponseWriter


class LoopbackBlock(ABC):
    """Serves with `_handle` while it is used with `with` or `async with`.

    `noun` is its name in messages, `usage` the line of code that starts it.
    """

    def __init__(self, noun: str, usage: str) -> None:
        self._noun = noun
        self._usage = usage
        self._server: LoopbackServer | None = None

    @property
    def _origin(self) -> str:
        """The URL of the server without a path.

        Raises:
            RuntimeError: it is used outside its block.
        """
        if self._server is None:
            raise RuntimeError(f"{self._noun} runs only within `{self._usage}`")
        return self._server.url

    @abstractmethod
    async def _handle(self, request: HTTPRequest, response: ResponseWriter) -> None:
        """Answer a request."""

    @abstractmethod
    def _finish(self, server: LoopbackServer, error: BaseException | None) -> None:
        """Report what went wrong, when the server has stopped; `error` ends the block."""

    def __enter__(self) -> Self:
        if self._server is not None:
            raise RuntimeError(f"{self._noun} runs already")
        name = self._noun.removeprefix("the ").replace(" ", "-")
        self._server = LoopbackServer(self._handle, f"coreason-{name}")
        self._server.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.stop()
            self._finish(server, error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.__exit__(kind, error, traceback)


class BlockInThread(ABC):
    """An `async with` for a server with a slow `with`: it starts and stops in another thread."""

    @abstractmethod
    def __enter__(self) -> Self:
        """Start serving."""

    @abstractmethod
    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Stop serving."""

    async def __aenter__(self) -> Self:
        """Start serving."""
        import anyio.to_thread

        return await anyio.to_thread.run_sync(self.__enter__)

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Stop serving."""
        import anyio
        import anyio.to_thread

        with anyio.CancelScope(shield=True):  # a cancelled test must not leave a server behind
            await anyio.to_thread.run_sync(self.__exit__, kind, error, trace)


def report(problems: Sequence[str], error: BaseException | None) -> None:
    """Raise what went wrong in a fake server, or add it to the error that ends the block.

    Raises:
        AssertionError: something went wrong, and the block itself has no error.
    """
    if not problems:
        return
    message = "\n".join(problems)
    if error is None:
        raise AssertionError(message)
    error.add_note(message)
