"""The sender of a request, and its permission."""

from typing import Any

import pytest
from starlette.requests import Request

from coreason_client.server import AgentApp
from coreason_client.server.http._auth import Keys
from coreason_client.server.http._gate import Gate, drop_body
from coreason_client.server.http._problems import PRINCIPAL, Problem

from ..aio import aio
from .test_body import hello

JSON = (b"content-type", b"application/json")


def gate(keys: dict[str, str] | None = None, **options: Any) -> Gate:
    chosen = AgentApp(hello, agent_id="writer", **options)._options
    return Gate(chosen, None if keys is None else Keys(keys))


def request(*headers: tuple[bytes, bytes], body: bytes = b"") -> Request:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request({"type": "http", "headers": list(headers)}, receive)


@aio
async def test_the_principal_belongs_to_the_key_and_the_agent() -> None:
    keyed = gate({"secret": "ann"})
    assert keyed.has_keys
    asked = request((b"authorization", b"Bearer secret"))
    assert await keyed.principal_in_turn(asked) == "writer/ann"
    assert asked.scope[PRINCIPAL] == "writer/ann"
    with pytest.raises(Problem) as refused:
        await keyed.principal_in_turn(request())
    assert refused.value.status == 401


def test_without_keys_everybody_is_the_same_principal() -> None:
    assert gate().principal(request()) == gate().principal(request((b"authorization", b"x")))


def test_large_headers_are_refused() -> None:
    limited = gate(max_header_bytes=10)
    problem = limited.header_problem([(b"x", b"y" * 10)])
    assert problem is not None
    assert problem.status == 431
    assert limited.header_problem([(b"x", b"y" * 8), (b"z", b"")]) is None


@aio
async def test_a_token_is_taken_and_given_back() -> None:
    limited = gate(max_requests_per_minute=1)
    assert await limited.take_token("p") == 0
    assert await limited.take_token("p") > 0
    await limited.give_token_back("p")
    assert await limited.take_token("p") == 0
    assert await gate().take_token("p") == 0


@pytest.mark.parametrize("size", [10, 200_000])
@aio
async def test_a_body_is_read_and_parsed(size: int) -> None:
    body = b" " * size
    asked = request(JSON, (b"content-length", str(size).encode()), body=body)
    open_gate = gate()
    length = open_gate.announced_length(asked)
    assert length == size
    assert await open_gate.read(asked, "p", length, len) == size


@aio
async def test_the_memory_of_a_body_is_freed_when_its_parser_fails() -> None:
    open_gate = gate(max_body_bytes=200_000, body_timeout=0.5)

    def fail(_: bytes) -> None:
        raise ValueError("wrong")

    for _ in range(40):  # more than fit at once
        with pytest.raises(ValueError, match="wrong"):
            await open_gate.read(request(JSON, body=b" " * 200_000), "p", 200_000, fail)


@aio
async def test_a_body_that_was_read_ahead_is_read_once_and_keeps_its_memory() -> None:
    first, second = gate(max_body_bytes=100_000), gate(max_body_bytes=100_000)
    body = b'"' + b"x" * 99_000 + b'"'
    for takes in (True, False):
        asked = request(JSON, body=body)
        free = first._body_memory._free
        assert await first.read_ahead(asked, "p", len) == len(body)
        assert first._body_memory._free == free - 100_000
        if takes:
            assert await second.read(asked, "other", None, bytes) == body
            assert second._body_memory._free == free
        else:
            drop_body(asked)
        assert first._body_memory._free == free
        drop_body(asked)  # does nothing
        assert first._body_memory._free == free


@aio
async def test_reading_ahead_has_the_limits_of_a_read() -> None:
    limited = gate(max_body_bytes=10)
    for asked, status in ((request(JSON, body=b"x" * 11), 413), (request(body=b"{}"), 415)):
        with pytest.raises(Problem) as refused:
            await limited.read_ahead(asked, "p", bytes)
        assert refused.value.status == status
        drop_body(asked)
    asked = request(JSON, body=b"{}")
    with pytest.raises(ZeroDivisionError):
        await limited.read_ahead(asked, "p", lambda _: 1 / 0)
    assert await limited.read(asked, "p", None, bytes) == b"{}"
