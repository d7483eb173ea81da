"""A profile: its keys, their types, and what cannot be used together."""

import pytest

from coreason_client.cli.profiles import ProfileError, UserProfile, is_name, parse_profile
from tests.each import each

URL = {"url": "https://agent.example"}


def test_a_profile_has_the_values_of_its_table() -> None:
    table = {**URL, "api_key": "secret-key", "timeout": 5, "max_retries": 2}
    profile = parse_profile("prod", table)
    assert profile == UserProfile(
        name="prod",
        url="https://agent.example",
        api_key="secret-key",
        timeout=5.0,
        max_retries=2,
    )
    assert "secret-key" not in repr(profile)
    assert profile.target == "https://agent.example"
    model = parse_profile("m", {"llm": "gpt-4o", "system": "Be brief."})
    assert (model.target, model.system) == ("gpt-4o", "Be brief.")
    assert parse_profile("guide", {}).target == "the built-in guide"


@each(
    ("command", "words"),
    [("pass show a", ("pass", "show", "a")), ("a 'b c'", ("a", "b c")), (["a", "b"], ("a", "b"))],
)
def test_a_command_is_a_text_or_a_list(command: object, words: tuple[str, ...]) -> None:
    assert parse_profile("p", {**URL, "api_key_command": command}).api_key_command == words


@each(
    ("table", "says"),
    [
        ({"ulr": "x"}, "unknown key 'ulr'; expected one of url, api_key, "),
        ({"url": 5}, "url must be a text that is not empty"),
        ({"url": ""}, "url must be a text that is not empty"),
        ({"timeout": "5"}, "timeout must be a number"),
        ({"timeout": True}, "timeout must be a number"),
        ({"max_retries": 1.5}, "max_retries must be a whole number"),
        ({**URL, "api_key_command": []}, "api_key_command must be a command"),
        ({**URL, "api_key_command": ["a", 1]}, "api_key_command must be a command"),
        ({**URL, "api_key_command": "a 'b"}, "api_key_command is invalid: no closing quotation"),
        ({**URL, "api_key": "k", "api_key_env": "K"}, "api_key and api_key_env cannot be used"),
        ({"api_key_env": "K"}, "api_key_env needs url"),
        ({**URL, "llm": "m"}, "url and llm cannot be used together"),
        ({**URL, "system": "s"}, "system and url cannot be used together"),
    ],
)
def test_a_wrong_table_is_one_sentence(table: dict[str, object], says: str) -> None:
    with pytest.raises(ProfileError) as caught:
        parse_profile("p", table)
    assert str(caught.value).startswith(says)


def test_a_name_is_one_word() -> None:
    assert all(map(is_name, ["prod", "a", "a.b-c_1", "1"]))
    assert not any(map(is_name, ["", "-", "-a", ".a", "a b", "http://x", "größe", "a\n", "why?"]))
