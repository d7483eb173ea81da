"""The proxy that messages name."""

import asyncio
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

import httpx
import httpx2
import pytest

from coreason_client import AsyncCAPClient, CAPClient, CoreasonError, MissingExtraError
from coreason_client._http._build import proxy_for, proxy_of
from coreason_client.a2a import A2AClient, AsyncA2AClient
from coreason_client.llm import AsyncLLMClient, LLMClient

from .support import fetch, post

URL = "https://www.example.com:8443/a?b=c"
NAMED: dict[str, tuple[dict[str, str], str | None]] = {
    "none": ({}, None),
    "https": ({"HTTPS_PROXY": "http://proxy.test:3128"}, "http://proxy.test:3128"),
    "http": ({"HTTP_PROXY": "http://proxy.test:3128"}, None),
    "everything": ({"all_proxy": "http://proxy.test:3128"}, "http://proxy.test:3128"),
    "the nearer": (
        {"ALL_PROXY": "http://a.test:1", "https_proxy": "http://b.test"},
        "http://b.test:80",
    ),
    "without a scheme": ({"ALL_PROXY": "proxy.test:3128"}, "http://proxy.test:3128"),
    "with a password": ({"ALL_PROXY": "http://user:secret@proxy.test:1"}, "http://proxy.test:1"),
    "an IPv6 address": ({"ALL_PROXY": "http://[fd00::7]:3128"}, "http://[fd00::7]:3128"),
    "SOCKS": ({"ALL_PROXY": "socks5://proxy.test:1080"}, "socks5://proxy.test:1080"),
    "not for this host": (
        {"ALL_PROXY": "http://a.test:1", "NO_PROXY": "b.test,.example.com"},
        None,
    ),
    "of no known kind": ({"ALL_PROXY": "ftp://proxy.test"}, None),
}


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.usefixtures("no_proxies")
@pytest.mark.parametrize(("settings", "expected"), NAMED.values(), ids=NAMED)
def test_the_proxy_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], expected: str | None
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(None, URL) == expected


@pytest.mark.usefixtures("no_proxies")
def test_a_socks_proxy_without_its_package_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy.test:1080")
    monkeypatch.setitem(sys.modules, "socksio", None)  # as if it were not installed
    assert proxy_for(None, URL) is None


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


AGENT = "http://agent.example:8000"
LLM: dict[str, Any] = {"max_retries": 0, "timeout": 20}


def ask_cap(http: Any) -> None:
    with CAPClient(AGENT, "k", max_retries=0, http_client=http) as client:
        client.ask("x")


def check_health(http: Any) -> None:
    with CAPClient(AGENT, "k", http_client=http) as client:
        client.health()


def send_a2a(http: Any) -> None:
    with A2AClient(AGENT, max_retries=0, http_client=http) as client:
        client.send_message("x")


def stream_a2a(http: Any) -> None:
    with A2AClient(AGENT, max_retries=0, http_client=http) as client:
        list(client.send_message_stream("x"))


def generate(_: Any) -> None:
    with LLMClient("k", AGENT, "m", **LLM) as client:
        client.generate([{"role": "user", "content": "x"}])


async def ask_cap_async() -> None:
    async with AsyncCAPClient(AGENT, "k", max_retries=0) as client:
        await client.ask("x")


async def send_a2a_async() -> None:
    async with AsyncA2AClient(AGENT, max_retries=0) as client:
        await client.send_message("x")


async def generate_async() -> None:
    async with AsyncLLMClient("k", AGENT, "m", **LLM) as client:
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
@pytest.mark.usefixtures("no_proxies")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_error_names_a_proxy_that_is_not_there(
    call: Callable[[Any], None],
    scheme: str,
    variable: str,
    dead_proxy: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "AGENT", AGENT.replace("http:", f"{scheme}:"))
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
    assert proxy_of(object(), "http://a.test") is None


def test_a_url_that_is_not_valid_has_no_proxy() -> None:
    with httpx2.Client(proxy="http://proxy.test:1", verify=False) as http:
        assert proxy_of(http, URL) == "http://proxy.test:1"
        assert proxy_of(http, "http://\N{DIGIT ONE FULL STOP}.invalid") is None
