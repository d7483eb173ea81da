"""The HEALTHCHECK of the image: ask `/ready` where the server of this container listens.

It takes --host, --port, --uds and --ssl-certfile from the command line of the running server, so
that a container with other options needs no other check.
"""

import http.client
import socket
import ssl
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

_TIMEOUT = 4.0
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - the server listens there
_NAMES = {"coreason", "coreason_client"}  # of the command, and of the module for `python -m`
_OPTIONS = ("--host", "--port", "--uds", "--ssl-certfile")


def command_lines() -> Iterable[list[str]]:
    """Yield the command lines of all processes, the first process first."""
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda folder: int(folder.name)):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has just ended
            continue
        yield [word.decode("utf-8", "replace") for word in words]


def serve_options(lines: Iterable[list[str]]) -> dict[str, str]:
    """Return the options of the first `coreason serve`, given as `--port 1` or as `--port=1`."""
    for words in lines:
        names = [Path(word).name for word in words]
        if "serve" not in names or not _NAMES.intersection(names[: names.index("serve")]):
            continue
        given = words[names.index("serve") + 1 :]
        found = dict(pairwise(given))
        found |= dict(word.split("=", 1) for word in given if "=" in word)
        return {name: value for name, value in found.items() if name in _OPTIONS}
    return {}


def connection(options: dict[str, str]) -> http.client.HTTPConnection:
    """Return a connection to the server; its certificate is for another name and not checked."""
    host = options.get("--host", "127.0.0.1")
    host, port = _LOOPBACK.get(host, host), int(options.get("--port", "8000"))
    if "--uds" in options:
        unix = http.client.HTTPConnection("localhost", timeout=_TIMEOUT)
        unix.sock = socket.socket(socket.AF_UNIX)
        unix.sock.settimeout(_TIMEOUT)
        unix.sock.connect(options["--uds"])
        return unix
    if "--ssl-certfile" in options:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT, context=context)
    return http.client.HTTPConnection(host, port, timeout=_TIMEOUT)


def main() -> int:
    """Return 0 if the server is ready."""
    asked = connection(serve_options(command_lines()))
    try:
        asked.request("GET", "/ready")
        return 0 if asked.getresponse().status == http.client.OK else 1
    finally:
        asked.close()


if __name__ == "__main__":
    sys.exit(main())
