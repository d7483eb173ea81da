"""Tickets: what is created is accepted for its time, and nothing else ever is."""

import hmac
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from coreason_client import ArgumentError
from coreason_client.server import create_ticket
from coreason_client.server.http import _auth as _tickets
from coreason_client.server.http._auth import Tickets
from coreason_client.server.http._problems import Problem

SECRET, OTHER = "s" * 32, b"\x00" * 64
NOW = 1_800_000_000
SUBJECTS = st.text(min_size=1, max_size=60).filter(str.isprintable)


def at(seconds: float) -> Any:
    return lambda: NOW + seconds


def ticket(subject: str = "ann", seconds: int = 300, secret: str | bytes = SECRET) -> str:
    return create_ticket(secret, subject, seconds, clock=at(0))


def server(seconds: float = 0, *secrets: str | bytes) -> Tickets:
    return Tickets(secrets or [SECRET], clock=at(seconds))


def signed(text: str, secret: bytes = SECRET.encode()) -> str:
    mac = urlsafe_b64encode(hmac.new(secret, text.encode(), sha256).digest())
    return f"{text}.{mac.decode().rstrip('=')}"


def encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def refused(tickets: Tickets, text: str) -> Problem:
    with pytest.raises(Problem) as caught:
        tickets.subject(text)
    assert caught.value.status == 401
    return caught.value


@given(SUBJECTS, st.integers(1, 300), st.binary(min_size=32))
def test_a_ticket_names_its_subject(subject: str, seconds: int, secret: bytes) -> None:
    text = ticket(subject, seconds, secret)
    assert text.isascii()
    assert not set(text) & set(" \t/+=")
    assert server(seconds - 1, OTHER, secret).subject(text) == subject


def test_the_format_is_the_documented_one() -> None:
    assert ticket("ann", 60) == signed(f"ticket1.{NOW + 60}.{encoded(b'ann')}")


@given(st.integers(1, 300), st.integers(-100_000, 100_000))
@example(seconds=300, at_second=329)
@example(seconds=300, at_second=330)
@example(seconds=300, at_second=-30)
@example(seconds=300, at_second=-31)
def test_it_is_valid_until_it_expires_and_30_seconds_more(seconds: int, at_second: int) -> None:
    """Its `exp` is at most 330 seconds ahead: the clocks may differ by 30 seconds."""
    text, tickets = ticket("ann", seconds), server(at_second)
    left = seconds - at_second
    if -30 < left <= 330:
        assert tickets.subject(text) == "ann"
        return
    problem = refused(tickets, text)
    assert problem.slug == ("invalid-ticket" if left > 0 else "ticket-expired")


@given(st.data())
def test_a_ticket_that_was_changed_anywhere_is_refused(data: st.DataObject) -> None:
    text = ticket()
    place = data.draw(st.integers(0, len(text)))
    changed = data.draw(
        st.sampled_from([text[:place] + text[place + 1 :], text[place:], text[:place]])
        | st.characters().map(lambda one: text[:place] + one + text[place + 1 :])
    )
    assume(changed != text)
    assert refused(server(), changed).slug == "invalid-ticket"


@given(st.text() | st.text("ticket1.0123456789_-AZaz="))
def test_any_other_text_is_refused(text: str) -> None:
    assert refused(server(), text).slug == "invalid-ticket"


@pytest.mark.parametrize(
    "text",
    [
        signed(f"ticket2.{NOW}.{encoded(b'ann')}"),
        signed(f"ticket1.0{NOW}.{encoded(b'ann')}"),
        signed(f"ticket1.+{NOW}.{encoded(b'ann')}"),
        signed(f"ticket1.{NOW}.5.{encoded(b'ann')}"),
        signed(f"ticket1.{NOW}.{encoded(b'an')}="),
        signed(f"ticket1.{NOW}.YW5"),  # the same bytes as YW4
        signed(f"ticket1.{NOW}.A"),
        signed(f"ticket1.{NOW}."),
        signed(f"ticket1.{NOW}.{encoded(bytes([0xFF]))}"),
        signed(f"ticket1.{NOW}.{encoded(b'a' + bytes([10]))}"),
        signed(f"ticket1.{NOW}.{encoded(b'a' * 256)}"),
        signed(f"ticket1.{NOW}.{encoded(b'ann')}", OTHER),
        ticket() + "\n",
    ],
)
def test_even_a_signed_ticket_has_one_spelling(text: str) -> None:
    assert refused(server(), text).slug == "invalid-ticket"


