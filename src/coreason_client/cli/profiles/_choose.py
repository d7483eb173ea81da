"""Decides whether the first word after `coreason chat` is a profile. Pure."""

from collections.abc import Callable, Container, Sequence

from ._profile import is_name

__all__ = ["looks_like_name", "split_profile"]


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
