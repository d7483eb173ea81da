"""The two CAP clients as their users meet them, over real sockets."""

import asyncio
import gc
import inspect
import logging
import pickle
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar
from uuid import UUID, uuid4

import anyio
import httpx
import httpx2
import pytest
import trio

from coreason_client import (
    Answer,
    AsyncCAPClient,
    AsyncChatStream,
    Bookmark,
    CAPClient,
    CAPConnectionError,
    CAPError,
    CAPProtocolError,
    CAPRuntimeError,
    CAPTimeoutError,
    ChatStream,
    Position,
    ServiceRequest,
)
from coreason_client._retry import Backoff
from coreason_client.cap import _protocol
from coreason_client.testing import virtual_clock
from coreason_manifest.definitions.message import ChatMessage
from coreason_manifest.definitions.presentation import ClosePacket, ErrorPacket, StreamOpCode
from coreason_manifest.definitions.request import AgentRequest
from coreason_manifest.definitions.session import SessionContext
from tests.dripping import ERROR_BODY, HEAD_WITHOUT_END, dripping
from tests.faults import FaultServer, Run, number, sse

T = TypeVar("T")
KEY = "sk_top_secret"


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_protocol, "Backoff", lambda **given: Backoff(0.01, 0.02, **given))


def make_request(session: str = "sess_abc") -> ServiceRequest:
    return ServiceRequest(
        context=SessionContext(user_id="user_123", session_id=session),
        payload=AgentRequest(messages=[ChatMessage.user("Count.")]),
    )


def with_async(url: str, use: Callable[[AsyncCAPClient], Awaitable[T]], **options: Any) -> T:
    """Run a piece of async code with a client, with every warning of the event loop an error."""

    async def main() -> T:
        async with AsyncCAPClient(url, KEY, **options) as client:
            return await use(client)

    return asyncio.run(main(), debug=True)


# What is sent


@pytest.mark.proves(
    "R01",
    "R02a",
    "R02b",
    "R02c",
    "R02d",
    "R02e",
    "R02f",
    "RFC002-3-connection",
    "RFC004-2.1-post",
    "RFC004-3.1-bearer",
    "RFC004-3.2-same-request-id",
    "RFC004-3.2-same-body",
)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_every_attempt_sends_the_same_request(server: FaultServer, kind: str) -> None:
    run = server.run("rst_mid_event")
    request = make_request()
    if kind == "sync":
        with CAPClient(run.base_url, KEY) as client:
            list(client.assist(request))
    else:

        async def use(client: AsyncCAPClient) -> None:
            async for _ in client.assist(request):
                pass

        with_async(run.base_url, use)
    assert len(run.requests) == 2
    for sent in run.requests:
        assert (sent.method, sent.path) == ("POST", "/assist")
        assert sent.headers["authorization"] == f"Bearer {KEY}"
        assert sent.headers["accept"] == "text/event-stream"
        assert sent.headers["cache-control"] == "no-cache"
        assert sent.headers["content-type"] == "application/json"
        assert sent.headers["x-request-id"] == str(request.request_id)
        assert sent.body == request.to_json().encode()
    assert run.last_event_ids == [None, f"{run.stream_id}:8"]


@pytest.mark.proves("RFC004-2.1-no-inventions")
def test_the_body_is_an_envelope_and_nothing_more(server: FaultServer) -> None:
    run = server.run("correct")
    with CAPClient(run.base_url, KEY) as client:
        list(client.chat("Hello"))
    [sent] = run.requests
    assert set(sent.headers) <= {
        "host",
        "accept",
        "accept-encoding",
        "authorization",
        "cache-control",
        "connection",
        "content-length",
        "content-type",
        "user-agent",
        "x-request-id",
    }
    assert ServiceRequest.model_validate_json(sent.body).to_json().encode() == sent.body


@pytest.mark.proves("R16h", "R16i", "RFC004-3.1-chat", "RFC004-3.1-chat-new-id")
@pytest.mark.parametrize("user", [None, "ada"])
def test_chat_builds_the_envelope(server: FaultServer, user: str | None) -> None:
    run = server.run("correct")
    options: dict[str, Any] = {} if user is None else {"user_id": user}
    with CAPClient(run.base_url, KEY, **options) as client:
        stream = client.chat("Hello, agent")
        list(stream)
        list(client.chat("More", "my-conversation"))
    first, second = (ServiceRequest.model_validate_json(sent.body) for sent in run.requests)
    assert str(UUID(stream.conversation_id)) == stream.conversation_id
    assert first.context.session_id == stream.conversation_id
    assert second.context.session_id == "my-conversation"
    assert first.context.user_id == (user or "anonymous")
    assert first.payload.messages == [ChatMessage.user("Hello, agent")]
    assert first.request_id != second.request_id


def test_headers_of_the_client_and_of_a_call_are_sent(server: FaultServer) -> None:
    run = server.run("correct")
    headers = {"X-Team": "blue", "X-Env": "test", "accept": "text/plain"}
    with CAPClient(run.base_url, KEY, headers=headers) as client:
        list(client.chat("Hello", headers={"x-team": "red", "User-Agent": "mine/1"}))
    sent = run.requests[0].headers
    assert (sent["x-team"], sent["x-env"], sent["user-agent"]) == ("red", "test", "mine/1")
    assert sent["accept"] == "text/event-stream"  # not the caller's to change


def test_a_callable_key_is_asked_before_every_request(server: FaultServer) -> None:
    run = server.run("rst_mid_event")
    keys = iter(["one", "two"])
    with CAPClient(run.base_url, lambda: next(keys)) as client:
        list(client.chat("Hello"))
    assert [sent.headers["authorization"] for sent in run.requests] == ["Bearer one", "Bearer two"]


