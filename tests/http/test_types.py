"""Requests, responses and failures as plain data."""

import math
import time
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import httpx
import httpx2
import pytest

from coreason_client._drive import BodyTooLarge
from coreason_client._http._types import (
    FINAL_FAILURES,
    SHORTEST_SECONDS,
    FailureKind,
    Headers,
    Request,
    ResponseHead,
    TimeoutArgument,
    Timeouts,
    TransportFailure,
    limited,
    origin,
    seconds_left,
    timeouts_from,
)

SECRET = "sk_very_secret"


# Timeouts.


@pytest.mark.proves("R05", "RFC004-3.1-timeout-float", "R03g")
@pytest.mark.parametrize("seconds", [60.0, 0.001, 5, 86_400])
def test_a_number_is_the_read_timeout_and_all_four_are_set(seconds: float) -> None:
    limits = timeouts_from(seconds)
    assert limits == Timeouts(connect=10.0, read=seconds, write=seconds, pool=10.0)


def test_a_limited_timeout_is_for_all_operations_together(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    each, until, whole = (
        limited(60.0, None),
        limited(60.0, 105.0),
        limited(2.0, 105.0, total=True),
    )
    assert (each, until, whole) == (60.0, 5.0, 2.0)  # what another network backend sees
    assert limited(None, None, total=True) is None
    now[0] = 102.0  # connecting took two seconds
    assert [seconds_left(limit) for limit in (None, each, until, whole)] == [None, 60.0, 3.0, 2.0]
    now[0] = 103.5
    assert [seconds_left(limit) for limit in (each, until, whole)] == [60.0, 1.5, 0.5]
    now[0] = 200.0  # 0 would mean "do not block"
    assert [seconds_left(limit) for limit in (until, whole)] == [SHORTEST_SECONDS] * 2
    assert seconds_left(limited(None, 203.0)) == 3.0


def test_none_is_no_read_timeout() -> None:
    assert timeouts_from(None) == Timeouts(connect=10.0, read=None, write=None, pool=10.0)


@pytest.mark.parametrize("seconds", [math.inf, 1e12])
def test_more_than_a_socket_can_wait_is_no_limit(seconds: float) -> None:
    assert timeouts_from(seconds).read is None
    assert timeouts_from(httpx2.Timeout(seconds)) == Timeouts(None, None, None, None)


@pytest.mark.proves("RFC004-3.1-timeout-object", "R03g")
@pytest.mark.parametrize("library", [httpx2, httpx], ids=lambda library: library.__name__)
def test_a_timeout_object_is_used_as_it_is(library: Any) -> None:
    assert timeouts_from(library.Timeout(7.0)) == Timeouts(7.0, 7.0, 7.0, 7.0)
    given = library.Timeout(None, connect=1.0, read=2.0)
    assert timeouts_from(given) == Timeouts(1.0, 2.0, None, None)
    assert timeouts_from(library.Timeout(None)) == Timeouts(None, None, None, None)


def test_anything_with_the_four_limits_will_do() -> None:
    like = SimpleNamespace(connect=1.0, read=2.0, write=3.0, pool=4.0)
    assert timeouts_from(like) == Timeouts(1.0, 2.0, 3.0, 4.0)


@pytest.mark.parametrize("seconds", [0, 0.0, -0.0, -1, -0.5, math.nan, -math.inf])
def test_a_limit_that_is_not_positive_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="greater than 0"):
        timeouts_from(seconds)
    for name in ("connect", "read", "write", "pool"):
        given = httpx2.Timeout(5.0)
        setattr(given, name, seconds)
        with pytest.raises(ValueError, match="greater than 0"):
            timeouts_from(given)


@pytest.mark.parametrize("wrong", ["5", b"5", [5], (1, 2, 3, 4), {"read": 5}, Decimal(5), object()])
def test_another_type_is_refused(wrong: Any) -> None:
    argument: TimeoutArgument = wrong
    with pytest.raises(TypeError, match="timeout must be a number"):
        timeouts_from(argument)


