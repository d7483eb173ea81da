"""The merging backend through real sockets: all that a client can do, it can do with it."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType, SimpleNamespace
from typing import Any

import anyio
import httpcore2
import httpx
import httpx2
import pytest

from coreason_client._http import _async, _sync
from coreason_client._http._async import AsyncSender
from coreason_client._http._backend import merge_chunks
from coreason_client._http._merging_async import AsyncMergingBackend, AsyncMergingStream
from coreason_client._http._merging_sync import MergingBackend, MergingStream
from coreason_client._http._sync import SyncSender
from coreason_client._http._types import FailureKind, Request, Timeouts
from tests.faults import FAULTS, FaultServer
from tests.http.support import (
    HOST,
    LIBRARIES,
    LIMIT,
    PATIENCE,
    SILENCE,
    WAYS,
    Authority,
    Outcome,
    Relay,
    body_of,
    client_of,
    fetch,
    one_answer,
    post,
    read_all,
    read_all_async,
    run_async,
)

MERGING = (MergingBackend, AsyncMergingBackend)


def backends(client: Any) -> list[object]:
    """Return the network backends of all pools of a client."""
    transports = [client._transport, *client._mounts.values()]
    return [item._pool._network_backend for item in transports if item is not None]


def merging_client(way: str, **options: Any) -> Any:
    """Make a client of ours with options that the senders do not offer."""
    client = client_of(httpx2, way, **options)
    assert merge_chunks(client)
    return client


# Merging.


@pytest.mark.proves("R04a")
@pytest.mark.parametrize("way", WAYS)
def test_what_has_arrived_together_comes_in_one_piece(server: FaultServer, way: str) -> None:
    run = server.run("burst_then_rst", how="end")
    ours = fetch(way, post(run.url))
    assert (ours.pieces, ours.body, ours.failure) == (1, body_of(run, 8), None)
    again = server.run("burst_then_rst", how="end")
    assert fetch(way, post(again.url), lambda: client_of(httpx2, way)).pieces == 8


@pytest.mark.proves("R04b", "R03c")
@pytest.mark.parametrize("proxied", [False, True])
def test_it_is_on_the_clients_that_we_make(monkeypatch: pytest.MonkeyPatch, proxied: bool) -> None:
    if proxied:
        monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    sync_client, async_client = _sync._new_client(), _async._new_client()
    assert type(sync_client) is httpx2.Client
    assert type(async_client) is httpx2.AsyncClient
    for client, kind in ((sync_client, MergingBackend), (async_client, AsyncMergingBackend)):
        assert [type(backend) for backend in backends(client)] == [kind] * (1 + proxied)
    sync_client.close()
    anyio.run(async_client.aclose)


@pytest.mark.proves("R04b")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
def test_it_is_never_on_a_client_of_the_callers(
    server: FaultServer, way: str, library: ModuleType
) -> None:
    client = client_of(library, way, mounts={"https://": None})
    before = backends(client)
    run = server.run("correct")
    assert fetch(way, post(run.url), lambda: client).body == body_of(run)
    assert backends(client) == before
    assert not any(isinstance(backend, MERGING) for backend in before)


# What a client can do.


@pytest.mark.proves("R04e")
@pytest.mark.parametrize("way", WAYS)
def test_tls(server: FaultServer, authority: Authority, way: str) -> None:
    run = server.run("correct", packets=300, text="x" * 300)
    with Relay(server.origin, tls=authority.server) as relay:
        outcome = fetch(way, post(run.url.replace(server.origin, relay.url)))
    assert outcome == Outcome(200, body_of(run))


@pytest.mark.proves("R04e")
@pytest.mark.parametrize("way", WAYS)
def test_tls_is_under_the_merger(server: FaultServer, authority: Authority, way: str) -> None:
    run = server.run("burst_then_rst", how="end")
    with Relay(server.origin, tls=authority.server) as relay:
        outcome = fetch(way, post(run.url.replace(server.origin, relay.url)))
    assert outcome == Outcome(200, body_of(run, 8))
    assert outcome.pieces == 1


@pytest.mark.proves("R04f")
@pytest.mark.parametrize("way", WAYS)
def test_a_proxy_for_plain_requests(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    run = server.run("correct")
    with Relay() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert fetch(way, post(run.url)) == Outcome(200, body_of(run))
    assert proxy.request_lines == [f"POST {run.url} HTTP/1.1"]


@pytest.mark.proves("R04f", "R04e")
@pytest.mark.parametrize("way", WAYS)
def test_a_tunnel_through_a_proxy(
    server: FaultServer, authority: Authority, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    run = server.run("burst_then_rst", how="end")
    with Relay() as proxy, Relay(server.origin, tls=authority.server) as relay:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        outcome = fetch(way, post(run.url.replace(server.origin, relay.url)))
        assert proxy.request_lines == [f"CONNECT {HOST}:{relay.port} HTTP/1.1"]
    assert outcome == Outcome(200, body_of(run, 8))
    assert outcome.pieces == 1


@pytest.mark.proves("R04f")
@pytest.mark.parametrize("way", WAYS)
def test_a_proxy_that_refuses(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
    with Relay(refusal=refusal) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        outcome = fetch(way, post(f"https://{HOST}:1/"))
    assert outcome.failure is FailureKind.PROXY
    assert isinstance(outcome.cause, httpx2.ProxyError)


@pytest.mark.proves("R04g")
@pytest.mark.parametrize("way", WAYS)
def test_a_connection_is_used_again(server: FaultServer, way: str) -> None:
    run = server.run("correct")
    outcomes = []
    if way == "sync":
        sender = SyncSender()
        outcomes = [read_all(sender, post(run.url)) for _ in range(3)]
        sender.close()
    else:

        async def main() -> None:
            sender = AsyncSender()
            for _ in range(3):
                outcomes.append(await read_all_async(sender, post(run.url)))
            await sender.aclose()

        run_async(way, main())
    assert outcomes == [Outcome(200, body_of(run))] * 3
    assert len({request.connection for request in run.requests}) == 1
    assert run.wait_all_closed()


@pytest.mark.proves("R04g")
@pytest.mark.parametrize("way", WAYS)
def test_a_connection_whose_body_was_not_read_is_not_used_again(
    server: FaultServer, way: str
) -> None:
    run = server.run("close_then_keeps_open")
    if way == "sync":
        sender = SyncSender()
        for _ in range(2):
            sender.open(post(run.url)).close()
        sender.close()
    else:

        async def main() -> None:
            sender = AsyncSender()
            for _ in range(2):
                await (await sender.open(post(run.url))).aclose()
            await sender.aclose()

        run_async(way, main())
    assert len({request.connection for request in run.requests}) == 2
    assert run.wait_all_closed()


@pytest.mark.proves("R04i")
@pytest.mark.parametrize("way", WAYS)
def test_event_hooks(server: FaultServer, way: str) -> None:
    seen: list[str] = []

    def on_request(request: httpx2.Request) -> None:
        seen.append(request.method)

    def on_response(response: httpx2.Response) -> None:
        seen.append(str(response.status_code))

    async def on_request_async(request: httpx2.Request) -> None:
        on_request(request)

    async def on_response_async(response: httpx2.Response) -> None:
        on_response(response)

    hooks: dict[str, list[Callable[..., Any]]] = {
        "request": [on_request],
        "response": [on_response],
    }
    if way != "sync":
        hooks = {"request": [on_request_async], "response": [on_response_async]}
    run = server.run("correct")
    outcome = fetch(way, post(run.url), lambda: merging_client(way, event_hooks=hooks))
    assert outcome == Outcome(200, body_of(run))
    assert seen == ["POST", "200"]


@pytest.mark.proves("R04j")
def test_trio(server: FaultServer) -> None:
    run = server.run("correct", packets=200, text="x" * 500)
    assert fetch("trio", post(run.url)) == Outcome(200, body_of(run))


@pytest.mark.parametrize("way", WAYS)
def test_unix_sockets(tmp_path_factory: pytest.TempPathFactory, way: str) -> None:
    path = str(tmp_path_factory.mktemp("s") / "s")
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n"
    kind = httpx2.HTTPTransport if way == "sync" else httpx2.AsyncHTTPTransport
    with one_answer(answer, path) as (url, received):
        outcome = fetch(way, post(url), lambda: merging_client(way, transport=kind(uds=path)))
    assert received[0].startswith(b"POST / HTTP/1.1\r\n")
    assert outcome == Outcome(200, b"ab")
    assert outcome.pieces == 1


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
READS = [HEAD, b"1\r\na", b"\r", b"\n1", b"\r\n", b"b\r\n", b""]
PASSED_ON = [HEAD, b"1\r\na", b"\r\n1\r\nb", b""]


def test_a_read_that_brings_only_a_part_of_the_framing_is_not_the_end() -> None:
    stream = MergingStream(httpcore2.MockStream(list(READS)))
    stream.write(b"GET / HTTP/1.1\r\n\r\n")
    assert [stream.read(100) for _ in PASSED_ON] == PASSED_ON


@pytest.mark.parametrize("way", WAYS[1:])
def test_an_async_read_that_brings_only_a_part_of_the_framing_is_not_the_end(way: str) -> None:
    async def main() -> list[bytes]:
        stream = AsyncMergingStream(httpcore2.AsyncMockStream(list(READS)))
        await stream.write(b"GET / HTTP/1.1\r\n\r\n")
        return [await stream.read(100) for _ in PASSED_ON]

    assert run_async(way, main()) == PASSED_ON


def test_the_backends_say_what_httpcore_asks_them(server: FaultServer) -> None:
    host, port = server.origin.removeprefix("http://").split(":")
    backend = MergingBackend(httpcore2.SyncBackend())
    stream = backend.connect_tcp(host, int(port), LIMIT)
    assert isinstance(stream, MergingStream)
    assert stream.get_extra_info("server_addr") == (host, int(port))
    assert not stream.get_extra_info("is_readable")
    stream.close()
    backend.sleep(0)


@pytest.mark.parametrize("way", WAYS[1:])
def test_the_async_backends_say_what_httpcore_asks_them(server: FaultServer, way: str) -> None:
    host, port = server.origin.removeprefix("http://").split(":")

    async def main() -> None:
        inner = httpcore2.TrioBackend() if way == "trio" else httpcore2.AnyIOBackend()
        backend = AsyncMergingBackend(inner)
        stream = await backend.connect_tcp(host, int(port), LIMIT)
        assert isinstance(stream, AsyncMergingStream)
        assert stream.get_extra_info("server_addr") == (host, int(port))
        assert not stream.get_extra_info("is_readable")
        await stream.aclose()
        await backend.sleep(0)

    run_async(way, main())


# The four timeouts.


@contextlib.contextmanager
def deaf_server() -> Iterator[str]:
    """Listen and never accept: the kernel takes connections, and some bytes, and that is all."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.bind((HOST, 0))
        listener.listen()
        yield f"{HOST}:{listener.getsockname()[1]}"