def test_a_callable_key_may_be_async_on_the_async_client(server: FaultServer) -> None:
    run = server.run("correct")

    async def key() -> str:
        await asyncio.sleep(0)
        return "fresh"

    async def main() -> None:
        async with AsyncCAPClient(run.base_url, key) as client:
            async for _ in client.chat("Hello"):
                pass

    asyncio.run(main())
    assert run.requests[0].headers["authorization"] == "Bearer fresh"
    with CAPClient(run.base_url, key) as client, pytest.raises(TypeError, match="AsyncCAPClient"):  # type: ignore[arg-type]
        list(client.chat("Hello"))


@pytest.mark.parametrize("bad", ["", "two\r\nlines", "with blank", "ключ"])
def test_a_callable_key_that_gives_nonsense_is_refused(server: FaultServer, bad: str) -> None:
    run = server.run("correct")
    with CAPClient(run.base_url, lambda: bad) as client, pytest.raises(ValueError, match="api_key"):
        list(client.chat("Hello"))
    assert run.requests == []


# What comes back


@pytest.mark.proves(
    "RFC004-2.2-abstraction",
    "RFC004-3.1-chat-delta",
    "RFC004-3.1-chat-ignores",
    "RFC004-3.1-chat-stream",
    "R22b",
)
def test_chat_gives_text(server: FaultServer) -> None:
    run = server.run("rst_mid_event")
    with CAPClient(run.base_url, KEY) as client:
        stream = client.chat("Count")
        assert isinstance(stream, ChatStream)
        assert (stream.position, stream.stream_id, stream.reconnects) == (None, None, 0)
        assert (stream.text, stream.events, dict(stream.response_headers)) == ("", [], {})
        conversation = stream.conversation_id
        texts = []
        for text in stream:
            texts.append(text)
            assert stream.text == "".join(texts)
            assert stream.conversation_id == conversation
        assert "".join(texts) == run.text
        assert all(type(text) is str for text in texts)
        assert stream.conversation_id == conversation
        assert stream.stream_id == UUID(run.stream_id)
        assert stream.reconnects == 1
        assert stream.response_headers["Content-Type"] == "text/event-stream"
        assert stream.position == Position(
            stream_id=UUID(run.stream_id), seq=21, cursor=f"{run.stream_id}:21"
        )
        assert list(stream) == []


@pytest.mark.proves(
    "R18b",
    "R18c",
    "RFC004-3.3-async-chat-stream",
    "RFC004-3.3-async-client",
    "RFC004-3.3-async-http",
)
def test_async_chat_can_be_awaited_or_iterated(server: FaultServer) -> None:
    run = server.run("fin_mid_event_chunked")

    async def use(client: AsyncCAPClient) -> None:
        stream = await client.chat("Count")
        assert isinstance(stream, AsyncChatStream)
        assert "".join([text async for text in stream]) == run.text == stream.text
        assert stream.conversation_id
        again = [text async for text in client.chat("Again", stream.conversation_id)]
        assert "".join(again) == run.text

    with_async(run.base_url, use)


@pytest.mark.proves("RFC004-3.1-assist", "R18a")
def test_assist_yields_packets_and_close_last(server: FaultServer) -> None:
    run = server.run("correct")
    request = make_request()
    with CAPClient(run.base_url, KEY) as client, client.assist(request) as stream:
        packets = list(stream)
        assert stream.request is request
    assert isinstance(packets[-1], ClosePacket)

    async def use(client: AsyncCAPClient) -> list[Any]:
        return [packet async for packet in client.assist(request)]

    assert with_async(run.base_url, use) == packets


def test_chat_keeps_events() -> None:
    event = {"type": "CUSTOM", "n": 1}
    body = [*number(str(uuid4()), [("DELTA", "a"), ("EVENT", event), ("CLOSE", {})])]
    with fixed(b"".join(sse(packet) for packet in body)) as (client, _):
        stream = client.chat("x")
        assert list(stream) == ["a"]
        assert stream.events == [event]


@pytest.mark.proves("R14g", "R14h", "RFC005-1-warning-log", "RFC004-3.1-chat-error")
def test_a_warning_is_logged_and_the_text_goes_on(
    server: FaultServer, caplog: pytest.LogCaptureFixture
) -> None:
    run = server.run("warning_error")
    with CAPClient(run.base_url, KEY) as client:
        assert "".join(client.chat("x")) == run.text
        warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        assert len(warnings) == 1
        assert "a WARNING one" in warnings[0]
        assert f"seq 9 of stream {run.stream_id}" in warnings[0]
        warned = [p for p in client.assist(make_request()) if isinstance(p, ErrorPacket)]
    assert len(warned) == 1


@pytest.mark.proves("RFC004-3.1-chat-error", "RFC004-3.1-assist-errors", "RFC004-5-all-failures")
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("fatal_error", CAPRuntimeError),
        ("bad_json", CAPProtocolError),
        ("accept_and_close", CAPConnectionError),
    ],
)
def test_chat_raises_what_assist_raises(
    server: FaultServer, fault: str, kind: type[CAPError]
) -> None:
    with CAPClient(server.run(fault).base_url, KEY) as client, pytest.raises(kind) as caught:
        list(client.chat("x"))
    with CAPClient(server.run(fault).base_url, KEY) as client, pytest.raises(kind):
        list(client.assist(make_request()))
    assert isinstance(caught.value, CAPError)


def test_a_server_that_is_not_there(unused_url: str) -> None:
    with CAPClient(unused_url, KEY, max_retries=2) as client:
        with pytest.raises(CAPConnectionError, match=f"POST {unused_url}/assist failed") as caught:
            list(client.chat("x"))
        assert caught.value.attempts == 3
        assert (caught.value.method, caught.value.url) == ("POST", f"{unused_url}/assist")
        with pytest.raises(CAPConnectionError, match=f"GET {unused_url}/health") as caught:
            client.health()
        assert (caught.value.method, caught.value.url) == ("GET", f"{unused_url}/health")


