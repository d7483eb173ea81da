"""Requests built with either HTTP library, and what is known of a response."""

import time
from types import SimpleNamespace
from typing import Any

import httpx
import httpx2
import pytest

from coreason_client._http._build import (
    begin_body,
    body_reader,
    build_request,
    can_read_raw,
    end_body_within,
    is_body_complete,
    once,
    response_head,
    send_options,
    with_authorization,
)
from coreason_client._http._types import (
    Headers,
    Request,
    ResponseHead,
    Timeouts,
)

LIBRARIES = pytest.mark.parametrize("library", [httpx2, httpx], ids=lambda lib: lib.__name__)
URL = "https://agent.example/x?a=1"


def request(*, away: bool = False, **headers: str) -> Request:
    timeouts = Timeouts(1.0, 2.0, 3.0, 4.0)
    return Request("POST", URL, headers, b"{}", timeouts, without_client_defaults=away)


def built(library: Any, given: Request) -> Any:
    with library.Client(headers={"X-Own": "1"}, cookies={"c": "2"}) as client:
        return build_request(client, given)


# Requests


@LIBRARIES
def test_a_request_has_the_defaults_of_the_client(library: Any) -> None:
    found = built(library, request(Accept="text/plain"))
    assert (found.method, str(found.url), found.read()) == ("POST", URL, b"{}")
    headers = {name: found.headers.get(name) for name in ("accept", "x-own", "cookie")}
    assert headers == {"accept": "text/plain", "x-own": "1", "cookie": "c=2"}


@LIBRARIES
def test_a_url_without_a_query_is_parsed_once(
    library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = []

    class Counted(library.URL):  # type: ignore[misc]
        def __init__(self, url: Any) -> None:
            if isinstance(url, str):
                parsed.append(url)
            super().__init__(url)

    plain, secret = "https://agent.example/x", "https://agent.example/x?ticket=1"
    with library.Client() as client:
        monkeypatch.setattr(client, "_base_url", Counted("https://agent.example"))
        parsed.clear()
        sent = [build_request(client, Request("GET", url, {})) for url in (plain, secret) * 3]
    assert [str(one.url) for one in sent] == [plain, secret] * 3
    assert parsed == [plain]  # what may hold a secret is not kept


@LIBRARIES
@pytest.mark.parametrize("path", ["/x", "x?a=1", "https://other.example/x"])
def test_a_url_is_joined_to_that_of_the_client(library: Any, path: str) -> None:
    with library.Client(base_url="https://agent.example/v1") as client:
        found = build_request(client, Request("GET", path, {}))
    expected = path if "://" in path else f"https://agent.example/v1/{path.lstrip('/')}"
    assert str(found.url) == expected


@LIBRARIES
def test_a_request_to_another_origin_has_no_default_that_identifies_the_client(
    library: Any,
) -> None:
    found = built(library, request(away=True, Accept="text/plain"))
    assert isinstance(found, library.Request)
    assert (found.method, str(found.url), found.read()) == ("POST", URL, b"{}")
    names = {name.lower() for name in found.headers}
    assert names == {"accept", "host", "content-length"}
    assert found.extensions["timeout"]["read"] == 2.0


@LIBRARIES
@pytest.mark.parametrize("away", [False, True])
def test_headers_are_sent_as_utf_8(library: Any, away: bool) -> None:
    found = built(library, request(away=away, **{"X-Name": "Größe"}))
    assert dict(found.headers.raw)[b"X-Name"] == "Größe".encode()


@LIBRARIES
def test_the_four_timeouts_are_those_of_the_request_or_of_the_client(library: Any) -> None:
    expected = {"connect": 1.0, "read": 2.0, "write": 3.0, "pool": 4.0}
    assert built(library, request()).extensions["timeout"] == expected
    without = Request("GET", URL, {})
    with library.Client(timeout=9.0) as client:
        assert build_request(client, without).extensions["timeout"]["read"] == 9.0


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (request(), "Bearer new"),
        (request(Authorization="Basic own"), "Basic own"),
        (request(authorization="Basic own"), None),
        (request(away=True), None),
    ],
)
def test_an_authorization_is_added_unless_there_is_one_or_must_be_none(
    given: Request, expected: str | None
) -> None:
    found = with_authorization(given, "Bearer new")
    assert found.headers.get("Authorization") == expected
    assert len(found.headers) == len({name.lower() for name in found.headers})
    assert "Bearer new" not in given.headers.values()


