"""The key of a profile: in the file, in a variable, or printed by a command."""

import sys

import pytest

from coreason_client.cli import profiles as _key
from coreason_client.cli.exits import ExitCode, Failure
from coreason_client.cli.profiles import UserProfile, profile_key


def printing(program: str) -> UserProfile:
    return UserProfile(name="prod", api_key_command=(sys.executable, "-c", program))


def test_a_key_comes_from_one_of_three_places(monkeypatch: pytest.MonkeyPatch) -> None:
    assert profile_key(UserProfile(name="prod")) is None
    assert profile_key(UserProfile(name="prod", api_key="k1")) == "k1"
    monkeypatch.setenv("MY_KEY", "k2")
    assert profile_key(UserProfile(name="prod", api_key_env="MY_KEY")) == "k2"
    assert profile_key(printing("print(' k3 \\nlogin: ann')")) == "k3"


def test_a_key_that_is_missing_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    name = sys.executable
    for profile, says in (
        (
            UserProfile(name="prod", api_key_env="MY_KEY"),
            "the environment variable MY_KEY is not set",
        ),
        (printing("exit(3)"), f"api_key_command: {name} ended with exit code 3"),
        (printing("print()"), f"api_key_command: {name} printed no key"),
        (
            UserProfile(name="prod", api_key_command=("/no/such/command",)),
            "api_key_command: /no/such/command: no such file or directory",
        ),
    ):
        with pytest.raises(Failure) as caught:
            profile_key(profile)
        assert str(caught.value) == f"profile 'prod': {says}"
        assert caught.value.code is ExitCode.USAGE


def test_a_command_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_key, "_COMMAND_TIMEOUT", 0.05)
    with pytest.raises(Failure, match=r"did not end within 0\.05 seconds"):
        profile_key(printing("import time; time.sleep(60)"))
