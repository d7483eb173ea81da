"""Headers as metadata, and what a server reads from it."""

import pytest

from coreason_client.a2a._grpc._messages import (
    extensions_in,
    metadata_from_headers,
)


def test_headers_become_metadata() -> None:
    headers = {
        "Accept": "application/json",
        "A2A-Version": "1.0",
        "A2A-Extensions": "https://a.example,https://b.example",
        "Authorization": "Bearer secret",
        "User-Agent": "me",
        "X-Key": "k",
    }
    metadata = metadata_from_headers(headers)
    assert metadata == (
        ("a2a-version", "1.0"),
        ("a2a-extensions", "https://a.example,https://b.example"),
        ("authorization", "Bearer secret"),
        ("x-key", "k"),
    )
    assert extensions_in(metadata) == ["https://a.example", "https://b.example"]


@pytest.mark.parametrize("name", ["grpc-timeout", "data-bin", "a!b", "X~Y"])
def test_names_that_grpc_cannot_send(name: str) -> None:
    with pytest.raises(ValueError, match=f"name '{name.lower()}'"):
        metadata_from_headers({name: "x"})


@pytest.mark.parametrize("value", ["h\u00e9", "a\tb", "a\nb"])
def test_values_that_grpc_cannot_send_are_not_shown(value: str) -> None:
    with pytest.raises(ValueError, match="'x-key': its value is not ASCII text") as caught:
        metadata_from_headers({"X-Key": value})
    assert value not in str(caught.value)


def test_the_extensions_of_a_request_are_named_once() -> None:
    metadata = [
        ("x-a2a-extensions", "b, c"),
        ("a2a-extensions", "a,,b"),
        ("a2a-extensions", " d "),
    ]
    assert extensions_in(iter(metadata)) == ["a", "b", "d", "c"]
