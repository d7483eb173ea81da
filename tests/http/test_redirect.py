"""Redirects are followed with method and body, and no credentials leave their origin."""

import base64
from collections.abc import Callable
from types import ModuleType
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coreason_client._drive import Flow, Reply
from coreason_client._drive_async import drive_async
from coreason_client._drive_sync import drive
from coreason_client._http._async import AsyncSender
from coreason_client._http._redirect import (
    FOLLOWED,
    FOLLOWED_FOR_GET,
    MAX_REDIRECTS,
    Redirects,
    follow_redirects,
    redirected,
)
from coreason_client._http._sync import SyncSender
from coreason_client._http._types import (
    FailureKind,
    Headers,
    Request,
    ResponseHead,
    TransportFailure,
    origin,
    timeouts_from,
)
from coreason_client._retry import Backoff
from coreason_client.cap._resume import ResumeMachine
from coreason_client.cap.errors import CAPRuntimeError
from coreason_manifest.definitions.presentation import Packet
from tests.faults import FaultServer, RecordedRequest, Run, sse
from tests.faults import Packet as Sent
from tests.http.support import (
    LEFT_OVER_GENERATOR,
    LIBRARIES,
    LIMIT,
    WAYS,
    client_of,
    run_async,
)

SECRET = "verysecret"
BASIC = base64.b64encode(f"user:{SECRET}".encode()).decode()
CONTENT = b'{"messages":[]}'
OURS = {
    "Accept": "text/event-stream",
    "Authorization": f"Bearer {SECRET}",
    "Content-Type": "application/json",
    "X-Api-Key": SECRET,
    "X-Request-ID": "r-1",
}
CLOSE = sse(Sent("0a0a0a0a-0000-4000-8000-00000000000a", 1, "CLOSE", {"reason": "done"}))

each_way = pytest.mark.parametrize("way", WAYS)
each_library = pytest.mark.parametrize("library", LIBRARIES, ids=lambda item: item.__name__)
ours_and_theirs = pytest.mark.parametrize(
    "library", [None, *LIBRARIES], ids=["ours", "httpx2", "httpx"]
)


def machine_for(url: str) -> ResumeMachine:
    def attempt(cursor: str | None) -> Request:
        headers = OURS if cursor is None else OURS | {"Last-Event-ID": cursor}
        return Request("POST", url, headers, CONTENT, timeouts_from(LIMIT))

    return ResumeMachine(attempt, backoff=Backoff(0.01, 0.05, 2))


def stream(way: str, url: str, make: Callable[[], Any] = lambda: None) -> list[Packet]:
    """Read a whole stream as the clients do."""
    machine, client = machine_for(url), make()
    if way == "sync":
        sender = SyncSender(client)
        try:
            return list(drive(machine, sender))
        finally:
            sender.close()
            if client is not None:
                client.close()

    async def main() -> list[Packet]:
        sender = AsyncSender(client)
        try:
            return [packet async for packet in drive_async(machine, sender)]
        finally:
            await sender.aclose()
            if client is not None:
                await client.aclose()

    return run_async(way, main())


def everything_in(request: RecordedRequest) -> str:
    lines = [f"{name}: {value}" for name, value in request.raw_headers]
    return "\n".join([request.target, *lines, request.body.decode()])


def seqs(run: Run) -> list[int]:
    return [packet.seq for packet in run.packets]


# On the wire.

# A stream that ends with its CLOSE leaves the end of its body unread, of which trio warns.
pytestmark = pytest.mark.filterwarnings(LEFT_OVER_GENERATOR)