def test_a_proxy_that_is_not_there_is_named(
    unused_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = unused_url.removeprefix("http://")
    monkeypatch.setenv("HTTP_PROXY", f"http://me:pa55word@{proxy}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with CAPClient("http://agent.example", KEY, max_retries=0) as client:
        for call in (lambda: client.ask("x"), client.health):
            with pytest.raises(CAPConnectionError, match="through the proxy") as caught:
                call()
            assert caught.value.proxy == unused_url
            assert "pa55word" not in str(caught.value)
        mine = httpx2.Client(trust_env=False, transport=httpx2.MockTransport(refuse))
        with pytest.raises(CAPConnectionError) as caught:
            CAPClient("http://agent.example", KEY, max_retries=0, http_client=mine).ask("x")
        assert caught.value.proxy is None


def refuse(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("refused")


@pytest.fixture
def unused_url() -> str:
    with FaultServer() as gone:
        return gone.origin


@pytest.mark.proves("RFC004-3.2-loss-log", "R12d")
def test_reconnects_are_one_line_each(
    server: FaultServer, caplog: pytest.LogCaptureFixture
) -> None:
    run = server.run("gap_always")
    with CAPClient(run.base_url, KEY) as client:
        list(client.chat("x"))
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(lines) == 2
    for part in ("reconnecting in 0.0", "attempt 1 of at least 3", "seq 8 of stream"):
        assert part in lines[0]
    assert "skips sequence numbers" in lines[1]


@pytest.mark.proves("RFC004-3.2-sleep")
def test_the_async_client_waits_without_blocking_the_loop(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_protocol, "Backoff", lambda **given: Backoff(60, 60, **given))
    run = server.run("rst_mid_event")

    async def use(client: AsyncCAPClient) -> None:
        async def consume() -> None:
            async for _ in client.chat("x"):
                pass

        # The wait of half a minute or more must not hold up this task, which ends it.
        consumer = asyncio.create_task(consume())
        assert await asyncio.to_thread(run.wait_all_closed)
        done, _ = await asyncio.wait([consumer], timeout=0.05)
        assert not done
        consumer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consumer

    with_async(run.base_url, use)


@pytest.mark.proves("RFC004-3.2-sleep")
def test_the_sync_client_waits_between_attempts(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_protocol, "Backoff", lambda **given: Backoff(0.4, 0.4, **given))
    run = server.run("rst_mid_event")
    with CAPClient(run.base_url, KEY) as client:
        assert client.ask("x") == run.text
    assert run.delays[0] >= 0.2  # of which jitter may take half


# Resuming and stopping


@pytest.mark.parametrize("stop", [0, 1, 8, 20, 21])
def test_a_bookmark_continues_a_stream_in_another_client(server: FaultServer, stop: int) -> None:
    run = server.run("correct")
    first: list[int] = []
    with CAPClient(run.base_url, KEY) as client, client.assist(make_request()) as stream:
        while len(first) < stop:
            first.append(next(stream).seq)
        saved = stream.bookmark().to_json()
    bookmark = Bookmark.model_validate_json(saved)
    with CAPClient(run.base_url, KEY) as other, other.resume(bookmark) as resumed:
        rest = [packet.seq for packet in resumed]
        assert first + rest == list(range(1, 22))
        assert resumed.complete

    async def use(client: AsyncCAPClient) -> list[int]:
        return [packet.seq async for packet in client.resume(bookmark)]

    assert first + with_async(run.base_url, use) == list(range(1, 22))
    assert len({sent.headers["x-request-id"] for sent in run.requests}) == 1
    assert len({sent.body for sent in run.requests}) == 1
    assert bookmark.complete is (stop == 21)
    assert len(run.requests) == {0: 2, 21: 1}.get(stop, 3)  # what is complete is not asked for


def test_a_request_and_a_position_continue_a_stream_too(server: FaultServer) -> None:
    run = server.run("correct")
    request = make_request()
    with CAPClient(run.base_url, KEY) as client:
        with client.assist(request) as stream:
            next(stream)
            assert stream.position is not None
            saved = stream.position.to_json()
        position = Position.model_validate_json(saved)
        assert [packet.seq for packet in client.resume(request, position)] == list(range(2, 22))
        bookmark = stream.bookmark()
        assert (bookmark.request, bookmark.position) == (request, position)
        with pytest.raises(TypeError, match="bookmark"):
            client.resume(request)
        with pytest.raises(TypeError, match="contains its position"):
            client.resume(bookmark, position)


def test_a_bookmark_continues_a_chat(server: FaultServer) -> None:
    run = server.run("correct")
    with CAPClient(run.base_url, KEY) as client:
        with client.chat("Count", "my-conversation") as stream:
            begun = [next(stream) for _ in range(5)]
        saved = stream.bookmark().to_json()
    with CAPClient(run.base_url, KEY) as client:
        resumed = client.resume_chat(Bookmark.model_validate_json(saved))
        assert resumed.conversation_id == "my-conversation"
        assert "".join([*begun, *resumed]) == run.text

    async def use(client: AsyncCAPClient) -> str:
        chat = await client.chat("Count", "my-conversation")
        first = await anext(chat)
        await chat.aclose()
        rest = [text async for text in client.resume_chat(chat.bookmark())]
        return "".join([first, *rest])

    assert with_async(run.base_url, use) == run.text


@pytest.mark.proves("R08f")
def test_a_bookmark_keeps_the_error_of_the_stream(server: FaultServer) -> None:
    run = server.run("fatal_error")
    with CAPClient(run.base_url, KEY) as client:
        stream = client.chat("Count")
        with pytest.raises(CAPRuntimeError) as caught:
            list(stream)
        bookmark = Bookmark.model_validate_json(stream.bookmark().to_json())
        assert bookmark.error == caught.value.stream_error
        sent = len(run.requests)
        for resumed in (client.resume(bookmark), client.resume_chat(bookmark)):
            with pytest.raises(CAPRuntimeError) as again:
                list(resumed)
            assert again.value.stream_error == caught.value.stream_error
            assert again.value.position == caught.value.position
            assert str(again.value) == str(caught.value)
            assert (resumed.complete, resumed.bookmark()) == (False, bookmark)

    async def use(client: AsyncCAPClient) -> None:
        async for _ in client.resume_chat(bookmark):
            pass

    with pytest.raises(CAPRuntimeError):
        with_async(run.base_url, use)
    assert len(run.requests) == sent


# Whole answers


@pytest.mark.parametrize("conversation", [None, "mine", UUID(int=7)])
def test_ask_returns_the_whole_answer(server: FaultServer, conversation: str | UUID | None) -> None:
    run = server.run("rst_mid_event")
    with CAPClient(run.base_url, KEY) as client:
        answer = client.ask("Count", conversation)
        assert answer == run.text
        assert isinstance(answer, str)
        again = client.ask("More", answer.conversation_id)
    assert again.conversation_id == answer.conversation_id
    if conversation is not None:
        assert answer.conversation_id == str(conversation)

    async def use(client: AsyncCAPClient) -> Answer:
        return await client.ask("Count", conversation)

    assert with_async(server.run("rst_mid_event").base_url, use) == run.text


def test_an_answer_keeps_its_events_and_survives_pickling() -> None:
    event = {"type": "CUSTOM", "n": 1}
    body = [*number(str(uuid4()), [("DELTA", "a"), ("EVENT", event), ("CLOSE", {})])]
    with fixed(b"".join(sse(packet) for packet in body)) as (client, _):
        answer = pickle.loads(pickle.dumps(client.ask("x", "mine")))
    assert (answer, answer.conversation_id, answer.events) == ("a", "mine", [event])


def test_ask_raises_what_chat_raises(server: FaultServer) -> None:
    run = server.run("fatal_error")
    with CAPClient(run.base_url, KEY) as client, pytest.raises(CAPRuntimeError) as caught:
        client.ask("x")
    assert caught.value.stream_error is not None


# Deadlines


@pytest.mark.parametrize("per_call", [True, False])
@pytest.mark.parametrize(
    ("fault", "strikes"), [("hung_with_heartbeats", {}), ("stall", {"times": 9})]
)
def test_a_deadline_ends_a_hung_answer(
    server: FaultServer, fault: str, strikes: dict[str, Any], per_call: bool
) -> None:
    """Heartbeats keep it alive, or a silence shorter than the read timeout does."""
    run = server.run(fault, **strikes)
    options: dict[str, Any] = {} if per_call else {"deadline": 0.5}
    call: dict[str, Any] = {"deadline": 0.5} if per_call else {}
    began = time.monotonic()
    with CAPClient(run.base_url, KEY, timeout=30, **options) as client:
        stream = client.chat("x", **call)
        with pytest.raises(CAPTimeoutError) as caught:
            list(stream)
    assert "deadline of 0.5 s" in str(caught.value)
    assert caught.value.position is not None
    assert caught.value.position.seq == 8

    async def use(client: AsyncCAPClient) -> None:
        with pytest.raises(CAPTimeoutError):
            async for _ in client.chat("x", **call):
                pass

    with_async(run.base_url, use, timeout=30, **options)
    assert time.monotonic() - began < 20  # neither waited for the read timeout
    assert run.wait_all_closed()


@pytest.mark.parametrize("way", ["sync", "asyncio", "trio"])
@pytest.mark.parametrize(
    ("beginning", "error", "library"),
    [
        (HEAD_WITHOUT_END, CAPTimeoutError, None),
        (ERROR_BODY, CAPRuntimeError, None),
        (ERROR_BODY, CAPRuntimeError, httpx2),  # the head is limited only for our own clients
    ],
    ids=["head", "error body", "error body for a client of the caller"],
)
def test_a_deadline_holds_while_bytes_drip(
    beginning: bytes, error: type[CAPError], library: Any, way: str
) -> None:
    options: dict[str, Any] = {"timeout": 30, "deadline": 0.6}

    async def ask(url: str) -> None:
        async with (
            library.AsyncClient() if library else nullcontext() as http_client,
            AsyncCAPClient(url, KEY, http_client=http_client, **options) as client,
        ):
            await client.ask("x")

    with dripping(beginning) as url:
        began = time.monotonic()
        with pytest.raises(error):
            if way != "sync":
                anyio.run(ask, url, backend=way)
            with (
                library.Client() if library else nullcontext() as http_client,
                CAPClient(url, KEY, http_client=http_client, **options) as client,
            ):
                client.ask("x")
        assert time.monotonic() - began < 1.6


def test_an_answer_within_its_deadline_is_whole(server: FaultServer) -> None:
    run = server.run("rst_mid_event")
    with CAPClient(run.base_url, KEY, deadline=30) as client:
        assert client.ask("x") == run.text


# What a stream says of itself


def test_a_stream_says_whether_it_was_sent_and_how_far_it_was_read(server: FaultServer) -> None:
    run = server.run("correct")
    with CAPClient(run.base_url, KEY) as client:
        chat = client.chat("x", "mine")
        packets = client.assist(make_request())
        for stream in (chat, packets):
            assert "not sent yet" in repr(stream)
            assert not stream.complete
        assert "conversation mine" in repr(chat)
        assert run.requests == []
        next(packets)
        assert f"not complete, read up to seq 1 of stream {run.stream_id}" in repr(packets)
        packets.close()
        assert ": closed, read up to seq 1" in repr(packets)
        assert chat.text == ""
        list(chat)
        assert chat.complete
        assert ": complete, read up to seq 21" in repr(chat)
        assert KEY not in repr(chat) + repr(packets)
        unsent = client.chat("x")
        unsent.close()
        assert ": closed, read up to no packet" in repr(unsent)


def test_a_closed_stream_is_not_mistaken_for_a_whole_one(server: FaultServer) -> None:
    run = server.run("correct")
    with CAPClient(run.base_url, KEY) as client:
        for stream in (client.chat("x"), client.assist(make_request())):
            with stream:
                for _ in stream:
                    break
            assert not stream.complete
            with pytest.raises(CAPConnectionError, match="closed before its end") as caught:
                list(stream)
            assert caught.value.position == stream.position
        whole = client.chat("x")
        list(whole)
        whole.close()
        assert list(whole) == []

    async def use(client: AsyncCAPClient) -> None:
        for stream in (client.chat("x"), client.assist(make_request())):
            await anext(stream)
            await stream.aclose()
            with pytest.raises(CAPConnectionError, match="closed before its end"):
                await anext(stream)

    with_async(run.base_url, use)


def test_a_failed_stream_is_not_mistaken_for_a_whole_one(server: FaultServer) -> None:
    run = server.run("fatal_error")
    with CAPClient(run.base_url, KEY) as client:
        stream = client.chat("x")
        with pytest.raises(CAPRuntimeError):
            list(stream)
        with pytest.raises(CAPConnectionError, match="failed before its end"):
            list(stream)


# Reconnecting for some time


@pytest.mark.proves("R35a", "R35b", "R35c")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (3, 30.0)),
        ({"max_retries": 3}, (3, 0.0)),
        ({"max_retries": 5}, (5, 0.0)),
        ({"reconnect_for": 0}, (3, 0)),
        ({"reconnect_for": 90.0}, (3, 90.0)),
        ({"max_retries": 1, "reconnect_for": 5}, (1, 5)),
    ],
)
@pytest.mark.parametrize("face", [CAPClient, AsyncCAPClient])
def test_who_passes_max_retries_gets_exactly_that_many(
    face: Any, options: dict[str, Any], expected: tuple[int, float]
) -> None:
    endpoint = face("https://agent.example", KEY, **options)._endpoint
    assert (endpoint.max_retries, endpoint.reconnect_for) == expected


