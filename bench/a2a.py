"""A2A from bytes on a socket to events in the user's loop: our clients, and that of a2a-sdk."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeAlias

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.helpers import get_stream_response_text, new_text_message
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    Role,
    SendMessageRequest,
)

from coreason_client.a2a import A2AClient, AsyncA2AClient

from ._child import child
from ._fake_a2a import LARGE, SMALL, TASK_TEXT, texts
from ._measure import (
    Costs,
    Effort,
    Row,
    Table,
    Turn,
    at_least,
    at_most,
    compare,
    measure,
    timed,
)
from .imports import _child_cpu

__all__ = ["table"]

_OURS, _SYNC, _THEIRS = "AsyncA2AClient", "A2AClient", "a2a-sdk"
_CALLS = 480  # a multiple of every concurrency
_QUESTION = "How was the year?"
_LAZY, _FULL, _PLAIN = "coreason_client.a2a", "a2a.client", "a2a.client without its extras"
_IMPORTS = {
    _LAZY: "import coreason_client.a2a",
    _OURS: "from coreason_client.a2a import AsyncA2AClient",
    _SYNC: "from coreason_client.a2a import A2AClient",
    _FULL: "import a2a.client",
    _PLAIN: "import sys\nsys.modules |= {'grpc': None, 'opentelemetry': None}\nimport a2a.client",
}

_Texts: TypeAlias = Coroutine[Any, Any, list[str]]


# The user's loops: each takes the text out of every event, and leaves out those without.


def _sync_stream(client: A2AClient) -> list[str]:
    return [text for event in client.send_message_stream(_QUESTION) if (text := event.text)]


async def _stream(client: AsyncA2AClient) -> list[str]:
    events = client.send_message_stream(_QUESTION)
    return [text async for event in events if (text := event.text)]


async def _their_stream(client: Client) -> list[str]:
    message = new_text_message(_QUESTION, role=Role.ROLE_USER)
    events = client.send_message(SendMessageRequest(message=message))
    return [text async for event in events if (text := get_stream_response_text(event, ""))]


def _sync_call(client: A2AClient) -> list[str]:
    return [client.send_message(_QUESTION).text for _ in range(_CALLS)]


async def _call(client: AsyncA2AClient) -> list[str]:
    return [(await client.send_message(_QUESTION)).text]


async def _at_once(call: Callable[[], _Texts], concurrency: int) -> list[str]:
    """Make the calls, so many at any moment."""

    async def some() -> list[str]:
        return [text for _ in range(_CALLS // concurrency) for text in await call()]

    found = await asyncio.gather(*(some() for _ in range(concurrency)))
    return [text for some_texts in found for text in some_texts]


# Turns


def _turn(read: Callable[[], list[str]], expected: list[str]) -> Turn:
    """Make a turn whose texts are looked at when the time has been taken."""
    found: list[str] = []

    def work() -> int:
        found[:] = read()
        return len(found)

    measured = timed(work, len(expected))

    def turn() -> float:
        spent = measured()
        if found != expected:
            raise AssertionError("the text is not the one that was sent")
        found.clear()
        return spent

    return turn


class _Clients:
    """A client of each kind for one address; all keep their connections between turns."""

    def __init__(self, url: str, runner: asyncio.Runner, *, streaming: bool) -> None:
        self._runner = runner
        self._http = httpx.AsyncClient(timeout=60)
        card = AgentCard(
            name="agent",
            supported_interfaces=[
                AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")
            ],
            capabilities=AgentCapabilities(streaming=streaming),
        )
        self.theirs = ClientFactory(ClientConfig(httpx_client=self._http)).create(card)
        self.ours = AsyncA2AClient(url)
        self.sync = A2AClient(url)

    def turn(self, read: Callable[[], _Texts], expected: list[str]) -> Turn:
        return _turn(lambda: self._runner.run(read()), expected)

    def close(self) -> None:
        self.sync.close()
        self._runner.run(self.ours.aclose())
        self._runner.run(self._http.aclose())


@contextmanager
def _clients(path: str, *, streaming: bool) -> Iterator[_Clients]:
    with child("_fake_a2a") as server, asyncio.Runner() as runner, ExitStack() as stack:
        clients = _Clients(server.url + path, runner, streaming=streaming)
        stack.callback(clients.close)
        yield clients


def _streams(path: str, size: tuple[int, int], effort: Effort) -> Costs:
    expected = texts(*size)
    with _clients(path, streaming=True) as clients:
        turns = {
            _OURS: clients.turn(partial(_stream, clients.ours), expected),
            _SYNC: _turn(partial(_sync_stream, clients.sync), expected),
            _THEIRS: clients.turn(partial(_their_stream, clients.theirs), expected),
        }
        return measure(turns, effort)


def _calls(concurrency: int, effort: Effort) -> Costs:
    expected = [TASK_TEXT] * _CALLS
    with _clients("/task", streaming=False) as clients:
        ours, theirs = partial(_call, clients.ours), partial(_their_stream, clients.theirs)
        turns = {
            _OURS: clients.turn(partial(_at_once, ours, concurrency), expected),
            _THEIRS: clients.turn(partial(_at_once, theirs, concurrency), expected),
        }
        if concurrency == 1:
            turns[_SYNC] = _turn(partial(_sync_call, clients.sync), expected)
        return measure(turns, effort)


# Rows


def _small_rows(effort: Effort) -> list[Row]:
    costs = _streams("/small", SMALL, effort)
    where = f"{SMALL[0]:,} events of {SMALL[1]} characters, CPU per event: "
    return [
        compare(costs, _OURS, _THEIRS, at_most(1 / 6, "1/6".format), where=where),
        compare(costs, _SYNC, _THEIRS, where=where),
    ]


def _large_rows(effort: Effort) -> list[Row]:
    costs = _streams("/large", LARGE, effort)
    megabytes = LARGE[1] / 1e6
    rates = {name: [megabytes / cost for cost in rounds] for name, rounds in costs.items()}
    where = f"{LARGE[0]} events of {LARGE[1] // 1000} kB, MB per second of CPU: "
    rate = "{:.0f} MB/s".format
    return [
        compare(rates, _OURS, _THEIRS, at_least(5), where=where, shown=rate),
        compare(rates, _SYNC, _THEIRS, where=where, shown=rate),
    ]


def _call_rows(effort: Effort) -> list[Row]:
    rows = []
    for concurrency in (1, 16):
        costs = _calls(concurrency, effort)
        where = f"CPU per call, {concurrency} at once: "
        rows.append(compare(costs, _OURS, _THEIRS, at_most(0.6), where=where))
        if _SYNC in costs:
            rows.append(compare(costs, _SYNC, _THEIRS, where=where))
    return rows


def _import_rows(effort: Effort) -> list[Row]:
    turns: dict[str, Turn] = {name: partial(_child_cpu, code) for name, code in _IMPORTS.items()}
    costs = measure(turns, effort)
    half = at_most(0.5)
    return [
        compare(costs, _LAZY, _FULL, half, where="CPU of an import: "),
        compare(costs, _OURS, _FULL, half, where="CPU of an import: "),
        compare(costs, _SYNC, _FULL, where="CPU of an import: "),
        compare(costs, _OURS, _PLAIN, where="CPU of an import: "),
    ]


def table(effort: Effort) -> Table:
    """Compare on streams of small and of large events, on unary calls, and on imports."""
    some = effort.fewer(2)
    return Table(
        "A2A 1.0 over JSON-RPC; CPU of the client's process",
        None,
        [
            *_small_rows(some),
            *_large_rows(some),
            *_call_rows(some),
            *_import_rows(some),
        ],
    )
