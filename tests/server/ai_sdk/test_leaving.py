"""A reader that has to leave before the end knows it: the body has no regular end."""

import socket
import threading
from collections.abc import Iterator
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

from coreason_client.server import AgentApp, AgentStream, MemoryStreamLog

from ..openai.test_leaving import draining
from ..peer import LIMIT, Gate
from .pages import Pages
from .serving import Site, body, frames, peer, site, texts, until, user

ID = "a chat with a long id"


class Shared(MemoryStreamLog):
    """A memory log that several processes could share, as far as an application can tell."""

    shared: ClassVar[bool] = True


def test_a_drain_cuts_pages_off(pages: Pages) -> None:
    gate = Gate()

    async def agent(_: Any, stream: AgentStream) -> None:
        await stream.write("one ")
        await gate.wait()
        await stream.write("two")

    app = AgentApp(agent, log=Shared(), ai_sdk=True, drain_timeout=LIMIT)
    with draining(app) as (url, stop):
        chat = pages.chat(f"{url}/api/chat", ID)
        sent = chat.begin_send("Hi")
        chat.until("one ")
        stop.set()
        shown = sent.result(LIMIT)
        # A regular end would be half an answer that looks whole.
        assert shown["status"] == "error"
        assert texts(shown) == ["Hi", "one "]
        gate.open()


@pytest.fixture
def slow() -> Iterator[tuple[Site, threading.Event]]:
    """A server that gives a reader little time, and an agent that writes more than fits."""
    ended = threading.Event()

    async def agent(_: Any, stream: AgentStream) -> None:
        for _ in range(400):
            await stream.write("x" * 50_000)
        ended.set()

    with site(agent, api_keys=None, send_timeout=0.3) as server:
        yield server, ended


def test_a_reader_that_does_not_read_is_cut_off(slow: tuple[Site, threading.Event]) -> None:
    server, ended = slow
    address = urlsplit(server.url)
    content = b'{"id":"%b","messages":[{"id":"1","role":"user","parts":[]}]}' % ID.encode()
    head = (
        f"POST /api/chat HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
    )
    with socket.create_connection((address.hostname, address.port), timeout=LIMIT) as raw:
        raw.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        assert ended.wait(LIMIT)
        runtime = server.app._runtime
        assert runtime is not None
        until(lambda: runtime.producers.readers == 0)
        received = b""
        try:
            while data := raw.recv(65536):
                received += data
        except ConnectionError:
            pass
    assert b'"finish"' not in received
    assert not received.endswith(b"0\r\n\r\n")


def test_heartbeats_are_not_counted(newest: Pages) -> None:
    gate = Gate()

    async def agent(_: Any, stream: AgentStream) -> None:
        await stream.write("one ")
        await gate.wait()
        await stream.write("two")

    with site(agent, api_keys=None, heartbeat=0.05) as server, peer(server.url, None) as http:
        with http.stream("POST", "/api/chat", json=body(ID, user("Hi"))) as posted:
            pieces, raw = posted.iter_raw(), b""
            while raw.count(b"\n:") + raw.startswith(b":") < 2:
                raw += next(pieces)
            run = posted.headers["x-workflow-run-id"]
            chat = newest.chat(server.api, ID)
            resumed = chat.begin("resume")
            chat.answered(1)
            gate.open()
            raw += b"".join(pieces)
        rest = http.get(f"/api/chat/{run}/stream?startIndex=3").content
        assert frames(raw)[3:] == frames(rest)
        assert texts(resumed.result(LIMIT)) == ["one two"]
