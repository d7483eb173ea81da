"""A server whose store has lost packets of a stream, which was then written anew, on loopback."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.faults import Packet, block

STREAM = "0a0a0a0a-0000-4000-8000-00000000000a"
GONE = {
    "type": "urn:coreason:problem:position-gone",
    "title": "Gone",
    "status": 410,
    "detail": "The packets after this position are gone.",
}


class LostPackets:
    """Sends the first run up to packet 3, and knows then only the second one.

    `refuses` means that a reader at packet 3 gets 410, as from our server; else the rest of the
    second run. With `forgets` the second run is gone as well.
    """

    first = ("one ", "two ", "three ")
    second = ("one ", "zwei ", "drei ", "vier ")

    def __init__(self, *, refuses: bool = True, forgets: bool = False) -> None:
        self._refuses = refuses
        self._forgets = forgets
        self.cursors: list[str | None] = []
        self.url = ""

    def answer(self, cursor: str | None) -> tuple[int, str, bytes]:
        """Return status, type and body of the response to a reader at this position."""
        self.cursors.append(cursor)
        if cursor is None:
            return 200, "text/event-stream", self._events(self.first, epoch="")
        if self._forgets or (self._refuses and cursor != STREAM):
            return 410, "application/problem+json", json.dumps(GONE).encode()
        after = 0 if cursor == STREAM else 3
        words = self._events(self.second[after:], after, epoch=":9:2")
        seq = len(self.second) + 1
        end = block(Packet(STREAM, seq, "CLOSE", {}).json(), f"{STREAM}:{seq}:9:2")
        return 200, "text/event-stream", words + end

    @staticmethod
    def _events(words: tuple[str, ...], after: int = 0, *, epoch: str) -> bytes:
        return b"".join(
            block(
                Packet(STREAM, seq, "DELTA", word).json(),
                f"{STREAM}:{seq}{'' if seq == 1 else epoch}",
            )
            for seq, word in enumerate(words, after + 1)
        )

    @contextmanager
    def running(self) -> Iterator["LostPackets"]:
        """Serve it at `url`."""
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                status, kind, body = server.answer(self.headers["Last-Event-ID"])
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                """Tests write nothing."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
            self.url = f"http://127.0.0.1:{http.server_port}"
            thread = threading.Thread(target=http.serve_forever, args=(0.01,))
            thread.start()
            try:
                yield self
            finally:
                http.shutdown()
                thread.join()
