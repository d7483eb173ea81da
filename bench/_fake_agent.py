"""A server that answers every request with the same bytes, an HTTP chunk for every packet.

Its arguments are the number of packets and, if the events have one, their type.
"""

import re
import socket
import sys
import threading

from ._child import answer
from ._wire import SSE_HEAD, chunk, close, events, packets

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


def _response(count: int, event_type: str | None = None) -> bytes:
    payloads = [*packets(count - 1), close(count - 1)]
    stream = events(payloads, with_ids=True, event_type=event_type)
    return SSE_HEAD + b"".join(map(chunk, stream)) + chunk(b"")


def _serve(connection: socket.socket, response: bytes) -> None:
    with connection:
        request = b""
        while data := connection.recv(65_536):
            request += data
            head, end, body = request.partition(b"\r\n\r\n")
            length = _LENGTH.search(head + b"\r\n")
            if end and length and len(body) >= int(length[1]):
                request = b""
                try:
                    connection.sendall(response)
                except ConnectionError:  # the reader has its CLOSE packet
                    return


def _accept(listener: socket.socket, response: bytes) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_serve, args=(connection, response), daemon=True).start()


if __name__ == "__main__":
    _listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(
        target=_accept, args=(_listener, _response(int(sys.argv[1]), *sys.argv[2:])), daemon=True
    ).start()
    answer(_listener.getsockname()[1])
