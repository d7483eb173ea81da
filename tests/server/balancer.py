"""A TCP balancer on loopback: it passes bytes on, and knows nothing of HTTP."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from .peer import LIMIT

_ARRIVAL = (
    0.05  # seconds until the end of a connection has reached the client, on a busy machine too
)


class Balancer:
    """Sends each new connection to the port that is set at that time, and leaves the others."""

    def __init__(self, port: int) -> None:
        self.replica = port
        self.opened = 0
        self._open = set[socket.socket]()  # to clients
        self._unreached = set[socket.socket]()
        self._changes = 0  # of the port
        self._changed = threading.Condition()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for sock in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(LIMIT)
        for sock in (self._listener, *self._sockets):
            sock.close()

    def send_to(self, port: int) -> None:
        """Send new connections to another port."""
        with self._changed:
            self.replica = port
            self._changes += 1
            self._unreached = set(self._open)

    def until_reached(self) -> None:
        """Wait until each connection has ended, or was sent what has arrived since `send_to`."""
        self._until(lambda: not self._unreached & self._open)

    def until_others_ended(self, number: int) -> None:
        """Wait until the connection of this number, counted from 1, is the only open one."""
        self._until(lambda: self._open <= {self._client(number)})

    def until_ended(self, number: int) -> None:
        """Wait for the end of the connection of this number, counted from 1."""
        self._until(lambda: self._client(number) not in self._open)

    def _client(self, number: int) -> socket.socket:
        return self._sockets[2 * number - 2]

    def _until(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, LIMIT)

    def _start(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                replica = socket.create_connection(("127.0.0.1", self.replica), LIMIT)
                replica.settimeout(None)
                self._sockets += [client, replica]
                self.opened += 1
                with self._changed:
                    self._open.add(client)
                self._start(self._pass_on, client, replica, False)
                self._start(self._pass_on, replica, client, True)

    def _pass_on(self, source: socket.socket, target: socket.socket, from_replica: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                changes = self._changes  # what has arrived before `send_to` does not count
                target.sendall(data)
                with self._changed:
                    if from_replica and changes == self._changes:
                        self._unreached.discard(target)
                        self._changed.notify_all()
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
        time.sleep(_ARRIVAL)
        with self._changed:
            self._open.discard(target if from_replica else source)
            self._changed.notify_all()
