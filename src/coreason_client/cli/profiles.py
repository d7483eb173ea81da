"""Profiles: names for agents and models, and the command `coreason profiles`.

They are tables in `config.toml` in the config folder of the user. `COREASON_CONFIG` is the path of
another file.
"""

import os
import re
import shlex
import stat
import subprocess
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from ._user_folders import user_file
from .exits import ExitCode, Failure, epilog, exit_codes, reason_of
from .output import print_stderr, print_stdout, show_rows

__all__ = [
    "CONFIG_VARIABLE",
    "PROFILES_EPILOG",
    "ProfileError",
    "ProfileFile",
    "UserProfile",
    "complete_profile",
    "complete_profile_word",
    "is_name",
    "load_profiles",
    "looks_like_name",
    "parse_profile",
    "profile_key",
    "profiles",
    "split_profile",
]

# A profile and the rules for its keys

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_KEYS = ("api_key", "api_key_env", "api_key_command")


class ProfileError(Exception):
    """A profile is invalid; the message contains no key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserProfile:
    """An agent or a model with its settings; None where nothing is set."""

    name: str
    url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    api_key_env: str | None = None
    api_key_command: Sequence[str] | None = field(default=None, repr=False)
    llm: str | None = None
    system: str | None = None
    timeout: float | None = None
    max_retries: int | None = None

    @property
    def target(self) -> str:
        """The agent or the model that the profile is for."""
        return self.url or self.llm or "the built-in guide"


def is_name(text: str) -> bool:
    """Return True if a profile can have this name: one word that is not an option, path or URL."""
    return _NAME.fullmatch(text) is not None


def parse_profile(name: str, table: Mapping[str, Any]) -> UserProfile:
    """Return the profile of a table.

    Raises:
        ProfileError: a key is unknown, or has a wrong type, or two keys contradict each other.
    """
    if unknown := [key for key in table if key not in _PARSERS]:
        known = ", ".join(_PARSERS)
        raise ProfileError(f"unknown key {unknown[0]!r}; expected one of {known}")
    profile = UserProfile(name=name, **{key: _PARSERS[key](key, table[key]) for key in table})
    keys = [key for key in _KEYS if key in table]
    if len(keys) > 1:
        raise ProfileError(f"{keys[0]} and {keys[1]} cannot be used together")
    if keys and profile.url is None:
        raise ProfileError(f"{keys[0]} needs url: it is sent only there")
    if profile.url is not None and profile.llm is not None:
        raise ProfileError("url and llm cannot be used together")
    if profile.system is not None and profile.url is not None:
        raise ProfileError("system and url cannot be used together: it is for models")
    return profile


def _text(key: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ProfileError(f"{key} must be a text that is not empty")
    return value


def _number(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ProfileError(f"{key} must be a number")
    return float(value)


def _count(key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ProfileError(f"{key} must be a whole number")
    return value


def _words(key: str, value: object) -> Sequence[str]:
    """Return the words of a command: a list, or a text that is split as by a shell."""
    words: object = value
    if isinstance(value, str):
        try:
            words = shlex.split(value)
        except ValueError as error:
            raise ProfileError(f"{key} is invalid: {str(error).lower()}") from None
    if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
        raise ProfileError(f"{key} must be a command: a text, or a list of texts")
    return tuple(words)


_PARSERS: Mapping[str, Callable[[str, object], Any]] = {
    "url": _text,
    "api_key": _text,
    "api_key_env": _text,
    "api_key_command": _words,
    "llm": _text,
    "system": _text,
    "timeout": _number,
    "max_retries": _count,
}


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

    def get(self, name: str) -> UserProfile:
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
        raise _failure(path, reason_of(error)) from None
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


# The key: from the file, from a variable, or from a command

_COMMAND_TIMEOUT = 60.0  # seconds; a password manager may ask for a passphrase


def profile_key(profile: UserProfile) -> str | None:
    """Return the key, None if the profile has none.

    Raises:
        Failure: the variable is not set, or the command fails.
    """
    if profile.api_key_env is not None:
        if key := os.environ.get(profile.api_key_env):
            return key
        raise _key_failure(profile, f"the environment variable {profile.api_key_env} is not set")
    if profile.api_key_command is not None:
        return _first_line(profile, profile.api_key_command)
    return profile.api_key


def _first_line(profile: UserProfile, command: Sequence[str]) -> str:
    """Run a command without a shell, and return the first line that it prints."""
    try:
        # The user's own command. It has the terminal, to ask for a passphrase.
        done = subprocess.run(  # noqa: S603
            command, stdout=subprocess.PIPE, timeout=_COMMAND_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        reason = f"{command[0]} did not end within {_COMMAND_TIMEOUT:g} seconds"
        raise _key_failure(profile, f"api_key_command: {reason}") from None
    except (OSError, ValueError) as error:
        reason = f"{command[0]}: {reason_of(error)}"
        raise _key_failure(profile, f"api_key_command: {reason}") from None
    if done.returncode:
        reason = f"{command[0]} ended with exit code {done.returncode}"
        raise _key_failure(profile, f"api_key_command: {reason}")
    key = done.stdout.decode(errors="replace").partition("\n")[0].strip()
    if not key:
        raise _key_failure(profile, f"api_key_command: {command[0]} printed no key")
    return key


def _key_failure(profile: UserProfile, reason: str) -> Failure:
    return Failure(f"profile {profile.name!r}: {reason}", ExitCode.USAGE)


# The first word after `coreason chat`


def looks_like_name(arguments: Sequence[str]) -> bool:
    """Return True if the first argument may be a profile."""
    return bool(arguments) and is_name(arguments[0])


def split_profile(
    arguments: Sequence[str], option: str | None, names: Callable[[], Container[str]]
) -> tuple[str | None, list[str]]:
    """Return the name of the profile, and the arguments that are the question.

    `option` is the value of `--profile`; the arguments are then only the question. `names` returns
    the profiles that exist. It is called only if the first argument may be one of them, so a
    mistake in the file does not disturb other questions.
    """
    if option is None and looks_like_name(arguments) and arguments[0] in names():
        return arguments[0], list(arguments[1:])
    return option, list(arguments)


# Shell completion; a mistake in the file completes nothing


def complete_profile(incomplete: str) -> Iterable[tuple[str, str]]:
    """Complete the name of a profile; its agent or model is shown beside it."""
    try:
        found = load_profiles().tables
    except Failure:
        return []
    return [(name, _target(name, found[name])) for name in found if name.startswith(incomplete)]


def complete_profile_word(context: typer.Context, incomplete: str) -> Iterable[tuple[str, str]]:
    """Complete the first word of a question, which may be a profile."""
    is_first = not context.params.get("arguments") and not context.params.get("profile")
    return complete_profile(incomplete) if is_first else []


def _target(name: str, table: Mapping[str, Any]) -> str:
    try:
        return parse_profile(name, table).target
    except ProfileError as error:
        return str(error)


# The command

PROFILES_EPILOG = epilog("coreason profiles", "coreason profiles --path")


def profiles(
    path: Annotated[
        bool, typer.Option("--path", help="Print the path of the file instead.")
    ] = False,
) -> None:
    """List the profiles, which are names for agents and models.

    coreason chat NAME talks to one of them. They are tables [profiles.NAME] in the file config.toml
    of your config directory, or in the file that COREASON_CONFIG names. Keys are not shown.
    """
    with exit_codes():
        found = load_profiles()
        if path:
            print_stdout(str(found.path))
        elif found.tables:
            show_rows((name, found.get(name).target) for name in sorted(found.tables))
        else:
            where = "has none" if found.exists else "does not exist"
            print_stderr(f"There are no profiles: {found.path} {where}.")
