"""The sync sender: sends requests with `httpx2.Client` or with the caller's client."""

import threading
from collections.abc import Callable
from typing import Any

import httpx2

from .. import _ownership
from .._clock import real_seconds
from ._build import Shards, client_options
from ._checks import check_http_client, socks_needs_extra
from ._response_sync import SyncResponse, open_response
from ._types import FailureKind, Request, TransportFailure, hide_query

__all__ = ["SyncResponse", "SyncSender"]


class SyncSender:
    """Sends requests; safe to use from many threads.

    `client` is the caller's own and is never closed here. Without it, a client is created and
    closed with the sender. `authorization` is called for every request and returns the value of
    that header. A forked child starts with no connections.
    """

    def __init__(self, client: Any = None, authorization: Callable[[], str] | None = None) -> None:
        check_http_client(client, is_async=False)
        self._authorization = authorization
        self._create = _new_client if client is None else lambda: client
        self._clients = Shards(self._create)
        self._owned = client is None
        self._closed = threading.Event()
        _ownership.register(self)

    def open(self, request: Request) -> SyncResponse:
        """Send the request and return the response as soon as its head has arrived.

        Raises:
            TransportFailure: no response was received.
        """
        self._check_open()
        try:
            return open_response(self._clients, request, self._authorization)
        except TransportFailure:
            self._check_open()  # if it was closed meanwhile, that is the reason
            raise

    def sleep(self, seconds: float) -> None:
        """Wait; closing the sender ends the wait.

        Raises:
            TransportFailure: the sender was closed.
        """
        self._closed.wait(real_seconds(seconds))
        self._check_open()

    def close(self) -> None:
        """Close the HTTP client unless it is the caller's; may be called repeatedly."""
        self._closed.set()
        for client in self._clients.drain() if self._owned else ():
            client.close()

    def after_fork(self) -> None:
        """Drop the connections of the parent process, and locks that its threads may hold."""
        _ownership.never_finalize(self._clients)
        self._clients = Shards(self._create)
        was_closed, self._closed = self._closed.is_set(), threading.Event()
        if was_closed:
            self._closed.set()

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise TransportFailure(FailureKind.CLOSED, "the client was closed")


def _new_client() -> httpx2.Client:
    from ._backend import merge_chunks  # imports httpcore2, as the first httpx2 client does

    with socks_needs_extra():
        client = httpx2.Client(event_hooks={"request": [hide_query]}, **client_options())
    merge_chunks(client)
    return client