@pytest.mark.proves("RES1-redirect")
@each_way
@ours_and_theirs
@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("options", [{}, {"relative": True}, {"cross_origin": True}], ids=str)
def test_a_redirect_is_followed_with_method_and_body(
    server: FaultServer,
    way: str,
    library: ModuleType | None,
    status: int,
    options: dict[str, Any],
) -> None:
    run = server.run("redirect", status=status, **options)
    packets = stream(way, run.url, lambda: library and client_of(library, way))
    assert [packet.seq for packet in packets] == seqs(run)
    assert [request.path for request in run.requests] == ["/assist", "/moved"]
    for request in run.requests:
        assert (request.method, request.body) == ("POST", CONTENT)
        assert request.headers["content-type"] == "application/json"
        assert request.headers["x-request-id"] == "r-1"
    assert run.wait_all_closed()


@pytest.mark.proves("RES1-redirect")
@each_way
@pytest.mark.parametrize("cross_origin", [False, True])
def test_a_reconnect_starts_at_the_first_address(
    server: FaultServer, way: str, cross_origin: bool
) -> None:
    run = server.run("redirect", cut=True, cross_origin=cross_origin)
    packets = stream(way, run.url)
    assert [packet.seq for packet in packets] == seqs(run)
    assert [request.path for request in run.requests] == ["/assist", "/moved"] * 2
    assert run.last_event_ids == [None, None, *[f"{run.stream_id}:8"] * 2]


@pytest.mark.proves("RES1-redirect")
@each_way
def test_redirects_for_ever_are_not_followed(server: FaultServer, way: str) -> None:
    run = server.run("redirect_loop")
    with pytest.raises(CAPRuntimeError) as raised:
        stream(way, run.url)
    assert raised.value.status_code == 307
    assert 1 < len(run.requests) < 10


# Credentials.


@pytest.mark.proves("RES1-redirect-origin")
@each_way
@ours_and_theirs
@pytest.mark.parametrize("status", [307, 308])
def test_our_credentials_stay_at_their_origin(
    server: FaultServer, way: str, library: ModuleType | None, status: int
) -> None:
    run = server.run("redirect", status=status, cross_origin=True, cut=True)
    packets = stream(way, run.url, lambda: library and client_of(library, way))
    assert [packet.seq for packet in packets] == seqs(run)
    for request in run.requests:
        at_home = request.origin == server.origin
        assert (SECRET in everything_in(request)) is at_home
        assert ("authorization" in request.headers) is at_home


@pytest.mark.proves("RES1-redirect-origin")
@each_way
@ours_and_theirs
def test_within_an_origin_credentials_are_kept(
    server: FaultServer, way: str, library: ModuleType | None
) -> None:
    run = server.run("redirect")
    stream(way, run.url, lambda: library and client_of(library, way))
    assert {request.headers["authorization"] for request in run.requests} == {f"Bearer {SECRET}"}
    assert {request.headers["x-api-key"] for request in run.requests} == {SECRET}


CALLERS_CREDENTIALS: dict[str, tuple[dict[str, Any], str]] = {
    "headers": ({"headers": {"X-Internal-Token": SECRET}}, SECRET),
    "cookies": ({"cookies": {"session": SECRET}}, f"session={SECRET}"),
    "auth": ({"auth": ("user", SECRET)}, f"Basic {BASIC}"),
    "params": ({"params": {"key": SECRET}}, f"?key={SECRET}"),
}


@pytest.mark.proves("RES1-redirect-origin")
@each_way
@each_library
@pytest.mark.parametrize(
    ("options", "shown"), CALLERS_CREDENTIALS.values(), ids=CALLERS_CREDENTIALS
)
def test_the_credentials_of_a_callers_client_stay_at_their_origin(
    server: FaultServer, way: str, library: ModuleType, options: dict[str, Any], shown: str
) -> None:
    run = server.run("redirect", cross_origin=True)
    packets = stream(
        way, run.url, lambda: client_of(library, way, follow_redirects=True, **options)
    )
    assert [packet.seq for packet in packets] == seqs(run)
    at_home, elsewhere = run.requests
    assert shown in everything_in(at_home)
    assert elsewhere.origin == server.other_origin
    assert SECRET not in everything_in(elsewhere)
    assert BASIC not in everything_in(elsewhere)


