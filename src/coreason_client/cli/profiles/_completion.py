"""Shell completion of profiles. A mistake in the file completes nothing."""

from collections.abc import Iterable, Mapping
from typing import Any

import typer

from ..exits import Failure
from ._profile import ProfileError, parse_profile
from ._profile_file import load_profiles

__all__ = ["complete_profile", "complete_profile_word"]


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
