"""A plain receiver of push notifications, which stores what it gets by path."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .driver import JSON, LIMIT


@dataclass(frozen=True)
class Notification:
    """A request to a webhook."""

    headers: Mapping[str, str]
    body: JSON

    @property
    def state(self) -> str | None:
        """The state that it reports, None if it reports none; in 0.3 the body is a task."""
        content = self.body if "kind" in self.body else next(iter(self.body.values()))
        state: str | None = content.get("status", {}).get("state")
        return state


class Webhooks:
    """All webhooks of the tests: each test has its own paths."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._received: dict[str, list[Notification]] = {}
        self._changed = threading.Condition()

    def url(self, path: str) -> str:
        """Return the URL of a webhook."""
        return f"{self._url}{path}"

    def add(self, path: str, notification: Notification) -> None:
        """Store a request."""
        with self._changed:
            self._received.setdefault(path, []).append(notification)
            self._changed.notify_all()

    def received(self, path: str) -> list[Notification]:
        """Return the requests so far."""
        with self._changed:
            return list(self._received.get(path, ()))

    def until(self, path: str, state: str) -> list[Notification]:
        """Return the requests when the last one reports a state, at the latest after a while."""

        def reported() -> bool:
            return [one.state for one in self._received.get(path, [])[-1:]] == [state]

        with self._changed:
            # Before the limit of the test, so that the failure shows what was received.
            assert self._changed.wait_for(reported, LIMIT / 2), self._received.get(path)
            return list(self._received[path])


def _handler(add: Callable[[str, Notification], None]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            add(self.path, Notification(dict(self.headers.items()), body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing is logged."""

    return Handler


@contextmanager
def receiving() -> Iterator[Webhooks]:
    """Receive notifications on a free port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.daemon_threads = True
    webhooks = Webhooks(f"http://127.0.0.1:{server.server_port}")
    server.RequestHandlerClass = _handler(webhooks.add)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield webhooks
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
