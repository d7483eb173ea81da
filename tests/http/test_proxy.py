"""The proxy named in messages is the one that httpx2 uses."""

import sys
from typing import Any

import httpx2
import pytest

from coreason_client import MissingExtraError
from coreason_client._http._proxy import proxy_for
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
EXCEPTIONS = (
    "",
    "*",
    "other.test",
    "example.com",
    ".example.com",
    "*.example.com",
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
