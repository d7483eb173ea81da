"""The file of `--api-keys-file`: what it may hold, and messages that never repeat a key."""

import contextlib
import logging
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coreason_client.cli._keys import Keys
from coreason_client.cli._keys_file import parse_keys, read_keys_file
from coreason_client.cli.exits import ExitCode, Failure

HERE = Path("keys.txt")


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("one", {"one": ""}),
        ("one\r\ntwo\r\n", {"one": "", "two": ""}),
        (
            "\ufeffone ann\n\n  # two\n\tthree\tbob and co  \n",
            {"one": "ann", "three": "bob and co"},
        ),
        ("a#b # c", {"a#b": "# c"}),
        ("k=1:2 Zoë", {"k=1:2": "Zoë"}),
    ],
)
def test_keys_and_names(text: str, keys: dict[str, str]) -> None:
    assert parse_keys(HERE, text.encode()) == keys


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "the file contains no key"),
        (b"# nothing\n\n", "the file contains no key"),
        (b"good\nsecret\n\nsecret\n", "line 4 has the same key as line 2"),
        (b"good\nsecret\xff\n", "line 2 is not UTF-8"),
        ("schlüssel\n".encode(), "line 1: a key must consist of printable ASCII characters"),
        (b"sec\x07ret\n", "line 1: a key must consist of printable ASCII characters"),
        (b"secret a\x07b\n", "line 1: a name must consist of printable characters"),
    ],
)
def test_a_wrong_line_is_named_and_not_shown(data: bytes, says: str) -> None:
    with pytest.raises(Failure) as caught:
        parse_keys(HERE, data)
    assert str(caught.value) == f"--api-keys-file keys.txt: {says}"
    assert caught.value.code is ExitCode.USAGE


@given(st.binary(max_size=60))
def test_any_bytes_give_keys_or_a_failure(data: bytes) -> None:
    keys: Mapping[str, str] = {}
    with contextlib.suppress(Failure):
        keys = parse_keys(HERE, data)
        assert keys
    assert all(key.isascii() and key.isprintable() and " " not in key for key in keys)


def test_a_file_that_others_can_read_is_worth_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys.txt"
    path.write_text("secret")
    for mode, warnings in ((0o600, 0), (0o400, 0), (0o640, 1), (0o604, 1), (0o622, 1)):
        path.chmod(mode)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "coreason_client.cli"):
            assert read_keys_file(path) == {"secret": ""}
        assert len(caplog.messages) == warnings
        assert "secret" not in caplog.text.replace(str(path), "")


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    path.write_bytes(b"#" * (1024 * 1024 + 1))
    path.chmod(0o600)
    with pytest.raises(Failure, match="larger than 1 MiB"):
        read_keys_file(path)


def test_options_add_to_a_file_and_variables_do_not(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    path.write_text("one ann")
    path.chmod(0o600)
    found = Keys.load(["two"], {"COREASON_API_KEYS": "three"}, path)
    assert found.with_owners() == {"one": "ann", "two": ""}
    assert found.source == "--api-keys-file"
    assert found.authorization() == '"Authorization: Bearer $KEY"'
    assert "one" not in repr(found)
