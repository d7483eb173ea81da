"""A TCP proxy on loopback that cuts every connection, at positions that follow from a seed."""

import asyncio
import random
import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

__all__ = ["Cuts", "CuttingProxy"]

_HOST = "127.0.0.1"
_READ_SIZE = 65_536
_START_TIMEOUT = 10.0
# A socket that is closed with this option sends RST instead of FIN.
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Cuts:
    """The number of response bytes after which each connection is cut; the same for each seed.

    The smallest numbers cut inside the response head, most cut inside an event. Each connection
    lasts a little longer than the one before, so even an answer with a huge packet completes.
    """

    def __init__(self, seed: int, minimum: int = 100, maximum: int = 4_000) -> None:
        self._random = random.Random(seed)
        self._minimum = minimum
        self._maximum = maximum
        self._connections = 0

    def next(self) -> int:
        """Return the number of bytes for the next connection."""
        growth = 1.2**self._connections
        self._connections += 1
        return int(self._random.randint(self._minimum, self._maximum) * growth)

    def by_reset(self) -> bool:
        """Return True if the next cut is an RST, False if it is a FIN."""
        return self._random.random() < 0.5


class CuttingProxy:
    """Forwards to one host and port while the block runs, in its own thread."""

    def __init__(self, host: str, port: int, seed: int) -> None:
        self._upstream = (host, port)
        self._plan = Cuts(seed)
        self._cuts = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._started = threading.Event()
        self._failure: OSError | None = None
        self._port = 0
        self._thread = threading.Thread(target=self._run, name="coreason-chaos", daemon=True)

    @property
    def cuts(self) -> int:
        """The number of connections that have been cut."""
        return self._cuts

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._port

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._started.wait(_START_TIMEOUT) or self._failure is not None:
            raise RuntimeError("the proxy could not listen on loopback") from self._failure
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except OSError as error:
            self._failure = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._accept, _HOST, 0)
        self._port = server.sockets[0].getsockname()[1]
        self._started.set()
        try:
            await self._stop.wait()
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._connection(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):  # if either side disconnects, both are closed
                up_reader, up_writer = await asyncio.open_connection(*self._upstream)
                upload = self._loop.create_task(_forward(reader, up_writer))
                try:
                    await self._forward_until_cut(up_reader, writer)
                finally:
                    upload.cancel()
                    up_writer.close()
        finally:
            writer.close()

    async def _forward_until_cut(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        left = self._plan.next()
        while data := await reader.read(_READ_SIZE):
            writer.write(data[:left])
            await writer.drain()
            left -= len(data)
            if left < 0:
                self._cut(writer)
                return

    def _cut(self, writer: asyncio.StreamWriter) -> None:
        self._cuts += 1
        if self._plan.by_reset():
            sock: socket.socket = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            writer.transport.abort()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_READ_SIZE):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
