"""The secrets of `coreason serve` for tickets: from a file, or from an environment variable."""

import os
from collections.abc import Mapping
from pathlib import Path

from coreason_client import ArgumentError

from .exits import ExitCode, Failure

__all__ = ["SECRETS_FILE_VARIABLE", "SECRETS_VARIABLE", "load_ticket_secrets"]

SECRETS_VARIABLE = "COREASON_TICKET_SECRETS"
SECRETS_FILE_VARIABLE = "COREASON_TICKET_SECRETS_FILE"
_OPTION = "--ticket-secrets-file"


def load_ticket_secrets(
    file: Path | None, env: Mapping[str, str] = os.environ
) -> tuple[tuple[str, ...], str]:
    """Return the secrets, none if there are no tickets, and the option or variable they are from.

    Raises:
        ArgumentError: the file is invalid, or has no secret.
        Failure: the variable has no secret.
    """
    if file is not None:
        from ..server._private_file import read_private_file

        return _parse(file, read_private_file(_OPTION, file)[0]), _OPTION
    text = env.get(SECRETS_VARIABLE)
    if text and not text.split():
        raise Failure(f"{SECRETS_VARIABLE} is set but contains no secret", ExitCode.USAGE)
    return tuple((text or "").split()), SECRETS_VARIABLE


def _parse(path: Path, data: bytes) -> tuple[str, ...]:
    from ..server._private_file import private_lines

    found = []
    for number, line in private_lines(data):
        try:
            secret = line.decode()
        except UnicodeDecodeError:
            raise _error(path, f"line {number} is not UTF-8") from None
        if len(secret.split()) > 1:
            raise _error(path, f"line {number}: a secret must not contain spaces")
        found.append(secret)
    if not found:
        raise _error(path, "the file contains no secret")
    return tuple(found)


def _error(path: Path, reason: str) -> ArgumentError:
    return ArgumentError(_OPTION, f"{path}: {reason}")
