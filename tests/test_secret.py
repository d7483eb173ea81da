"""Credentials, and the one rule by which secrets are redacted."""

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client import Secret
from coreason_client._secret import (
    Credential,
    header_secrets,
    mask_tokens,
    redact,
    redact_chain,
    redacted_cause,
)

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


def test_the_cause_of_an_error_is_redacted_or_left_out() -> None:
    def redacted(text: str) -> str:
        return redact(text, [SECRET])

    assert redacted_cause(None, redacted) is None
    assert redacted_cause(Stubborn(), redacted) is None
    cause = ValueError(f"bad {SECRET}")
    assert redacted_cause(cause, redacted) is cause
    assert cause.args == ("bad ***",)


def test_the_members_of_a_group_are_redacted_or_the_group_is_left_out() -> None:
    def redacted(text: str) -> str:
        return redact(text, [SECRET])

    member = ValueError(f"bad {SECRET}")
    member.__cause__ = KeyError(SECRET)
    group = ExceptionGroup("two", [ExceptionGroup("one", [member])])
    assert redacted_cause(group, redacted) is group
    assert member.args == ("bad ***",)
    assert member.__cause__.args == ("***",)
    assert redacted_cause(ExceptionGroup("two", [Stubborn()]), redacted) is None


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("token sk-proj-0123456789 has expired", "token *** has expired"),
        ("got 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl'", "got '***'"),
        ("login.microsoftonline.example refused it", "login.microsoftonline.example refused it"),
        ("AADSTS7000215: no client secret", "AADSTS7000215: no client secret"),
        ("no file /var/run/secrets/token", "no file /var/run/secrets/token"),
    ],
)
def test_what_looks_like_a_token_is_masked(text: str, masked: str) -> None:
    assert mask_tokens(text) == masked


# Credentials


def check(value: str) -> None:
    if not value.isascii() or not value:
        raise ValueError("the credential must be ASCII")


def credential(source: Any) -> Credential:
    return Credential(source, "api_key", check=check, async_client="AsyncClient")


def later(source: Callable[[], str]) -> Callable[[], Awaitable[str]]:
    async def call() -> str:
        return source()

    return call


Get = Callable[..., str]


def getter(given: Credential, way: str) -> Get:
    if way == "sync":
        return given.get
    return lambda **options: asyncio.run(given.get_async(**options))


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_fixed_value(way: str) -> None:
    given = credential(SECRET)
    get = getter(given, way)
    assert get() == get(refresh=True) == given.value == SECRET
    assert not given.can_refresh
    assert SECRET not in repr(given)
    assert given.redact(f"bad {SECRET}, {SECRET}x", {"X-Key": f"{SECRET}x"}) == "bad ***, ***"


@pytest.mark.parametrize("way", ["sync", "async", "async callable"])
def test_a_callable_is_called_for_the_first_value_and_for_a_refresh(way: str) -> None:
    values = iter(["first-value", "second-value", "third-value"])

    def source() -> str:
        return next(values)

    given = credential(later(source) if way == "async callable" else source)
    get = getter(given, way)
    assert given.can_refresh
    assert given.value is None
    assert given.redact("first-value") == "first-value"
    assert [get(), get(), get(refresh=True), get()] == [
        *("first-value", "first-value"),
        *("second-value", "second-value"),
    ]
    assert given.value == "second-value"
    assert given.redact("second-value") == "***"
    assert "second-value" not in repr(given)


def test_an_async_callable_needs_the_async_client() -> None:
    with pytest.raises(TypeError, match="api_key is an async callable; use it with AsyncClient"):
        credential(later(lambda: SECRET)).get()


def test_an_awaitable_that_is_no_coroutine_needs_the_async_client() -> None:
    class Later:
        def __await__(self) -> Any:
            yield

    with pytest.raises(TypeError, match="api_key is an async callable"):
        credential(Later).get()


@pytest.mark.parametrize("odd", [None, 7, b"key", ["key"]])
def test_a_source_that_cannot_be(odd: Any) -> None:
    with pytest.raises(TypeError, match="api_key must be a string, or a callable"):
        credential(odd)
    for get in (credential(lambda: odd).get, getter(credential(later(lambda: odd)), "async")):
        with pytest.raises(TypeError, match="api_key must be a callable that returns a string"):
            get()


@pytest.mark.parametrize("bad", ["", "schl\u00fcssel"])
def test_a_value_that_cannot_be_sent_is_refused_and_not_kept(bad: str) -> None:
    with pytest.raises(ValueError, match="must be ASCII"):
        credential(bad)
    values = iter([bad, SECRET, bad, bad])
    given = credential(lambda: next(values))
    with pytest.raises(ValueError, match="must be ASCII"):
        given.get()
    assert given.get() == SECRET
    with pytest.raises(ValueError, match="must be ASCII"):
        asyncio.run(given.get_async(refresh=True))
    assert given.get() == SECRET
