"""The data that a server sends to a client that resumes: counted on the wire, not measured."""

import re
import socket
from collections.abc import Iterator

from coreason_client.server import AgentApp, AgentStream, MemoryStreamLog, running
from coreason_manifest.definitions.service import ServiceRequest

from ._measure import Effort, Table, fact
from ._request import chat_request
from ._wire import text

__all__ = ["table"]

_READ = 100_000
_MISSED = 10
_ALL = _READ + _MISSED
_STREAM_ID = re.compile(rb"\r\nx-stream-id: *([0-9a-f-]{36})\r\n", re.IGNORECASE)
_EVENT = b"\nid: "
_PAUSE = 60.0


async def _agent(_: ServiceRequest, stream: AgentStream) -> None:
    words = text()
    for _number in range(_ALL - 1):  # the last packet is the CLOSE
        await stream.write(words)


def _receive(port: int, body: bytes, *headers: str) -> Iterator[bytes]:
    """Send a request and yield the raw bytes until the server closes."""
    lines = ["POST /assist HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    lines += [f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""]
    with socket.create_connection(("127.0.0.1", port), _PAUSE) as connection:
        connection.sendall("\r\n".join(lines).encode() + body)
        while data := connection.recv(65_536):
            yield data


def _count(pieces: Iterator[bytes]) -> tuple[int, int, bytes]:
    """Return the number of events and bytes, and the first bytes."""
    received = b"".join(pieces)
    return received.count(_EVENT), len(received), received[:4096]


def table(_: Effort) -> Table:
    """Read a long stream, and resume for its last packets."""
    body = chat_request("How are you?").to_json().encode()
    with running(AgentApp(_agent, log=MemoryStreamLog())) as server:
        events, size, start = _count(_receive(server.port, body))
        stream_id = _STREAM_ID.search(start)
        if events != _ALL or stream_id is None:
            raise AssertionError(f"the stream had {events} packets, not {_ALL}")
        position = f"Last-Event-ID: {stream_id[1].decode()}:{_READ}"
        again, size_again, _start = _count(_receive(server.port, body, position))
    return Table(
        f"Resuming after {_READ:,} packets, {_MISSED} missed",
        None,
        [
            fact("packets sent on resume", f"{again:,}", f"{_MISSED:,}"),
            fact("bytes sent on resume, including the response head", f"{size_again:,}"),
            fact("bytes of the whole stream", f"{size:,}"),
        ],
    )
