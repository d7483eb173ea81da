"""The senders: three ways (sync, asyncio, trio) over our own clients and over a caller's."""

import ast
import asyncio
import contextlib
import gc
import math
import threading
import tomllib
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import anyio.to_thread
import httpcore2
import httpx2
import pytest

from coreason_client._http import _response_async, _response_sync
from coreason_client._http._async import AsyncResponse, AsyncSender
from coreason_client._http._sync import SyncResponse, SyncSender
from coreason_client._http._types import FailureKind, Request, Timeouts, TransportFailure
from tests.faults import FaultServer, Run
from tests.http.support import (
    HOST,
    LEFT_OVER_GENERATOR,
    LIBRARIES,
    LIMIT,
    SILENCE,
    WAYS,
    Authority,
    Outcome,
    Relay,
    body_of,
    client_of,
    fetch,
    post,
    read_all,
    read_all_async,
    run_async,
    thread,
)

ROOT = Path(__file__).parents[2]
ASYNC_WAYS = WAYS[1:]

each_way = pytest.mark.parametrize("way", WAYS)
each_async_way = pytest.mark.parametrize("way", ASYNC_WAYS)
each_library = pytest.mark.parametrize("library", LIBRARIES, ids=lambda item: item.__name__)
stops_early = pytest.mark.filterwarnings(LEFT_OVER_GENERATOR)
ours_and_theirs = pytest.mark.parametrize(
    "library", [None, *LIBRARIES], ids=["ours", "httpx2", "httpx"]
)


def made(library: ModuleType | None, way: str, **options: Any) -> Callable[[], Any]:
    """Return what makes a caller's client, or nothing when the sender is to make its own."""
    return lambda: library and client_of(library, way, **options)


def body_read(
    way: str, request: Request, limit: int, make: Callable[[], Any] = lambda: None
) -> bytes:
    """Open, read a bounded body and close."""
    client = make()
    if way == "sync":
        sender = SyncSender(client)
        response = sender.open(request)
        body = response.read(limit)
        response.close()
        sender.close()
        if client is not None:
            client.close()
        return body

    async def main() -> bytes:
        sender = AsyncSender(client)
        response = await sender.open(request)
        body = await response.read(limit)
        await response.aclose()
        await sender.aclose()
        if client is not None:
            await client.aclose()
        return body

    return run_async(way, main())


