"""The keys of `coreason serve`: their sources, their owners, and the header of the example."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.cli.exits import ExitCode, Failure
from coreason_client.cli.serve._secrets import ApiKeys

from .command import PATIENCE


@pytest.mark.parametrize(
    ("options", "env", "keys", "name"),
    [
        (["o1", "o2"], {"COREASON_API_KEYS": "a"}, ("o1", "o2"), "--api-key"),
        (None, {"COREASON_API_KEYS": " a, b\tc,,d\n"}, ("a", "b", "c", "d"), "COREASON_API_KEYS"),
        (None, {"COREASON_API_KEYS": "a", "COREASON_API_KEY": "b"}, ("a",), "COREASON_API_KEYS"),
        (None, {"COREASON_API_KEYS": "", "COREASON_API_KEY": "b"}, ("b",), "COREASON_API_KEY"),
        (None, {"COREASON_API_KEY": "a b,c"}, ("a", "b,c"), "COREASON_API_KEY"),
        (None, {}, (), "--api-key"),
    ],
)
def test_the_source_of_the_keys(
    options: list[str] | None, env: dict[str, str], keys: tuple[str, ...], name: str
) -> None:
    found = ApiKeys.load(options, env)
    assert (found.values, found.source) == (keys, name)


@pytest.mark.parametrize("value", ["k1", "k1,k2", "k1 k2", "k1, k2"])
def test_the_printed_header_has_the_first_key_in_a_shell(value: str) -> None:
    env = {"COREASON_API_KEYS": value}
    header = ApiKeys.load(None, env).authorization()
    done = subprocess.run(
        ["/bin/sh", "-c", f"printf %s {header}"],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], **env},
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout == "Authorization: Bearer k1"


@pytest.mark.parametrize("value", [" , ", "\t\n"])
def test_a_variable_without_a_key_is_wrong_usage(value: str) -> None:
    with pytest.raises(Failure, match="COREASON_API_KEYS is set but contains no key") as caught:
        ApiKeys.load(None, {"COREASON_API_KEYS": value, "COREASON_API_KEY": "k"})
    assert caught.value.code is ExitCode.USAGE


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys.txt"
    path.write_text("first-key ann\nsecond-key\n")
    path.chmod(0o600)
    return path


def test_options_add_to_a_file_and_variables_do_not(keys_file: Path) -> None:
    keys = ApiKeys.load(["third-key"], {"COREASON_API_KEY": "other"}, keys_file)
    assert (keys.values, keys.source, keys.file) == (("third-key",), "--api-key", keys_file)
    assert keys
    assert not ApiKeys.load(None, {})


def test_keys_are_not_in_the_repr(keys_file: Path) -> None:
    assert "third-key" not in repr(ApiKeys.load(["third-key"], {}, keys_file))


def test_the_header_of_the_example_never_shows_a_key_of_a_file(keys_file: Path) -> None:
    header = ApiKeys.load(["third-key"], {}, keys_file).authorization()
    assert header == '"Authorization: Bearer $KEY"'


@pytest.mark.parametrize(
    ("env", "header"),
    [
        ({"COREASON_API_KEY": "k"}, '"Authorization: Bearer $COREASON_API_KEY"'),
        ({"COREASON_API_KEYS": "k"}, '"Authorization: Bearer $COREASON_API_KEYS"'),
        ({}, None),
    ],
)
def test_a_key_of_the_environment_is_named_and_not_shown(
    env: dict[str, str], header: str | None
) -> None:
    assert ApiKeys.load(None, env).authorization() == header


@given(
    st.lists(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1), min_size=1)
)
def test_the_key_of_an_option_is_quoted_for_a_shell(options: list[str]) -> None:
    header = ApiKeys.load(options, {}).authorization()
    assert shlex.split(header or "") == [f"Authorization: Bearer {options[0]}"]