@pytest.mark.proves("RES1-redirect-origin")
@each_way
@ours_and_theirs
def test_a_password_in_the_address_stays_at_its_origin(
    server: FaultServer, way: str, library: ModuleType | None
) -> None:
    run = server.run("redirect", cross_origin=True)
    url = run.url.replace("http://", f"http://user:{SECRET}@")
    stream(way, url, lambda: library and client_of(library, way))
    at_home, elsewhere = run.requests
    assert SECRET in everything_in(at_home)
    assert SECRET not in everything_in(elsewhere)
    assert BASIC not in everything_in(elsewhere)


@pytest.mark.proves("RES1-redirect-origin")
@each_way
@each_library
def test_cookies_that_were_set_stay_at_their_origin(way: str, library: ModuleType) -> None:
    # One host on two ports: two origins, though a cookie jar does not tell them apart.
    seen: list[tuple[str, str]] = []

    def answer(request: Any) -> Any:
        seen.append((str(request.url), request.headers.get("Cookie", "")))
        if request.url.port == 81:
            return library.Response(
                200, headers={"Content-Type": "text/event-stream"}, content=CLOSE
            )
        headers = {"Location": "http://test:81/", "Set-Cookie": f"session={SECRET}; Path=/"}
        return library.Response(307, headers=headers)

    packets = stream(
        way,
        "http://test/",
        lambda: client_of(library, way, transport=library.MockTransport(answer)),
    )
    assert [packet.seq for packet in packets] == [1]
    assert [url for url, _ in seen] == ["http://test/", "http://test:81/"]
    assert seen[1][1] == ""


@pytest.mark.proves("RES1-redirect-origin")
@each_way
def test_credentials_do_not_come_back_on_the_way_back(way: str) -> None:
    # Otherwise another origin could choose the address to which they are sent.
    seen: list[httpx2.Request] = []
    places = {
        "http://a.example/": "http://b.example/",
        "http://b.example/": "http://a.example/back",
    }

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        if (place := places.get(str(request.url))) is not None:
            return httpx2.Response(307, headers={"Location": place})
        return httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, content=CLOSE)

    def make() -> Any:
        transport = httpx2.MockTransport(answer)
        return client_of(httpx2, way, transport=transport, headers={"X-Theirs": SECRET})

    assert [packet.seq for packet in stream(way, "http://a.example/", make)] == [1]
    assert [str(request.url) for request in seen] == [*places, "http://a.example/back"]
    assert [SECRET in str(request.headers.raw) for request in seen] == [True, False, False]


# The rule itself.

HEADERS = OURS | {"Cookie": f"a={SECRET}", "Proxy-Authorization": f"Basic {BASIC}"}
HERE = Request("POST", "https://a.example/x/y?q=1", HEADERS, CONTENT)
HARMLESS = {name: OURS[name] for name in ("Accept", "Content-Type", "X-Request-ID")}


@pytest.mark.proves("RES1-redirect")
@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("/z", "https://a.example/z"),
        ("z?w", "https://a.example/x/z?w"),
        ("https://a.example:443/z", "https://a.example:443/z"),
        ("https://A.EXAMPLE/z", "https://A.EXAMPLE/z"),
        ("//a.example/z", "https://a.example/z"),
    ],
)
def test_a_place_at_the_same_origin(location: str, url: str) -> None:
    assert redirected(HERE, location) == Request("POST", url, HEADERS, CONTENT)


@pytest.mark.proves("RES1-redirect-origin")
@pytest.mark.parametrize(
    "location",
    [
        "https://b.example/",
        "//b.example/",
        "http://a.example/",
        "https://a.example:8443/",
        "https://sub.a.example/",
        "https://a.example@b.example/",
        "https://a.example.b.example/",
    ],
)
def test_a_place_at_another_origin_gets_what_is_harmless(location: str) -> None:
    moved = redirected(HERE, location)
    assert moved.headers == HARMLESS
    assert moved.without_client_defaults
    assert (moved.method, moved.content, moved.timeouts) == ("POST", CONTENT, HERE.timeouts)
    back = redirected(moved, HERE.url)
    assert (back.url, back.headers, back.without_client_defaults) == (HERE.url, HARMLESS, True)