def test_redirects_and_foreign_origins_are_not_left_to_the_client() -> None:
    assert send_options(request()) == {"stream": True, "follow_redirects": False}
    assert send_options(request(away=True))["auth"] is None


def test_an_action_runs_once() -> None:
    runs: list[int] = []
    act = once(lambda: runs.append(1))
    assert runs == []
    act()
    act()
    assert runs == [1]


def test_an_action_that_fails_does_not_run_again() -> None:
    def fail() -> None:
        raise OSError("no")

    act = once(fail)
    with pytest.raises(OSError, match="no"):
        act()
    act()


# Responses


def response(timeout: Any = None, *, stream: Any = None, consumed: bool = False) -> SimpleNamespace:
    sent = SimpleNamespace(extensions={} if timeout is None else {"timeout": timeout})
    extensions = {} if stream is None else {"network_stream": stream}
    return SimpleNamespace(request=sent, extensions=extensions, is_stream_consumed=consumed)


@LIBRARIES
def test_the_head_has_the_status_and_every_header(library: Any) -> None:
    found = library.Response(206, headers=[("X-A", "1"), ("X-A", "2"), ("Content-Type", "a/b; c")])
    head = response_head(found)
    assert (head.status, head.headers["x-a"], head.content_type) == (206, "1, 2", "a/b")


@pytest.mark.parametrize(("read", "capped"), [(None, 5.0), (60.0, 5.0), (3.0, 3.0)])
def test_the_time_for_an_error_body_is_limited(read: float | None, capped: float) -> None:
    limits = {"read": read, "connect": 9.0}
    assert end_body_within(response(limits), 5.0) == pytest.approx(time.monotonic() + 5, abs=1)
    assert limits == {"read": pytest.approx(capped, abs=1), "connect": 9.0}
    assert end_body_within(response(limits), 60.0) == pytest.approx(time.monotonic() + 5, abs=1)


def test_a_response_without_timeouts_has_no_limits() -> None:
    for odd in (None, "odd"):
        assert end_body_within(response(odd), 5.0) == pytest.approx(time.monotonic() + 5, abs=1)
        begin_body(response(odd), request())
        assert body_reader(response(odd)) == (None, None)


def test_only_our_own_network_knows_that_a_body_is_complete() -> None:
    assert not is_body_complete(response())
    assert not is_body_complete(response(stream=object()))
    for known, expected in ((True, True), (False, False), ("yes", False)):
        stream = SimpleNamespace(response_complete=known)
        assert is_body_complete(response(stream=stream)) is expected


def test_only_our_own_network_reads_bodies_directly() -> None:
    stream = SimpleNamespace(read_body=len)
    assert body_reader(response({"read": 7.0}, stream=stream)) == (len, 7.0)
    assert body_reader(response({"read": 7.0}, stream=object())) == (None, 7.0)


@pytest.mark.parametrize(
    ("encoding", "consumed", "expected"),
    [
        (None, False, True),
        ("identity", False, True),
        (" Identity ", False, True),
        ("gzip", False, False),
        ("", False, False),
        ("identity, gzip", False, False),
        (None, True, False),  # a mock has read it
    ],
)
def test_bytes_are_read_raw_only_if_nothing_decodes_them(
    encoding: str | None, consumed: bool, expected: bool
) -> None:
    pairs = [] if encoding is None else [("Content-Encoding", encoding)]
    head = ResponseHead(200, Headers(pairs))
    assert can_read_raw(response(consumed=consumed), head) is expected
