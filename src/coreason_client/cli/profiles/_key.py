"""Gets the key of a profile: from the file, from a variable, or from a command."""

import os
import subprocess
from collections.abc import Sequence

from ..exits import ExitCode, Failure
from ._profile import Profile

__all__ = ["profile_key"]

_COMMAND_TIMEOUT = 60.0  # seconds; a password manager may ask for a passphrase


def profile_key(profile: Profile) -> str | None:
    """Return the key, None if the profile has none.

    Raises:
        Failure: the variable is not set, or the command fails.
    """
    if profile.api_key_env is not None:
        if key := os.environ.get(profile.api_key_env):
            return key
        raise _failure(profile, f"the environment variable {profile.api_key_env} is not set")
    if profile.api_key_command is not None:
        return _first_line(profile, profile.api_key_command)
    return profile.api_key


def _first_line(profile: Profile, command: Sequence[str]) -> str:
    """Run a command without a shell, and return the first line that it prints."""
    try:
        # The user's own command. It has the terminal, to ask for a passphrase.
        done = subprocess.run(  # noqa: S603
            command, stdout=subprocess.PIPE, timeout=_COMMAND_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        reason = f"{command[0]} did not end within {_COMMAND_TIMEOUT:g} seconds"
        raise _failure(profile, f"api_key_command: {reason}") from None
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise _failure(profile, f"api_key_command: {command[0]}: {reason}") from None
    if done.returncode:
        reason = f"{command[0]} ended with exit code {done.returncode}"
        raise _failure(profile, f"api_key_command: {reason}")
    key = done.stdout.decode(errors="replace").partition("\n")[0].strip()
    if not key:
        raise _failure(profile, f"api_key_command: {command[0]} printed no key")
    return key


def _failure(profile: Profile, reason: str) -> Failure:
    return Failure(f"profile {profile.name!r}: {reason}", ExitCode.USAGE)
