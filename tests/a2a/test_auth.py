"""The origins that get credentials."""

from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest

from coreason_client._http._types import Request
from coreason_client.a2a import AgentCard
from coreason_client.a2a._auth import CardCredential, credentials
from coreason_client.a2a._card import read_card

REQUEST = Request("POST", "https://a.example/x?v=1", {"Cookie": "a=b", "X-Old": "1"})
BASIC = b64encode(b"me:pass").decode()


def card(schemes: dict[str, Any], *needed: dict[str, list[str]]) -> AgentCard:
    return read_card({"name": "x", "securitySchemes": schemes, "security": list(needed)})


def key(location: str, name: str = "k") -> dict[str, str]:
    return {"type": "apiKey", "in": location, "name": name}


BEARER = {"type": "http", "scheme": "Bearer"}


@pytest.mark.parametrize(
    ("scheme", "value", "headers", "url"),
    [
        (BEARER, "t", {"Authorization": "Bearer t"}, None),
        ({"type": "http", "scheme": "basic"}, "me:pass", {"Authorization": f"Basic {BASIC}"}, None),
        ({"type": "http", "scheme": "DPoP"}, "t", {"Authorization": "DPoP t"}, None),
        ({"type": "oauth2", "flows": {}}, "t", {"Authorization": "Bearer t"}, None),
        ({"type": "openIdConnect"}, "t", {"Authorization": "Bearer t"}, None),
        (key("header", "x-old"), "t", {"x-old": "t"}, None),
        (key("cookie"), "t", {"Cookie": "a=b; k=t"}, None),
        (key("query"), "t&u", {}, "https://a.example/x?v=1&k=t%26u"),
    ],
)
@pytest.mark.parametrize("required", [True, False])
def test_a_credential_goes_where_the_card_says(
    scheme: dict[str, str], value: str, headers: dict[str, str], url: str | None, required: bool
) -> None:
    needed = [{"s": list[str]()}] if required else []
    sent = credentials(value, card({"s": scheme}, *needed)).apply(REQUEST)
    for name, expected in headers.items():
        assert sent.headers[name] == expected
    assert sent.url == (url or REQUEST.url)
    assert len({name.lower() for name in sent.headers}) == len(sent.headers)


def test_without_a_card_it_is_a_bearer_token() -> None:
    assert credentials("t").apply(REQUEST).headers["Authorization"] == "Bearer t"
    assert credentials(None).apply(REQUEST) is REQUEST
    both = card({"a": BEARER, "b": key("header")})
    assert credentials("t", both).apply(REQUEST).headers["Authorization"] == "Bearer t"


def test_the_first_requirement_that_can_be_met() -> None:
    schemes = {"cert": {"type": "mutualTLS"}, "a": BEARER, "b": key("header")}
    found = card(schemes, {"cert": []}, {"a": [], "b": []}, {"b": []})
    assert credentials("t", found).apply(REQUEST).headers["k"] == "t"
    named = credentials({"a": "1", "b": "2"}, found).apply(REQUEST)
    assert (named.headers["Authorization"], named.headers["k"]) == ("Bearer 1", "2")
    assert credentials({"b": "2"}, found).apply(REQUEST).headers["k"] == "2"
    with pytest.raises(ValueError, match=r"requires, \['cert', 'a and b', 'b'\]; got \['c'\]"):
        credentials({"c": "3"}, found)


def test_nothing_leaves_its_origin() -> None:
    away = Request("POST", "https://b.example", {}, without_client_defaults=True)
    assert credentials("t").apply(away) is away


def test_a_callable_is_asked_once_and_again_on_refresh() -> None:
    values = iter(["one", "two"])
    given = credentials(lambda: next(values))
    assert given.refresh_after(REQUEST, 401)
    for expected, refresh in (("one", False), ("one", False), ("two", True)):
        sent = given.apply(REQUEST, refresh=refresh)
        assert sent.headers["Authorization"] == f"Bearer {expected}"
    assert "two" not in repr(given)


@pytest.mark.parametrize(
    ("source", "status", "bare", "refreshed"),
    [
        (lambda: "t", 401, False, True),
        (lambda: "t", 403, False, False),
        (lambda: "t", 200, False, False),
        (lambda: "t", 401, True, False),  # it left its origin, and carried no credential
        ("t", 401, False, False),
        (None, 401, False, False),
        ({"a": "1", "b": lambda: "2"}, 401, False, True),
        ({"a": "1", "b": "2"}, 401, False, False),
    ],
)
def test_when_credentials_are_refreshed(
    source: Any, status: int, bare: bool, refreshed: bool
) -> None:
    found = card({"a": BEARER, "b": key("header")}, {"a": [], "b": []})
    request = replace(REQUEST, without_client_defaults=bare)
    assert credentials(source, found).refresh_after(request, status) is refreshed


@pytest.mark.parametrize("odd", ["", "a\nb", "a\0"])
def test_what_cannot_be_sent_is_refused_without_being_shown(odd: str) -> None:
    for make in (
        lambda: credentials(odd),
        lambda: credentials(lambda: odd).apply(REQUEST),
        lambda: credentials({"a": odd}, card({"a": BEARER})),
        lambda: CardCredential(odd),
    ):
        with pytest.raises(ValueError, match="must be one line of text") as caught:
            make()
        assert odd == "" or odd not in str(caught.value)
    with pytest.raises(TypeError):
        credentials(7)  # type: ignore[arg-type]