@pytest.mark.proves("R35a", "R35b", "R35c")
@pytest.mark.usefixtures("coreason_clock")
def test_a_stream_that_has_begun_outlives_max_retries(server: FaultServer) -> None:
    # The waits take no time, so a busy machine makes as many attempts as any other.
    run = server.run("transient_always")
    patient = CAPClient(run.base_url, KEY, reconnect_for=1)
    with patient as client, pytest.raises(CAPConnectionError) as caught:
        client.ask("x")
    assert caught.value.attempts > 4
    run = server.run("transient_always")
    exact = CAPClient(run.base_url, KEY, max_retries=3)
    with exact as client, pytest.raises(CAPConnectionError) as caught:
        client.ask("x")
    assert caught.value.attempts == 4


@pytest.mark.proves("RES1-stop-wire")
@pytest.mark.parametrize("how", ["close", "break", "with"])
def test_stopping_early_gives_the_connection_back(server: FaultServer, how: str) -> None:
    run = server.run("stall")
    with CAPClient(run.base_url, KEY) as client:
        stream = client.chat("x")
        if how == "with":
            with stream:
                next(stream)
        else:
            next(stream)
            if how == "close":
                stream.close()
                stream.close()
        del stream
        assert run.wait_all_closed()


@pytest.mark.proves("RES1-stop-wire")
@pytest.mark.parametrize("how", ["aclose", "break", "with"])
def test_stopping_early_gives_the_connection_back_async(server: FaultServer, how: str) -> None:
    run = server.run("stall")

    async def use(client: AsyncCAPClient) -> None:
        stream = client.chat("x")
        if how == "with":
            async with stream:
                await anext(stream)
        elif how == "aclose":
            await anext(stream)
            await stream.aclose()
            await stream.aclose()
        else:
            async for _ in stream:
                break
            del stream
        assert await asyncio.to_thread(run.wait_all_closed)

    with_async(run.base_url, use)


