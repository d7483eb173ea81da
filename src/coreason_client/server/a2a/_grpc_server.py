"""The gRPC server of an application, on the event loop of the application.

gRPC tells clients to connect anew (GOAWAY) only when a server stops. So a drain stops the server,
whose calls go on, and starts another one at the same address for tasks that are still read. Clients
behind a balancer then connect to another replica, and do not keep one that refuses their messages.
gRPC cancels a call that was sent before its client knew.
"""

import asyncio
import logging
import time
from typing import Any, Final

import grpc.aio  # type: ignore[import-untyped]

from coreason_client.a2a._grpc._connection import FORK_SUPPORT

from .._options import Options
from ._grpc_calls import GrpcCalls
from ._ports import Address, check_free

__all__ = ["GrpcServer", "channel_options"]

logger = logging.getLogger("coreason_client.server")

# Seconds, once the streams have ended: for the calls to end by themselves, and for gRPC to send it.
_END_CALLS: Final = 4.0
_GRACE: Final = 5.0
_CLIENT_PING_INTERVAL: Final = 5_000  # ms; gRPC itself disconnects clients that ping every minute
_IDENTITY_ONLY: Final = 1
_DRAINING_CONNECTION_AGE: Final = 1_000  # ms
# Seconds until the address of a stopped server must be free again; that takes a few milliseconds.
_FREE_WITHIN: Final = 2.0
_POLL_INTERVAL: Final = 0.001


def channel_options(options: Options, *, shares_port: bool) -> list[tuple[str, int]]:
    """Return the options of a server for the options of an application."""
    return [
        ("grpc.so_reuseport", int(shares_port)),
        ("grpc.max_receive_message_length", options.max_body_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", options.max_header_bytes),
        ("grpc.absolute_max_metadata_size", options.max_header_bytes),
        # A compressed message could be small on the wire and huge in memory.
        ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_ONLY),
        # These pings detect readers whose connection is dead.
        ("grpc.keepalive_time_ms", round(options.heartbeat * 1000)),
        ("grpc.keepalive_timeout_ms", round(options.send_timeout * 1000)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", _CLIENT_PING_INTERVAL),
    ]


class GrpcServer:
    """Listens for calls from `start` to `stop`; `port` is the port, also if a free one was chosen.

    `credentials` are `grpc.ServerCredentials`, None for a server without TLS.
    """

    def __init__(
        self,
        calls: GrpcCalls,
        options: Options,
        address: Address,
        credentials: Any = None,
        *,
        shares_port: bool = False,
    ) -> None:
        check_free(address, shared=shares_port)
        FORK_SUPPORT.check(is_async=True)
        self._calls = calls
        self._options = channel_options(options, shares_port=shares_port)
        self._credentials = credentials
        self._shares_port = shares_port
        self._drain_time = options.drain_timeout + options.cancel_grace + _GRACE
        self._servers: list[Any] = []
        self._draining: asyncio.Task[None] | None = None
        self._stopping: asyncio.Future[None] | None = None
        self.port: int = self._listen(address)
        self._address = Address(address.host, self.port)

    def _listen(self, address: Address, *options: tuple[str, int]) -> int:
        server = grpc.aio.server(
            handlers=self._calls.handlers(), options=[*self._options, *options]
        )
        try:
            if self._credentials is None:
                port = server.add_insecure_port(str(address))
            else:
                port = server.add_secure_port(str(address), self._credentials)
        except RuntimeError as error:
            # It does not say why, and what was known before has changed since.
            raise OSError(f"the gRPC server cannot listen at {address}") from error
        self._servers.append(server)
        return int(port)

    async def start(self) -> None:
        """Begin to accept calls."""
        await self._servers[-1].start()

    def begin_drain(self) -> None:
        """Tell clients to connect anew; running calls go on, and new connections are short."""
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._listen_anew())

    async def _listen_anew(self) -> None:
        self._stopping = asyncio.ensure_future(self._servers[-1].stop(self._drain_time))
        try:
            await self._until_free()
            self._listen(self._address, ("grpc.max_connection_age_ms", _DRAINING_CONNECTION_AGE))
        except OSError as error:
            logger.warning("tasks cannot be read over gRPC during the drain: %s", error)
        else:
            await self.start()

    async def _until_free(self) -> None:
        deadline = time.monotonic() + _FREE_WITHIN
        while True:
            await asyncio.sleep(_POLL_INTERVAL)
            try:
                check_free(self._address, shared=self._shares_port)
            except OSError:
                if time.monotonic() > deadline:
                    raise
            else:
                return

    async def stop(self) -> None:
        """Stop listening, and end the calls that have not ended with their streams."""
        if self._draining is not None:
            self._draining.cancel()
            await asyncio.wait({self._draining})
        self._calls.end_within(_END_CALLS)
        await asyncio.gather(*(server.stop(_GRACE) for server in self._servers))
        if self._stopping is not None:
            await self._stopping
