"""A port that no program listens at, for tests that must name one."""

import socket

__all__ = ["free_port"]


def free_port() -> int:
    """Return a port of loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
