"""Bytes on a socket to validated packets in the user's loop: our clients, and httpx2 alone."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from functools import partial
from typing import Any

import httpx2

from coreason_client import AsyncCAPClient, CAPClient
from coreason_client.sse import SSEDecoder
from coreason_manifest.definitions.presentation import StreamPacket, parse_packet

from ._child import child
from ._measure import Effort, Row, Table, Turn, at_most, compare, measure, timed
from ._request import chat_request
from ._wire import PACKET_BYTES

__all__ = ["table"]

_PACKETS = 20_000
_GOAL = at_most(0.25)
_REQUEST = chat_request("How are you?")
_BODY = _REQUEST.to_json().encode()
_HEADERS = {"Accept": "text/event-stream", "Content-Type": "application/json"}


def _ours(client: CAPClient) -> int:
    count = 0
    for _ in client.assist(_REQUEST):
        count += 1
    return count


def _theirs(client: httpx2.Client) -> int:
    count = 0
    with client.stream("POST", "/assist", content=_BODY, headers=_HEADERS) as response:
        for event in httpx2.EventSource(response):
            StreamPacket.model_validate_json(event.data)
            count += 1
    return count


def _mixed(client: httpx2.Client) -> int:
    count = 0
    decoder = SSEDecoder()
    with client.stream("POST", "/assist", content=_BODY, headers=_HEADERS) as response:
        for piece in response.iter_raw():
            for event in decoder.feed(piece):
                parse_packet(event.data_bytes)
                count += 1
    return count


async def _async_ours(client: AsyncCAPClient) -> int:
    count = 0
    async for _ in client.assist(_REQUEST):
        count += 1
    return count


async def _async_theirs(client: httpx2.AsyncClient) -> int:
    count = 0
    async with client.stream("POST", "/assist", content=_BODY, headers=_HEADERS) as response:
        async for event in httpx2.EventSource(response):
            StreamPacket.model_validate_json(event.data)
            count += 1
    return count


async def _async_mixed(client: httpx2.AsyncClient) -> int:
    count = 0
    decoder = SSEDecoder()
    async with client.stream("POST", "/assist", content=_BODY, headers=_HEADERS) as response:
        async for piece in response.aiter_raw():
            for event in decoder.feed(piece):
                parse_packet(event.data_bytes)
                count += 1
    return count


def _sync_turns(url: str, stack: ExitStack) -> dict[str, Turn]:
    ours = stack.enter_context(CAPClient(url, "key"))
    theirs = stack.enter_context(httpx2.Client(base_url=url, timeout=60))
    return {
        "CAPClient": timed(partial(_ours, ours), _PACKETS),
        "httpx2.Client": timed(partial(_theirs, theirs), _PACKETS),
        "httpx2.Client with our decoder": timed(partial(_mixed, theirs), _PACKETS),
    }


def _async_turns(url: str, stack: ExitStack) -> dict[str, Turn]:
    runner = stack.enter_context(asyncio.Runner())
    ours = AsyncCAPClient(url, "key")
    theirs = httpx2.AsyncClient(base_url=url, timeout=60)
    stack.callback(lambda: runner.run(ours.aclose()))
    stack.callback(lambda: runner.run(theirs.aclose()))

    def turn(read: Callable[[], Coroutine[Any, Any, int]]) -> Turn:
        return timed(lambda: runner.run(read()), _PACKETS)

    return {
        "AsyncCAPClient": turn(partial(_async_ours, ours)),
        "httpx2.AsyncClient": turn(partial(_async_theirs, theirs)),
        "httpx2.AsyncClient with our decoder": turn(partial(_async_mixed, theirs)),
    }


def _rows(effort: Effort, where: str, *server_arguments: object) -> list[Row]:
    with child("_fake_agent", _PACKETS, *server_arguments) as server, ExitStack() as stack:
        turns = _async_turns(server.url, stack) | _sync_turns(server.url, stack)
        costs = measure(turns, effort.fewer(2))
    return [
        compare(costs, "AsyncCAPClient", "httpx2.AsyncClient", _GOAL, where=where),
        compare(costs, "AsyncCAPClient", "httpx2.AsyncClient with our decoder", where=where),
        compare(costs, "CAPClient", "httpx2.Client", _GOAL, where=where),
        compare(costs, "CAPClient", "httpx2.Client with our decoder", where=where),
    ]


def table(effort: Effort) -> Table:
    """Compare on one connection that brings packets faster than they are read."""
    return Table(
        f"From a socket to validated {PACKET_BYTES}-byte packets, a chunk each",
        "packet",
        [
            *_rows(effort, "id, data: "),
            *_rows(effort, "event, id, data: ", "message"),
        ],
    )