# Headers.


def test_header_names_have_no_case() -> None:
    headers = Headers([("Content-Type", "text/plain"), ("X-A", "1")])
    assert headers["content-type"] == headers["CONTENT-TYPE"] == "text/plain"
    assert headers.get("x-a") == "1"
    assert headers.get("x-b") is None
    assert "x-A" in headers
    assert "x-b" not in headers
    anything: object = 1
    assert anything not in headers
    assert list(headers) == ["content-type", "x-a"]
    assert len(headers) == 2
    assert dict(headers) == {"content-type": "text/plain", "x-a": "1"}
    with pytest.raises(KeyError):
        headers["x-b"]


def test_a_header_that_comes_twice_is_joined() -> None:
    headers = Headers([("Via", "a"), ("X", "1"), ("VIA", "b"), ("via", "")])
    assert headers["via"] == "a, b, "
    assert len(headers) == 2


def test_no_headers() -> None:
    assert dict(Headers()) == {}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text/event-stream", "text/event-stream"),
        ("Text/Event-Stream; charset=UTF-8", "text/event-stream"),
        (" text/html ;q=1", "text/html"),
        ("", ""),
    ],
)
def test_the_content_type_has_no_parameters(value: str, expected: str) -> None:
    assert ResponseHead(200, Headers([("Content-Type", value)])).content_type == expected


def test_no_content_type() -> None:
    assert ResponseHead(200, Headers()).content_type == ""


# Origins.


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://a.example/x", "http://a.example:80/y?z#w"),
        ("https://a.example", "https://a.example:443/"),
        ("HTTP://A.Example/", "http://a.example/"),
        ("http://user:pass@a.example/", "http://a.example/"),
        ("http://[::1]:8/", "http://[::1]:8/x"),
    ],
)
def test_one_origin(one: str, other: str) -> None:
    assert origin(one) == origin(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://a.example/", "https://a.example/"),
        ("http://a.example/", "http://b.example/"),
        ("http://a.example/", "http://a.example:8080/"),
        ("http://a.example:443/", "https://a.example:443/"),
        ("http://a.example/", "http://sub.a.example/"),
        ("http://a.example/", "http://a.example@b.example/"),
        ("http://a.example/", "http://a.example.b.example/"),
    ],
)
def test_two_origins(one: str, other: str) -> None:
    assert origin(one) != origin(other)


def test_the_parts_of_an_origin() -> None:
    assert origin("https://A.example/x") == ("https", "a.example", 443)
    assert origin("ftp://a.example/") == ("ftp", "a.example", None)


@pytest.mark.parametrize("url", ["http://a.example:x/", "http://a.example:99999/"])
def test_an_origin_without_a_port_that_can_be(url: str) -> None:
    with pytest.raises(ValueError, match=r"[Pp]ort"):
        origin(url)


# Secrets.


def test_no_repr_shows_a_secret() -> None:
    headers = Headers([("Set-Cookie", SECRET), ("X-A", "1")])
    request = Request("POST", "http://a.example/", {"Authorization": SECRET}, SECRET.encode())
    for shown in (headers, ResponseHead(200, headers), request):
        assert SECRET not in repr(shown)
        assert SECRET not in str(shown)
    assert "set-cookie" in repr(headers)
    assert "http://a.example/" in repr(request)


def test_a_body_that_is_too_large_has_a_kind_of_its_own_and_is_final() -> None:
    failure = BodyTooLarge(ResponseHead(200, Headers()), 10)
    assert failure.kind is FailureKind.TOO_LARGE
    assert failure.kind in FINAL_FAILURES
    assert str(failure) == "the body is larger than 10 bytes"


def test_a_failure_has_its_kind_and_its_words() -> None:
    failure = TransportFailure(FailureKind.PROXY, "407")
    assert (failure.kind, str(failure)) == (FailureKind.PROXY, "407")
    assert str(failure.kind) == "proxy"
