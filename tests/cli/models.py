"""A model on loopback, in a thread, for tests that are not async themselves."""

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, overload

from tests.llm.server import Provider, Received, Replied, provider

__all__ = ["KEY", "MODEL", "Held", "Model", "answer", "chunk", "model", "spoken", "streamed"]

KEY = "sk-secret-key"
MODEL = "gpt-4o"
PATIENCE = 20.0
USAGE = {"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29}


def chunk(finish: str | None = None, **delta: Any) -> bytes:
    """One event of OpenAI's stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: %b\n\n" % json.dumps({"id": "c", "choices": [choice]}).encode()


def spoken(*texts: str, finish: str = "stop") -> list[bytes]:
    """The events of a whole answer, a chunk for each text."""
    usage = b"data: %b\n\n" % json.dumps({"id": "c", "choices": [], "usage": USAGE}).encode()
    pieces = [chunk(content=text) for text in texts]
    return [*pieces, chunk(finish), usage, b"data: [DONE]\n\n"]


def streamed(chunks: Sequence[bytes], *, cut: bool = False, hold: bool = False) -> Replied:
    headers = {"content-type": "text/event-stream"}
    return Replied(headers=headers, chunks=chunks, cut=cut, hold=hold)


def answer(*texts: str, finish: str = "stop") -> Replied:
    return streamed(spoken(*texts, finish=finish))


class Held(Sequence[bytes]):
    """Chunks of which the later ones wait until they are let go.

    Waiting holds up the thread of the provider, so this is for one connection at a time.
    """

    def __init__(self, before: Sequence[bytes], after: Sequence[bytes]) -> None:
        self._before, self._after = before, after
        self.let_go = threading.Event()

    def __len__(self) -> int:
        return len(self._before) + len(self._after)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        return [*self._before, *self._after][index]

    def __iter__(self) -> Iterator[bytes]:
        yield from self._before
        assert self.let_go.wait(PATIENCE)
        yield from self._after


class Model:
    """The provider, seen from another thread."""

    def __init__(self, served: Provider, loop: asyncio.AbstractEventLoop) -> None:
        self.provider = served
        self._loop = loop

    @property
    def url(self) -> str:
        return self.provider.url

    @property
    def received(self) -> list[Received]:
        return self.provider.received

    @property
    def env(self) -> dict[str, str]:
        """The environment that leads to it."""
        return {"LLM_API_KEY": KEY, "LLM_API_BASE_URL": self.url, "MAX_RETRIES": "0"}

    def sent(self, index: int = -1) -> list[tuple[str, Any]]:
        """The messages of a request, as role and content."""
        messages = self.received[index].json["messages"]
        return [(message["role"], message["content"]) for message in messages]

    def is_left_alone(self) -> bool:
        """Wait until no connection is open."""

        async def alone() -> bool:
            while self.provider.open_connections:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
            return True

        waiting = asyncio.wait_for(alone(), PATIENCE)
        return asyncio.run_coroutine_threadsafe(waiting, self._loop).result(PATIENCE)

    def was_left(self) -> bool:
        """Wait until a peer has gone away from a reply that was held."""
        waiting = asyncio.wait_for(self.provider.left.wait(), PATIENCE)
        return asyncio.run_coroutine_threadsafe(waiting, self._loop).result(PATIENCE)


@contextmanager
def model(*replies: Replied) -> Iterator[Model]:
    """Serve while the block runs."""
    started = threading.Event()
    found: list[Model] = []
    stop: list[asyncio.Event] = []

    async def serve() -> None:
        async with provider(*replies) as served:
            found.append(Model(served, asyncio.get_running_loop()))
            stop.append(asyncio.Event())
            started.set()
            await stop[0].wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="model")
    thread.start()
    try:
        assert started.wait(PATIENCE)
        yield found[0]
    finally:
        found[0]._loop.call_soon_threadsafe(stop[0].set)
        thread.join(PATIENCE)