def limits(**given: float) -> Timeouts:
    return Timeouts(**dict.fromkeys(("connect", "read", "write", "pool"), LIMIT) | given)


@pytest.mark.proves("R04h")
@pytest.mark.parametrize("way", WAYS)
def test_the_connect_timeout_acts(way: str) -> None:
    with deaf_server() as address:  # the handshake is a part of connecting
        request = Request("POST", f"https://{address}/", {}, b"", limits(connect=PATIENCE))
        outcome = fetch(way, request)
    assert outcome.failure is FailureKind.CONNECT_TIMEOUT
    assert isinstance(outcome.cause, httpx2.ConnectTimeout)


@pytest.mark.proves("R04h")
@pytest.mark.parametrize("way", WAYS)
def test_the_write_timeout_acts(way: str) -> None:
    with deaf_server() as address:
        content = bytes(32 * 1024 * 1024)
        request = Request("POST", f"http://{address}/", {}, content, limits(write=PATIENCE))
        outcome = fetch(way, request)
    assert outcome.failure is FailureKind.TIMEOUT
    assert isinstance(outcome.cause, httpx2.WriteTimeout)


@pytest.mark.proves("R04h", "RES1-stall")
@pytest.mark.parametrize("at", ["head", "event", "mid_event"])
def test_the_read_timeout_acts(server: FaultServer, at: str) -> None:
    runs = [server.run("stall", at=at) for _ in WAYS]
    with ThreadPoolExecutor(len(WAYS)) as threads:
        requests = [Request("POST", run.url, {}, b"", limits(read=SILENCE)) for run in runs]
        outcomes = list(threads.map(fetch, WAYS, requests))
    for run, outcome in zip(runs, outcomes, strict=True):
        assert outcome.failure is FailureKind.TIMEOUT
        assert isinstance(outcome.cause, httpx2.ReadTimeout)
        whole = len(body_of(run, 0 if at == "head" else 8))
        half = len(body_of(run, 9)[whole:]) // 2 if at == "mid_event" else 0
        assert outcome.body == body_of(run)[: whole + half]
        assert run.wait_all_closed()


