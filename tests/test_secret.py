"""The one rule by which secrets are redacted."""

from base64 import b64encode
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client import Secret
from coreason_client._secret import header_secrets, redact, redact_chain

SECRET = "sk-4f1c/9e7a b2"


def test_all_forms_of_a_secret_are_redacted() -> None:
    forms = [SECRET, quote(SECRET, safe=""), b64encode(SECRET.encode()).decode()]
    for form in forms:
        assert redact(f"bad key {form}!", [SECRET, None, ""]) == "bad key ***!"


def test_a_secret_that_contains_another_goes_as_a_whole() -> None:
    assert redact("Bearer sk-123456 and sk-123456-long", ["sk-123456", "sk-123456-long"]) == (
        "Bearer *** and ***"
    )


@pytest.mark.parametrize("short", ["e", "a", "local", "12345"])
def test_a_short_key_is_a_word_like_any_other(short: str) -> None:
    assert redact("the local server e refused a", [short]) == "the local server e refused a"


@given(
    secrets=st.lists(st.text(min_size=6, max_size=12), max_size=4),
    texts=st.lists(st.text(max_size=8), min_size=5, max_size=5),
)
def test_no_secret_survives(secrets: list[str], texts: list[str]) -> None:
    parts = [part for pair in zip(texts, [*secrets, *[""] * 5], strict=False) for part in pair]
    redacted = redact("".join(parts), secrets)
    assert not [secret for secret in secrets if secret in redacted.replace("***", "\0")]


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("Authorization", "Bearer sk-123456", {"Bearer sk-123456", "sk-123456"}),
        ("AUTHORIZATION", "sk-123456", {"sk-123456", ""}),
        (
            "Proxy-Authorization",
            "Basic " + b64encode(b"ann:password1").decode(),
            {
                "Basic " + b64encode(b"ann:password1").decode(),
                b64encode(b"ann:password1").decode(),
                "ann:password1",
                "password1",
            },
        ),
        ("Cookie", "a=first1; b=second2", {"a=first1; b=second2", "first1", "second2"}),
        ("X-API-Key", "value-1", {"value-1"}),
        ("apikey", "value-1", {"value-1"}),
        ("x_session_token", "value-1", {"value-1"}),
        ("X-Secret", "value-1", {"value-1"}),
        ("X-Tenant", Secret("value-1"), {"value-1"}),
        ("X-Tenant", "value-1", set()),
        ("X-Monkey", "value-1", set()),
        ("Accept", "application/json", set()),
    ],
)
def test_the_secrets_among_headers(name: str, value: str, found: set[str]) -> None:
    assert set(header_secrets({name: value})) == found


def test_a_secret_is_text_that_its_repr_does_not_show() -> None:
    secret = Secret(SECRET)
    assert secret == SECRET
    assert secret.encode() == SECRET.encode()
    assert SECRET not in f"{secret!r} {[secret]} { {'X-Tenant': secret} }"


class Stubborn(Exception):
    """An error that says what it says, whatever its arguments."""

    def __str__(self) -> str:
        return f"it was {SECRET}"


def raise_chain() -> None:
    try:
        try:
            raise Stubborn
        except Stubborn:
            raise KeyError(SECRET)  # noqa: B904 - the context is what is tested
    except KeyError as error:
        raise ValueError(f"bad {SECRET}", 7) from error


def test_a_chain_of_errors_is_redacted_to_its_end() -> None:
    with pytest.raises(ValueError, match="bad") as caught:
        raise_chain()
    error = caught.value
    error.add_note(f"with {SECRET}")
    redact_chain(error, lambda text: redact(text, [SECRET]))
    assert error.args == ("bad ***", 7)
    assert error.__notes__ == ["with ***"]
    assert isinstance(error.__cause__, KeyError)
    assert error.__cause__.args == ("***",)
    assert error.__cause__.__context__ is None


def test_a_chain_that_is_a_circle_ends() -> None:
    one, other = ValueError(SECRET), ValueError(SECRET)
    one.__context__, other.__context__ = other, one
    redact_chain(one, lambda text: redact(text, [SECRET]))
    assert one.args == other.args == ("***",)
