"""One secret of `coreason serve`: from an option, a file or an environment variable."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from coreason_client import ArgumentError

from .exits import ExitCode, Failure

__all__ = ["SecretValue", "load_secret"]


@dataclass(frozen=True, slots=True)
class SecretValue:
    """The secret, None if there is none, and the option or variable that it comes from."""

    value: str | None = field(repr=False)
    source: str


def load_secret(
    option: str,
    variable: str,
    *,
    given: str | None = None,
    file: Path | None = None,
    env: Mapping[str, str] = os.environ,
) -> SecretValue:
    """Return the secret of the option, otherwise of its file, otherwise of the variable.

    The option of the file is `option` with `-file`. The file has the secret in its only line.

    Raises:
        Failure: both options are given, or the file does not have exactly one line.
    """
    if file is None:
        return SecretValue(given or env.get(variable) or None, option if given else variable)
    file_option = f"{option}-file"
    if given is not None:
        raise Failure(f"{option} and {file_option} cannot be used together", ExitCode.USAGE)
    from ..server._private_file import read_private_file

    data, _ = read_private_file(file_option, file)
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        raise ArgumentError(file_option, f"{file}: the file is not UTF-8") from None
    if len(lines) != 1 or not lines[0].strip():
        raise ArgumentError(file_option, f"{file}: the file must have exactly one line")
    return SecretValue(lines[0].strip(), file_option)
