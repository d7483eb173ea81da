"""The cost of a body, counted before it is parsed, against what parsing it finds."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.server.http._body import ValueCount, count_messages
from coreason_manifest.definitions.service import ServiceRequest

from ..peer import envelope

NO_LIMIT = 10**9
texts = st.text(st.sampled_from('a"\\,[]{}:\n é'), max_size=8)
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)
indents = st.sampled_from([None, 1, "\t"])


def counted(body: bytes, cuts: list[int] | None = None) -> int:
    """Count with the body cut at these places."""
    places = sorted({min(cut, len(body)) for cut in cuts or []})
    count = ValueCount()
    for start, end in zip([0, *places], [*places, len(body)], strict=True):
        assert count.feed(body[start:end], NO_LIMIT)
    return count.count


def values(document: Any) -> tuple[int, int]:
    """Return how many values a document has, and how many of them are empty lists or objects."""
    if not isinstance(document, list | dict):
        return 1, 0
    inner = [
        values(item) for item in (document if isinstance(document, list) else document.values())
    ]
    return 1 + sum(n for n, _ in inner), (not inner) + sum(empty for _, empty in inner)


@given(document=documents, ascii_only=st.booleans(), indent=indents)
def test_no_value_goes_uncounted(document: Any, ascii_only: bool, indent: Any) -> None:
    body = json.dumps(document, ensure_ascii=ascii_only, indent=indent).encode()
    found, empty = values(document)
    assert counted(body) == found + empty


@given(document=documents, cuts=st.lists(st.integers(0, 200), max_size=10))
def test_chunks_change_nothing(document: Any, cuts: list[int]) -> None:
    body = json.dumps(document).encode()
    assert counted(body, cuts) == counted(body)


@given(body=st.binary(max_size=100), cuts=st.lists(st.integers(0, 100), max_size=5))
def test_what_is_no_json_is_counted_somehow(body: bytes, cuts: list[int]) -> None:
    assert 1 <= counted(body, cuts) <= len(body) + 1


def test_counting_ends_with_the_first_value_too_many() -> None:
    count = ValueCount()
    assert not count.feed(b"[" * 10_000_000, 100)
    assert count.count <= 65_537  # of the first slice


def test_commas_and_brackets_of_a_text_are_free() -> None:
    body = json.dumps({"code": 'f([1, 2, {"a": 3}]);\\' * 10_000}).encode()
    assert counted(body) == 2


def message(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


TEXT = {"type": "text", "content": "a"}


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        ([], (0, 0)),
        ([message()], (1, 0)),
        ([message(TEXT, TEXT), message(TEXT)], (2, 3)),
        ([{"role": "user"}, 7, None, "x", []], (5, 0)),
        ([message(7, None, TEXT), {"parts": 7}], (2, 3)),
        (None, (0, 0)),
        (7, (0, 0)),
        ({"0": message(TEXT)}, (0, 0)),
    ],
)
def test_messages_and_parts(messages: Any, found: tuple[int, int]) -> None:
    body = envelope()
    body["payload"]["messages"] = messages
    assert count_messages(json.dumps(body).encode()) == found


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b'{"payload": 7}', b"\xff", b"[" * 1000])
def test_what_is_no_request_has_no_messages(body: bytes) -> None:
    assert count_messages(body) == (0, 0)


@given(messages=st.lists(st.integers(0, 5), max_size=10), more=documents)
def test_the_counts_are_those_of_the_valid_request(messages: list[int], more: Any) -> None:
    body = envelope(unknown=more)
    body["payload"]["messages"] = [message(*[TEXT] * parts) for parts in messages]
    raw = json.dumps(body).encode()
    request = ServiceRequest.model_validate_json(raw)
    assert request.payload.messages is not None
    assert count_messages(raw) == (len(messages), sum(messages))
