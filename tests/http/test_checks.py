"""Checks of URLs, headers and HTTP clients, and the message of an error response."""

from typing import Any

import httpx
import httpx2
import pytest

from coreason_client import A2AClient, AsyncA2AClient, AsyncCAPClient, CAPClient
from coreason_client._http._checks import (
    check_http_client,
    check_key,
    check_url,
    merged_headers,
    problem_message,
)

PASSWORD = "hunter22"


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_clients_of_the_right_kind_are_accepted(library: Any) -> None:
    check_http_client(library.Client(), is_async=False)
    check_http_client(library.AsyncClient(), is_async=True)
    check_http_client(None, is_async=True)


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_a_client_of_the_other_kind_is_refused_with_the_remedy(library: Any) -> None:
    with pytest.raises(TypeError, match="got AsyncClient; use the async client class"):
        check_http_client(library.AsyncClient(), is_async=False)
    with pytest.raises(TypeError, match="got Client; use the sync client class"):
        check_http_client(library.Client(), is_async=True)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("client", ["https://proxy.example", object(), 5, httpx2])
def test_what_is_no_client_is_refused(client: Any, is_async: bool) -> None:
    with pytest.raises(TypeError, match=r"http_client must be an httpx2\.\w+ or httpx\.\w+, got"):
        check_http_client(client, is_async=is_async)


def test_every_client_class_refuses_it_at_construction() -> None:
    url = "https://agent.example"
    for make in (
        lambda: CAPClient(url, "key", http_client=httpx2.AsyncClient()),
        lambda: AsyncCAPClient(url, "key", http_client=httpx2.Client()),
        lambda: A2AClient(url, http_client=httpx2.AsyncClient()),
        lambda: AsyncA2AClient(url, http_client=httpx2.Client()),
    ):
        with pytest.raises(TypeError, match="http_client must be"):
            make()


@pytest.mark.parametrize(
    "url",
    [
        "http://agent.example",
        "https://agent.example:8443/a/b?c=d#e",
        "http://[::1]:8000/",
        "http://127.0.0.1/a@b",
    ],
)
def test_a_url_that_can_be_called(url: str) -> None:
    assert check_url(url, credentials_go_into="auth").geturl() == url


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "base_url must be a URL in ASCII without spaces, got ''"),
        ("http://a b", "base_url must be a URL in ASCII without spaces, got 'http://a b'"),
        ("http://\u00e9.example", "base_url must be a URL in ASCII"),
        ("http://h\r\nX: y", "base_url must be a URL in ASCII without spaces"),
        ("agent.example", "base_url must start with http:// or https:// and a host, got 'agent"),
        ("ftp://agent.example", "base_url must start with http:// or https://"),
        ("https://", "base_url must start with http:// or https:// and a host, got 'https://'"),
        ("http://[", r"base_url must be a URL with a valid host and port, got 'http://\['"),
        ("http://h:port", "base_url must be a URL with a valid host and port, got 'http://h:port'"),
        ("http://h:99999", "base_url must be a URL with a valid host and port"),
        ("http://h:0", "base_url must have a port from 1 to 65535, got 'http://h:0'"),
        (f"http://me:{PASSWORD}@h", "base_url must not contain a user or password: .* as api_key"),
        (f"ftp://me:{PASSWORD}@h", "base_url must not contain a user or password"),
        (f"http://me:{PASSWORD} @h", "base_url must be a URL in ASCII without spaces$"),
        (f"http://me:{PASSWORD}@h:x", "base_url must be a URL with a valid host and port$"),
    ],
)
def test_a_url_that_cannot_be_called(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}") as caught:
        check_url(url, "base_url", credentials_go_into="api_key")
    assert PASSWORD not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("odd", [None, 7, b"http://agent.example"])
def test_a_url_must_be_a_string(odd: Any) -> None:
    with pytest.raises(TypeError, match=r"url must be a string, got \w+"):
        check_url(odd, credentials_go_into="auth")


def test_headers_are_merged_whatever_the_case_of_their_names() -> None:
    merged = merged_headers({"Accept": "a", "X-One": "1"}, {}, {"ACCEPT": "b", "x-two": "2"})
    assert merged == {"ACCEPT": "b", "X-One": "1", "x-two": "2"}


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ({"detail": "Who?", "title": "Forbidden"}, "Who?"),
        ({"title": "Forbidden"}, "Forbidden"),
        ({"message": "No.", "title": "Forbidden"}, "No."),
        ({"detail": "", "title": "Forbidden"}, "Forbidden"),
        ({"detail": 5, "message": "No."}, "No."),
        ({"error": "out of paper", "detail": "x"}, "out of paper"),
        ({"error": {"message": "No."}, "detail": "x"}, "No."),
        ({"error": {"code": 5}, "detail": "x"}, "x"),
        ({"detail": "x" * 600}, "x" * 500),
        ({"error": "x" * 600}, "x" * 500),
        ({}, ""),
        ([{"detail": "x"}], ""),
        (None, ""),
        ("x", ""),
    ],
)
def test_the_message_of_an_error_response(problem: object, message: str) -> None:
    assert problem_message(problem) == message


def test_a_key_that_can_be_sent() -> None:
    assert check_key("sk-1!~") == "sk-1!~"


@pytest.mark.parametrize("key", ["", "a b", "a\n", "\u00e9", "a\0", 7, None])
def test_a_key_that_cannot_be_sent_is_not_repeated(key: Any) -> None:
    rule = (
        "not be empty" if key == "" else "be visible ASCII characters without spaces or line ends"
    )
    with pytest.raises(ValueError, match="MY_KEY") as caught:
        check_key(key, "MY_KEY")
    assert str(caught.value) == (f"MY_KEY must {rule}")
