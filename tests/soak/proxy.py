"""A round-robin TCP proxy whose connections can be cut by FIN or RST, also inside a packet."""

import asyncio
import random
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Literal, Self, TypeAlias

Cut: TypeAlias = Literal["fin", "rst"]

_CONNECT_WITHIN = 2.0
_CHUNK = 65536


class _Pipe:
    """One connection of a client, and the one to a replica behind it."""

    def __init__(
        self,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        replica: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        dice: random.Random,
    ) -> None:
        self._from_client, self._to_client = client
        self._from_replica, self._to_replica = replica
        self._dice = dice
        self._cut: Cut | None = None

    async def run(self) -> None:
        """Forward bytes until one side ends or the connection is cut."""
        up = asyncio.ensure_future(self._carry_up())
        down = asyncio.ensure_future(self._carry_down())
        try:
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (up, down):
                task.cancel()
            await asyncio.wait({up, down})
            self._close()

    def cut_now(self, how: Cut) -> None:
        self._cut = how
        self._close()

    def cut_next(self, how: Cut) -> None:
        """Cut in the middle of what the replica sends next."""
        self._cut = how

    async def _carry_up(self) -> None:
        with suppress(OSError):
            while chunk := await self._from_client.read(_CHUNK):
                self._to_replica.write(chunk)
                await self._to_replica.drain()

    async def _carry_down(self) -> None:
        with suppress(OSError):
            while chunk := await self._from_replica.read(_CHUNK):
                if self._cut is not None:
                    chunk = chunk[: self._dice.randrange(len(chunk))]
                self._to_client.write(chunk)
                await self._to_client.drain()
                if self._cut is not None:
                    return

    def _close(self) -> None:
        self._to_replica.transport.abort()
        if self._cut == "rst":
            reset(self._to_client)
        self._to_client.close()


class Proxy:
    """Listens on a free port and passes each connection to the next replica that accepts it."""

    def __init__(self, ports: Sequence[int], seed: int) -> None:
        self._ports = ports
        self._dice = random.Random(seed)
        self._turns = count()
        self._serving: set[asyncio.Task[None]] = set()
        self._pipes: dict[asyncio.Task[None], _Pipe] = {}  # those that are connected
        self._server: asyncio.Server | None = None
        self.cuts = 0

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(set(self._serving))
        await self._server.wait_closed()
        await asyncio.sleep(0)  # the transports that were closed let go of their sockets

    def cut_one(self) -> None:
        """Cut a random connection, if there is one, now or in the middle of its next bytes."""
        if self._pipes:
            pipe = self._dice.choice(list(self._pipes.values()))
            how: Cut = self._dice.choice(("fin", "rst"))
            self._dice.choice((pipe.cut_now, pipe.cut_next))(how)
            self.cuts += 1

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            replica = await self._connect()
            if replica is None:
                reset(writer)
                return
            pipe = self._pipes[task] = _Pipe((reader, writer), replica, self._dice)
            await pipe.run()
        finally:
            self._serving.discard(task)
            self._pipes.pop(task, None)
            writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for _ in self._ports:
            port = self._ports[next(self._turns) % len(self._ports)]
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECT_WITHIN):
                    return await asyncio.open_connection("127.0.0.1", port)
        return None


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection by RST."""
    sock: socket.socket | None = writer.get_extra_info("socket")
    if sock is not None and sock.fileno() != -1:
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
