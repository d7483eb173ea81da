"""The address that a command listens on, and the browser that it opens."""

import errno
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from coreason_client import ArgumentError

from .._host_port import host_port
from ._options import usage_error
from .exits import Failure, reason_of


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A host and a port, or the path of a Unix socket; with or without TLS."""

    host: str
    port: int
    uds: Path | None = None
    uds_mode: int | None = None
    tls: bool = False

    def url(self, port: int) -> str:
        """Return the URL of a server that got this port; a Unix socket has `localhost`."""
        scheme = "https" if self.tls else "http"
        return f"{scheme}://{'localhost' if self.uds else host_port(self.host, port)}"

    @contextmanager
    def listening(self, *, shared: bool) -> Iterator[list[socket.socket]]:
        """Listen while the block runs, on every address of a host; one socket can be shared.

        Raises:
            Failure: the address cannot be used.
        """
        from ..server import listen, listen_all

        if self.uds is not None:
            with _listening_unix(self.uds, self.uds_mode) as sock:
                yield [sock]
            return
        with listen_errors(self.host, self.port):
            host, port = self.host, self.port
            sockets = [listen(host, port)] if shared else listen_all(host, port)
        try:
            yield sockets
        finally:
            for sock in sockets:
                sock.close()


@contextmanager
def _listening_unix(path: Path, mode: int | None) -> Iterator[socket.socket]:
    from ..server.run import unix_socket

    with ExitStack() as stack:
        try:
            sock = stack.enter_context(unix_socket(path, mode))
        except OSError as error:
            raise Failure(f"cannot listen on {path}: {reason_of(error)}") from None
        except ArgumentError as error:
            raise usage_error(error, {"uds": "--uds", "uds_mode": "--uds-mode"}) from None
        yield sock


@contextmanager
def listen_errors(host: str, port: int) -> Iterator[None]:
    """Turn the error of a socket into a failure that names the address.

    Raises:
        Failure: the address or the port cannot be used.
    """
    try:
        yield
    except OSError as error:
        hint = ""
        if error.errno == errno.EADDRINUSE:
            hint = ": stop the other server, or choose another port (0 is any free one)"
        where = f"cannot listen on {host}, port {port}"
        raise Failure(f"{where}: {reason_of(error)}{hint}") from None


# Any of them is set where a browser can open a window, on systems without their own desktop.
_DISPLAYS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")


def has_desktop(env: Mapping[str, str] = os.environ, platform: str = sys.platform) -> bool:
    """Return True if a browser can open a window.

    Otherwise Python may start a browser for terminals, which would take over this one.
    """
    return platform in ("darwin", "win32") or any(env.get(name) for name in _DISPLAYS)


def open_browser(url: str) -> None:
    """Open a URL if there is a desktop; in a thread, because some browsers return at their end."""
    if has_desktop():
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