@pytest.mark.proves("RES1-raise-wire")
def test_a_consumer_that_raises_leaks_nothing(server: FaultServer) -> None:
    run = server.run("stall")
    with CAPClient(run.base_url, KEY) as client:

        def consume() -> None:
            for _ in client.chat("x"):
                raise LookupError

        with pytest.raises(LookupError):
            consume()
        assert run.wait_all_closed()
    run = server.run("stall")  # a second attempt on the first one would be answered in full

    async def use(client: AsyncCAPClient) -> None:
        with pytest.raises(LookupError):
            async with client.chat("x") as stream:
                async for _ in stream:
                    raise LookupError
        assert await asyncio.to_thread(run.wait_all_closed)

    with_async(run.base_url, use)


@pytest.mark.proves("RES1-cancel-wire")
@pytest.mark.parametrize("fault", ["stall", "accept_and_close"])
def test_a_cancelled_consumer_leaks_nothing(
    server: FaultServer, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_protocol, "Backoff", lambda **given: Backoff(30, 30, **given))
    run = server.run(fault)

    async def use(client: AsyncCAPClient) -> None:
        async def consume() -> None:
            async for _ in client.chat("x"):
                pass

        task = asyncio.create_task(consume())
        assert await asyncio.to_thread(run.wait_requests, 1)
        if fault == "stall":
            assert await asyncio.to_thread(run.wait_hanging)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(run.wait_all_closed)

    with_async(run.base_url, use)


