"""gRPC in forked processes: where it works, and an error instead of a hang where it does not.

The sync API works in a forked child, with new channels, unless `GRPC_ENABLE_FORK_SUPPORT` turns
that off. After the async API was used, neither works in a forked child: a call would wait forever.
A call that is refused here was not sent, so the next interface of the card is used.
"""

import os

from ... import _fork
from ..._http._types import FailureKind, TransportFailure

__all__ = ["ForkSupport"]

_OFF = ("0", "false", "no")


class ForkSupport:
    """Records the processes in which each API was first used."""

    def __init__(self) -> None:
        self._users: dict[bool, _fork.OwnerProcess] = {}  # by whether the API is async

    def check(self, *, is_async: bool) -> None:
        """Record a use of one of the APIs in this process.

        Raises:
            TransportFailure: it does not work, because this process is a forked child.
        """
        for used_async in self._users:
            if not self._users[used_async].is_current and not self._works(used_async, is_async):
                raise TransportFailure(
                    FailureKind.CONNECT,
                    "gRPC was used before this process was forked, and does not work in it;"
                    " use the start method 'spawn', or connect only after the fork",
                )
        self._users.setdefault(is_async, _fork.OwnerProcess())

    def _works(self, used_async: bool, is_async: bool) -> bool:
        is_off = os.environ.get("GRPC_ENABLE_FORK_SUPPORT", "").lower() in _OFF
        return not (used_async or is_async or is_off)
