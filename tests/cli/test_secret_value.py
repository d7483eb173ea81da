"""One secret: where it comes from, and that it is never shown."""

from pathlib import Path

import pytest

from coreason_client import ArgumentError
from coreason_client.cli.exits import Failure
from coreason_client.cli.serve._secrets import load_secret
from tests.each import each

ENV = {"SECRET_KEY": "from-env"}


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def test_the_option_comes_before_the_environment_and_a_file_before_both(tmp_path: Path) -> None:
    file = write(tmp_path / "secret", b"from-file\n")
    for given, path, expected in (
        ("from-option", None, ("from-option", "--key")),
        (None, None, ("from-env", "SECRET_KEY")),
        (None, file, ("from-file", "--key-file")),
    ):
        found = load_secret("--key", "SECRET_KEY", given=given, file=path, env=ENV)
        assert (found.value, found.source) == expected
        assert "from-" not in repr(found)
    assert load_secret("--key", "SECRET_KEY", env={"SECRET_KEY": ""}).value is None
    with pytest.raises(Failure, match="--key and --key-file cannot be used together"):
        load_secret("--key", "SECRET_KEY", given="a", file=file)


@each("data", [b"", b"\n", b" \n", b"hidden\nhidden\n", b"\nhidden\n"])
def test_a_file_has_one_line(tmp_path: Path, data: bytes) -> None:
    file = write(tmp_path / "secret", data)
    with pytest.raises(ArgumentError) as caught:
        load_secret("--key", "SECRET_KEY", file=file)
    assert str(caught.value) == f"--key-file {file}: the file must have exactly one line"


def test_a_file_is_utf_8(tmp_path: Path) -> None:
    file = write(tmp_path / "secret", b"hidden\xff\n")
    with pytest.raises(ArgumentError) as caught:
        load_secret("--key", "SECRET_KEY", file=file)
    assert str(caught.value) == f"--key-file {file}: the file is not UTF-8"