def test_secrets_are_replaced_one_after_the_other() -> None:
    old, new = ticket(secret=SECRET), ticket(secret=OTHER)
    for secrets, accepted in (
        ([SECRET], [old]),
        ([OTHER, SECRET], [old, new]),
        ([OTHER], [new]),
    ):
        for text in (old, new):
            if text in accepted:
                assert server(0, *secrets).subject(text) == "ann"
            else:
                refused(server(0, *secrets), text)


def test_every_secret_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[str, str]] = []

    def compare(a: str, b: str) -> bool:
        compared.append((a, b))
        return hmac.compare_digest(a, b)

    class Watched:
        new = staticmethod(hmac.new)
        compare_digest = staticmethod(compare)

    tickets = server(0, SECRET, OTHER)
    text = ticket()
    monkeypatch.setattr(_tickets, "hmac", Watched)
    for given_text in (text, text[:-1] + "A", "nothing"):
        compared.clear()
        try:
            tickets.subject(given_text)
        except Problem:
            assert given_text != text
        assert len(compared) == 2


@pytest.mark.parametrize(
    ("slug", "text", "description"),
    [
        ("invalid-ticket", "ticket1.x", "The ticket is not valid."),
        (
            "invalid-ticket",
            create_ticket(SECRET, "ann", clock=at(1000)),
            "A ticket may be valid for at most 300 seconds.",
        ),
        (
            "ticket-expired",
            create_ticket(SECRET, "ann", clock=at(-1000)),
            "The ticket has expired.",
        ),
        # Who cannot sign learns nothing about the time.
        ("invalid-ticket", ticket(secret=OTHER, seconds=1), "The ticket is not valid."),
    ],
)
def test_a_refusal_says_why_without_repeating_the_ticket(
    slug: str, text: str, description: str
) -> None:
    problem = refused(server(), text)
    assert problem.slug == slug
    assert problem.headers == {
        "WWW-Authenticate": 'Bearer realm="coreason", error="invalid_token", '
        f'error_description="{description}"'
    }
    assert text not in bytes(problem.response().body).decode()
    assert "ann" not in problem.detail + problem.reason


@pytest.mark.parametrize("secret", ["", "s" * 31, b"s" * 31, "ß" * 15, None, 7])
def test_a_short_secret_is_refused_and_not_shown(secret: Any) -> None:
    for make in (lambda: create_ticket(secret, "ann"), lambda: Tickets([SECRET, secret])):
        with pytest.raises(ArgumentError) as caught:
            make()
        assert "at least 32 bytes" in str(caught.value)
        assert caught.value.value is None


@pytest.mark.parametrize("subject", ["", "a\nb", "\x00", "\u202e", "\ud800", "a" * 256, 7, None])
def test_a_subject_is_printable_text(subject: Any) -> None:
    with pytest.raises(ArgumentError, match="subject must be printable"):
        create_ticket(SECRET, subject)


@pytest.mark.parametrize("seconds", [0, -1, 301, 1.5, True, "60", None])
def test_a_ticket_lasts_5_minutes_at_most(seconds: Any) -> None:
    with pytest.raises(ArgumentError, match="from 1 to 300"):
        create_ticket(SECRET, "ann", seconds)


def test_the_secrets_are_a_list_and_are_not_shown() -> None:
    one: Any
    for one in (SECRET, SECRET.encode()):
        with pytest.raises(TypeError, match="must be a list of secrets, got"):
            Tickets(one)
    with pytest.raises(ArgumentError, match="must not be empty"):
        Tickets([])
    assert SECRET not in repr(Tickets([SECRET]))


def test_by_default_the_clock_is_that_of_the_machine() -> None:
    assert Tickets([SECRET]).subject(create_ticket(SECRET, "ann", 1)) == "ann"
