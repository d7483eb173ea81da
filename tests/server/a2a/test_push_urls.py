"""The URLs to which notifications may be sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.a2a._push._urls import URLRules, WebhookURL

STRICT = URLRules()
OPEN = URLRules(allow_http=True, allow_private=True)


@pytest.mark.parametrize(
    ("url", "parts", "authority"),
    [
        ("https://example.org", ("https", "example.org", 443, "/"), "example.org"),
        ("https://example.org:443/a", ("https", "example.org", 443, "/a"), "example.org"),
        (
            "https://EXAMPLE.org:8443/a/%20b?c=d#e",
            ("https", "example.org", 8443, "/a/%20b?c=d"),
            "example.org:8443",
        ),
        ("https://1.1.1.1/", ("https", "1.1.1.1", 443, "/"), "1.1.1.1"),
        ("https://[2606:2800::1]:1/x", ("https", "2606:2800::1", 1, "/x"), "[2606:2800::1]:1"),
        ("HTTPS://example.org/", ("https", "example.org", 443, "/"), "example.org"),
    ],
)
def test_an_allowed_url(url: str, parts: tuple[str, str, int, str], authority: str) -> None:
    assert STRICT.parse(url) == WebhookURL(*parts)
    assert STRICT.parse(url).authority == authority


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (None, "is required"),
        ("", "is required"),
        (7, "is required"),
        ("https://example.org/" + "a" * 2048, "at most 2048"),
        ("https://example.org/a b", "ASCII"),
        ("https://example.org/\r\nX: y", "ASCII"),
        ("https://exämple.org/", "ASCII"),
        ("https://example.org\\@internal/", "ASCII"),
        ("example.org", "https:// and a host"),
        ("https:///path", "https:// and a host"),
        ("https://", "https:// and a host"),
        ("ftp://example.org/", "https:// and a host"),
        ("file:///etc/passwd", "https:// and a host"),
        ("gopher://example.org/", "https:// and a host"),
        ("https://exa%6dple.org/", "https:// and a host"),
        ("https://[fe80::1%25eth0]/", "https:// and a host"),
        ("https://example.org:0/", "port from 1 to 65535"),
        ("https://example.org:65536/", "valid host and port"),
        ("https://example.org:x/", "valid host and port"),
        ("https://[::1/", "valid host and port"),
        ("https://user@example.org/", "user or password"),
        ("https://user:secret@example.org/", "user or password"),
        ("http://example.org/", "in clear"),
        ("https://localhost/", "public host"),
        ("https://LOCALHOST./", "public host"),
        ("https://a.localhost/", "public host"),
        ("https://127.0.0.1/", "public host"),
        ("https://127.1/", "public host"),
        ("https://2130706433/", "public host"),
        ("https://0x7f000001/", "public host"),
        ("https://0x7f.1/", "public host"),
        ("https://0177.0.0.1/", "public host"),
        ("https://017700000001/", "public host"),
        ("https://10.0.0.1/", "public host"),
        ("https://169.254.169.254/latest/meta-data/", "public host"),
        ("https://2852039166/", "public host"),
        ("https://0.0.0.0/", "public host"),
        ("https://0/", "public host"),
        ("https://[::1]/", "public host"),
        ("https://[::ffff:127.0.0.1]/", "public host"),
        ("https://[::ffff:7f00:1]/", "public host"),
        ("https://[fe80::1]/", "public host"),
        ("https://[fd00::1]/", "public host"),
        ("https://[64:ff9b::7f00:1]/", "public host"),
        ("https://[2002:7f00:1::]/", "public host"),
    ],
)
def test_a_refused_url(url: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        STRICT.parse(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://localhost:8000/x", "https://127.0.0.1/", "http://[::1]/"])
def test_the_switches_allow_what_they_say(url: str) -> None:
    assert OPEN.parse(url).target
    if url.startswith("http:"):
        with pytest.raises(ValueError, match="in clear"):
            URLRules(allow_private=True).parse(url)
    with pytest.raises(ValueError, match="public host"):
        URLRules(allow_http=True).parse(url)


@pytest.mark.parametrize("host", ["169.254.169.254", "0.0.0.0", "[ff02::1]", "255.255.255.255"])
def test_some_addresses_are_never_allowed(host: str) -> None:
    with pytest.raises(ValueError, match="public host"):
        OPEN.parse(f"http://{host}/")


@given(st.text(max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for url in (text, f"https://{text}"):
        try:
            parsed = STRICT.parse(url)
        except ValueError:
            continue
        assert parsed.scheme == "https"
        assert parsed.target.startswith("/")
        assert parsed.authority.isascii()
        assert parsed.authority.isprintable()
