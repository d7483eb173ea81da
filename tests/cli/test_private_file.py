"""Files with secrets: their limit, their lines, and the warning about who can read them."""

import logging
from pathlib import Path

import pytest

from coreason_client.cli._private_file import private_lines, read_private_file
from coreason_client.cli.exits import ExitCode, Failure


def test_lines_have_the_numbers_of_the_file() -> None:
    data = b"\xef\xbb\xbf# comment\none\r\n\n  two words \n #three"
    assert list(private_lines(data)) == [(2, b"one"), (4, b"two words")]


def test_a_file_that_only_its_owner_reads_needs_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "secrets"
    path.write_bytes(b"data")
    path.chmod(0o600)
    with caplog.at_level(logging.WARNING):
        assert read_private_file("--option", path) == b"data"
        assert caplog.messages == []
        path.chmod(0o640)
        read_private_file("--option", path)
    assert caplog.messages == [
        f"other users of this machine can read or change {path}: run chmod 600 on it"
    ]


def test_a_file_that_cannot_be_read_is_named_with_its_option(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(bytes(1024 * 1024 + 1))
    for path, says in (
        (tmp_path / "none", "no such file or directory"),
        (tmp_path, "is a directory"),
        (large, "the file is larger than 1 MiB"),
    ):
        with pytest.raises(Failure) as caught:
            read_private_file("--option", path)
        assert str(caught.value) == f"--option {path}: {says}"
        assert caught.value.code is ExitCode.USAGE