@pytest.mark.parametrize("waiting", ["for bytes", "for the next attempt"])
def test_closing_the_client_ends_a_stream_in_another_thread(
    server: FaultServer, waiting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_protocol, "Backoff", lambda **given: Backoff(30, 30, **given))
    run = server.run("stall" if waiting == "for bytes" else "accept_and_close")
    client = CAPClient(run.base_url, KEY)
    caught: list[CAPError] = []

    def consume() -> None:
        try:
            list(client.chat("x"))
        except CAPError as error:
            caught.append(error)

    thread = threading.Thread(target=consume)
    thread.start()
    assert run.wait_hanging() if waiting == "for bytes" else run.wait_requests(1)
    client.close()
    thread.join(5)
    assert not thread.is_alive()
    assert isinstance(caught[0], CAPConnectionError)
    with pytest.raises(CAPConnectionError, match="closed"):
        list(client.chat("x"))


def test_one_client_serves_many_threads(server: FaultServer) -> None:
    run = server.run("rst_mid_event", times=10**6, every=5)
    texts: list[str] = []
    with CAPClient(run.base_url, KEY, max_retries=10) as client:
        threads = [
            threading.Thread(target=lambda: texts.append("".join(client.chat("x"))))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert texts == [run.text] * 8


def test_an_async_client_survives_a_second_event_loop(server: FaultServer) -> None:
    run = server.run("correct")
    client = AsyncCAPClient(run.base_url, KEY)

    async def ask() -> str:
        return "".join([text async for text in client.chat("x")])

    async def last() -> str:
        async with client:
            return await ask()

    assert asyncio.run(ask()) == run.text
    assert asyncio.run(last()) == run.text


@contextmanager
def one_segment(answers: int) -> Iterator[tuple[str, list[int]]]:
    """A server that sends each response in one piece, on as few connections as it is given."""
    listener = socket.create_server(("127.0.0.1", 0))
    requests: list[int] = []  # how many came on each connection
    body = b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in WHOLE_EVENTS)
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )

    def serve() -> None:
        while sum(requests) < answers:
            connection, _ = listener.accept()
            requests.append(0)
            with connection, connection.makefile("rb") as reader:
                while sum(requests) < answers and (line := reader.readline()):
                    length = 0
                    while line.strip():
                        name, _, value = line.partition(b":")
                        length = int(value) if name.lower() == b"content-length" else length
                        line = reader.readline()
                    reader.read(length)
                    requests[-1] += 1
                    connection.sendall(head + body + b"0\r\n\r\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
    finally:
        thread.join(10)
        listener.close()


def test_a_connection_whose_response_is_over_is_used_again() -> None:
    with one_segment(3) as (url, requests), CAPClient(url, KEY) as client:
        assert ["".join(client.chat("x")) for _ in range(3)] == ["hi"] * 3
    assert requests == [3]


def test_a_connection_whose_response_is_over_is_used_again_async() -> None:
    async def use(client: AsyncCAPClient) -> list[str]:
        return ["".join([text async for text in client.chat("x")]) for _ in range(3)]

    with one_segment(3) as (url, requests):
        assert with_async(url, use) == ["hi"] * 3
    assert requests == [3]


# Clients of the caller


@contextmanager
def fixed(body: bytes, library: Any = httpx2) -> Iterator[tuple[CAPClient, list[Any]]]:
    """A client on a mock transport of the library that always gives this stream."""
    seen: list[Any] = []

    def answer(request: Any) -> Any:
        seen.append(request)
        return library.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    http_client = library.Client(transport=library.MockTransport(answer))
    with CAPClient("https://agent.example/", KEY, http_client=http_client) as client:
        yield client, seen
    assert not http_client.is_closed
    http_client.close()


WHOLE_EVENTS = [sse(p) for p in number(str(uuid4()), [("DELTA", "hi"), ("CLOSE", {})])]
WHOLE = b"".join(WHOLE_EVENTS)


@pytest.mark.parametrize("library", [httpx2, httpx])
def test_a_client_of_the_caller_is_used_and_left_open(library: Any) -> None:
    with fixed(WHOLE, library) as (client, seen):
        assert list(client.chat("x")) == ["hi"]
    assert str(seen[0].url) == "https://agent.example/assist"


@pytest.mark.parametrize("library", [httpx2, httpx])
def test_an_async_client_of_the_caller_heals_too(server: FaultServer, library: Any) -> None:
    run = server.run("rst_mid_event")
    hooked: list[str] = []

    async def hook(request: Any) -> None:
        hooked.append(request.method)

    async def main() -> str:
        async with library.AsyncClient(event_hooks={"request": [hook]}) as http_client:
            client = AsyncCAPClient(run.base_url, KEY, http_client=http_client)
            text = "".join([text async for text in client.chat("x")])
            await client.aclose()
            assert not http_client.is_closed
            return text

    assert asyncio.run(main()) == run.text
    assert hooked == ["POST", "POST"]


@pytest.mark.parametrize("library", [httpx2, httpx])
def test_a_timeout_object_of_either_library_works(server: FaultServer, library: Any) -> None:
    run = server.run("stall")
    timeout = library.Timeout(5, read=0.2)
    with CAPClient(run.base_url, KEY, timeout=timeout) as client:
        assert "".join(client.chat("x")) == run.text


def test_a_timeout_may_be_given_for_one_call(server: FaultServer) -> None:
    run = server.run("stall")
    with CAPClient(run.base_url, KEY) as client:
        assert "".join(client.chat("x", timeout=0.2)) == run.text


# Unary calls


def unary(answer: Callable[[httpx2.Request], httpx2.Response], **options: Any) -> CAPClient:
    http_client = httpx2.Client(transport=httpx2.MockTransport(answer))
    return CAPClient("https://agent.example", KEY, http_client=http_client, **options)


HEALTH = {"status": "degraded", "agent_id": "a", "version": "1", "uptime_seconds": 1.5}


@pytest.mark.parametrize("code", [200, 503])
def test_health_reports_what_the_agent_says(code: int) -> None:
    client = unary(lambda request: httpx2.Response(code, json=HEALTH))
    assert client.health().status == "degraded"


def test_health_that_is_no_report() -> None:
    with pytest.raises(CAPProtocolError, match="health"):
        unary(lambda request: httpx2.Response(200, text="fine")).health()
    with pytest.raises(CAPRuntimeError) as caught:
        unary(lambda r: httpx2.Response(401, json={"detail": f"no {KEY}"})).health()
    assert caught.value.status_code == 401
    assert KEY not in str(caught.value)


def test_cancel_says_which_stream() -> None:
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(204)

    stream_id = uuid4()
    unary(answer).cancel(stream_id)
    unary(answer).cancel("../health")
    assert [(r.method, r.url.raw_path.decode()) for r in seen] == [
        ("DELETE", f"/streams/{stream_id}"),
        ("DELETE", "/streams/..%2Fhealth"),
    ]


def test_cancel_is_said_again_when_the_answer_was_lost() -> None:
    failures = iter([httpx2.ReadError("lost"), httpx2.ConnectError("gone")])

    def answer(request: httpx2.Request) -> httpx2.Response:
        for failure in failures:
            raise failure
        return httpx2.Response(204)

    unary(answer).cancel(uuid4())
    with pytest.raises(CAPRuntimeError) as caught:
        unary(lambda request: httpx2.Response(404)).cancel(uuid4())
    assert caught.value.status_code == 404


def test_unary_calls_follow_redirects_but_keep_the_key_at_home() -> None:
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        if request.url.host == "agent.example":
            return httpx2.Response(307, headers={"location": "https://other.example/health"})
        return httpx2.Response(200, json=HEALTH)

    assert unary(answer).health().agent_id == "a"
    assert ["authorization" in request.headers for request in seen] == [True, False]
    with pytest.raises(CAPRuntimeError):
        unary(lambda request: httpx2.Response(307, headers={"location": "/x"})).health()


def test_unary_calls_of_the_async_client() -> None:
    async def main() -> None:
        transport = httpx2.MockTransport(
            lambda request: httpx2.Response(200 if request.method == "GET" else 204, json=HEALTH)
        )
        async with httpx2.AsyncClient(transport=transport) as http_client:
            client = AsyncCAPClient("https://agent.example", KEY, http_client=http_client)
            assert (await client.health()).status == "degraded"
            await client.cancel(uuid4())

    asyncio.run(main())


# Arguments


@pytest.mark.parametrize("face", [CAPClient, AsyncCAPClient])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"base_url": "agent.example"}, "http://"),
        ({"base_url": ""}, "URL"),
        ({"base_url": "ftp://agent.example"}, "http://"),
        ({"base_url": "https://"}, "http://"),
        ({"base_url": "https://me:pw@agent.example"}, "password"),
        ({"base_url": "https://agent.example?x=1"}, "query"),
        ({"base_url": "https://agent.example/\r\nX: y"}, "spaces"),
        ({"base_url": "https://agent.example:port"}, "[Pp]ort"),
        ({"api_key": ""}, "empty"),
        ({"api_key": "a\nb"}, "line ends"),
        ({"timeout": -1}, "greater than 0"),
        ({"timeout": 0}, "greater than 0"),
        ({"timeout": float("nan")}, "greater than 0"),
        ({"max_retries": -1}, "0 or more"),
        ({"max_retry_delay": -1}, "0 or more"),
        ({"max_event_bytes": 0}, "at least 1"),
        ({"user_id": ""}, "user_id"),
        ({"reconnect_for": -1}, "reconnect_for"),
        ({"deadline": 0}, "deadline"),
        ({"deadline": float("nan")}, "deadline"),
        ({"headers": {"X-A": "b\r\nc"}}, "X-A"),
        ({"headers": {"X A": "b"}}, "header name"),
    ],
)
def test_bad_arguments_are_refused_with_a_sentence(
    face: Any, arguments: dict[str, Any], words: str
) -> None:
    good = {"base_url": "https://agent.example", "api_key": KEY}
    with pytest.raises(ValueError, match=words) as caught:
        face(**good | arguments)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        {"api_key": 5},
        {"max_retries": "3"},
        {"max_retries": True},
        {"timeout": "60"},
        {"base_url": None},
        {"base_url": b"https://agent.example"},
        {"http_client": object()},
    ],
)
@pytest.mark.parametrize("face", [CAPClient, AsyncCAPClient])
def test_arguments_of_the_wrong_kind_are_type_errors(face: Any, arguments: dict[str, Any]) -> None:
    good: dict[str, Any] = {"base_url": "https://agent.example", "api_key": KEY}
    [name] = arguments
    with pytest.raises(TypeError, match=name):
        face(**good | arguments)


