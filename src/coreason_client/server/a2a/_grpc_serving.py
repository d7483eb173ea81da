"""Starts and stops the gRPC server of an application; imports `grpc` only to start it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coreason_client.a2a._grpc._address import is_installed

from ...errors import ArgumentError, MissingExtraError
from ..engine._runtime import Runtime
from ..http._gate import Gate
from ..http._problems import Refusals
from ._cards import Cards
from ._operations import Operations
from ._settings import A2A, GrpcAddress, GrpcInterface, parse_address

if TYPE_CHECKING:
    from ._grpc_server import GrpcServer


@dataclass(frozen=True, slots=True)
class _Running:
    server: "GrpcServer"
    runtime: Runtime
    address: GrpcAddress


class GrpcServing:
    """The gRPC server of one application, which listens or not.

    `shares_port` is True in a worker process, whose siblings listen at the same address.
    """

    def __init__(
        self,
        settings: A2A,
        operations: Operations,
        cards: Cards,
        gate: Gate,
        refusals: Refusals,
        public_url: str | None,
    ) -> None:
        self.shares_port = False
        self._settings = settings
        self._cards = cards
        self._gate = gate
        self._of_calls = operations, cards, gate, refusals
        self._public_url = None if public_url is None else public_url.rstrip("/")
        self._running: _Running | None = None
        if settings.grpc_address is not None:
            address = parse_address(settings.grpc_address)
            self._check(address, "grpc_", allow_public=settings.grpc_allow_public)

    @property
    def port(self) -> int | None:
        """The port at which the server listens, None if it does not."""
        return None if self._running is None else self._running.address.port

    async def start_by_settings(self, runtime: Runtime) -> None:
        """Start the server if the settings have an address for it; raises like `start`."""
        address = self._settings.grpc_address
        if address is not None:
            await self.start(runtime, address, allow_public=self._settings.grpc_allow_public)

    async def start(self, runtime: Runtime, address: str, *, allow_public: bool) -> int:
        """Start the server and return its port.

        Raises:
            ArgumentError: the address is not valid, or public without keys.
            MissingExtraError: the extra `grpc` is not installed.
            OSError: it cannot listen at the address.
            RuntimeError: it listens already.
        """
        wanted = parse_address(address, "address")
        self._check(wanted, "", allow_public=allow_public)
        running = self._running
        if running is not None and running.runtime is runtime:
            raise RuntimeError(f"the gRPC server of this AgentApp listens at {running.address}")
        from ._grpc_server import GrpcCalls, GrpcServer

        server = GrpcServer(
            GrpcCalls(*self._of_calls, runtime, self._public_url),
            runtime.options,
            wanted,
            self._settings.grpc_credentials,
            shares_port=self.shares_port,
        )
        await server.start()
        bound = GrpcAddress(wanted.host, server.port)
        self._running = _Running(server, runtime, bound)
        runtime.background.at_drain(server.begin_drain)
        runtime.background.before_stop(self._stop)
        if self._settings.grpc_on_card:
            self._cards.set_grpc(GrpcInterface(bound, self._settings.grpc_url))
        return bound.port

    async def _stop(self) -> None:
        running, self._running = self._running, None
        self._cards.set_grpc(None)
        if running is not None:
            await running.server.stop()

    def _check(self, address: GrpcAddress, prefix: str, *, allow_public: bool) -> None:
        """Check that gRPC may be served at an address; `prefix` is that of the arguments."""
        if not is_installed():
            raise MissingExtraError("gRPC", "grpc")
        if not (self._gate.has_keys or allow_public or address.is_loopback):
            raise ArgumentError(
                f"{prefix}address",
                "must be a loopback address such as 127.0.0.1:50051 for an agent without keys, "
                "because every client that reaches it could use it: pass api_keys, or "
                f"{prefix}allow_public=True",
                str(address),
            )
