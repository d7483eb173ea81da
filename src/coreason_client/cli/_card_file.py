"""The files of `--card` and `--extended-card`: each has the JSON of an agent card."""

from pathlib import Path
from typing import TYPE_CHECKING

from .exits import ExitCode, Failure

if TYPE_CHECKING:
    from coreason_client.a2a.types import AgentCard

__all__ = ["read_card"]

_MAX_BYTES = 1024 * 1024


def read_card(option: str, path: str) -> "AgentCard":
    """Return the card in the file of an option.

    Raises:
        Failure: the file cannot be read, or is not a card; the message names the option.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise _failure(option, path, (error.strerror or str(error)).lower()) from None
    if len(data) > _MAX_BYTES:
        raise _failure(option, path, "the file is larger than 1 MiB")
    try:
        return _parse(data)
    except ValueError as error:
        raise _failure(option, path, str(error)) from None


def _parse(data: bytes) -> "AgentCard":
    # Imported here because most calls of the command need no card.
    from pydantic import ValidationError
    from pydantic_core import from_json

    from coreason_client.a2a.types import AgentCard

    try:
        content = from_json(data)
    except ValueError as error:
        raise ValueError(f"the file is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ValueError("an agent card must be a JSON object")
    try:
        return AgentCard.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"] if not _is_union_member(part))
        raise ValueError(f"this is not an agent card: {path}: {first['msg'].lower()}") from None


def _is_union_member(part: int | str) -> bool:
    """Return True for what pydantic puts into a path besides names: the tried type of a union."""
    return isinstance(part, str) and ("[" in part or part in ("str", "bool", "none"))


def _failure(option: str, path: str, reason: str) -> Failure:
    return Failure(f"{option} {path}: {reason}", ExitCode.USAGE)