@pytest.mark.proves("R04h")
@pytest.mark.parametrize("way", WAYS)
def test_a_shorter_read_timeout_acts_on_a_connection_that_knew_a_longer_one(
    server: FaultServer, way: str
) -> None:
    first, second = server.run("correct"), server.run("stall")
    requests = [post(first.url, timeout=100 * LIMIT), post(second.url, timeout=SILENCE)]
    if way == "sync":
        sender = SyncSender()
        outcomes = [read_all(sender, request) for request in requests]
        sender.close()
    else:

        async def main() -> list[Outcome]:
            sender = AsyncSender()
            try:
                with anyio.fail_after(LIMIT / 2):
                    return [await read_all_async(sender, request) for request in requests]
            finally:
                await sender.aclose()

        outcomes = run_async(way, main())
    assert outcomes[0] == Outcome(200, body_of(first))
    assert outcomes[1] == Outcome(200, body_of(second, 8), FailureKind.TIMEOUT)
    assert first.requests[0].connection == second.requests[0].connection


@pytest.mark.proves("R04h")
@pytest.mark.parametrize("way", WAYS)
def test_the_pool_timeout_acts(server: FaultServer, way: str) -> None:
    run = server.run("close_then_keeps_open")
    second = Request("POST", run.url, {}, b"", limits(pool=PATIENCE))
    client = merging_client(way, limits=httpx2.Limits(max_connections=1))
    if way == "sync":
        sender = SyncSender(client)
        holding = sender.open(post(run.url))
        outcome = read_all(sender, second)
        holding.close()
        client.close()
    else:

        async def main() -> Outcome:
            sender = AsyncSender(client)
            holding = await sender.open(post(run.url))
            outcome = await read_all_async(sender, second)
            await holding.aclose()
            await client.aclose()
            return outcome

        outcome = run_async(way, main())
    assert outcome.failure is FailureKind.TIMEOUT
    assert isinstance(outcome.cause, httpx2.PoolTimeout)


