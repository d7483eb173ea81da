"""File descriptors: how many the process may open, and how many of them connections may use."""

import contextlib

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

__all__ = ["default_max_connections", "descriptor_limit", "raise_descriptor_limit"]

_MOST = 1 << 20  # some containers allow a thousand times as many, which no process needs
_RESERVED = 64  # the listener, the event loop, the store, files
_FEWEST = 8


def descriptor_limit() -> int | None:
    """Return how many descriptors this process may open, None for any number."""
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
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if wanted > soft:
        with contextlib.suppress(OSError, ValueError):  # macOS has a lower limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def default_max_connections(limit: int | None) -> int | None:
    """Return how many connections may be open under a limit of descriptors, None for any number.

    Half of what is left after a reserve: while an agent answers over a connection, it usually
    has one of its own, to a model.
    """
    return None if limit is None else max(_FEWEST, (limit - _RESERVED) // 2)
