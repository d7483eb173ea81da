"""Closing a connection, which differs between threads and event loops."""

import socket
from contextlib import suppress

import httpcore2

__all__ = ["close_stream", "close_stream_async"]


def close_stream(stream: httpcore2.NetworkStream) -> None:
    """Close a connection and wake a thread that is reading from it."""
    # Closing a descriptor does not wake a thread that is reading from it, but `shutdown` does.
    # `socket.socket.shutdown`, because that of a TLS socket removes the object the reader uses.
    sock = stream.get_extra_info("socket")
    if isinstance(sock, socket.socket):
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
    stream.close()


async def close_stream_async(stream: httpcore2.AsyncNetworkStream) -> None:
    """Close a connection; its event loop wakes a task that is reading from it."""
    await stream.aclose()
