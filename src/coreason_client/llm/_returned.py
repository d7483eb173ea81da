"""Base classes of clients and streams.

What the sync client returns fails with a clear sentence if it is used like that of the async one.
"""

from typing import NoReturn, TypeVar, cast

from .._drive_async import AsyncClosing
from .._drive_sync import Closing
from ._argument_errors import AnswerDict
from .types import Measured

Returned = TypeVar("Returned", bound=Measured)


class AsyncClientBase(AsyncClosing):
    """The base class of the async client."""


class AsyncStreamBase(AsyncClosing):
    """The base class of the async streams."""


class ClientBase(Closing):
    """The base class of the sync client."""

    def __aenter__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} is sync: use `with`, or Async{type(self).__name__}")

    async def __aexit__(self, *_: object) -> None: ...

    def _returned(self, response: Returned) -> Returned:
        """Return a response as the client returns it."""
        return cast("Returned", _Returned(response))


class StreamBase(Closing):
    """The base class of the sync streams."""

    def __aenter__(self) -> NoReturn:
        raise TypeError("this stream is sync: use `with`, or the stream of AsyncLLMClient")

    async def __aexit__(self, *_: object) -> None: ...

    def __aiter__(self) -> NoReturn:
        raise TypeError("this stream is sync: use `for`, or the stream of AsyncLLMClient")

    def __await__(self) -> NoReturn:
        raise TypeError("this stream is sync: remove `await`, or use AsyncLLMClient")


class _Returned(AnswerDict):
    """A response whose `await` fails with a clear sentence."""

    __slots__ = ()

    def __await__(self) -> NoReturn:
        raise TypeError("LLMClient is sync: remove `await`, or use AsyncLLMClient")
