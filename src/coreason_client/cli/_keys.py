"""The keys of `coreason serve`: options and a file, or one of two variables of the environment."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ._keys_file import read_keys_file
from .exits import ExitCode, Failure

__all__ = ["FILE_VARIABLE", "KEYS_VARIABLE", "KEY_VARIABLE", "Keys"]

KEYS_VARIABLE = "COREASON_API_KEYS"
KEY_VARIABLE = "COREASON_API_KEY"  # for one key, as `coreason chat` reads it
FILE_VARIABLE = "COREASON_API_KEYS_FILE"
# How each is divided. A single key may have commas in it.
_SEPARATORS = {KEYS_VARIABLE: r"[\s,]+", KEY_VARIABLE: r"\s+"}
_FIRST = {KEYS_VARIABLE: "%%[ ,]*", KEY_VARIABLE: "%% *"}  # its first key, for a shell


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys, and the name of the option or variable that they come from."""

    values: Sequence[str] = field(repr=False)
    name: str
    owners: Mapping[str, str] = field(default_factory=dict, repr=False)  # of some keys

    @classmethod
    def found(
        cls,
        options: Sequence[str] | None,
        env: Mapping[str, str] = os.environ,
        file: Path | None = None,
    ) -> "Keys":
        """Return the keys of the options and the file, or else of the first variable that is set.

        Raises:
            Failure: that variable has only blanks and commas in it, or the file is wrong.
        """
        if file is not None:
            owners = read_keys_file(file)
            return cls((*owners, *(options or ())), "--api-keys-file", owners)
        if options:
            return cls(tuple(options), "--api-key")
        for variable, separator in _SEPARATORS.items():
            if text := env.get(variable):
                values = tuple(filter(None, re.split(separator, text)))
                if not values:
                    raise Failure(f"{variable} is set, but there is no key in it", ExitCode.USAGE)
                return cls(values, variable)
        return cls((), "--api-key")

    def named(self) -> dict[str, str]:
        """Return the owner of each key, "" where none is named."""
        return {key: self.owners.get(key, "") for key in self.values}

    def authorization(self) -> str | None:
        """Return the header for a printed command, as a word for the shell; None without keys."""
        if not self.values:
            return None
        if self.owners:
            # A key that was kept out of the terminal stays out of it.
            return '"Authorization: Bearer $KEY"'
        if self.name not in _SEPARATORS:
            return shlex.quote(f"Authorization: Bearer {self.values[0]}")
        # A key that was kept off the command line is kept out of the terminal and its logs too.
        first = f"{{{self.name}{_FIRST[self.name]}}}" if len(self.values) > 1 else self.name
        return f'"Authorization: Bearer ${first}"'
