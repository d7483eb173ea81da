"""The users of an inspector: the rules alone; `test_cap_proxy` tests that they are applied."""

import pytest

from coreason_client.inspector.app import Access

from .inspecting import TOKEN

BEARER = f"Bearer {TOKEN}"


def refused(
    method: str, path: str, authorization: str | None = None, **headers: str
) -> tuple[int, str] | None:
    given = {"host": "127.0.0.1:1", **{name.replace("_", "-"): v for name, v in headers.items()}}
    if authorization is not None:
        given["authorization"] = authorization
    raw = [(name.encode(), value.encode()) for name, value in given.items()]
    scope = {"method": method, "path": path, "headers": raw, "server": ("127.0.0.1", 1)}
    problem = Access(TOKEN).refusal(scope)
    return None if problem is None else (problem.status, problem.slug)


@pytest.mark.parametrize("path", ["/", "/page/page.js", "/page/nothing"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_files_of_the_page_need_no_token(method: str, path: str) -> None:
    assert refused(method, path) is None


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/page/config.json"),
        ("POST", "/page/cut"),
        ("POST", "/page/page.js"),
        ("POST", "/"),
        ("POST", "/assist"),
        ("GET", "/streams/1"),
        ("DELETE", "/streams/1"),
        ("GET", "/health"),
        ("GET", "/ready"),
        ("GET", "/pages"),
        ("GET", "//"),
        ("OPTIONS", "/assist"),
    ],
)
def test_everything_else_needs_it(method: str, path: str) -> None:
    for wrong in (None, "", TOKEN, f"Basic {TOKEN}", f"{BEARER}x", "Bearer "):
        assert refused(method, path, wrong) == (401, "unauthorized")
    assert refused(method, path, BEARER) is None


@pytest.mark.parametrize("path", ["/", "/page/page.js", "/health", "/ready", "/assist"])
@pytest.mark.parametrize("authorization", [None, BEARER])
def test_another_host_or_origin_is_refused_with_and_without_a_token(
    path: str, authorization: str | None
) -> None:
    assert refused("GET", path, authorization, host="evil.example") == (421, "host-not-allowed")
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site", "origin": "http://127.0.0.1:2"},
    ):
        assert refused("GET", path, authorization, **headers) == (403, "origin-not-allowed")


def test_two_tokens_are_none() -> None:
    headers = [(b"host", b"127.0.0.1"), *[(b"authorization", BEARER.encode())] * 2]
    scope = {"method": "GET", "path": "/health", "headers": headers, "server": ("127.0.0.1", 1)}
    problem = Access(TOKEN).refusal(scope)
    assert problem is not None
    assert problem.status == 401
    assert TOKEN not in problem.detail
