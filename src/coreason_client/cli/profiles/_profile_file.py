"""Reads the file with the profiles: `config.toml` in the config folder of the user.

`COREASON_CONFIG` is the path of another file.
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._user_folders import user_file
from ..exits import ExitCode, Failure
from ..output import print_stderr
from ._profile import Profile, ProfileError, is_name, parse_profile

__all__ = ["CONFIG_VARIABLE", "ProfileFile", "load_profiles"]

CONFIG_VARIABLE = "COREASON_CONFIG"
_MAX_BYTES = 1024 * 1024
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class ProfileFile:
    """The profiles of a file; there are none if it does not exist."""

    path: Path
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    exists: bool = False
    is_private: bool = True

    def get(self, name: str) -> Profile:
        """Return a profile; warn if it contains a key that others can read.

        Raises:
            Failure: there is no such profile, or it is invalid.
        """
        if name not in self.tables:
            raise Failure(f"there is no profile {name!r}: {self._hint()}", ExitCode.USAGE)
        try:
            profile = parse_profile(name, self.tables[name])
        except ProfileError as error:
            message = f"{self.path}: profile {name!r}: {error}"
            raise Failure(message, ExitCode.USAGE) from None
        if profile.api_key is not None and not self.is_private:
            print_stderr(
                f"warning: other users of this machine can read or change {self.path},"
                " which contains a key: run chmod 600 on it"
            )
        return profile

    def _hint(self) -> str:
        if not self.exists:
            return f"{self.path} does not exist"
        names = ", ".join(sorted(self.tables))
        return f"{self.path} has {names or 'no profiles'}"


def load_profiles() -> ProfileFile:
    """Read the file.

    Raises:
        Failure: the file cannot be read, or is not valid.
    """
    path = _path()
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        if os.environ.get(CONFIG_VARIABLE):
            raise _failure(path, f"there is no such file (see {CONFIG_VARIABLE})") from None
        return ProfileFile(path)
    except OSError as error:
        raise _failure(path, (error.strerror or str(error)).lower()) from None
    if len(data) > _MAX_BYTES:
        raise _failure(path, "the file is larger than 1 MiB")
    private = os.name == "nt" or not mode & _OTHERS
    return ProfileFile(path, _tables(path, data), exists=True, is_private=private)


def _path() -> Path:
    if given := os.environ.get(CONFIG_VARIABLE):
        return Path(given)
    try:
        return user_file("config", "config.toml")
    except RuntimeError as error:
        raise Failure(f"the file with the profiles cannot be found: {error}") from None


def _tables(path: Path, data: bytes) -> Mapping[str, Mapping[str, Any]]:
    import tomllib  # only if there is a file

    try:
        content = tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise _failure(path, f"not UTF-8 (at line {line})") from None
    except tomllib.TOMLDecodeError as error:
        # The message names the line and the column, and nothing of the content.
        raise _failure(path, f"not valid TOML: {error}") from None
    if unknown := [key for key in content if key != "profiles"]:
        raise _failure(path, f"unknown key {unknown[0]!r}; a profile is a table [profiles.NAME]")
    tables = content.get("profiles", {})
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise _failure(path, "a profile must be a table [profiles.NAME]")
    for name in tables:
        if not is_name(name):
            rule = "expected ASCII letters, digits, '_', '.' and '-', with no '.' or '-' at first"
            raise _failure(path, f"invalid name of a profile, {name!r}; {rule}")
    return tables


def _failure(path: Path, reason: str) -> Failure:
    return Failure(f"{path}: {reason}", ExitCode.USAGE)
