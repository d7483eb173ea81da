"""The provider's own words in our messages: found in every form, in one line, and bounded."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client._http._types import Headers, ResponseHead
from coreason_client.llm._classify import http_failure
from coreason_client.llm._json import clean_text, error_reason
from coreason_client.llm._route import Target

BODIES: list[tuple[Any, str]] = [
    ({"message": "The reason."}, "The reason."),
    ({"Message": "The reason."}, "The reason."),
    ({"msg": "The reason."}, "The reason."),
    ({"detail": "The reason."}, "The reason."),
    ({"detail": [{"loc": ["body", "n"], "msg": "bad"}]}, "body.n: bad"),
    ({"detail": {"message": "The reason."}}, "The reason."),
    ({"errors": ["The first.", "The second."]}, "The first.; The second."),
    ({"success": False, "errors": [{"code": 10000, "message": "The reason."}]}, "The reason."),
    ({"errors": {"message": "The reason."}}, "The reason."),
    ({"error": "invalid", "error_description": "The reason."}, "The reason."),
    ({"title": "The reason.", "status": 400}, "The reason."),
    (b"upstream connect error", "upstream connect error"),
    (b"\xef\xbb\xbf no healthy upstream\r\n", "no healthy upstream"),
    (b"two\nlines\x1b[31m and a colour", "two lines [31m and a colour"),
    ({"message": "a\r\n\tb\x00\x9bc"}, "a b c"),
]
MODELS = ["openai/m", "anthropic/m", "gemini/m", "ollama/m", "some-model"]


def sentence(model: str, status: int, body: bytes) -> str:
    route = Target("http://127.0.0.1:9", "sk-of-the-test").route(model)
    try:
        fault = route.adapter.fault(json.loads(body))
    except ValueError:
        fault = None
    return str(http_failure(route, ResponseHead(status, Headers()), fault, body).error)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("body", "reason"), BODIES)
def test_the_reason_is_in_the_message(model: str, body: Any, reason: str) -> None:
    written = body if isinstance(body, bytes) else json.dumps(body).encode()
    words = sentence(model, 500, written)
    if body == {"error": "invalid", "error_description": "The reason."}:
        assert "invalid" in words or reason in words
    else:
        assert reason in words
    assert words.isprintable()


@pytest.mark.parametrize("body", [b"", b"<html><p>502</p></html>", b"{}", b"[]", b"null", b"7"])
def test_no_reason_is_made_up(body: bytes) -> None:
    assert sentence("some-model", 500, body).endswith("answered 500 for model some-model")


def test_a_long_reason_is_cut() -> None:
    assert len(sentence("some-model", 500, b"word " * 100_000)) < 1000


@given(st.text())
def test_what_is_shown_is_one_printable_line(words: str) -> None:
    shown = clean_text(words)
    assert len(shown) <= 500
    assert not set(shown) & set("\r\n\x1b\x00\x7f\x9b\u2028\u2029\u202e")
    shown.encode()  # no half of a surrogate pair


@given(
    st.recursive(
        st.text() | st.integers() | st.none(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["errors", "detail", "message", "error", "loc"]), inner
            )
        ),
    )
)
def test_any_body_has_a_reason_or_none(reply: Any) -> None:
    assert isinstance(error_reason(reply, b""), str)
