"""The secrets of `coreason serve`: where they come from, and that none is ever shown."""

from pathlib import Path

import pytest

from coreason_client import ArgumentError
from coreason_client.cli.exits import ExitCode, Failure, exit_code_of
from coreason_client.cli.serve._secrets import load_ticket_secrets

ONE, TWO = "1" * 32, "2" * 32


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def test_a_file_has_one_secret_per_line(tmp_path: Path) -> None:
    file = write(tmp_path / "s", f"# new\n{ONE}\n\n# old\n{TWO}\n".encode())
    expected = (ONE, TWO), "--ticket-secrets-file"
    assert load_ticket_secrets(file, {"COREASON_TICKET_SECRETS": "x"}) == expected


@pytest.mark.parametrize(
    ("env", "secrets"),
    [
        ({}, ()),
        ({"COREASON_TICKET_SECRETS": ""}, ()),
        ({"COREASON_TICKET_SECRETS": f" {ONE}\n{TWO} "}, (ONE, TWO)),
    ],
)
def test_without_a_file_the_environment_counts(
    env: dict[str, str], secrets: tuple[str, ...]
) -> None:
    assert load_ticket_secrets(None, env) == (secrets, "COREASON_TICKET_SECRETS")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "the file contains no secret"),
        (b"# nothing\n", "the file contains no secret"),
        (b"hidden\xff\n", "line 1 is not UTF-8"),
        (b"\nhidden hidden\n", "line 2: a secret must not contain spaces"),
    ],
)
def test_a_wrong_file_is_named_and_not_shown(tmp_path: Path, data: bytes, says: str) -> None:
    file = write(tmp_path / "s", data)
    with pytest.raises(ArgumentError) as caught:
        load_ticket_secrets(file, {})
    assert str(caught.value) == f"--ticket-secrets-file {file}: {says}"
    assert exit_code_of(caught.value) is ExitCode.USAGE


def test_a_variable_without_a_secret_is_an_error() -> None:
    with pytest.raises(Failure, match="is set but contains no secret"):
        load_ticket_secrets(None, {"COREASON_TICKET_SECRETS": " \n"})
