"""The path of a request, and the prefix below which a proxy serves an application. Pure.

A proxy may remove the prefix from the path of a request or pass it on. Both give the same scope:
`root_path` has the prefix and `path` begins with it, as ASGI requires.
"""

from collections.abc import MutableMapping
from typing import Any

from ._problems import Problem

__all__ = ["encoded_slash_problem", "with_root_path"]


def with_root_path(scope: MutableMapping[str, Any], prefix: str) -> MutableMapping[str, Any]:
    """Return the scope of a request below the prefix; a mount inside it is kept."""
    outer, path = scope.get("root_path", ""), scope["path"]
    if not prefix or outer == prefix:  # the server itself may have the same option
        return scope
    if not outer and path.startswith(f"{prefix}/"):
        return {**scope, "root_path": prefix}
    return {**scope, "root_path": prefix + outer, "path": prefix + path}


def encoded_slash_problem(scope: MutableMapping[str, Any]) -> Problem | None:
    """Return the refusal of a path with an encoded slash.

    ASGI decodes the path, so `/agents/one%2Fassist` would look like `/agents/one/assist`, although
    a proxy in front, and its access rules, see another path.
    """
    if b"%2f" not in (scope.get("raw_path") or b"").lower():
        return None
    return Problem(404, "not-found", "A path with an encoded slash (%2F) does not exist.")
