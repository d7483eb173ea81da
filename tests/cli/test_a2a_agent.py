"""The options that reach an agent: what is refused, and what is printed of them."""

import re
import shlex

import pytest

from coreason_client import ArgumentError, Secret
from coreason_client.cli.a2a._agent import AgentOptions, parse_headers

URL = "https://agent.example/a b"


def test_a_printed_command_has_all_options_but_no_secret() -> None:
    agent = AgentOptions(
        URL,
        "tell-no-one",
        parse_headers(["X-Api-Key: s3cret", "1st: s3cret"]),
        2.5,
        ["https://api.example"],
        ["urn:x y"],
    )
    line = agent.command("task", "watch", "URL", "$(id)")
    assert line == (
        "coreason a2a task watch 'https://agent.example/a b' '$(id)' --timeout 2.5"
        " --interface-origin https://api.example --extension 'urn:x y'"
        ' --header "X-Api-Key: $X_API_KEY" --header "1st: $_1ST" --token "$TOKEN"'
    )
    assert "s3cret" not in repr(agent)
    assert "tell-no-one" not in repr(agent)


def test_a_token_of_the_environment_need_not_be_given_again() -> None:
    agent = AgentOptions(URL, "tell-no-one", token_from_option=False)
    assert shlex.split(agent.command("chat", "URL")) == ["coreason", "a2a", "chat", URL]


@pytest.mark.parametrize("token", ["a b", " a", "a\n", "é", "a\x00b", "a\tb"])
@pytest.mark.parametrize(
    ("from_option", "name"), [(True, "--token"), (False, "COREASON_A2A_TOKEN")]
)
def test_a_token_is_one_visible_word(token: str, from_option: bool, name: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{name} must be visible ASCII") as caught:
        AgentOptions(URL, token, token_from_option=from_option)
    assert repr(token) not in str(caught.value)


def test_headers_are_parsed_and_their_values_marked_as_secrets() -> None:
    headers = parse_headers(["X-A:  one: two ", "X-B:"])
    assert headers == {"X-A": "one: two", "X-B": ""}
    assert all(isinstance(value, Secret) for value in headers.values())


@pytest.mark.parametrize(
    "option", ["s3cret", ": s3cret", "X Y: s3cret", "X: s3cret\r\nY: z", "X: s3cret\0", "X: s3crét"]
)
def test_a_wrong_header_is_refused_without_its_value(option: str) -> None:
    with pytest.raises(ArgumentError, match=r"^--header must be a name, a colon") as caught:
        parse_headers([option])
    assert not re.search("s3cr[eé]t", str(caught.value))


def test_a_header_is_given_once_and_does_not_compete_with_the_token() -> None:
    with pytest.raises(ArgumentError, match="same name twice, got 'x-a'"):
        parse_headers(["X-A: 1", "x-a: 2"])
    with pytest.raises(ArgumentError, match="must not be Authorization beside --token"):
        AgentOptions(URL, "t", parse_headers(["authorization: Basic x"]))


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("nan")])
def test_a_timeout_is_positive(timeout: float) -> None:
    with pytest.raises(ArgumentError, match="--timeout must be greater than 0"):
        AgentOptions(URL, timeout=timeout)


def test_the_options_of_the_client_are_those_that_were_given() -> None:
    assert AgentOptions(URL).client_options() == {"auth": None}
    agent = AgentOptions(URL, "t", {"X-A": "1"}, 2.0, ["https://a"], ["urn:x"])
    assert agent.client_options() == {
        "auth": "t",
        "headers": {"X-A": "1"},
        "timeout": 2.0,
        "stream_timeout": 2.0,
        "interface_origins": ["https://a"],
        "extensions": ["urn:x"],
    }
    assert agent.card_headers() == {"X-A": "1", "Authorization": "Bearer t"}
