"""Any ASGI application on loopback, for the length of a block."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import uvicorn

__all__ = ["LIMIT", "serving"]

LIMIT = 20.0


@contextmanager
def serving(app: Any, listener: socket.socket | None = None) -> Iterator[str]:
    """Serve an ASGI application on a listener, or a free port, for the length of a block."""
    listener = listener or socket.create_server(("127.0.0.1", 0))
    listening = threading.Event()

    async def notify() -> None:
        listening.set()

    config = uvicorn.Config(app, log_config=None, callback_notify=notify)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=partial(server.run, sockets=[listener]), daemon=True)
    thread.start()
    try:
        assert listening.wait(LIMIT)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(LIMIT)
        listener.close()
