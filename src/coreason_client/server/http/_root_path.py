"""The prefix below which a proxy serves an application. Pure: a scope in, a scope out.

A proxy may remove the prefix from the path of a request or pass it on. Both give the same scope:
`root_path` has the prefix and `path` begins with it, as ASGI requires.
"""

from collections.abc import MutableMapping
from typing import Any

__all__ = ["with_root_path"]


def with_root_path(scope: MutableMapping[str, Any], prefix: str) -> MutableMapping[str, Any]:
    """Return the scope of a request below the prefix; a mount inside it is kept."""
    outer, path = scope.get("root_path", ""), scope["path"]
    if not prefix or outer == prefix:  # the server itself may have the same option
        return scope
    if not outer and path.startswith(f"{prefix}/"):
        return {**scope, "root_path": prefix}
    return {**scope, "root_path": prefix + outer, "path": prefix + path}