@pytest.mark.parametrize(
    "location",
    ["ftp://a.example/", "file:///etc/passwd", "javascript:0", "https://a.example:x/", "//[::1"],
)
def test_a_place_that_cannot_be(location: str) -> None:
    with pytest.raises(ValueError):
        redirected(HERE, location)


# The count, and the flow of a unary call.


def head(status: int, location: str | None = "/next") -> ResponseHead:
    headers = [] if location is None else [("Location", location)]
    return ResponseHead(status, Headers(headers))


@pytest.mark.proves("RES1-redirect")
@pytest.mark.parametrize("status", [200, 201, 300, 301, 302, 303, 304, 305, 307, 308, 400, 503])
def test_which_statuses_are_followed(status: int) -> None:
    assert Redirects().includes(head(status)) is (status in {307, 308})
    for_get = Redirects(FOLLOWED_FOR_GET)
    assert for_get.includes(head(status)) is (status in {301, 302, 303, 307, 308})
    assert not for_get.includes(head(status, None))


@pytest.mark.proves("RES1-redirect")
def test_redirects_are_counted() -> None:
    redirects, request = Redirects(), HERE
    for number in range(MAX_REDIRECTS):
        request = redirects.follow(request, head(307, f"/{number}"))
    assert request.url == f"https://a.example/{MAX_REDIRECTS - 1}"
    with pytest.raises(ValueError, match="more than 5 in a row"):
        redirects.follow(request, head(307))


def result_of(
    flow: Flow[Reply | TransportFailure], answers: Callable[[Request], Reply | TransportFailure]
) -> tuple[Reply | TransportFailure, list[Request]]:
    sent = [next(flow)]
    while True:
        request = sent[-1]
        assert isinstance(request, Request)
        try:
            sent.append(flow.send(answers(request)))
        except StopIteration as stopped:
            return stopped.value, [item for item in sent if isinstance(item, Request)]


@pytest.mark.parametrize(
    "answer",
    [
        Reply(head(307, None), b"no location"),
        Reply(head(307, "ftp://a.example/"), b"another scheme"),
        Reply(head(302), b"not for every method"),
        Reply(head(200), b"no redirect"),
        TransportFailure(FailureKind.BROKEN, "reset"),
    ],
    ids=lambda answer: str(getattr(answer, "body", answer)),
)
def test_what_is_not_followed_is_the_result(answer: Reply | TransportFailure) -> None:
    assert result_of(follow_redirects(HERE), lambda request: answer) == (answer, [HERE])


LOCATIONS = st.sampled_from(
    ["/z", "//b.example/", "https://a.example/w", "http://a.example/", "x", "https://b.example:9/"]
)


@given(st.lists(st.tuples(st.sampled_from([200, *sorted(FOLLOWED)]), LOCATIONS), max_size=9))
@settings(deadline=None)
@pytest.mark.proves("RES1-redirect", "RES1-redirect-origin")
def test_whatever_the_redirects_credentials_never_leave_their_origin(
    steps: list[tuple[int, str]],
) -> None:
    script = iter([*steps, (200, "/")])
    replies: list[Reply] = []

    def answer(request: Request) -> Reply:
        replies.append(Reply(head(*next(script)), b""))
        return replies[-1]

    result, sent = result_of(follow_redirects(HERE), answer)
    assert result is replies[-1]
    assert len(sent) <= 1 + MAX_REDIRECTS
    left = False
    for request in sent:
        left = left or origin(request.url) != origin(HERE.url)
        assert (SECRET in str(request.headers)) is not left
        assert (request.method, request.content) == ("POST", CONTENT)
