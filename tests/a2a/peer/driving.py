"""One way to write a test for both clients: a coroutine in which nothing of the sync one waits.

The peer lives in another process, so a sync client may block the loop that runs the test.
"""

import asyncio
import functools
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, ParamSpec

from coreason_client.a2a import A2AClient, AsyncA2AClient

P = ParamSpec("P")
LIMIT: Final = 30.0


async def done(value: Any) -> Any:
    """Return a result, of either client."""
    return await value if inspect.isawaitable(value) else value


async def each(stream: Any) -> AsyncGenerator[Any]:
    """Iterate over a stream, of either client; close it when stopping early."""
    if hasattr(stream, "__aiter__"):
        async for item in stream:
            yield item
    else:
        for item in stream:
            yield item


async def every(stream: Any) -> list[Any]:
    """Return all items of a stream, of either client."""
    return [item async for item in each(stream)]


@asynccontextmanager
async def opened(thing: Any) -> AsyncIterator[Any]:
    """Enter and leave a client or a stream, sync or async."""
    if hasattr(thing, "__aenter__"):
        async with thing as inside:
            yield inside
    else:
        with thing as inside:
            yield inside


@dataclass(frozen=True)
class Face:
    """One face of the peer, to be called by one of our clients."""

    origin: str
    path: str
    kind: type[A2AClient] | type[AsyncA2AClient]

    @property
    def base_url(self) -> str:
        """The URL of its card."""
        return f"{self.origin}/{self.path}"

    @property
    def is_old(self) -> bool:
        """True if it speaks 0.3."""
        return self.path.endswith("0.3")

    @property
    def is_rest(self) -> bool:
        """True if its binding is HTTP+JSON."""
        return "rest" in self.path

    @property
    def is_grpc(self) -> bool:
        """True if its binding is gRPC."""
        return "grpc" in self.path

    def variant(self, prefix: str) -> "Face":
        """Return the face that speaks the same but is another agent."""
        return Face(self.origin, f"{prefix}-{self.path}", self.kind)

    @asynccontextmanager
    async def client(self, **options: Any) -> AsyncIterator[Any]:
        """Connect a client, and close it."""
        async with opened(await done(self.kind.connect(self.base_url, **options))) as client:
            yield client


def driven(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make a test of a coroutine, which must end in time."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), LIMIT))

    return run
