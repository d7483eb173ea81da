"""Keys: who they belong to, how they are compared, and that they are never shown."""

import hmac
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coreason_client import CAPClient
from coreason_client.server._names import full_principal, ticket_principal
from coreason_client.server.http import _auth
from coreason_client.server.http._auth import (
    Keys,
    bearer_token,
)
from coreason_client.server.http._problems import Problem


def test_a_key_belongs_to_its_principal() -> None:
    keys = Keys({"k1": "ann", "k2": "ann", "k3": "bob"})
    assert [keys.principal(f"Bearer {key}") for key in ("k1", "k2", "k3")] == ["ann", "ann", "bob"]
    assert keys.principal("bearer k1") == "ann"


def test_a_key_without_a_name_is_a_principal_that_does_not_give_it_away() -> None:
    keys = Keys(["first-key", "second-key"])
    principals = {keys.principal("Bearer first-key"), keys.principal("Bearer second-key")}
    assert len(principals) == 2
    assert not any("first" in name or "second" in name for name in principals)
    assert Keys(["first-key"]).principal("Bearer first-key") in principals
    assert "first" not in repr(keys)


@pytest.mark.proves("RES2-12b")
@pytest.mark.parametrize("given", ["a", "b", "c", "wrong", ""])
def test_every_key_is_compared_in_constant_time(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return hmac.compare_digest(a, b)

    monkeypatch.setattr(_auth, "hmac", type("", (), {"compare_digest": staticmethod(compare)}))
    keys = Keys(["a", "b", "c"])
    if given in {"a", "b", "c"}:
        keys.principal(f"Bearer {given}")
    else:
        with pytest.raises(Problem):
            keys.principal(f"Bearer {given}")
    assert len(compared) == 3  # all of them, found or not
    assert {len(value) for pair in compared for value in pair} == {32}  # digests, of one length


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ([], ValueError),
        ([""], ValueError),
        ([" k"], ValueError),
        (["a b"], ValueError),
        (["k\n"], ValueError),
        (["k\x7f"], ValueError),
        ([b"k"], ValueError),
        (["schlüssel"], ValueError),
        (["k", "ключ"], ValueError),
    ],
)
def test_keys_that_cannot_work_are_refused(keys: list[Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="key"):
        Keys(keys)


def test_a_key_that_no_header_can_carry_is_refused_without_showing_it() -> None:
    with pytest.raises(ValueError, match="visible ASCII") as caught:
        Keys({"clé-secrète": "ann"})
    assert "secr" not in str(caught.value)


@given(st.text(st.characters(max_codepoint=0x17F), max_size=4))
@example("a b")
@example("!~")
def test_a_server_accepts_the_keys_that_a_client_can_send_and_no_others(key: str) -> None:
    def accepted(check: Callable[[], object]) -> bool:
        try:
            check()
        except ValueError:
            return False
        return True

    by_client = accepted(lambda: CAPClient("http://agent.example", key).close())
    assert accepted(lambda: Keys([key])) is by_client


def test_ordinary_names_are_joined_as_they_are() -> None:
    """Streams that an earlier release stored keep their owner."""
    assert full_principal("my_agent", "key-0123456789abcdef") == "my_agent/key-0123456789abcdef"
    assert full_principal("guide", "ann@example.com") == "guide/ann@example.com"


parts = st.text(st.sampled_from("/%25Fab"), max_size=6)


@given(first=st.tuples(parts, parts), second=st.tuples(parts, parts))
@example(first=("a/b", "c"), second=("a", "b/c"))
@example(first=("a", "%2F"), second=("a", "/"))
def test_no_two_pairs_have_one_owner(first: tuple[str, str], second: tuple[str, str]) -> None:
    assert (full_principal(*first) == full_principal(*second)) is (first == second)


def test_one_string_is_not_a_list_of_keys() -> None:
    with pytest.raises(TypeError, match="list of keys"):
        Keys("secret")


def test_a_token_that_is_not_text_is_only_wrong() -> None:
    with pytest.raises(Problem):
        Keys(["k"]).principal("Bearer \udcff\xe9")


NAMES = st.text(st.sampled_from("a/%2F") | st.characters(), max_size=8)


@given(NAMES, NAMES, NAMES, NAMES)
@example("a", "b", "a", "tickets/b")
@example("a", "b", "a/tickets", "b")
def test_the_owner_of_a_ticket_is_never_that_of_a_key(
    agent: str, subject: str, other_agent: str, name: str
) -> None:
    assert ticket_principal(agent, subject) != full_principal(other_agent, name)
    same = (agent, subject) == (other_agent, name)
    assert (ticket_principal(agent, subject) == ticket_principal(other_agent, name)) is same


@pytest.mark.parametrize(
    ("header", "token"),
    [
        *(("Bearer a", "a"), ("BEARER  a b ", "a b"), ("Bearer", ""), ("Bearer ", "")),
        *((None, None), ("", None), ("Basic a", None), ("Bearera", None), (" Bearer a", None)),
    ],
)
def test_the_token_of_a_header(header: str | None, token: str | None) -> None:
    assert bearer_token(header) == token
