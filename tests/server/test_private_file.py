"""Files with secrets: their limit, their lines, and the warning about who can read them."""

import logging
from pathlib import Path

import pytest

from coreason_client import ArgumentError
from coreason_client.server._private_file import private_lines, read_private_file, version_of


def test_lines_have_the_numbers_of_the_file() -> None:
    data = b"\xef\xbb\xbf# comment\none\r\n\n  two words \n #three"
    assert list(private_lines(data)) == [(2, b"one"), (4, b"two words")]


def test_a_file_that_others_can_read_is_worth_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "secrets"
    path.write_bytes(b"data")
    # A service reads a file of root through its group.
    for mode, warnings in ((0o600, 0), (0o400, 0), (0o640, 0), (0o604, 1), (0o620, 1)):
        path.chmod(mode)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert read_private_file("--option", path) == (b"data", version_of(path))
            read_private_file("--option", path, warns=False)
        assert (
            caplog.messages
            == [f"other users of this machine can read or change {path}: run chmod 600 on it"]
            * warnings
        )


def test_a_file_that_cannot_be_read_is_named_with_its_option(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(bytes(1024 * 1024 + 1))
    for path, says in (
        (tmp_path / "none", "no such file or directory"),
        (tmp_path, "is a directory"),
        (large, "the file is larger than 1 MiB"),
    ):
        with pytest.raises(ArgumentError) as caught:
            read_private_file("--option", path)
        assert str(caught.value) == f"--option {path}: {says}"


def test_a_file_that_was_changed_or_replaced_has_another_version(tmp_path: Path) -> None:
    path, other = tmp_path / "one", tmp_path / "two"
    assert version_of(path) is None
    path.write_bytes(b"a")
    first = version_of(path)
    assert first is not None
    path.write_bytes(b"ab")
    second = version_of(path)
    other.write_bytes(b"ab")
    other.replace(path)
    assert len({first, second, version_of(path)}) == 3
