"""One connection through a `ChaosProxy`: bytes in both directions, and the fault of its plan."""

import asyncio
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, TypeAlias

from ._chaos_plan import ConnectionPlan

__all__ = ["Pipe", "Streams", "reset"]

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_CHUNK: Final = 65536
_SPLIT_BYTES: Final = 4096  # of a connection; the rest would only take time


class Pipe:
    """The connection of a client, and the one to the server behind it.

    Attributes:
        received: the bytes that were passed on from the server.
        happened: the fault that has occurred, None while there is none.
    """

    def __init__(
        self, client: Streams, server: Streams, plan: ConnectionPlan, stall_seconds: float
    ) -> None:
        self._from_client, self._to_client = client
        self._from_server, self._to_server = server
        self._plan = plan
        self._stall_seconds = stall_seconds
        self._next_cut: tuple[str, float] | None = None
        self.received = 0
        self.happened: str | None = None

    async def run(self) -> None:
        """Pass bytes on until one side ends or the fault occurs."""
        tasks = {asyncio.ensure_future(self._up()), asyncio.ensure_future(self._down())}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            self._close()

    def cut(self, how: str, share: float | None = None) -> None:
        """End the connection by "cut" or "reset": now, or after a share of the next bytes."""
        if share is None:
            self.happened = how
            self._close()
        else:
            self._next_cut = how, share

    async def _up(self) -> None:
        with suppress(OSError):
            while chunk := await self._from_client.read(_CHUNK):
                self._to_server.write(chunk)
                await self._to_server.drain()

    async def _down(self) -> None:
        with suppress(OSError):
            while chunk := await self._from_server.read(_CHUNK):
                if self._plan.delay and not self.received:
                    await asyncio.sleep(self._plan.delay)
                for piece in self._pieces(self._allowed(chunk)):
                    self.received += len(piece)
                    self._to_client.write(piece)
                    await self._to_client.drain()
                    await asyncio.sleep(0)
                if self._next_cut is not None:
                    self.happened = self._next_cut[0]
                    return
                if self._plan.fault is not None and self.received >= self._plan.after:
                    self.happened = self._plan.fault
                    if self._plan.fault == "stall":
                        await asyncio.sleep(self._stall_seconds)
                    return

    def _allowed(self, chunk: bytes) -> bytes:
        """Return the bytes that are passed on before a cut."""
        if self._next_cut is not None:
            return chunk[: int(len(chunk) * self._next_cut[1])]
        if self._plan.fault is None:
            return chunk
        return chunk[: max(self._plan.after - self.received, 0)]

    def _pieces(self, chunk: bytes) -> Iterator[bytes]:
        size = self._plan.pieces
        split = min(max(_SPLIT_BYTES - self.received, 0), len(chunk)) if size else 0
        yield from (chunk[at : min(at + size, split)] for at in range(0, split, size or 1))
        if split < len(chunk):
            yield chunk[split:]

    def _close(self) -> None:
        self._to_server.transport.abort()
        if self.happened == "reset":
            reset(self._to_client)
        self._to_client.close()


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection by RST."""
    sock: socket.socket | None = writer.get_extra_info("socket")
    if sock is not None and sock.fileno() != -1:
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
