"""Stores that fail over: a primary and a replica, a cluster, and a pair with Sentinels.

Replication can be held back first, so that the promoted replica lacks the last seconds. The replica
then logs in with a user that the primary does not know, so it is not connected again.
"""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from coreason_client.testing import ChaosProxy

from ..server.log.valkey_server import ValkeyCluster, ValkeyServer

_AT_ONCE = ("--repl-diskless-sync-delay", "0")
_WAIT = 20.0
OUTAGE = 1.0  # the longest time between the end of a primary and the promotion by hand
_NODE_TIMEOUT = ("--cluster-node-timeout", "1000")
_SENTINELS = 3
_SERVICE = "soak"


class FailingStore(ABC):
    """A primary that is going to fail, and the replica that is promoted then."""

    url: str
    cluster = False

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def fail(self, dice: random.Random) -> int:
        """Replace the primary; return the number of bytes that the promoted replica lacks."""
        lacks = self._lacks()
        self._fail(dice)
        until(self._is_promoted, "the replica was promoted")
        return max(lacks, 0)

    @abstractmethod
    def hold(self) -> None:
        """Hold replication back from now on."""

    @abstractmethod
    def _start(self) -> None:
        """Start the processes, and set the attributes."""

    @abstractmethod
    def _lacks(self) -> int:
        """Return the number of bytes that the primary has and the replica has not."""

    @abstractmethod
    def _fail(self, dice: random.Random) -> None:
        """End or demote the primary, and promote the replica or wait until somebody else does."""

    @abstractmethod
    def _is_promoted(self) -> bool:
        """Return True if the replica is a primary."""


class FailingValkey(FailingStore):
    """A Valkey that fails over."""

    primary: ValkeyServer
    replica: ValkeyServer

    def hold(self) -> None:
        """Hold replication back from now on."""
        self.replica.command("CONFIG", "SET", "masteruser", "nobody", "masterauth", "wrong")
        self.replica.command("CLIENT", "KILL", "TYPE", "master")

    def _lacks(self) -> int:
        written = _info(self.primary)["master_repl_offset"]
        return int(written - _info(self.replica)["slave_repl_offset"])

    def _is_promoted(self) -> bool:
        return bool(_info(self.replica)["role"] == "master")

    def _start_pair(self) -> None:
        self.primary = self._stack.enter_context(ValkeyServer(*_AT_ONCE))
        self.replica = self._stack.enter_context(
            ValkeyServer(*_AT_ONCE, "--replicaof", f"127.0.0.1 {self.primary.port}")
        )
        _until_replicated(self.replica)


class KilledPrimary(FailingValkey):
    """A pair behind one address; the primary is killed, and the replica promoted by hand."""

    def _start(self) -> None:
        self._start_pair()
        # It switches new connections only; those to a demoted primary stay.
        proxy = ChaosProxy(_address(self.primary), faults=())
        self._address = self._stack.enter_context(proxy)
        self.url = f"{self._address.url.replace('http', 'valkey')}/0"

    def _fail(self, dice: random.Random) -> None:
        self.primary.kill()
        time.sleep(OUTAGE * dice.random())
        self._promote()

    def _promote(self) -> None:
        self.replica.command("REPLICAOF", "NO", "ONE")
        self._address.route_to(_address(self.replica))


class ReplacedPrimary(KilledPrimary):
    """A killed primary that comes back empty, as the replica that confirms writes from then on."""

    def _fail(self, dice: random.Random) -> None:
        super()._fail(dice)
        self.primary.start()
        self.primary.command("REPLICAOF", "127.0.0.1", self.replica.port)


class DemotedPrimary(KilledPrimary):
    """A pair behind one address; the roles are swapped, and connections stay with the old one."""

    def _fail(self, dice: random.Random) -> None:
        self._promote()
        self.primary.command("REPLICAOF", "127.0.0.1", self.replica.port)


class FailingCluster(FailingValkey):
    """Three primaries with a replica each: one shard swaps its roles, one primary is killed."""

    cluster = True

    def _start(self) -> None:
        cluster = ValkeyCluster(*_AT_ONCE, *_NODE_TIMEOUT)
        self._stack.callback(cluster.close)
        self.url = cluster.url
        replicas = cluster.add_replicas()
        self._swapped = replicas[0]
        self.primary, self.replica = cluster.nodes[1], replicas[1]

    def _fail(self, dice: random.Random) -> None:
        self._swapped.command("CLUSTER", "FAILOVER")
        self.primary.kill()


class SentinelPair(FailingValkey):
    """A pair whose failover Sentinels decide; the primary is killed."""

    def _start(self) -> None:
        self._start_pair()
        sentinels = [self._stack.enter_context(Sentinel(self.primary)) for _ in range(_SENTINELS)]
        self.url = sentinels_url(*(sentinel.port for sentinel in sentinels))
        until(lambda: all(one.knows_all for one in sentinels), "the Sentinels have met")

    def _fail(self, dice: random.Random) -> None:
        self.primary.kill()


class Sentinel(ValkeyServer):
    """A process that watches a primary together with others."""

    def __init__(self, primary: ValkeyServer) -> None:
        self._primary = primary
        super().__init__()

    @property
    def knows_all(self) -> bool:
        """True if it knows the replica and the other Sentinels."""
        state = _pairs(self.command("SENTINEL", "MASTER", _SERVICE))
        known = (int(state[b"num-slaves"]), int(state[b"num-other-sentinels"]))
        return known == (1, _SENTINELS - 1)

    def _arguments(self) -> list[str]:
        file = Path(self._folder.name, f"sentinel-{self.port}.conf")
        file.write_text(
            f"port {self.port}\n"
            "bind 127.0.0.1\n"
            f"dir {self._folder.name}\n"
            f"sentinel monitor {_SERVICE} 127.0.0.1 {self._primary.port} 2\n"
            f"sentinel down-after-milliseconds {_SERVICE} 700\n"
            f"sentinel failover-timeout {_SERVICE} 5000\n"
        )
        return [str(file), "--sentinel"]


def sentinels_url(*ports: int) -> str:
    """Return the address of a store that Sentinels know."""
    return f"valkey+sentinel://{','.join(f'127.0.0.1:{port}' for port in ports)}/{_SERVICE}"


def _pairs(reply: Any) -> dict[bytes, bytes]:
    """Return a reply of names and values, which the client library may have parsed."""
    if isinstance(reply, dict):
        return {_bytes(name): _bytes(value) for name, value in reply.items()}
    return dict(zip(reply[::2], reply[1::2], strict=True))


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _address(server: ValkeyServer) -> str:
    return f"http://127.0.0.1:{server.port}"


def _info(server: ValkeyServer) -> dict[str, Any]:
    found: dict[str, Any] = server.command("INFO", "replication")
    return found


def _until_replicated(replica: ValkeyServer) -> None:
    until(lambda: _info(replica).get("master_link_status") == "up", "the replica is connected")


def until(condition: Callable[[], bool], wanted: str) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + _WAIT
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {_WAIT:g} s: {wanted}")
        time.sleep(0.02)
