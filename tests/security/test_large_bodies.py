"""Large bodies: parsed beside the event loop, one at a time, in bounded memory."""

import asyncio
import json
import socket
import threading
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import pytest

from coreason_client.server import AgentStream
from coreason_client.server._off_loop import LARGE_BODY, off_loop
from coreason_client.server.http import _body as body_memory
from coreason_manifest.definitions.service import ServiceRequest
from tests.server.aio import aio
from tests.server.conftest import Serve, serve
from tests.server.peer import LIMIT, Peer, envelope

__all__ = ["serve"]


async def length(request: ServiceRequest, stream: AgentStream) -> str:
    return f"{len(stream.question)} {stream.question[-1:]}"


def large(size: int = 2 * LARGE_BODY) -> dict[str, Any]:
    return envelope("x" * size + "é")


def test_a_large_body_is_parsed_beside_the_event_loop(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small requests are answered while the thread that parses large ones is busy."""
    begun, go = threading.Event(), threading.Event()
    parse = ServiceRequest.model_validate_json

    def slowly(body: bytes) -> ServiceRequest:
        if len(body) > LARGE_BODY:
            begun.set()
            assert go.wait(LIMIT)
        return parse(body)

    monkeypatch.setattr(ServiceRequest, "model_validate_json", slowly)
    peer = serve(length)
    answers: list[str] = []
    asks = [threading.Thread(target=lambda: answers.append(peer.ask(large()).text)) for _ in "ab"]
    for ask in asks:
        ask.start()
    assert begun.wait(LIMIT)
    assert peer.ask(envelope("small")).text == "5 l"
    go.set()
    for ask in asks:
        ask.join(LIMIT)
    assert answers == [f"{2 * LARGE_BODY + 1} é"] * 2


def test_a_large_body_is_known_again_and_resumed(serve: Serve) -> None:
    peer = serve(length)
    body = large()
    whole = peer.ask(body)
    shuffled = json.dumps(dict(reversed(body.items())), indent=1, ensure_ascii=False).encode()
    assert peer.ask(shuffled).stream_id == whole.stream_id
    assert peer.ask(shuffled, f"{whole.stream_id}:1").seqs == [2]
    other = {**large(), "request_id": body["request_id"], "more": True}
    assert [peer.ask(other).status, peer.ask(other, whole.stream_id).status] == [409, 409]


@pytest.mark.parametrize("chunked", [False, True])
def test_what_is_wrong_in_a_large_body_is_said(serve: Serve, chunked: bool) -> None:
    body = large()
    del body["context"]["session_id"]
    content = json.dumps(body).encode()
    peer = serve(length)
    headers = {"Content-Type": "application/json"}
    answer = peer.http.post(
        "/assist", content=iter([content]) if chunked else content, headers=headers
    )
    assert answer.status_code == 422
    assert answer.json()["errors"] == [{"loc": ["context", "session_id"], "msg": "Field required"}]


def test_one_key_keeps_no_other_from_sending_large_bodies(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that announces large bodies and does not send them fills only its own share."""
    monkeypatch.setattr(body_memory, "_MAX_BODIES", 4)
    monkeypatch.setattr(body_memory, "_MAX_BODIES_PER_PRINCIPAL", 2)
    size = 3 * LARGE_BODY
    peer = serve(length, key="b", api_keys=["a", "b"], max_body_bytes=size)
    greedy = Peer(str(peer.http.base_url), "a")
    address = (peer.http.base_url.host, peer.http.base_url.port)
    head = (
        "POST /assist HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer a\r\nContent-Length: {size}\r\n\r\n"
    ).encode()
    answers: list[int] = []
    with ExitStack() as stack:
        stalled = [
            stack.enter_context(socket.create_connection(address, timeout=LIMIT)) for _ in range(6)
        ]
        for connection in stalled:
            connection.sendall(head + b"{")
        assert greedy.ask(envelope("small")).text == "5 l"
        waiting = threading.Thread(target=lambda: answers.append(greedy.ask(large()).status))
        waiting.start()
        assert peer.ask(large()).status == 200
    waiting.join(LIMIT)  # the others are gone, and have left their room
    assert answers == [200]
    greedy.close()


def test_a_body_with_too_many_values_is_refused_while_it_arrives(serve: Serve) -> None:
    peer = serve(length)
    address = (peer.http.base_url.host, peer.http.base_url.port)
    with socket.create_connection(address, timeout=LIMIT) as sock:
        sock.sendall(
            b"POST /assist HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 4000000\r\n\r\n"
        )
        sock.sendall(b'{"x": [' + b"[]," * 60_000)  # and no more
        answer = b""
        while b"body-too-complex" not in answer:
            answer += (piece := sock.recv(1000))
            assert piece
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"A request may have at most 50000 JSON values." in answer


def test_a_long_conversation_passes(serve: Serve) -> None:
    """A thousand turns of a page each, with code in them, are an ordinary request."""
    page = 'if (a[1] == "b") { f([1, 2, 3], {"c": 4}); }\n' * 40
    body = envelope()
    body["payload"]["messages"] = [
        {"role": role, "parts": [{"type": "text", "content": page}]}
        for _ in range(1000)
        for role in ("assistant", "user")
    ]
    assert serve(length).ask(body).status == 200


@aio
async def test_what_is_raised_beside_the_loop_is_raised_here_and_the_thread_goes_on() -> None:
    def fail() -> None:
        raise LookupError(str(uuid4()))

    for _ in range(3):
        with pytest.raises(LookupError):
            await off_loop(fail)
    names = await asyncio.gather(*(off_loop(threading.current_thread) for _ in range(5)))
    assert len(set(names)) == 1
    assert names[0] is not threading.current_thread()


def test_every_event_loop_has_its_own_thread() -> None:
    async def where() -> threading.Thread:
        return await off_loop(threading.current_thread)

    first, second = asyncio.run(where()), asyncio.run(where())
    assert first is not second
    first.join(LIMIT)  # it ends with its loop
    assert not first.is_alive()
