"""What is redacted of the address of a store."""

from urllib.parse import quote

import pytest

from coreason_client._valkey_address import parse_address

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
