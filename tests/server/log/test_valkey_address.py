"""The redacted parts of the address of a store."""

from urllib.parse import quote

import pytest

from coreason_client._valkey_address import parse_address
from coreason_client.errors import ArgumentError

PASSWORD = "tops3cret/9"


@pytest.mark.parametrize("form", [PASSWORD, quote(PASSWORD, safe="")])
def test_the_password_is_redacted_in_each_form(form: str) -> None:
    address = parse_address(f"valkey://josephine:{quote(PASSWORD, safe='')}@host")
    assert address.redact(f"AUTH josephine {form} failed") == "AUTH *** *** failed"


def test_short_words_stay_readable() -> None:
    address = parse_address("valkey://joe:a@host")
    assert address.redact("Authentication failed for joe") == "Authentication failed for joe"


def test_an_address_without_credentials_redacts_nothing() -> None:
    assert parse_address("valkey://host").redact("no such host") == "no such host"


# Sentinel.


def test_an_address_of_sentinel() -> None:
    url = (
        "valkey+sentinel://ann:s%40ve@one:26380,[::1],two/my%20agents/3"
        "?sentinel_username=guard&sentinel_password=hidden"
    )
    address = parse_address(url, with_sentinel=True)
    assert address.sentinels == (("one", 26380), ("::1", 26379), ("two", 26379))
    assert (address.service, address.db, address.tls) == ("my agents", 3, False)
    assert (address.username, address.password) == ("ann", "s@ve")
    assert (address.sentinel_username, address.sentinel_password) == ("guard", "hidden")
    assert address.shown == "valkey+sentinel://one:26380,[::1],two/my%20agents/3"
    assert address.redact("s@ve hidden guard") == "s@ve *** guard"  # short ones stay readable
    for secret in ("s@ve", "hidden"):
        assert secret not in repr(address)


def test_sentinel_with_tls() -> None:
    address = parse_address("rediss+sentinel://one/agents?ssl_cert_reqs=none", with_sentinel=True)
    assert address.tls
    assert address.tls_options == {"ssl_cert_reqs": "none", "ssl_check_hostname": False}
    assert (address.username, address.password, address.db) == (None, None, 0)


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("http+sentinel://one/agents", "must start with valkey"),
        ("valkey+sentinel://one", "must have the name of the primary"),
        ("valkey+sentinel:///agents", "must name the hosts of Sentinel"),
        ("valkey+sentinel://one,,two/agents", "must name the hosts of Sentinel"),
        ("valkey+sentinel://one:x/agents", "must name the hosts of Sentinel"),
        ("valkey+sentinel://one/agents/x", "must have a database number"),
        ("valkey+sentinel://one/agents?color=red", "may have only the options"),
    ],
)
def test_what_is_not_an_address_of_sentinel(url: str, rule: str) -> None:
    with pytest.raises(ArgumentError, match=rule):
        parse_address(url, with_sentinel=True)


def test_sentinel_is_for_the_log_only() -> None:
    with pytest.raises(ArgumentError, match="must start with redis://"):
        parse_address("valkey+sentinel://one/agents")
