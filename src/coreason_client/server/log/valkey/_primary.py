"""The primary that the log talks to: where it is, whether it is still the same, who follows it.

Each connection checks at its login that it talks to a primary, and to which one.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from redis.asyncio.sentinel import Sentinel
from redis.exceptions import ReadOnlyError

from ...._valkey_address import Address
from ..remote._store import ServerIdentity
from ._errors import ReplicasMissing, ReplicationNotConfirmed

logger = logging.getLogger("coreason_client.server")

LOGIN_CHECK = (("ROLE",), ("INFO", "server"), ("INFO", "replication"))
"""The commands of a login; `Primary.check` gets their replies. A store need not allow them."""


class Primary(ServerIdentity):
    """The primary, and how to find it."""

    def __init__(
        self,
        address: Address,
        options: Mapping[str, Any],
        on_another: Sequence[Callable[[], None]] = (),
    ) -> None:
        super().__init__(address.shown, on_another)
        self.address = address
        self._location = (address.host, address.port)
        self._sentinel: Any = None
        if address.sentinels:
            login = {"username": address.sentinel_username, "password": address.sentinel_password}
            self._sentinel = Sentinel(  # type: ignore[no-untyped-call]
                list(address.sentinels),
                sentinel_kwargs={**options, **login},
                **options,
            )

    @property
    def location(self) -> tuple[str, int]:
        """Host and port, as they were located the last time."""
        return self._location

    async def locate(self) -> tuple[str, int]:
        """Return host and port of the primary; Sentinel is asked again each time.

        Raises:
            RedisError: no Sentinel knows a primary.
        """
        if self._sentinel is not None:
            host, port = await self._sentinel.discover_master(self.address.service)
            self._location = (str(host), int(port))
        return self._location

    async def close(self) -> None:
        """Close the connections to Sentinel."""
        if self._sentinel is not None:
            for sentinel in self._sentinel.sentinels:
                await sentinel.aclose()

    def check(self, role: Any, server: Any, replication: Any) -> None:
        """Check the replies of `LOGIN_CHECK`; None means that the store does not allow a command.

        Raises:
            ReadOnlyError: the server is a replica.
        """
        if isinstance(role, list) and role and role[0] == b"slave":
            raise ReadOnlyError("the server is a replica")
        found = (_field(server, b"run_id"), _field(replication, b"master_replid"))
        self.identify(found if any(found) else None)


def _field(info: Any, name: bytes) -> bytes:
    """Return a field of a reply of INFO, empty if it is not there."""
    if not isinstance(info, bytes):
        return b""
    return next(
        (line[len(name) + 1 :].strip() for line in info.splitlines() if line.startswith(name)), b""
    )


class Confirmation:
    """Confirms that writes have reached replicas: a batch of commands ends with WAIT.

    WAIT counts the replicas that have everything up to the last write of its connection. So each
    batch also writes `key`: a repeated command may have nothing to write, but must be confirmed. On
    a full store that fails, so the scripts that work there write when they are repeated.
    `missing` is True while too few replicas confirm.
    """

    def __init__(self, replicas: int, seconds: float, key: str, shown: str) -> None:
        self.replicas = replicas
        self.missing = False
        self._key = key
        self._milliseconds = max(int(seconds * 1000), 1)
        self._shown = shown

    def commands(self, key: str = "") -> tuple[tuple[str | int, ...], tuple[str | int, ...]]:
        """Return the commands that end a batch; `key` is in the same slot, on a cluster."""
        touch = ("SET", key or self._key, "1", "PX", 3_600_000)
        return touch, ("WAIT", self.replicas, self._milliseconds)

    def check(self, reply: Any) -> Exception | None:
        """Return the error that a batch has according to the reply of its WAIT, or None."""
        if not isinstance(reply, int):
            return ReplicationNotConfirmed(f"WAIT was refused: {reply}")
        missing = reply < self.replicas
        if missing != self.missing:
            self.missing = missing
            logger.warning(
                "%d of %d replicas of the store %s %s",
                *(reply, self.replicas, self._shown),
                "confirm writes: nothing is shown to readers until all do"
                if missing
                else "confirm writes again",
            )
        return ReplicasMissing(reply, self.replicas) if missing else None
