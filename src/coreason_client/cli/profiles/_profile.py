"""A profile, and the rules for its keys. Pure."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Profile", "ProfileError", "is_name", "parse_profile"]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_KEYS = ("api_key", "api_key_env", "api_key_command")


class ProfileError(Exception):
    """A profile is invalid; the message contains no key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
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
    """Return True if a profile can have this name: one word that is no option, path or URL."""
    return _NAME.fullmatch(text) is not None


def parse_profile(name: str, table: Mapping[str, Any]) -> Profile:
    """Return the profile of a table.

    Raises:
        ProfileError: a key is unknown, or has a wrong type, or two keys contradict each other.
    """
    if unknown := [key for key in table if key not in _PARSERS]:
        known = ", ".join(_PARSERS)
        raise ProfileError(f"unknown key {unknown[0]!r}; expected one of {known}")
    profile = Profile(name=name, **{key: _PARSERS[key](key, table[key]) for key in table})
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
