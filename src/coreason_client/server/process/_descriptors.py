"""The limit of file descriptors, and the share of it for connections."""

import contextlib

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

__all__ = ["default_max_connections", "descriptor_limit", "raise_descriptor_limit"]

_MAX_LIMIT = 1 << 20  # some containers allow a thousand times more, which no process needs
_RESERVED = 64  # the listener, the event loop, the store, files
_MIN_CONNECTIONS = 8


def descriptor_limit() -> int | None:
    """Return how many descriptors this process may open, None if there is no limit."""
    if resource is None:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> None:
    """Raise the soft limit to the hard one, which needs no privilege."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    wanted = _MAX_LIMIT if hard == resource.RLIM_INFINITY else min(hard, _MAX_LIMIT)
    if wanted > soft:
        with contextlib.suppress(OSError, ValueError):  # macOS has a lower limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def default_max_connections(limit: int | None) -> int | None:
    """Return the default of max_connections for a limit of descriptors, None for no limit.

    Half of the descriptors without a reserve: an agent that answers on a connection usually has
    another connection to a model.
    """
    return None if limit is None else max(_MIN_CONNECTIONS, (limit - _RESERVED) // 2)
