"""The names of the tools of MCP servers. No I/O.

Providers accept 1 to 64 letters, digits, `_` and `-`; MCP servers may use other characters. A name
that is used more than once gets the name of its server in front.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from hashlib import sha256

__all__ = ["MAX_NAME", "unique_names"]

MAX_NAME = 64
_INVALID = re.compile(r"[^a-zA-Z0-9_-]")
_DIGEST = 8


def unique_names(
    taken: Collection[str], served: Sequence[tuple[str, Sequence[str]]]
) -> list[list[str]]:
    """Return a name for each tool of each server, given as the server's name and its tools.

    `taken` are the names of functions, which stay as they are.
    """
    plain = [[_valid(name) for name in names] for _, names in served]
    counts = Counter(taken) + Counter(name for names in plain for name in names)
    used = set(taken)
    chosen: list[list[str]] = []
    for (server, _), names in zip(served, plain, strict=True):
        prefix = _valid(server)
        chosen.append(
            [
                _unused(name if counts[name] == 1 else _valid(f"{prefix}_{name}"), used)
                for name in names
            ]
        )
    return chosen


def _valid(name: str) -> str:
    """Return a name that providers accept; a long one ends with a digest."""
    valid = _INVALID.sub("_", name) or "_"
    if len(valid) <= MAX_NAME:
        return valid
    digest = sha256(name.encode("utf-8", "replace")).hexdigest()[:_DIGEST]
    return f"{valid[: MAX_NAME - _DIGEST - 1]}_{digest}"


def _unused(name: str, used: set[str]) -> str:
    number, candidate = 1, name
    while candidate in used:
        number += 1
        ending = f"_{number}"
        candidate = name[: MAX_NAME - len(ending)] + ending
    used.add(candidate)
    return candidate
