import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from coreason_client.testing._loopback import (
    Handler,
    HTTPRequest,
    LoopbackServer,
    ResponseWriter,
    loopback_socket,
)


@contextmanager
def serving(handler: Handler) -> Iterator[LoopbackServer]:
    server = LoopbackServer(handler, "test-loopback")
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def connected(server: LoopbackServer) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    try:
        yield connection
    finally:
        connection.close()


async def echo(request: HTTPRequest, response: ResponseWriter) -> None:
    await response.whole(200, [("x-path", request.path)], request.body)


def test_a_connection_serves_several_requests() -> None:
    with serving(echo) as server, connected(server) as connection:
        for body in (b"one", [b"tw", b"o"]):  # with a length, and in chunks
            connection.request("POST", "/a?b=c", body, encode_chunked=isinstance(body, list))
            reply = connection.getresponse()
            assert (reply.status, reply.headers["x-path"]) == (200, "/a")
            assert reply.read() == (b"one" if body == b"one" else b"two")
        connection.request("HEAD", "/")
        assert connection.getresponse().read() == b""
        connection.request("POST", "/", b"x", {"Expect": "100-continue"})
        assert connection.getresponse().read() == b"x"


def test_a_response_that_is_not_finished_is_cut_off() -> None:
    async def breaks(request: HTTPRequest, response: ResponseWriter) -> None:
        await response.start(200, [])
        await response.send(b"half")
        await response.send(b"")  # which would be the end

    with serving(breaks) as server, connected(server) as connection:
        connection.request("GET", "/")
        with pytest.raises(http.client.IncompleteRead) as caught:
            connection.getresponse().read()
    assert caught.value.partial == b"half"


def test_a_failure_of_the_handler_is_reported_on_both_sides() -> None:
    async def fails(request: HTTPRequest, response: ResponseWriter) -> None:
        if request.path == "/late":
            await response.start(200, [])
        raise KeyError("oops")

    with serving(fails) as server, connected(server) as connection:
        connection.request("GET", "/")
        reply = connection.getresponse()
        assert (reply.status, reply.read()) == (501, b"the test server failed: KeyError: 'oops'")
        connection.request("GET", "/late")
        with pytest.raises(http.client.IncompleteRead):
            connection.getresponse().read()
    assert [str(error) for error in server.errors] == ["'oops'", "'oops'"]


def test_stop_ends_requests_that_wait() -> None:
    waits = threading.Event()

    async def stalls(request: HTTPRequest, response: ResponseWriter) -> None:
        waits.set()
        await response.until_disconnected()

    with serving(stalls) as server:
        host, port = server.url.removeprefix("http://").split(":")
        connection = socket.create_connection((host, int(port)), 10)
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert waits.wait(10)
    with connection, suppress(ConnectionResetError):
        assert connection.recv(1) == b""
    assert server.errors == []


def test_what_is_no_http_ends_the_connection() -> None:
    with serving(echo) as server:
        host, port = server.url.removeprefix("http://").split(":")
        for data in (b"oops\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n"):
            with socket.create_connection((host, int(port)), 10) as connection:
                connection.sendall(data)
                assert connection.recv(1) == b""
    assert server.errors == []


def test_a_server_that_was_never_started_leaves_nothing_open() -> None:
    LoopbackServer(echo, "test-loopback").stop()


def test_connections_send_small_writes_at_once() -> None:
    with (
        loopback_socket() as listener,
        socket.create_connection(listener.getsockname(), timeout=10),
    ):
        listener.settimeout(10)
        with listener.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
