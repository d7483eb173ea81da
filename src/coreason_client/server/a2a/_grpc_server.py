"""The gRPC server of an application, on the event loop of the application."""

from typing import Any, Final

import grpc.aio  # type: ignore[import-untyped]

from coreason_client.a2a._grpc._connection import FORK_SUPPORT

from .._options import Options
from ._grpc_calls import GrpcCalls
from ._ports import Address, check_free

__all__ = ["GrpcServer", "channel_options"]

# Seconds, once the streams have ended: for the calls to end by themselves, and for gRPC to send it.
_END_CALLS: Final = 4.0
_GRACE: Final = 5.0
_CLIENT_PING_INTERVAL: Final = 5_000  # ms; gRPC itself disconnects clients that ping every minute
_IDENTITY_ONLY: Final = 1


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
        self._server = grpc.aio.server(
            handlers=calls.handlers(), options=channel_options(options, shares_port=shares_port)
        )
        self.port: int = self._listen(address, credentials)

    def _listen(self, address: Address, credentials: Any) -> int:
        try:
            if credentials is None:
                return int(self._server.add_insecure_port(str(address)))
            return int(self._server.add_secure_port(str(address), credentials))
        except RuntimeError as error:
            # It does not say why, and what was known before has changed since.
            raise OSError(f"the gRPC server cannot listen at {address}") from error

    async def start(self) -> None:
        """Begin to accept calls."""
        await self._server.start()

    async def stop(self) -> None:
        """Stop listening, and end the calls that have not ended with their streams."""
        self._calls.end_within(_END_CALLS)
        await self._server.stop(_GRACE)
