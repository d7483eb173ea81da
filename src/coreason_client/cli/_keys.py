"""The keys of `coreason serve`: from options and a file, or from an environment variable.

The server itself reads the file, because it reads it again when it changes.
"""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .exits import ExitCode, Failure

__all__ = ["FILE_VARIABLE", "KEYS_VARIABLE", "KEY_VARIABLE", "Keys"]

KEYS_VARIABLE = "COREASON_API_KEYS"
KEY_VARIABLE = "COREASON_API_KEY"  # for one key; `coreason chat` reads it too
FILE_VARIABLE = "COREASON_API_KEYS_FILE"
# The separators between keys. A single key may contain commas.
_SEPARATORS = {KEYS_VARIABLE: r"[\s,]+", KEY_VARIABLE: r"\s+"}
_FIRST_KEY = {KEYS_VARIABLE: "%%[ ,]*", KEY_VARIABLE: "%% *"}  # its first key, as a shell expansion


@dataclass(frozen=True, slots=True)
class Keys:
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
    ) -> "Keys":
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
