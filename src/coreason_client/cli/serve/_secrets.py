"""The secrets of `coreason serve`: API keys, ticket secrets, the key for metrics, a password.

They come from options, from files, or from environment variables. The server itself reads the file
with the API keys, because it reads it again when it changes.
"""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coreason_client import ArgumentError

from ..exits import ExitCode, Failure
from ._options import (
    KEY_VARIABLE,
    KEYS_VARIABLE,
    METRICS_KEY_VARIABLE,
    SECRETS_VARIABLE,
    ServeOptions,
)

_TICKET_HEADER = '"Authorization: Bearer $TICKET"'


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
    from ...server._private_file import read_private_file

    data, _ = read_private_file(file_option, file)
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        raise ArgumentError(file_option, f"{file}: the file is not UTF-8") from None
    if len(lines) != 1 or not lines[0].strip():
        raise ArgumentError(file_option, f"{file}: the file must have exactly one line")
    return SecretValue(lines[0].strip(), file_option)


# API keys

# The separators between keys. A single key may contain commas.
_SEPARATORS = {KEYS_VARIABLE: r"[\s,]+", KEY_VARIABLE: r"\s+"}
_FIRST_KEY = {KEYS_VARIABLE: "%%[ ,]*", KEY_VARIABLE: "%% *"}  # its first key, as a shell expansion


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """The keys outside the file, the option or environment variable of theirs, and the file."""

    values: Sequence[str] = field(repr=False)
    source: str
    file: Path | None = None

    @classmethod
    def load(
        cls,
        options: Sequence[str] | None,
        env: Mapping[str, str] = os.environ,
        file: Path | None = None,
    ) -> "ApiKeys":
        """Return the keys of the options and the file, or else of the first variable that is set.

        Raises:
            Failure: that variable contains no key.
        """
        if file is not None or options:
            return cls(tuple(options or ()), "--api-key", file)
        for variable, separator in _SEPARATORS.items():
            if text := env.get(variable):
                values = tuple(filter(None, re.split(separator, text)))
                if not values:
                    raise Failure(f"{variable} is set but contains no key", ExitCode.USAGE)
                return cls(values, variable)
        return cls((), "--api-key")

    def __bool__(self) -> bool:
        return bool(self.values) or self.file is not None

    def authorization(self) -> str | None:
        """Return the header for the printed command, quoted for the shell; None without keys."""
        if not self:
            return None
        if self.file is not None:
            # A key from a file must not appear in the terminal.
            return '"Authorization: Bearer $KEY"'
        if self.source not in _SEPARATORS:
            return shlex.quote(f"Authorization: Bearer {self.values[0]}")
        # A key from the environment must not appear in the terminal or its logs.
        first = (
            f"{{{self.source}{_FIRST_KEY[self.source]}}}" if len(self.values) > 1 else self.source
        )
        return f'"Authorization: Bearer ${first}"'


# Ticket secrets

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
        from ...server._private_file import read_private_file

        return _parse(file, read_private_file(_OPTION, file)[0]), _OPTION
    text = env.get(SECRETS_VARIABLE)
    if text and not text.split():
        raise Failure(f"{SECRETS_VARIABLE} is set but contains no secret", ExitCode.USAGE)
    return tuple((text or "").split()), SECRETS_VARIABLE


def _parse(path: Path, data: bytes) -> tuple[str, ...]:
    from ...server._private_file import private_lines

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


# All of them


@dataclass(frozen=True, slots=True)
class ServeSecrets:
    """The secrets that the application needs, each with the option or variable it comes from."""

    keys: ApiKeys = ApiKeys((), "--api-key")
    tickets: Sequence[str] = field(default=(), repr=False)
    tickets_source: str = SECRETS_VARIABLE
    metrics_key: SecretValue = SecretValue(None, "--metrics-key")

    @classmethod
    def load(cls, options: ServeOptions) -> "ServeSecrets":
        """Return the secrets of the options, their files and the environment.

        Raises:
            ArgumentError, Failure: a file or a variable is invalid.
        """
        tickets, source = load_ticket_secrets(options.ticket_secrets_file)
        keys = ApiKeys.load(options.api_keys, file=options.api_keys_file)
        metrics_key = load_secret(
            "--metrics-key",
            METRICS_KEY_VARIABLE,
            given=options.metrics_key,
            file=options.metrics_key_file,
        )
        return cls(keys, tickets, source, metrics_key)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ServeSecrets":
        """Return the secrets of which `asdict` has made a dict."""
        nested = {
            "keys": ApiKeys(**values["keys"]),
            "metrics_key": SecretValue(**values["metrics_key"]),
        }
        return cls(**{**values, **nested})

    def authorization(self) -> str | None:
        """Return the header for the printed command, quoted for the shell; None without secrets."""
        return self.keys.authorization() or (_TICKET_HEADER if self.tickets else None)
