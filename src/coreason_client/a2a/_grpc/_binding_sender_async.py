"""The async sender for a card with several bindings: each request goes over HTTP or gRPC."""

from typing import Any, Protocol

from ..._drive_async import AsyncOpener
from ..._http._types import Request
from ._exchange import GrpcRequest
from ._sender_async import AsyncGrpcSender

__all__ = ["AsyncBindingSender"]


class _AsyncClosingOpener(AsyncOpener, Protocol):
    async def aclose(self) -> None: ...


class AsyncBindingSender:
    """Sends requests of a gRPC channel over gRPC, and all others with the sender over HTTP."""

    def __init__(self, http: _AsyncClosingOpener) -> None:
        self._http = http
        self._grpc = AsyncGrpcSender()
        self.sleep = http.sleep

    async def open(self, request: Request) -> Any:
        """Send the request and return the response as soon as it begins.

        Raises:
            TransportFailure: no response was received.
        """
        if isinstance(request, GrpcRequest):
            return await self._grpc.open(request)
        return await self._http.open(request)

    async def aclose(self) -> None:
        """Close the connections; may be called repeatedly."""
        try:
            await self._grpc.aclose()
        finally:
            await self._http.aclose()
