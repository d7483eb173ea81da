"""Processes of durable agents, and a client whose connections can be routed to any of them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from coreason_client import CAPClient
from coreason_client._retry import Backoff
from coreason_client.cap import _protocol
from coreason_client.testing import ChaosProxy

from ..server.log.valkey_server import ValkeyServer, fresh_prefix, shared_server
from ..soak.fleet import Fleet, Replica
from ..soak.options import ReplicaOptions
from .durable_replica import PROGRAM

LIMIT = 30.0  # seconds
LEASE = 1.5
MAX_RESTARTS = 2
_RETRIES = 100  # each after 0.2 s at most: a process needs a few seconds to start


@dataclass(frozen=True, slots=True)
class Site:
    """Running replicas, and a client that reaches some of them through a proxy."""

    fleet: Fleet
    client: CAPClient
    proxy: ChaosProxy

    def noted(self, *words: object) -> list[str]:
        """Return the last words of the replicas' notes that begin with these words."""
        prefix = f"{' '.join(map(str, words))} "
        notes = self.fleet.notes()
        return [line.removeprefix(prefix) for line in notes if line.startswith(prefix)]

    @property
    def replicas(self) -> list[Replica]:
        return self.fleet.replicas

    def route_to(self, *replicas: Replica) -> None:
        """Route new connections to these replicas only."""
        self.proxy.route_to(*(url_of(replica) for replica in replicas))


@contextmanager
def on_sqlite(folder: Path) -> Iterator[Site]:
    """Serve with one process."""
    url = f"sqlite:{folder / 'log.db'}"
    with _serving(Fleet(folder, [_options(url, "")])) as site:
        yield site


@contextmanager
def on_valkey(folder: Path, store: ValkeyServer | None = None, replicas: int = 2) -> Iterator[Site]:
    """Serve with several replicas; the client is routed to the first."""
    options = _options((store or shared_server()).url, fresh_prefix())
    with _serving(Fleet(folder, [options] * replicas)) as site:
        yield site


def _options(url: str, prefix: str) -> ReplicaOptions:
    return ReplicaOptions(
        url=url, prefix=prefix, lease=LEASE, max_restarts=MAX_RESTARTS, program=PROGRAM
    )


@contextmanager
def _serving(fleet: Fleet) -> Iterator[Site]:
    try:
        asyncio.run(_start(fleet))
        with (
            _impatient(),
            proxy_to(fleet.replicas[0]) as proxy,
            CAPClient(proxy.url, "key", timeout=LIMIT, max_retries=_RETRIES) as client,
        ):
            yield Site(fleet, client, proxy)
    finally:
        for replica in fleet.replicas:
            replica.kill()


async def _start(fleet: Fleet) -> None:
    await asyncio.gather(*(replica.start() for replica in fleet.replicas))


@contextmanager
def _impatient() -> Iterator[None]:
    """Let clients reconnect after short delays."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_protocol, "Backoff", lambda **given: Backoff(0.1, 0.2, **given))
        yield


def proxy_to(replica: Replica) -> ChaosProxy:
    """Return a proxy without faults, which can be routed to other replicas."""
    return ChaosProxy(url_of(replica), seed=1, faults=())


def url_of(replica: Replica) -> str:
    return f"http://127.0.0.1:{replica.port}"
