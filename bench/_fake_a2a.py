"""An agent that speaks JSON-RPC of A2A 1.0 with bytes made beforehand: only the id is filled in.

The path says what comes back: a task (`/task`), or streams of artifact chunks, an HTTP chunk each
(`/small`, `/large`). Every size of id has its own bytes, so that filling it in moves nothing.
"""

import json
import re
import socket
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from ._child import answer
from ._wire import SSE_HEAD, chunk

__all__ = ["LARGE", "SMALL", "TASK_TEXT", "texts"]

SMALL = (5_000, 32)
"""The number of chunks, and of characters in each."""

LARGE = (500, 100_000)

TASK_TEXT = "Revenue grew in every region, and most of all where it was least expected."

_WORDS = "The report says that revenue grew in every region, and most of all where it was least. "
_TASK = "0197a3c2-5be1-7d40-9f0e-6c1d2a8b4e57"
_CONTEXT = "0197a3c2-5be1-7d40-9f0e-6c1d2a8b4e58"
_IDS = {"taskId": _TASK, "contextId": _CONTEXT}
_ARTIFACT = "0197a3c2-5be1-7d40-9f0e-6c1d2a8b4e59"
_TIME = "2026-01-05T09:30:00.000000Z"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


def texts(count: int, size: int) -> list[str]:
    """Return the texts of the chunks of a stream; neighbours are not alike."""
    words = _WORDS * (size // len(_WORDS) + 2)
    return [words[number % len(_WORDS) :][:size] for number in range(count)]


def _status(state: str) -> dict[str, Any]:
    return {"state": f"TASK_STATE_{state}", "timestamp": _TIME}


def _artifact(text: str) -> dict[str, Any]:
    return {"artifactId": _ARTIFACT, "parts": [{"text": text}]}


def _task(state: str, *artifacts: dict[str, Any]) -> dict[str, Any]:
    task = {"id": _TASK, "contextId": _CONTEXT, "status": _status(state)}
    return {"task": task | ({"artifacts": list(artifacts)} if artifacts else {})}


def _envelope(number: bytes, result: dict[str, Any]) -> bytes:
    body = json.dumps(result, separators=(",", ":")).encode()
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (number, body)


def _stream(number: bytes, count: int, size: int) -> bytes:
    events = [_task("WORKING")]
    for text in texts(count, size):
        update = {**_IDS, "artifact": _artifact(text)}
        events.append({"artifactUpdate": update if len(events) == 1 else update | {"append": True}})
    events.append({"statusUpdate": {**_IDS, "status": _status("COMPLETED")}})
    chunks = (chunk(b"data: %b\r\n\r\n" % _envelope(number, event)) for event in events)
    return SSE_HEAD + b"".join(chunks) + chunk(b"")


def _unary(number: bytes) -> bytes:
    body = _envelope(number, _task("COMPLETED", _artifact(TASK_TEXT)))
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


_ANSWERS: Mapping[bytes, Callable[[bytes], bytes]] = {
    b"/task": _unary,
    b"/small": lambda number: _stream(number, *SMALL),
    b"/large": lambda number: _stream(number, *LARGE),
}


@cache
def _made(path: bytes, blank: bytes) -> bytes:
    return _ANSWERS[path](blank)


def _respond(head: bytes, body: bytes) -> bytes:
    number = json.dumps(json.loads(body)["id"]).encode()
    blank = b"\0" * len(number)
    return _made(head.split(b" ", 2)[1], blank).replace(blank, number)


def _serve(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        request = b""
        while data := connection.recv(65_536):
            request += data
            head, end, body = request.partition(b"\r\n\r\n")
            length = _LENGTH.search(head + b"\r\n")
            if end and length and len(body) >= int(length[1]):
                request = b""
                try:
                    connection.sendall(_respond(head, body))
                except ConnectionError:  # the reader knows that the task is over
                    return


def _accept(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    _listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_accept, args=(_listener,), daemon=True).start()
    answer(_listener.getsockname()[1])
