"""Bodies are read within limits."""

from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from coreason_client.server import AgentApp, AgentStream
from coreason_client.server._off_loop import LARGE_BODY
from coreason_client.server.http._body import body_length, drain_body, read_body
from coreason_client.server.http._problems import Problem
from coreason_manifest.definitions.service import ServiceRequest

from ..aio import aio


async def hello(request: ServiceRequest, stream: AgentStream) -> None:
    await stream.write("hello")


async def taken(chunks: list[bytes], length: int | None, **given: Any) -> list[int]:
    """Read a body in these chunks, and return what room was taken, and when."""
    steps: list[int] = []

    async def receive() -> dict[str, Any]:
        chunk = chunks.pop(0)
        return {"type": "http.request", "body": chunk, "more_body": bool(chunks)}

    async def reserve(size: int) -> None:
        steps.append(size)

    options = AgentApp(hello, **given)._options
    await read_body(Request({"type": "http"}, receive), length, options, reserve)
    return steps


@aio
async def test_room_is_taken_before_a_large_body_is_kept() -> None:
    half = b" " * (LARGE_BODY // 2)
    assert await taken([half, half], len(half) * 2) == [LARGE_BODY]
    assert await taken([half, half], None) == []  # not announced, and small
    most = 4 * 1024 * 1024
    assert set(await taken([half, half, b" "], None)) == {most}  # once is enough


@aio
async def test_the_values_of_all_chunks_are_counted_together() -> None:
    chunks = [b"[1,1,1,", b"1,1,1,1,1,1,1]"]
    await taken(list(chunks), None, max_json_values=11)
    with pytest.raises(Problem) as refused:
        await taken(chunks, None, max_json_values=10)
    assert refused.value.slug == "body-too-complex"


@pytest.mark.parametrize(
    ("headers", "length"),
    [
        ({"content-type": "application/json", "content-length": "7"}, 7),
        ({"content-type": "application/a2a+json; charset=utf-8"}, None),
        ({"content-type": "application/json", "content-length": "+7"}, None),
    ],
)
def test_the_head_announces_a_length(headers: dict[str, str], length: int | None) -> None:
    assert body_length(headers, 10) == length


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({}, 415),
        ({"content-type": "application/json", "content-length": "11"}, 413),
        ({"content-type": "application/json", "content-length": "9" * 30}, 413),
    ],
)
def test_a_head_is_refused(headers: dict[str, str], status: int) -> None:
    with pytest.raises(Problem) as refused:
        body_length(headers, 10)
    assert refused.value.status == status


@aio
async def test_an_unwanted_body_is_read_up_to_a_limit() -> None:
    read = 0

    async def receive() -> dict[str, Any]:
        nonlocal read
        read += 1
        return {"type": "http.request", "body": b" " * 600_000, "more_body": True}

    await drain_body(Request({"type": "http"}, receive))
    assert read == 2


@aio
async def test_a_client_that_leaves_does_not_disturb() -> None:
    async def receive() -> dict[str, Any]:
        raise ClientDisconnect

    await drain_body(Request({"type": "http"}, receive))