def test_bad_calls_are_refused_before_anything_is_sent() -> None:
    with fixed(WHOLE) as (client, seen):
        with pytest.raises(TypeError, match="string"):
            client.chat(5)  # type: ignore[call-overload]
        with pytest.raises(ValueError, match="conversation_id"):
            client.chat("x", "")
        with pytest.raises(TypeError, match="ServiceRequest"):
            client.assist({"request_id": 1})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="X-A"):
            client.chat("x", headers={"X-A": "\n"})
        with pytest.raises(ValueError, match="greater than 0"):
            client.chat("x", timeout=-1)
        with pytest.raises(ValueError, match="deadline"):
            client.chat("x", deadline=0)
        assert seen == []


@pytest.mark.proves("R03a", "R03b", "RFC004-3.1-constructor", "RFC004-3.1-base-url")
@pytest.mark.parametrize("face", [CAPClient, AsyncCAPClient])
def test_attributes_are_readable_and_the_key_is_not_shown(face: Any) -> None:
    client = face("https://agent.example/api//", KEY, 30.0, 5)
    assert client.base_url == "https://agent.example/api"
    assert (client.api_key, client.max_retries) == (KEY, 5)
    assert KEY not in repr(client) + repr(client._endpoint) + repr(vars(client._endpoint))
    assert repr(client) == f"{face.__name__}(base_url='https://agent.example/api')"


