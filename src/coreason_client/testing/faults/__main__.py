"""Serves faults to a program in another language: `python -m coreason_client.testing.faults`.

The first line of its output is the address. `POST /runs` with the JSON `{"fault": name, …options}`
registers a run and returns what its client is expected to see. `GET /runs/<id>` returns what the
client did; with `?closed` it first waits until the client has closed its connections. The server
ends with standard input.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from ._run import FaultRun
from ._server import FaultServer


def start_record(run: FaultRun) -> dict[str, Any]:
    """Return what a client needs to read a run and to check what it got."""
    packets = [packet.fields() for packet in run.packets]
    return {"id": run.id, "url": run.base_url, "stream_id": run.stream_id, "packets": packets}


def end_record(run: FaultRun, *, wait: bool) -> dict[str, Any]:
    """Return what the client of a run did."""
    closed = run.wait_all_closed() if wait else None
    requests = [
        {
            "method": request.method,
            "headers": dict(request.headers),
            "body": request.body.decode(),
            "origin": request.origin,
        }
        for request in run.requests
    ]
    errors = [repr(error) for error in run.errors]
    return {"closed": closed, "requests": requests, "delays": run.delays, "errors": errors}


class Control(ThreadingHTTPServer):
    """Registers runs on a fault server and reports them."""

    daemon_threads = True

    def __init__(self, faults: FaultServer) -> None:
        """Listen on a free port of loopback."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.faults = faults
        self.runs: dict[str, FaultRun] = {}

    def begin(self, options: dict[str, Any]) -> dict[str, Any]:
        """Register a run."""
        run = self.faults.run(options.pop("fault"), **options)
        self.runs[run.id] = run
        return start_record(run)


class Handler(BaseHTTPRequestHandler):
    """Answers the two requests of the module's docstring."""

    server: Control

    def do_POST(self) -> None:
        """Register a run."""
        size = int(self.headers["Content-Length"])
        self._answer(self.server.begin(json.loads(self.rfile.read(size))))

    def do_GET(self) -> None:
        """Report a run."""
        run_id, _, query = self.path.removeprefix("/runs/").partition("?")
        self._answer(end_record(self.server.runs[run_id], wait=query == "closed"))

    def _answer(self, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called
        """Write nothing."""


def main() -> None:
    """Serve until standard input ends."""
    with FaultServer() as faults, Control(faults) as control:
        Thread(target=control.serve_forever, daemon=True).start()
        print(  # noqa: T201 - the parent process reads it
            f"http://127.0.0.1:{control.server_address[1]}", flush=True
        )
        sys.stdin.read()
        control.shutdown()


if __name__ == "__main__":
    main()
