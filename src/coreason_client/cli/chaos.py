"""A TCP proxy on loopback that keeps cutting connections, at places drawn from a seed."""

import asyncio
import random
import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

__all__ = ["ChaosProxy", "Cuts"]

_HOST = "127.0.0.1"
_READ_SIZE = 65_536
_START_WITHIN = 10.0
# A socket that is closed with this option sends RST instead of FIN.
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Cuts:
    """After how many bytes of answer each connection is cut; the same for the same seed.

    The smallest cuts fall into the head of the response, most into the middle of an event. Every
    connection is let live a little longer than the one before, so that also an answer with a
    huge packet comes to its end.
    """

    def __init__(self, seed: int, least: int = 100, most: int = 4_000) -> None:
        self._random = random.Random(seed)
        self._least = least
        self._most = most
        self._drawn = 0

    def next(self) -> int:
        """Draw the number of bytes for the next connection."""
        patience = 1.2**self._drawn
        self._drawn += 1
        return int(self._random.randint(self._least, self._most) * patience)

    def resets(self) -> bool:
        """Draw whether the cut is an RST; otherwise it is a FIN."""
        return self._random.random() < 0.5


class ChaosProxy:
    """Forwards to one host and port while the block runs, in a thread of its own."""

    def __init__(self, host: str, port: int, seed: int) -> None:
        self._upstream = (host, port)
        self._drawn = Cuts(seed)
        self._cuts = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._started = threading.Event()
        self._failure: OSError | None = None
        self._port = 0
        self._thread = threading.Thread(target=self._run, name="coreason-chaos", daemon=True)

    @property
    def cuts(self) -> int:
        """How many connections have been cut."""
        return self._cuts

    @property
    def port(self) -> int:
        """Where it listens, on loopback."""
        return self._port

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._started.wait(_START_WITHIN) or self._failure is not None:
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
            with suppress(OSError):  # either side may go at any time, and that ends both
                up_reader, up_writer = await asyncio.open_connection(*self._upstream)
                asking = self._loop.create_task(_forward(reader, up_writer))
                try:
                    await self._answer(up_reader, writer)
                finally:
                    asking.cancel()
                    up_writer.close()
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self._drawn.next()
        while data := await reader.read(_READ_SIZE):
            writer.write(data[:left])
            await writer.drain()
            left -= len(data)
            if left < 0:
                self._cut(writer)
                return

    def _cut(self, writer: asyncio.StreamWriter) -> None:
        self._cuts += 1
        if self._drawn.resets():
            sock: socket.socket = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            writer.transport.abort()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_READ_SIZE):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
