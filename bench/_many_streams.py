"""A server that opens a number of streams and then feeds all of them at a steady rate.

The client says when: `GO` lets the packets come, and `END` the CLOSE packets. Streams take turns
evenly, so that there is always a little to do and never a lot at once; only their ends come
together.
"""

import asyncio
import os
import resource
import sys
import threading
from uuid import UUID, uuid4

from ._child import answer
from ._wire import SSE_HEAD, chunk, close, events, packets

__all__ = ["END", "GO", "raise_file_limit"]

GO = b"GO"
END = b"END"
_SLICES = 20  # of a round
_FILES = 4096


def raise_file_limit() -> None:
    """Allow for as many sockets as are needed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class _Stream(asyncio.Protocol):
    """One connection with one request; `/warm` is answered at once with a CLOSE packet."""

    def __init__(self, server: "_Server") -> None:
        self._server = server
        self._request = b""
        self._wire: list[bytes] = []
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._request += data
        if self._request in self._server.words:
            self._server.words[self._request].set()
        if not self._request.endswith(b"}") or self._transport is None:
            return  # the head, and the body has still to come
        stream_id = uuid4()
        if self._request.startswith(b"POST /warm"):
            self._transport.write(SSE_HEAD + _wire(stream_id, 1)[0] + chunk(b""))
        else:
            self._wire = _wire(stream_id, self._server.rounds + 2)
            self._wire.reverse()
            self._transport.write(SSE_HEAD + self._wire.pop())
            self._server.streams.append(self)
        self._request = b""

    def send(self) -> None:
        """Send the next packet."""
        assert self._transport is not None
        self._transport.write(self._wire.pop())

    def close(self) -> None:
        """Send the CLOSE packet and the end of the response."""
        assert self._transport is not None
        self._transport.write(self._wire.pop() + chunk(b""))


def _wire(stream: UUID, count: int) -> list[bytes]:
    payloads = [*_with_stream_id(count - 1, stream), close(count - 1, stream)]
    return [chunk(event) for event in events(payloads, with_ids=True, stream=stream)]


def _with_stream_id(count: int, stream: UUID) -> list[bytes]:
    """Return the packets of another stream; made anew, they would hold up the opening."""
    ours, other = str(stream).encode(), str(_MODEL).encode()
    return [packet.replace(other, ours) for packet in _PACKETS[:count]]


class _Server:
    def __init__(self, rounds_a_second: int, rounds: int) -> None:
        self.rounds = rounds
        self._slices_a_second = _SLICES * rounds_a_second
        self.streams: list[_Stream] = []
        self.words = {GO: asyncio.Event(), END: asyncio.Event()}

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(lambda: _Stream(self), "127.0.0.1", 0, backlog=2048)
        port = listener.sockets[0].getsockname()[1]
        threading.Thread(target=self._answer, args=(port,), daemon=True).start()
        await self.words[GO].wait()
        start = loop.time()
        for turn in range(self.rounds * _SLICES):
            await asyncio.sleep(max(0.0, start + turn / self._slices_a_second - loop.time()))
            for stream in self.streams[turn % _SLICES :: _SLICES]:
                stream.send()
        await self.words[END].wait()
        for stream in self.streams:
            stream.close()
        await asyncio.Event().wait()

    def _answer(self, port: int) -> None:
        answer(port)
        os._exit(0)


_MODEL = UUID(int=0)
_PACKETS = packets(1000, _MODEL)

if __name__ == "__main__":
    raise_file_limit()
    asyncio.run(_Server(int(sys.argv[1]), int(sys.argv[2])).run())
