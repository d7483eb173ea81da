"""The proxy named in messages is the one that httpx2 uses."""

import asyncio
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

import httpx
import httpx2
import pytest
from packaging.version import Version

from coreason_client import AsyncCAPClient, CAPClient, CoreasonError, MissingExtraError
from coreason_client._http._build import proxy_of
from coreason_client._http._proxy import proxy_for
from coreason_client.a2a import A2AClient, AsyncA2AClient
from coreason_client.llm import AsyncLLMClient, LLMClient
from tests.each import each

from .support import fetch, post

URLS = (
    "http://example.com/a?b=c",
    "https://example.com",
    "https://example.com:8443/",
    "https://www.example.com",
    "https://wwwexample.com",
    "http://localhost:8080",
    "http://www.localhost",
    "http://127.0.0.1:8000/assist",
    "http://10.1.2.3",
    "http://[::1]:8000",
    "http://[fd00::7]",
)
PROXIES: dict[str, dict[str, str]] = {
    "none": {},
    "http": {"HTTP_PROXY": "http://proxy.test:3128"},
    "https": {"HTTPS_PROXY": "http://proxy.test:3128"},
    "everything": {"ALL_PROXY": "http://proxy.test:3128"},
    "both": {"ALL_PROXY": "http://all.test:1", "https_proxy": "http://secure.test:2"},
    "without a scheme": {"all_proxy": "proxy.test:3128"},
    "with a password": {"ALL_PROXY": "http://user:secret@proxy.test:3128"},
}
# httpx2 heeds entries like these since 2.16.2.
STARS = ("*.example.com", "*.example.com:8443")
HEEDS_STARS = Version(httpx2.__version__) >= Version("2.16.2")
EXCEPTIONS = (
    "",
    "*",
    "other.test",
    "example.com",
    ".example.com",
    *(STARS if HEEDS_STARS else ()),
    "EXAMPLE.com , other.test",
    "example.com:8443",
    "example.com:443",
    "https://example.com",
    "http://www.example.com",
    "all://example.com",
    "https://",
    "all://*.example.com",
    "localhost",
    "127.0.0.1",
    "10.0.0.0/8",
    "10.0.0.0/33",
    "::1",
    "[::1]",
    "fd00::/8",
    "example.com/8",
)


def httpx2_proxies() -> dict[str, str | None]:
    """Return the proxies that a client of httpx2 made now would use."""
    with httpx2.Client(verify=False) as client:  # no certificates, because it sends nothing
        return {url: _proxy(client._transport_for_url(httpx2.URL(url))) for url in URLS}


def _proxy(transport: Any) -> str | None:
    proxy = getattr(transport._pool, "_proxy_url", None)
    if proxy is None:
        return None
    return f"{proxy.scheme.decode()}://{proxy.host.decode()}:{proxy.port}"


@pytest.mark.parametrize("settings", PROXIES.values(), ids=PROXIES)
@each("no_proxy", EXCEPTIONS)
def test_the_proxy_is_the_one_that_httpx2_uses(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], no_proxy: str
) -> None:
    for name, value in {**settings, "NO_PROXY": no_proxy}.items():
        monkeypatch.setenv(name, value)
    assert {url: proxy_for(url) for url in URLS} == httpx2_proxies()


def test_a_star_in_no_proxy_stands_for_subdomains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://proxy.test:3128")
    monkeypatch.setenv("NO_PROXY", "*.example.com")
    direct = {url for url in URLS if proxy_for(url) is None}
    assert direct == {"https://www.example.com"}
    monkeypatch.setenv("NO_PROXY", "*.example.com:8443")
    assert all(proxy_for(url) == "http://proxy.test:3128" for url in URLS)
    assert proxy_for("https://www.example.com:8443/") is None


@pytest.mark.parametrize("url", ["", "example.com", "http://", "http://[", "http://a:99999999"])
def test_a_url_that_is_not_valid_has_no_proxy(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://proxy.test:3128")
    monkeypatch.setenv("NO_PROXY", "other.test:1")
    assert proxy_for(url) is None


@pytest.mark.parametrize("way", ["sync", "asyncio"])
def test_a_socks_proxy_without_its_package_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "socksio", None)  # as if it were not installed
    with pytest.raises(MissingExtraError, match=r"a SOCKS proxy needs the extra 'socks'"):
        fetch(way, post("http://example.com/"))


# The proxy in the errors of the clients


@pytest.fixture
def dead_proxy() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


URL = "http://agent.example:8000"
LLM: dict[str, Any] = {"max_retries": 0, "timeout": 20}


def ask_cap(http: Any) -> None:
    with CAPClient(URL, "k", max_retries=0, http_client=http) as client:
        client.ask("x")


def check_health(http: Any) -> None:
    with CAPClient(URL, "k", http_client=http) as client:
        client.health()


def send_a2a(http: Any) -> None:
    with A2AClient(URL, max_retries=0, http_client=http) as client:
        client.send_message("x")


def stream_a2a(http: Any) -> None:
    with A2AClient(URL, max_retries=0, http_client=http) as client:
        list(client.send_message_stream("x"))


def generate(_: Any) -> None:
    with LLMClient("k", URL, "m", **LLM) as client:
        client.generate([{"role": "user", "content": "x"}])


async def ask_cap_async() -> None:
    async with AsyncCAPClient(URL, "k", max_retries=0) as client:
        await client.ask("x")


async def send_a2a_async() -> None:
    async with AsyncA2AClient(URL, max_retries=0) as client:
        await client.send_message("x")


async def generate_async() -> None:
    async with AsyncLLMClient("k", URL, "m", **LLM) as client:
        await client.generate([{"role": "user", "content": "x"}])


CALLS: dict[str, Callable[[Any], None]] = {
    "cap": ask_cap,
    "health": check_health,
    "a2a": send_a2a,
    "a2a stream": stream_a2a,
    "llm": generate,
    "cap async": lambda _: asyncio.run(ask_cap_async()),
    "a2a async": lambda _: asyncio.run(send_a2a_async()),
    "llm async": lambda _: asyncio.run(generate_async()),
}


def check_error(call: Callable[[Any], None], http: Any, proxy: str) -> None:
    with pytest.raises(CoreasonError) as caught:
        call(http)
    message = str(caught.value)
    assert message.count(f"through the proxy http://{proxy}") == 1
    assert "secret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("scheme", "variable"),
    [
        ("http", "HTTP_PROXY"),
        ("http", "ALL_PROXY"),
        ("https", "HTTPS_PROXY"),
        ("https", "ALL_PROXY"),
    ],
)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_error_names_a_proxy_that_is_not_there(
    call: Callable[[Any], None],
    scheme: str,
    variable: str,
    dead_proxy: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "URL", URL.replace("http:", f"{scheme}:"))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv(variable, f"http://me:secret@{dead_proxy}")
    check_error(call, None, dead_proxy)


@pytest.mark.parametrize("library", [httpx2, httpx], ids=["httpx2", "httpx"])
@pytest.mark.parametrize("call", list(CALLS.values())[:4], ids=list(CALLS)[:4])
def test_an_error_names_the_proxy_of_a_callers_client(
    call: Callable[[Any], None], library: Any, dead_proxy: str
) -> None:
    with library.Client(proxy=f"http://me:secret@{dead_proxy}") as http:
        check_error(call, http, dead_proxy)


def test_a_client_that_does_not_tell_its_proxy_has_none() -> None:
    assert proxy_of(object(), object()) is None
