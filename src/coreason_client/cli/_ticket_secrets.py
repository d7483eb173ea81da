"""The secrets of `coreason serve` for tickets: from a file, or from an environment variable."""

import os
from collections.abc import Mapping
from pathlib import Path

from ._private_file import file_failure, private_lines, read_private_file
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
        Failure: the file or the variable has no secret, or the file is invalid.
    """
    if file is not None:
        return _parse(file, read_private_file(_OPTION, file)), _OPTION
    text = env.get(SECRETS_VARIABLE)
    if text and not text.split():
        raise Failure(f"{SECRETS_VARIABLE} is set but contains no secret", ExitCode.USAGE)
    return tuple((text or "").split()), SECRETS_VARIABLE


def _parse(path: Path, data: bytes) -> tuple[str, ...]:
    found = []
    for number, line in private_lines(data):
        try:
            secret = line.decode()
        except UnicodeDecodeError:
            raise file_failure(_OPTION, path, f"line {number} is not UTF-8") from None
        if len(secret.split()) > 1:
            raise file_failure(_OPTION, path, f"line {number}: a secret must not contain spaces")
        found.append(secret)
    if not found:
        raise file_failure(_OPTION, path, "the file contains no secret")
    return tuple(found)
