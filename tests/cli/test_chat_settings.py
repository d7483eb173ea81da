"""Options before the profile, the profile before the environment; keys only where they belong."""

from typing import Any

import pytest

from coreason_client.cli.chat._settings import ChatOptions, ChatSettings, resolve
from coreason_client.cli.exits import Failure
from coreason_client.cli.profiles import UserProfile
from tests.each import each

PROD = UserProfile(name="prod", url="https://prod.example", api_key="prod-key", timeout=5.0)
MODEL = UserProfile(name="fast", llm="fast-model", system="Be brief.", max_retries=7)
ENV: dict[str, Any] = {"env_url": "https://env.example", "env_api_key": "env-key"}


def settings(profile: UserProfile | None = None, **options: Any) -> ChatSettings:
    env = {name[4:]: options.pop(name) for name in [*options] if name.startswith("env_")}
    return resolve(ChatOptions(**options), env, profile, lambda profile: profile.api_key)


@each(
    ("profile", "options", "url", "key", "llm"),
    [
        (None, {}, None, None, None),
        (None, ENV, "https://env.example", "env-key", None),
        (None, {**ENV, "url": "https://o.example"}, "https://o.example", "env-key", None),
        (None, {**ENV, "api_key": "o-key"}, "https://env.example", "o-key", None),
        (None, {**ENV, "llm": "m"}, None, "env-key", "m"),
        (PROD, ENV, "https://prod.example", "prod-key", None),
        (PROD, {**ENV, "api_key": "o-key"}, "https://prod.example", "o-key", None),
        # The key of a profile is not sent elsewhere, and that of the environment not to it.
        (PROD, {**ENV, "url": "https://o.example"}, "https://o.example", "env-key", None),
        (PROD, {"url": "https://o.example"}, "https://o.example", None, None),
        (UserProfile(name="p", url="https://p.example"), ENV, "https://p.example", None, None),
        (PROD, {**ENV, "llm": "m"}, None, "env-key", "m"),
        (MODEL, ENV, None, "env-key", "fast-model"),
        (MODEL, {"llm": "m"}, None, None, "m"),
        (MODEL, {"url": "https://o.example"}, "https://o.example", None, None),
        (UserProfile(name="p", timeout=1.0), ENV, "https://env.example", "env-key", None),
    ],
)
def test_what_is_asked_with_which_key(
    profile: UserProfile | None,
    options: dict[str, Any],
    url: str | None,
    key: str | None,
    llm: str | None,
) -> None:
    found = settings(profile, **options)
    assert (found.url, found.api_key, found.llm) == (url, key, llm)


def test_other_values_are_those_of_the_option_or_else_the_profile() -> None:
    assert (settings().timeout, settings().max_retries) == (60.0, None)
    assert (settings(PROD).timeout, settings(PROD, timeout=1.0).timeout) == (5.0, 1.0)
    assert (settings(MODEL).max_retries, settings(MODEL, max_retries=0).max_retries) == (7, 0)
    assert settings(MODEL).system == "Be brief."
    assert settings(MODEL, llm="m").system == "Be brief."
    assert settings(MODEL, system="Rhyme.").system == "Rhyme."
    assert settings(MODEL, url="https://o.example").system is None


def test_the_source_of_a_value_is_named() -> None:
    assert settings(PROD).names == {
        "base_url": "url of profile 'prod'",
        "api_key": "api_key of profile 'prod'",
        "timeout": "timeout of profile 'prod'",
        "max_retries": "--max-retries",
    }
    assert settings(**ENV).names["base_url"] == "COREASON_URL"
    assert settings(**ENV).names["api_key"] == "COREASON_API_KEY"
    named = settings(PROD, url="https://o.example", api_key="k", timeout=1.0).names
    assert [named[name] for name in ("base_url", "api_key", "timeout")] == [
        *("--url", "--api-key", "--timeout"),
    ]


@each(
    ("profile", "options", "command"),
    [
        (None, {"url": "https://o.example/a b"}, "coreason chat --url 'https://o.example/a b'"),
        (None, ENV, "coreason chat"),
        (PROD, {}, "coreason chat prod"),
        (PROD, {"api_key": "o-key"}, 'coreason chat prod --api-key "$KEY"'),
        (PROD, {"url": "https://o.example"}, "coreason chat prod --url https://o.example"),
        (MODEL, {}, None),
        (None, {}, None),
    ],
)
def test_the_command_that_asks_again_contains_no_key(
    profile: UserProfile | None, options: dict[str, Any], command: str | None
) -> None:
    assert settings(profile, **options).command == command
    shown = repr(settings(profile, **options))
    assert not [key for key in ("o-key", "env-key", "prod-key") if key in shown]


def test_options_that_contradict_each_other() -> None:
    with pytest.raises(Failure, match="--url and --llm cannot be used together"):
        settings(url="https://o.example", llm="m")
    for profile, options in ((None, {}), (PROD, {}), (MODEL, {"url": "https://o.example"})):
        with pytest.raises(Failure, match="--system needs --llm"):
            settings(profile, system="Be brief.", **options)


def test_the_key_of_a_profile_is_read_only_if_it_is_needed() -> None:
    def fail(profile: UserProfile) -> str:
        raise AssertionError

    resolve(ChatOptions(api_key="k"), {}, PROD, fail)
    resolve(ChatOptions(url="https://o.example"), {}, PROD, fail)
    resolve(ChatOptions(llm="m"), {}, PROD, fail)
