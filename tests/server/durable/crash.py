"""A durable application whose process dies, as far as its log and its readers can see."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coreason_client.server import AgentApp, LogUnavailable, SQLiteStreamLog, running

from ..peer import Peer

LEASE = 0.4  # a busy machine must renew it in time
_WRITES = frozenset({"begin_append", "append", "close", "release", "renew"})


class MortalSQLite(SQLiteStreamLog):
    """A log in a file that accepts nothing more from a process that is dead."""

    dead = False

    def __getattribute__(self, name: str) -> Any:
        if name in _WRITES and super().__getattribute__("dead"):
            raise LogUnavailable("the process is dead")
        return super().__getattribute__(name)


class Replica:
    """One process of the application."""

    def __init__(self, peer: Peer, app: AgentApp, log: MortalSQLite) -> None:
        self.peer = peer
        self.app = app
        self._log = log

    def die(self) -> None:
        """Keep the process from writing, until it is gone."""
        self._log.dead = True


@contextmanager
def replica(path: Path, agent: Any, **options: Any) -> Iterator[Replica]:
    """Serve an agent from a file; the next replica continues its streams."""
    log = MortalSQLite(path, lease=LEASE)
    options = {"drain_timeout": 0.0, "cancel_grace": 0.2, "durable": True, **options}
    app = AgentApp(agent, log=log, **options)
    with running(app) as server:
        peer = Peer(server.url)
        try:
            yield Replica(peer, app, log)
        finally:
            peer.close()