# Faults: the outcome is that of a client without the merger.

SILENT = {"stall", "stalled_status_first", "close_then_keeps_open"}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in sorted(FAULTS) if name not in ("huge_event", "hung_with_heartbeats")),
    ("huge_event", {"size": 300_000}),
    ("huge_event", {"size": 3_000_000, "lines": True}),
    ("fin_mid_event_chunked", {"whole_chunk": True}),
    ("stall", {"at": "head"}),
    ("stall", {"at": "mid_event"}),
    ("cut_inside_utf8", {"how": "rst"}),
    ("cut_inside_utf8", {"how": "end"}),
    ("cut_in_chunk_header", {"keep": 2}),
    ("cut_in_chunk_header", {"keep": 3, "how": "rst"}),
    ("cut_in_chunk_header", {"keep": 4}),
    ("burst_then_rst", {"how": "fin"}),
    ("burst_then_rst", {"how": "end"}),
    ("refuse_first", {"how": "rst"}),
    ("accept_and_close", {"head": True}),
    ("accept_and_close", {"head": True, "how": "rst"}),
    ("accept_and_close", {"head": True, "how": "end"}),
    ("slow_drip", {"of": "wire"}),
    ("gzip", {"cut": True}),
    ("bom", {"split": True}),
    ("crlf_line_ends", {"split": True}),
]


def outcome_of(way: str, merged: bool, fault: str, options: dict[str, Any]) -> Outcome:
    """Fetch under a fault, from a separate server, so that all get the same bytes."""
    with FaultServer() as server:
        run = server.run(fault, **options)
        request = post(run.url, timeout=SILENCE if fault in SILENT else LIMIT)
        return fetch(way, request, lambda: None if merged else client_of(httpx2, way))


@pytest.mark.proves("R04k")
@pytest.mark.parametrize(
    ("fault", "options"), VARIANTS, ids=["-".join((name, *opts)) for name, opts in VARIANTS]
)
def test_a_fault_has_the_same_outcome(fault: str, options: dict[str, Any]) -> None:
    with ThreadPoolExecutor(2 * len(WAYS)) as threads:
        futures = {
            (way, merged): threads.submit(outcome_of, way, merged, fault, options)
            for way in WAYS
            for merged in (False, True)
        }
        outcomes = {case: future.result(LIMIT) for case, future in futures.items()}
    plain = outcomes["sync", False]
    assert outcomes == dict.fromkeys(outcomes, plain)
    for way in WAYS:
        causes = {type(outcomes[way, merged].cause) for merged in (False, True)}
        assert len(causes) == 1


@pytest.mark.proves("R04k", "R04e")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("abrupt", [False, True])
@pytest.mark.parametrize("fault", ["correct", "fin_mid_event_chunked", "clean_end_close_delimited"])
def test_a_fault_has_the_same_outcome_under_tls(
    server: FaultServer, authority: Authority, way: str, fault: str, abrupt: bool
) -> None:
    outcomes = []
    for make in (lambda: None, lambda: client_of(httpx2, way)):
        run = server.run(fault)
        with Relay(server.origin, tls=authority.server, abrupt=abrupt) as relay:
            outcome = fetch(way, post(run.url.replace(server.origin, relay.url)), make)
        assert outcome.body.startswith(body_of(run, 8))
        outcomes.append((outcome.status, len(outcome.body), outcome.failure, type(outcome.cause)))
    assert outcomes[0] == outcomes[1]


