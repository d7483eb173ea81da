"""Requests to webhooks: only to addresses that are allowed, and with bounds on everything."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import httpcore2
import pytest
import trustme

from coreason_client.server.a2a._push._sender import WebhookError, WebhookResponse, WebhookSender
from coreason_client.server.a2a._push._urls import URLRules, WebhookURL

from ..aio import LIMIT, aio

PUBLIC = "93.184.216.34"
OPEN = URLRules(allow_http=True, allow_private=True)
STRICT = URLRules(allow_http=True)
OK = b"HTTP/1.1 204 No Content\r\n\r\n"


class Webhook:
    """A server on loopback that answers each request with the same bytes."""

    def __init__(self, answer: bytes = OK, *, hang: bool = False) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.port = 0
        self._answer = answer
        self._hang = hang

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                [length] = [
                    int(line.partition(b":")[2])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                ]
                self.requests.append(head + await reader.readexactly(length))
                if self._hang:
                    await reader.read()
                    return
                writer.write(self._answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def running(self, context: ssl.SSLContext | None = None) -> AsyncIterator["Webhook"]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    def url(self, host: str = "127.0.0.1", scheme: str = "http") -> WebhookURL:
        return WebhookURL(scheme, host, self.port, "/hook?x=1")


class Network(httpcore2.AsyncNetworkBackend):
    """Records the addresses of connections, and makes all of them to loopback."""

    def __init__(self, refused: Iterable[str] = ()) -> None:
        self.addresses: list[str] = []
        self._refused = set(refused)
        self._real = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self, host: str, port: int, *rest: Any, **more: Any
    ) -> httpcore2.AsyncNetworkStream:
        self.addresses.append(host)
        if host in self._refused:
            raise httpcore2.ConnectError("connection refused")
        return await self._real.connect_tcp("127.0.0.1", port, *rest, **more)


def answering(*answers: Iterable[str]) -> Callable[[str, int], Awaitable[Iterable[str]]]:
    """Return a resolver with these answers, one after the other; the last one stays."""
    left = list(answers)

    async def resolver(host: str, port: int) -> Iterable[str]:
        return left.pop(0) if len(left) > 1 else left[0]

    return resolver


@asynccontextmanager
async def sending(rules: URLRules = OPEN, **options: Any) -> AsyncIterator[WebhookSender]:
    sender = WebhookSender(rules, **options)
    try:
        yield sender
    finally:
        await sender.aclose()


@aio
async def test_a_request() -> None:
    async with Webhook().running() as webhook, sending() as sender:
        headers = {"Content-Type": "application/a2a+json", "Authorization": "Bearer x"}
        for _ in range(2):
            assert await sender.post(webhook.url(), headers, b'{"task":{}}') == WebhookResponse(204)
        assert webhook.connections == 1  # the connection was kept
        head, _, body = webhook.requests[0].partition(b"\r\n\r\n")
        assert body == b'{"task":{}}'
        lines = head.split(b"\r\n")
        assert lines[0] == b"POST /hook?x=1 HTTP/1.1"
        assert f"Host: 127.0.0.1:{webhook.port}".encode() in lines
        assert b"Authorization: Bearer x" in lines
        assert b"Content-Type: application/a2a+json" in lines


HOSTILE = [
    ["127.0.0.1"],
    ["10.1.2.3"],
    ["192.168.0.1"],
    ["169.254.169.254"],
    ["100.64.0.1"],
    ["0.0.0.0"],
    ["224.0.0.1"],
    ["255.255.255.255"],
    ["::1"],
    ["::"],
    ["::ffff:127.0.0.1"],
    ["::127.0.0.1"],
    ["64:ff9b::7f00:1"],
    ["2002:7f00:1::1"],
    ["2001:0:7f00:1::1"],
    ["fe80::1%eth0"],
    ["fd00:ec2::254"],
    ["ff02::1"],
    [PUBLIC, "127.0.0.1"],  # one of several
    ["127.0.0.1", PUBLIC],
    ["not an address"],
]


@pytest.mark.parametrize("addresses", HOSTILE)
@aio
async def test_a_name_with_a_forbidden_address_is_not_connected_to(addresses: list[str]) -> None:
    network = Network()
    async with (
        Webhook().running() as webhook,
        sending(STRICT, resolver=answering(addresses), network=network) as sender,
    ):
        with pytest.raises(WebhookError, match="an address that is not allowed"):
            await sender.post(webhook.url("example.org"), {}, b"")
        assert network.addresses == []
        assert webhook.connections == 0


@pytest.mark.parametrize(
    "host", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost", "127.0.0.1", "::1"]
)
@aio
async def test_hosts_that_the_system_resolves_to_this_machine_are_refused(host: str) -> None:
    network = Network()
    async with sending(STRICT, network=network) as sender:
        with pytest.raises(WebhookError, match="not allowed"):
            await sender.post(WebhookURL("http", host, 80, "/"), {}, b"")
        assert network.addresses == []


@aio
async def test_a_name_is_resolved_once_and_the_checked_address_is_used() -> None:
    """A resolver that answers differently the second time gains nothing."""
    network, asked = Network(), []

    async def rebinding(host: str, port: int) -> Iterable[str]:
        asked.append(host)
        return [PUBLIC] if len(asked) == 1 else ["127.0.0.1"]

    async with (
        Webhook().running() as webhook,
        sending(STRICT, resolver=rebinding, network=network) as sender,
    ):
        assert (await sender.post(webhook.url("example.org"), {}, b"")).status == 204
        assert asked == ["example.org"]
        assert network.addresses == [PUBLIC]
        assert f"Host: example.org:{webhook.port}".encode() in webhook.requests[0]


@aio
async def test_a_new_connection_is_checked_again() -> None:
    network = Network()
    closing = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
    resolver = answering([PUBLIC], ["127.0.0.1"])
    async with (
        Webhook(closing).running() as webhook,
        sending(STRICT, resolver=resolver, network=network) as sender,
    ):
        assert (await sender.post(webhook.url("example.org"), {}, b"")).status == 204
        with pytest.raises(WebhookError, match="not allowed"):
            await sender.post(webhook.url("example.org"), {}, b"")
        assert network.addresses == [PUBLIC]


@aio
async def test_the_next_address_is_tried() -> None:
    network = Network(refused=[PUBLIC])
    resolver = answering([PUBLIC, PUBLIC, "1.1.1.1"])
    async with (
        Webhook().running() as webhook,
        sending(STRICT, resolver=resolver, network=network) as sender,
    ):
        assert (await sender.post(webhook.url("example.org"), {}, b"")).status == 204
        assert network.addresses == [PUBLIC, "1.1.1.1"]


@aio
async def test_tls_checks_the_name_and_not_the_address() -> None:
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("example.org").configure_cert(server)
    names: list[str | None] = []
    server.sni_callback = lambda _socket, name, _context: names.append(name)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    options: dict[str, Any] = {
        "resolver": answering([PUBLIC]),
        "network": Network(),
        "ssl_context": client,
    }
    async with Webhook().running(server) as webhook, sending(STRICT, **options) as sender:
        url = webhook.url("example.org", "https")
        assert (await sender.post(url, {}, b"")).status == 204
        assert names == ["example.org"]
        with pytest.raises(WebhookError, match="the connection failed"):
            await sender.post(webhook.url("other.example", "https"), {}, b"")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@aio
async def test_redirects_are_not_followed(status: int) -> None:
    async with Webhook().running() as target, sending() as sender:
        location = f"http://127.0.0.1:{target.port}/".encode()
        answer = b"HTTP/1.1 %d Go\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % (status, location)
        async with Webhook(answer).running() as webhook:
            assert (await sender.post(webhook.url(), {}, b"")).status == status
        assert target.connections == 0


@aio
async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Webhook().running() as proxy, Webhook().running() as webhook:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with sending() as sender:
            assert (await sender.post(webhook.url(), {}, b"")).status == 204
        assert (proxy.connections, webhook.connections) == (0, 1)


@aio
async def test_a_long_response_is_not_read_to_its_end() -> None:
    endless = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * 200_000
    async with Webhook(endless).running() as webhook, sending() as sender:
        for _ in range(2):
            assert (await sender.post(webhook.url(), {}, b"")).status == 200
        assert webhook.connections == 2  # such a connection is not used again


@aio
async def test_a_webhook_that_hangs_is_left() -> None:
    async with Webhook(hang=True).running() as webhook, sending(timeout=0.1) as sender:
        with pytest.raises(WebhookError, match=r"did not answer within 0\.1 seconds"):
            await sender.post(webhook.url(), {}, b"")


@aio
async def test_a_response_that_never_ends_is_left() -> None:
    begun = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx"
    async with Webhook(begun).running() as webhook, sending(timeout=0.2) as sender:
        with pytest.raises(WebhookError, match="did not answer"):
            await sender.post(webhook.url(), {}, b"")


@aio
async def test_the_delay_that_a_webhook_asks_for() -> None:
    busy = b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"
    async with Webhook(busy).running() as webhook, sending() as sender:
        assert await sender.post(webhook.url(), {}, b"") == WebhookResponse(503, 7.0)


@pytest.mark.parametrize(
    "answer", [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000 + b"\r\n\r\n"]
)
@aio
async def test_what_is_not_http_is_a_failure(answer: bytes) -> None:
    async with Webhook(answer).running() as webhook, sending() as sender:
        with pytest.raises(WebhookError, match="the connection failed"):
            await asyncio.wait_for(sender.post(webhook.url(), {"X": "secret"}, b""), LIMIT)


@aio
async def test_nobody_listens() -> None:
    async with Webhook().running() as webhook:
        url = webhook.url()
    async with sending() as sender:
        with pytest.raises(WebhookError, match="the connection failed"):
            await sender.post(url, {}, b"")


@pytest.mark.parametrize("error", [OSError("no such host"), UnicodeError()])
@aio
async def test_a_host_that_cannot_be_resolved(error: Exception) -> None:
    async def resolver(host: str, port: int) -> Iterable[str]:
        raise error

    async with sending(STRICT, resolver=resolver) as sender:
        with pytest.raises(WebhookError, match="cannot be resolved"):
            await sender.post(WebhookURL("http", "nowhere.invalid", 80, "/"), {}, b"")


@aio
async def test_a_host_without_addresses() -> None:
    async with sending(STRICT, resolver=answering([])) as sender:
        with pytest.raises(WebhookError, match="no address"):
            await sender.post(WebhookURL("http", "example.org", 80, "/"), {}, b"")