class Pieces(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body in pieces, with an error behind them or in closing."""

    def __init__(
        self, *pieces: bytes, error: Exception | None = None, closing: Exception | None = None
    ) -> None:
        self.taken = 0
        self._pieces = pieces
        self._error = error
        self._closing = closing

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self.taken += 1
            yield piece
        if self._error is not None:
            raise self._error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece

    def close(self) -> None:
        if self._closing is not None:
            raise self._closing

    async def aclose(self) -> None:
        self.close()


def mocked(way: str, stream: Pieces, **headers: str) -> Any:
    """Make a client whose every response has this body."""
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, stream=stream))
    return client_of(httpx2, way, transport=transport)


# Clients of the caller's.


@pytest.mark.proves("R03d", "R03e")
@each_way
@each_library
def test_a_callers_client_sends_our_request(way: str, library: ModuleType) -> None:
    seen: list[Any] = []

    def answer(request: Any) -> Any:
        seen.append(request)
        headers = [("X-A", "1"), ("x-a", "2"), ("Content-Type", "text/plain; charset=x")]
        return library.Response(203, headers=headers, content=b"hello")

    client = client_of(
        library, way, transport=library.MockTransport(answer), headers={"X-Theirs": "yes"}
    )
    limits = Timeouts(connect=1.0, read=2.0, write=3.0, pool=4.0)
    sent = Request("PUT", "http://test/a?b=c", {"X-Ours": "yes"}, b"content", limits)
    assert fetch(way, sent, lambda: client) == Outcome(203, b"hello")
    [request] = seen
    assert isinstance(request, library.Request)
    assert (request.method, str(request.url)) == ("PUT", "http://test/a?b=c")
    assert (request.headers["X-Ours"], request.headers["X-Theirs"]) == ("yes", "yes")
    assert request.content == b"content"
    assert request.extensions["timeout"] == {"connect": 1.0, "read": 2.0, "write": 3.0, "pool": 4.0}


@pytest.mark.proves("R03d", "R03e")
@each_way
@each_library
def test_a_callers_client_over_a_real_connection(
    server: FaultServer, way: str, library: ModuleType
) -> None:
    run = server.run("correct")
    assert fetch(way, post(run.url), made(library, way)) == Outcome(200, body_of(run))
    assert [request.body for request in run.requests] == [b'{"a":1}']
    assert run.wait_all_closed()


@pytest.mark.proves("R03f", "R06d", "RES1-rst", "RES1-fin-chunked")
@each_way
@each_library
@pytest.mark.parametrize("fault", ["rst_mid_event", "fin_mid_event_chunked", "refuse_first"])
def test_a_callers_client_that_loses_its_connection(
    server: FaultServer, way: str, library: ModuleType, fault: str
) -> None:
    run = server.run(fault)
    outcome = fetch(way, post(run.url), made(library, way))
    assert outcome.failure is FailureKind.BROKEN
    assert isinstance(outcome.cause, library.TransportError)
    assert outcome.body.startswith(b"" if outcome.status is None else body_of(run, 8))


@each_way
@each_library
def test_without_timeouts_of_ours_a_callers_client_keeps_its_own(
    way: str, library: ModuleType
) -> None:
    seen: list[Any] = []

    def answer(request: Any) -> Any:
        seen.append(request.extensions["timeout"])
        return library.Response(200)

    transport = library.MockTransport(answer)
    fetch(
        way,
        Request("GET", "http://test/", {}),
        made(library, way, transport=transport, timeout=library.Timeout(7.0, read=8.0)),
    )
    assert seen == [{"connect": 7.0, "read": 8.0, "write": 7.0, "pool": 7.0}]


@pytest.mark.proves("R03d", "R03e")
@each_way
@each_library
def test_a_callers_client_stays_open(server: FaultServer, way: str, library: ModuleType) -> None:
    run = server.run("correct")
    client = client_of(library, way)
    if way == "sync":
        sender = SyncSender(client)
        read_all(sender, post(run.url))
        sender.close()
        sender.close()
        assert not client.is_closed
        assert client.post(run.url).status_code == 200
        client.close()
    else:

        async def main() -> None:
            sender = AsyncSender(client)
            await read_all_async(sender, post(run.url))
            await sender.aclose()
            await sender.aclose()
            assert not client.is_closed
            assert (await client.post(run.url)).status_code == 200
            await client.aclose()

        run_async(way, main())
    assert run.wait_all_closed()


@each_way
@each_library
def test_a_callers_client_that_follows_redirects_does_not_for_us(
    server: FaultServer, way: str, library: ModuleType
) -> None:
    run = server.run("redirect", cross_origin=True)
    outcome = fetch(way, post(run.url), made(library, way, follow_redirects=True))
    assert outcome.status == 307
    assert len(run.requests) == 1


@each_way
def test_a_programming_error_of_the_callers_passes(way: str) -> None:
    def answer(_: Any) -> httpx2.Response:
        raise ZeroDivisionError

    client = client_of(httpx2, way, transport=httpx2.MockTransport(answer))
    with pytest.raises(ZeroDivisionError):
        fetch(way, post("http://test/"), lambda: client)


# Requests and responses.


@each_way
@ours_and_theirs
@pytest.mark.parametrize("bare", [False, True])
def test_header_values_outside_ascii_are_sent_as_utf8(
    server: FaultServer, way: str, library: ModuleType | None, bare: bool
) -> None:
    run = server.run("correct")
    request = Request("POST", run.url, {"Last-Event-ID": "grün/日本/🙂"}, b"", None, bare)
    with contextlib.suppress(TransportFailure):
        fetch(way, request, made(library, way))
    [received] = run.requests
    sent = dict(received.raw_headers)
    value = next(sent[name] for name in sent if name.lower() == "last-event-id")
    assert value.encode("latin-1").decode() == "grün/日本/🙂"


@each_way
@ours_and_theirs
def test_gzip(server: FaultServer, way: str, library: ModuleType | None) -> None:
    run = server.run("gzip")
    assert fetch(way, post(run.url), made(library, way)) == Outcome(200, body_of(run))


@pytest.mark.proves("RES1-arrived-first")
@each_way
def test_gzip_that_breaks(server: FaultServer, way: str) -> None:
    run = server.run("gzip", cut=True)
    outcome = fetch(way, post(run.url))
    assert outcome == Outcome(200, body_of(run, 8), FailureKind.BROKEN)


@each_way
def test_gzip_that_is_none(way: str) -> None:
    stream = Pieces(b"this is not gzip")
    client = mocked(way, stream, **{"Content-Encoding": "gzip"})
    outcome = fetch(way, post("http://test/"), lambda: client)
    assert outcome == Outcome(200, b"", FailureKind.ENCODING)
    assert isinstance(outcome.cause, httpx2.DecodingError)


@each_way
@pytest.mark.parametrize("encoding", ["identity", "Identity ", ""])
def test_a_body_that_is_not_encoded_comes_as_it_arrived(way: str, encoding: str) -> None:
    stream = Pieces(b"one", b"two", b"three")
    client = mocked(way, stream, **{"Content-Encoding": encoding})
    outcome = fetch(way, post("http://test/"), lambda: client)
    assert outcome == Outcome(200, b"onetwothree")
    assert outcome.pieces == 3


@each_way
def test_the_head_is_there_before_the_body(server: FaultServer, way: str) -> None:
    run = server.run("stall", fault_after=0)

    def check(response: SyncResponse | AsyncResponse) -> None:
        assert response.head.status == 200
        assert response.head.content_type == "text/event-stream"
        assert response.head.headers["CACHE-CONTROL"] == "no-cache"

    if way == "sync":
        sender = SyncSender()
        response = sender.open(post(run.url))
        check(response)
        response.close()
        sender.close()
    else:

        async def main() -> None:
            sender = AsyncSender()
            response = await sender.open(post(run.url))
            check(response)
            await response.aclose()
            await sender.aclose()

        run_async(way, main())
    assert run.wait_all_closed()


@pytest.mark.proves("RFC004-3.1-timeout-float", "RES1-stall")
@ours_and_theirs
def test_a_number_as_timeout_ends_a_silence(
    server: FaultServer, library: ModuleType | None
) -> None:
    runs = [server.run("stall") for _ in WAYS]

    def outcome(way: str, run: Run) -> Outcome:
        return fetch(way, post(run.url, timeout=SILENCE), made(library, way))

    with ThreadPoolExecutor(len(WAYS)) as threads:
        outcomes = list(threads.map(outcome, WAYS, runs))
    assert outcomes == [Outcome(200, body_of(run, 8), FailureKind.TIMEOUT) for run in runs]


@each_way
@pytest.mark.parametrize("seconds", [math.inf, 1e12])
def test_an_endless_timeout_is_refused_or_works(
    server: FaultServer, way: str, seconds: float
) -> None:
    run = server.run("correct")
    try:
        request = post(run.url, timeout=seconds)
    except ValueError:
        return
    assert fetch(way, request) == Outcome(200, body_of(run))


# What arrived before a break.


@pytest.mark.proves("RES1-arrived-first")
@each_way
@ours_and_theirs
@pytest.mark.parametrize("read_size", [500, 65_536])
@pytest.mark.parametrize("how", ["rst", "fin"])
def test_what_arrived_before_a_break_is_handed_out_first(
    server: FaultServer,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    library: ModuleType | None,
    read_size: int,
    how: str,
) -> None:
    if library is not None and library.__name__ == "httpx":
        monkeypatch.setattr("httpcore.HTTP11Connection.READ_NUM_BYTES", read_size)
        monkeypatch.setattr("httpcore.AsyncHTTP11Connection.READ_NUM_BYTES", read_size)
    monkeypatch.setattr(httpcore2.HTTP11Connection, "READ_NUM_BYTES", read_size)
    monkeypatch.setattr(httpcore2.AsyncHTTP11Connection, "READ_NUM_BYTES", read_size)
    run = server.run("burst_then_rst", packets=80, fault_after=80, how=how)
    client = made(library, way)()
    if way == "sync":
        sender = SyncSender(client)
        response = sender.open(post(run.url))
        assert run.wait_bytes_sent(len(body_of(run, 80)))
        assert how == "fin" or run.wait_all_closed()
        outcome = rest_of(response)
        sender.close()
        if client is not None:
            client.close()
    else:

        async def main() -> Outcome:
            sender = AsyncSender(client)
            response = await sender.open(post(run.url))
            assert await anyio.to_thread.run_sync(run.wait_bytes_sent, len(body_of(run, 80)))
            assert how == "fin" or await anyio.to_thread.run_sync(run.wait_all_closed)
            outcome = await rest_of_async(response)
            await sender.aclose()
            if client is not None:
                await client.aclose()
            return outcome

        outcome = run_async(way, main())
    assert outcome == Outcome(200, body_of(run, 80), FailureKind.BROKEN)
    assert run.wait_all_closed()


def rest_of(response: SyncResponse) -> Outcome:
    body = b""
    try:
        for piece in response.chunks():
            body += piece
    except TransportFailure as failure:
        return Outcome(response.head.status, body, failure.kind)
    finally:
        response.close()
    return Outcome(response.head.status, body)


async def rest_of_async(response: AsyncResponse) -> Outcome:
    body = b""
    try:
        async for piece in response.chunks():
            body += piece
    except TransportFailure as failure:
        return Outcome(response.head.status, body, failure.kind)
    finally:
        await response.aclose()
    return Outcome(response.head.status, body)


@pytest.mark.proves("RES1-arrived-first", "R03f")
@each_way
@each_library
def test_pieces_before_an_error_of_a_callers_transport(way: str, library: ModuleType) -> None:
    stream = Pieces(b"one", b"two", error=library.ReadError("gone"))
    if library is httpx2:
        client = mocked(way, stream)
    else:

        class Older(Pieces, library.SyncByteStream, library.AsyncByteStream):  # type: ignore[misc,name-defined]
            pass

        body = Older(b"one", b"two", error=library.ReadError("gone"))
        transport = library.MockTransport(lambda _: library.Response(200, stream=body))
        client = client_of(library, way, transport=transport)
    outcome = fetch(way, post("http://test/"), lambda: client)
    assert outcome == Outcome(200, b"onetwo", FailureKind.BROKEN)
    assert isinstance(outcome.cause, library.ReadError)


@each_way
def test_a_body_that_nobody_reads_waits_in_the_server(server: FaultServer, way: str) -> None:
    size = 32 * 1024 * 1024
    run = server.run("huge_event", size=size)
    more_than_the_system_buffers = 24 * 1024 * 1024
    if way == "sync":
        sender = SyncSender()
        response = sender.open(post(run.url))
        assert not run.wait_bytes_sent(more_than_the_system_buffers, SILENCE)
        received = sum(len(piece) for piece in response.chunks())
        response.close()
        sender.close()
    else:

        async def main() -> int:
            sender = AsyncSender()
            response = await sender.open(post(run.url))
            assert not await anyio.to_thread.run_sync(
                run.wait_bytes_sent, more_than_the_system_buffers, SILENCE
            )
            received = 0
            async for piece in response.chunks():
                received += len(piece)
            await response.aclose()
            await sender.aclose()
            return received

        received = run_async(way, main())
    assert received > size


# Bounded bodies.


@pytest.mark.proves("R08e")
@each_way
@ours_and_theirs
@pytest.mark.parametrize("limit", [1, 1000, 65_536, 10**6])
@stops_early
def test_an_error_body_is_read_up_to_the_limit(
    server: FaultServer, way: str, library: ModuleType | None, limit: int
) -> None:
    body = bytes(range(256)) * 1000
    run = server.run("status_first", status=500, body=body)
    assert body_read(way, post(run.url), limit, made(library, way)) == body[:limit]
    assert run.wait_all_closed()


@pytest.mark.proves("R08e", "RES1-stop")
@each_way
@stops_early
def test_no_more_is_read_than_the_limit(server: FaultServer, way: str) -> None:
    run = server.run("huge_event", size=64 * 1024 * 1024)
    assert len(body_read(way, post(run.url), 100_000)) == 100_000
    assert run.wait_all_closed()
    assert run.bytes_sent < 32 * 1024 * 1024  # the rest filled the buffers of the system


@pytest.mark.proves("R08e")
def test_what_arrived_of_an_error_body_before_it_stalled_is_kept(server: FaultServer) -> None:
    runs = [server.run("stalled_status_first") for _ in WAYS]
    requests = [post(run.url, timeout=SILENCE) for run in runs]
    with ThreadPoolExecutor(len(WAYS)) as threads:
        bodies = list(threads.map(body_read, WAYS, requests, [1000] * len(WAYS)))
    assert bodies == [b'{"detail":'] * len(WAYS)
    for run in runs:
        assert run.wait_all_closed()


@pytest.mark.proves("R08e")
@each_way
def test_what_arrived_of_an_error_body_before_it_broke_is_kept(
    server: FaultServer, way: str
) -> None:
    run = server.run("burst_then_rst")
    assert body_read(way, post(run.url), 10**6) == body_of(run, 8)


@pytest.mark.proves("R08e")
@each_way
def test_an_error_body_that_drips_is_read_for_a_limited_time(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    for module in (_response_sync, _response_async):
        monkeypatch.setattr(module, "MAX_ERROR_BODY_SECONDS", -1.0)
    stream = Pieces(b"a", b"b", b"c")
    assert body_read(way, post("http://test/"), 1000, lambda: mocked(way, stream)) == b"a"
    assert stream.taken == 1


@pytest.mark.proves("R08e")
@each_way
def test_an_error_body_that_stalls_is_read_for_a_limited_time_whatever_the_read_timeout(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    for module in (_response_sync, _response_async):
        monkeypatch.setattr(module, "MAX_ERROR_BODY_SECONDS", 0.1)
    run = server.run("stalled_status_first")
    done = threading.Event()

    def read() -> None:
        # Without the limit this would take half as long again as the test waits for it.
        assert body_read(way, post(run.url, timeout=3.0), 1000) == b'{"detail":'
        done.set()

    with thread(read) as raised:
        in_time = done.wait(2.0)
    assert not raised
    assert in_time


# Stopping early.


@pytest.mark.proves("RES1-stop")
@ours_and_theirs
@pytest.mark.parametrize("pieces", [0, 1])
def test_closing_a_response_early_frees_its_connection(
    server: FaultServer, library: ModuleType | None, pieces: int
) -> None:
    run = server.run("close_then_keeps_open")
    client = made(library, "sync")()
    sender = SyncSender(client)
    response = sender.open(post(run.url))
    chunks = response.chunks()
    for _ in range(pieces):
        assert next(chunks)
    response.close()
    response.close()
    assert run.wait_all_closed()
    with pytest.raises(TransportFailure):
        list(response.chunks())
    sender.close()
    if client is not None:
        client.close()


@pytest.mark.proves("RES1-stop")
@each_async_way
@ours_and_theirs
@pytest.mark.parametrize("pieces", [0, 1])
@stops_early
def test_closing_an_async_response_early_frees_its_connection(
    server: FaultServer, way: str, library: ModuleType | None, pieces: int
) -> None:
    run = server.run("close_then_keeps_open")

    async def main() -> None:
        client = made(library, way)()
        sender = AsyncSender(client)
        response = await sender.open(post(run.url))
        async with contextlib.aclosing(response.chunks()) as chunks:
            for _ in range(pieces):
                assert await anext(chunks)
        await response.aclose()
        await response.aclose()
        assert await anyio.to_thread.run_sync(run.wait_all_closed)
        with pytest.raises(TransportFailure):
            await anext(response.chunks())
        await sender.aclose()
        if client is not None:
            await client.aclose()

    run_async(way, main())


@pytest.mark.proves("RES1-stop")
@each_async_way
@pytest.mark.parametrize("at", ["head", "event"])
@stops_early
def test_cancelling_frees_the_connection(server: FaultServer, way: str, at: str) -> None:
    run = server.run("stall", at=at)

    async def main() -> None:
        sender = AsyncSender()

        async def consume() -> None:
            response = await sender.open(post(run.url))
            try:
                async with contextlib.aclosing(response.chunks()) as chunks:
                    async for _ in chunks:
                        pass
            finally:
                await response.aclose()

        async with anyio.create_task_group() as group:
            group.start_soon(consume)
            assert await anyio.to_thread.run_sync(run.wait_hanging)
            group.cancel_scope.cancel()
        assert await anyio.to_thread.run_sync(run.wait_all_closed)
        await sender.aclose()

    run_async(way, main())


@pytest.mark.proves("RES1-stop")
@pytest.mark.parametrize("way", ["asyncio"])  # trio warns of a generator inside httpx2
def test_closing_an_async_response_early_gives_no_warning(server: FaultServer, way: str) -> None:
    run = server.run("close_then_keeps_open")
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        assert body_read(way, post(run.url), 1) == body_of(run)[:1]
        gc.collect()
    assert [str(item.message) for item in given] == []


CLOSE_FAILURES = {"library": httpx2.CloseError("x"), "system": OSError("x")}


@each_way
@pytest.mark.parametrize("error", CLOSE_FAILURES.values(), ids=CLOSE_FAILURES)
def test_a_failure_in_closing_is_none(way: str, error: Exception) -> None:
    client = mocked(way, Pieces(b"one", closing=error))
    if way == "sync":
        sender = SyncSender(client)
        sender.open(post("http://test/")).close()
        client.close()
    else:

        async def main() -> None:
            sender = AsyncSender(client)
            await (await sender.open(post("http://test/"))).aclose()
            await client.aclose()

        run_async(way, main())


@each_way
@pytest.mark.parametrize("error", CLOSE_FAILURES.values(), ids=CLOSE_FAILURES)
def test_a_failure_in_closing_after_a_bounded_body_is_none(way: str, error: Exception) -> None:
    stream = Pieces(b"one", b"two", closing=error)
    assert body_read(way, post("http://test/"), 1, lambda: mocked(way, stream)) == b"o"


# Closing a sender.


@pytest.mark.parametrize("with_client", [False, True])
def test_a_closed_sender(with_client: bool) -> None:
    client = httpx2.Client() if with_client else None
    sender = SyncSender(client)
    sender.sleep(0)
    sender.close()
    sender.close()
    for call in (lambda: sender.open(post("http://test/")), lambda: sender.sleep(LIMIT)):
        with pytest.raises(TransportFailure) as raised:
            call()
        assert raised.value.kind is FailureKind.CLOSED
    if client is not None:
        client.close()


@each_async_way
@pytest.mark.parametrize("with_client", [False, True])
def test_a_closed_async_sender(way: str, with_client: bool) -> None:
    async def main() -> None:
        client = httpx2.AsyncClient() if with_client else None
        sender = AsyncSender(client)
        await sender.sleep(0)
        await sender.aclose()
        await sender.aclose()
        for call in (sender.open(post("http://test/")), sender.sleep(0)):
            with pytest.raises(TransportFailure) as raised:
                await call
            assert raised.value.kind is FailureKind.CLOSED
        if client is not None:
            await client.aclose()

    run_async(way, main())


def test_closing_a_sender_ends_a_wait_in_another_thread() -> None:
    sender = SyncSender()
    about_to_sleep = threading.Event()

    def wait() -> None:
        about_to_sleep.set()
        sender.sleep(100 * LIMIT)

    with thread(wait) as raised:
        assert about_to_sleep.wait(LIMIT)
        sender.close()
    [failure] = raised
    assert isinstance(failure, TransportFailure)
    assert failure.kind is FailureKind.CLOSED


@each_async_way
def test_a_wait_during_which_the_sender_is_closed_fails(way: str) -> None:
    async def main() -> None:
        sender = AsyncSender()
        kinds: list[FailureKind] = []

        async def wait() -> None:
            try:
                await sender.sleep(0.05)
            except TransportFailure as failure:
                kinds.append(failure.kind)

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await sender.aclose()
        assert kinds == [FailureKind.CLOSED]

    run_async(way, main())


@pytest.mark.proves("RES1-stop")
@each_way
def test_closing_a_sender_closes_its_connections(server: FaultServer, way: str) -> None:
    run = server.run("correct")
    if way == "sync":
        sender = SyncSender()
        read_all(sender, post(run.url))
        assert run.connections_open == 1
        sender.close()
        assert run.wait_all_closed()
    else:

        async def main() -> None:
            sender = AsyncSender()
            await read_all_async(sender, post(run.url))
            assert run.connections_open == 1
            await sender.aclose()
            assert await anyio.to_thread.run_sync(run.wait_all_closed)

        run_async(way, main())


# Threads and event loops.


def test_many_threads_share_one_sender(server: FaultServer) -> None:
    runs = [server.run("correct") for _ in range(64)]
    sender = SyncSender()
    with ThreadPoolExecutor(16) as threads:
        outcomes = list(threads.map(lambda run: read_all(sender, post(run.url)), runs))
    sender.close()
    assert outcomes == [Outcome(200, body_of(run)) for run in runs]
    assert all(run.wait_all_closed() for run in runs)


@each_async_way
def test_many_tasks_share_one_sender(server: FaultServer, way: str) -> None:
    runs = [server.run("correct") for _ in range(64)]
    outcomes: dict[str, Outcome] = {}

    async def main() -> None:
        sender = AsyncSender()

        async def consume(run: Run) -> None:
            outcomes[run.id] = await read_all_async(sender, post(run.url))

        async with anyio.create_task_group() as group:
            for run in runs:
                group.start_soon(consume, run)
        await sender.aclose()

    run_async(way, main())
    assert outcomes == {run.id: Outcome(200, body_of(run)) for run in runs}
    assert all(run.wait_all_closed() for run in runs)


@pytest.mark.proves("R04n")
@each_async_way
def test_a_second_event_loop(server: FaultServer, way: str) -> None:
    run = server.run("correct")
    sender = AsyncSender()
    for _ in range(3):
        outcome = run_async(way, read_all_async(sender, post(run.url)))
        assert outcome == Outcome(200, body_of(run))
    run_async(way, sender.aclose())


@pytest.mark.proves("R04n")
def test_a_second_asyncio_run(server: FaultServer) -> None:
    # These connections end with their bodies, so that none outlives its event loop.
    runs = [server.run("clean_end_close_delimited") for _ in range(3)]
    sender = AsyncSender()
    for run in runs:
        assert asyncio.run(read_all_async(sender, post(run.url))) == Outcome(200, body_of(run, 8))

    async def close() -> None:
        await sender.aclose()
        with pytest.raises(TransportFailure):
            await sender.open(post(runs[0].url))

    asyncio.run(close())


@pytest.mark.proves("R04n")
def test_event_loops_at_the_same_time_and_of_both_kinds(server: FaultServer) -> None:
    runs = [server.run("clean_end_close_delimited") for _ in range(8)]
    sender = AsyncSender()

    def outcome(way: str, run: Run) -> Outcome:
        return run_async(way, read_all_async(sender, post(run.url)))

    with ThreadPoolExecutor(4) as threads:
        outcomes = list(threads.map(outcome, ASYNC_WAYS * 4, runs))
    assert outcomes == [Outcome(200, body_of(run, 8)) for run in runs]


@pytest.mark.proves("R04n")
@each_async_way
def test_an_event_loop_that_has_ended_leaves_no_connection_behind(
    server: FaultServer, way: str
) -> None:
    run = server.run("correct")
    sender = AsyncSender()
    for _ in range(3):
        outcome = run_async(way, read_all_async(sender, post(run.url)))
        assert outcome == Outcome(200, body_of(run))
        assert run.wait_all_closed()


# The environment acts as it does with httpx.

PROXY_SETTINGS: dict[str, tuple[dict[str, str], bool]] = {
    "none": ({}, False),
    "http": ({"HTTP_PROXY": "http://{proxy}"}, True),
    "http, lower case": ({"http_proxy": "http://{proxy}"}, True),
    "http, without a scheme": ({"HTTP_PROXY": "{proxy}"}, True),
    "all": ({"ALL_PROXY": "http://{proxy}"}, True),
    "for https only": ({"HTTPS_PROXY": "http://{proxy}"}, False),
    "not for this host": ({"HTTP_PROXY": "http://{proxy}", "NO_PROXY": HOST}, False),
    "not for another host": ({"HTTP_PROXY": "http://{proxy}", "NO_PROXY": "other.example"}, True),
    "for none": ({"HTTP_PROXY": "http://{proxy}", "NO_PROXY": "*"}, False),
    "with a password": ({"HTTP_PROXY": "http://user:secret@{proxy}"}, True),
}


@pytest.mark.proves("R04o", "R04f")
@each_way
@pytest.mark.parametrize(("settings", "used"), PROXY_SETTINGS.values(), ids=PROXY_SETTINGS)
def test_proxy_variables(
    server: FaultServer,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    settings: dict[str, str],
    used: bool,
) -> None:
    heads = {}
    with Relay() as proxy:
        for name, value in settings.items():
            monkeypatch.setenv(name, value.format(proxy=f"{HOST}:{proxy.port}"))
        for library in (None, *LIBRARIES):
            run = server.run("correct")
            outcome = fetch(way, post(run.url), made(library, way))
            assert outcome == Outcome(200, body_of(run))
            heads[library] = [b"Proxy-Authorization: Basic " in head for head in proxy.heads]
            proxy.heads.clear()
    assert heads[None] == ([any("secret" in value for value in settings.values())] if used else [])
    assert list(heads.values()) == [heads[None]] * 3


@pytest.mark.proves("R04o")
@each_way
def test_a_proxy_that_is_not_there(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    with FaultServer() as gone:
        monkeypatch.setenv("ALL_PROXY", gone.origin)
    run = server.run("correct")
    for library in (None, *LIBRARIES):
        assert fetch(way, post(run.url), made(library, way)).failure is FailureKind.CONNECT
    assert run.requests == []


@pytest.mark.proves("R04o")
@each_way
@pytest.mark.parametrize("trusted", ["the authority", "another", "the default"])
def test_ca_variables(
    server: FaultServer,
    monkeypatch: pytest.MonkeyPatch,
    authority: Authority,
    stranger: Authority,
    way: str,
    trusted: str,
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    if trusted != "the default":
        file = authority.file if trusted == "the authority" else stranger.file
        monkeypatch.setenv("SSL_CERT_FILE", file)
    with Relay(server.origin, tls=authority.server) as relay:
        for library in (None, *LIBRARIES):
            run = server.run("correct")
            url = run.url.replace(server.origin, relay.url)
            outcome = fetch(way, post(url), made(library, way))
            if trusted == "the authority":
                assert outcome == Outcome(200, body_of(run))
            else:
                assert outcome == Outcome(None, b"", FailureKind.CERTIFICATE)


# The one other HTTP library.


@pytest.mark.proves("R04p")
def test_aiohttp_is_for_the_ai_client_alone() -> None:
    allowed = ROOT / "src" / "coreason_client" / "llm"
    importing = {
        path
        for path in (ROOT / "src").rglob("*.py")
        # Parsing all files takes seconds.
        if "aiohttp" in path.read_text(encoding="utf-8")
        and {"aiohttp", "httpx_aiohttp"} & set(imports_of(path))
    }
    assert {path for path in importing if allowed not in path.parents} == set()
    assert not any("httpx_aiohttp" in imports_of(path) for path in importing)
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    assert not any("aiohttp" in item for item in project["dependencies"])
    assert "httpx-aiohttp" not in text


def imports_of(path: Path) -> Iterator[str]:
    """Yield the first part of every name that a module imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            yield node.module.split(".")[0]