@pytest.mark.parametrize(
    ("given", "base"),
    [
        ("https://agent.example/assist", "https://agent.example"),
        ("https://agent.example/assist/", "https://agent.example"),
        ("https://agent.example/api/assist//", "https://agent.example/api"),
        ("https://agent.example/assist/assist", "https://agent.example/assist"),
        ("https://agent.example/assistant", "https://agent.example/assistant"),
    ],
)
def test_a_base_url_may_end_with_assist(given: str, base: str) -> None:
    assert CAPClient(given, KEY).base_url == base
    assert AsyncCAPClient(given, KEY).base_url == base


@pytest.mark.proves("RFC004-3.1-constructor")
@pytest.mark.parametrize("face", [CAPClient, AsyncCAPClient])
def test_the_constructor_has_the_documented_parameters_and_defaults(face: Any) -> None:
    parameters = list(inspect.signature(face).parameters.values())
    assert [p.name for p in parameters[:4]] == ["base_url", "api_key", "timeout", "max_retries"]
    assert all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters[:4])
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters[4:])
    assert (parameters[2].default, parameters[3].default) == (60.0, 3)
    assert repr(parameters[3].default) == "3"


@pytest.mark.proves("RFC004-4-exports", "RFC004-3.3-mirror")
def test_names_are_exported() -> None:
    import coreason_client
    from coreason_client.cap import aclient, client
    from coreason_manifest.definitions import service

    assert coreason_client.CAPClient is client.CAPClient
    assert coreason_client.AsyncCAPClient is aclient.AsyncCAPClient
    assert coreason_client.ServiceRequest is service.ServiceRequest


@pytest.mark.proves("RFC004-3.1-chat-stream")
def test_a_chat_stream_can_be_made_without_a_client() -> None:
    stream = ChatStream(iter(["a", "b"]), "conv")
    assert not stream.complete
    assert list(stream) == ["a", "b"]
    assert (stream.text, stream.conversation_id, stream.events) == ("ab", "conv", [])
    assert (stream.position, stream.stream_id, stream.request, stream.reconnects) == (
        None,
        None,
        None,
        0,
    )
    assert stream.complete
    assert "made without a client" in repr(stream)
    with pytest.raises(CAPConnectionError, match="made without a client"):
        stream.bookmark()
    stream.close()


@pytest.mark.proves("RES1-arrived-first-wire")
@pytest.mark.parametrize("fault_after", [8, 21])
def test_what_had_arrived_is_delivered_before_the_loss(
    server: FaultServer, fault_after: int
) -> None:
    run: Run = server.run("burst_then_rst", fault_after=fault_after)
    seen: list[int] = []
    with CAPClient(run.base_url, KEY) as client:
        for packet in client.assist(make_request()):
            if not seen:
                assert run.wait_all_closed()  # the reset is there before we go on
            seen.append(packet.seq)
            if packet.seq == min(fault_after, 20):
                assert len(run.requests) == 1
            if packet.op is StreamOpCode.CLOSE:
                break
    assert seen == list(range(1, 22))


@pytest.mark.proves("RES1-stop")
@pytest.mark.parametrize("fault", ["close_then_keeps_open", "correct", "fin_mid_event_chunked"])
def test_nothing_is_left_open_on_trio(coreason_faults: FaultServer, fault: str) -> None:
    """Trio warns of each generator that is collected before it was closed."""

    async def main() -> None:
        async with AsyncCAPClient(run.base_url, "key") as client:
            assert await client.ask("Hi") == run.text
            async with client.chat("Hi") as stream:
                async for _ in stream:
                    break

    for _ in range(10):
        run = coreason_faults.run(fault)
        with virtual_clock():
            trio.run(main)
        gc.collect()


# Streams that are closed while they are read


@pytest.mark.parametrize("kind", ["chat", "assist"])
def test_a_stream_may_be_closed_while_another_thread_reads_it(
    server: FaultServer, kind: str
) -> None:
    run = server.run("hung_with_heartbeats")
    with CAPClient(run.base_url, KEY) as client:
        stream: Any = client.chat("x") if kind == "chat" else client.assist(make_request())
        begun = threading.Event()
        raised: list[BaseException] = []

        def read() -> None:
            try:
                for _ in stream:
                    begun.set()
            except CAPConnectionError as error:
                raised.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        assert begun.wait(10)
        stream.close()
        stream.close()
        reader.join(10)
        assert not reader.is_alive()
    assert "closed before its end" in str(raised[0])
    assert run.wait_all_closed()


def test_a_stream_may_be_closed_while_another_task_reads_it(server: FaultServer) -> None:
    run = server.run("hung_with_heartbeats")

    async def use(client: AsyncCAPClient) -> None:
        stream = client.assist(make_request())
        await anext(stream)
        reader = asyncio.create_task(_read_on(stream))
        await asyncio.sleep(0)
        await stream.aclose()
        with pytest.raises(CAPConnectionError, match="closed before its end"):
            await asyncio.wait_for(reader, 10)

    with_async(run.base_url, use)
    assert run.wait_all_closed()


async def _read_on(stream: Any) -> None:
    async for _ in stream:
        pass