LOSSES = {
    "rst_mid_event": FailureKind.BROKEN,
    "fin_mid_event_chunked": FailureKind.BROKEN,
    "fin_mid_event_close_delimited": None,
    "clean_end_without_close": None,
    "clean_end_close_delimited": None,
    "cut_in_chunk_header": FailureKind.BROKEN,
    "burst_then_rst": FailureKind.BROKEN,
}


@pytest.mark.proves("RES1-rst", "RES1-fin-chunked", "RES1-fin-close-delimited")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("fault", "failure"), LOSSES.items(), ids=LOSSES)
def test_a_loss_is_reported_after_what_had_arrived(
    server: FaultServer, way: str, fault: str, failure: FailureKind | None
) -> None:
    run = server.run(fault)
    outcome = fetch(way, post(run.url))
    assert (outcome.status, outcome.failure) == (200, failure)
    whole = body_of(run, 8)
    half = len(body_of(run, 9)[len(whole) :]) // 2 if "mid_event" in fault else 0
    assert outcome.body == body_of(run)[: len(whole) + half]
    assert run.wait_all_closed()


# Stepping aside.


class OddTransport(httpx2.BaseTransport):
    """A transport that works, but has other insides than those that we know."""

    def __init__(self, **insides: Any) -> None:
        self._inner = httpx2.HTTPTransport()
        self.__dict__.update(insides)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return self._inner.handle_request(request)

    def close(self) -> None:
        self._inner.close()


class OddAsyncTransport(httpx2.AsyncBaseTransport):
    """The same, async."""

    def __init__(self, **insides: Any) -> None:
        self._inner = httpx2.AsyncHTTPTransport()
        self.__dict__.update(insides)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


ODD_INSIDES: dict[str, dict[str, Any]] = {
    "no pool": {},
    "a pool that is None": {"_pool": None},
    "no network backend": {"_pool": SimpleNamespace()},
    "a network backend that is None": {"_pool": SimpleNamespace(_network_backend=None)},
    "a network backend of another type": {"_pool": SimpleNamespace(_network_backend=object())},
}


def odd_client(way: str, insides: dict[str, Any]) -> Any:
    transport = OddTransport(**insides) if way == "sync" else OddAsyncTransport(**insides)
    return client_of(httpx2, way, transport=transport)


@pytest.mark.proves("R04d")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("insides", ODD_INSIDES.values(), ids=ODD_INSIDES)
def test_it_steps_aside_when_the_insides_are_not_as_expected(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch, way: str, insides: dict[str, Any]
) -> None:
    run = server.run("correct")
    client = odd_client(way, insides)
    assert not merge_chunks(client)
    name = "Client" if way == "sync" else "AsyncClient"
    monkeypatch.setattr(httpx2, name, lambda **_: client)  # the one that a sender makes
    assert fetch(way, post(run.url)) == Outcome(200, body_of(run))
    assert client.is_closed


@pytest.mark.proves("R04d")
@pytest.mark.parametrize("way", WAYS)
def test_it_steps_aside_when_a_client_has_no_mounts(server: FaultServer, way: str) -> None:
    run = server.run("correct")
    client = client_of(httpx2, way)
    mounts = client.__dict__.pop("_mounts")
    assert not merge_chunks(client)
    client._mounts = mounts
    assert fetch(way, post(run.url), lambda: client) == Outcome(200, body_of(run))


@pytest.mark.proves("R04d")
def test_it_is_on_all_pools_or_on_none() -> None:
    odd = OddTransport(**ODD_INSIDES["a network backend of another type"])
    with httpx2.Client(mounts={"https://": odd}) as client:
        before = backends(client)
        assert not merge_chunks(client)
        assert backends(client) == before


@pytest.mark.proves("R04d")
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
def test_a_mock_transport_is_left_alone(library: ModuleType) -> None:
    transport = library.MockTransport(lambda _: library.Response(200, content=b"ok"))
    with library.Client(transport=transport) as client:
        assert not merge_chunks(client)
        assert client.get("http://test/").content == b"ok"


def test_the_backend_of_the_older_library_is_another_type() -> None:
    with httpx.Client() as client:
        before = backends(client)
        assert not merge_chunks(client)  # type: ignore[arg-type]
        assert backends(client) == before
