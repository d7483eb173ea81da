"""Sends requests with an `httpx2.Client`, or with a client of the caller's."""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from typing import Any

import httpx2

from .. import _fork
from ._build import (
    MAX_ERROR_BODY_SECONDS,
    body_reader,
    build,
    head_of,
    hurry,
    is_over,
    is_raw,
    once,
    read_limit,
    send_options,
    with_authorization,
)
from ._checks import check_http_client
from ._failures import translated
from ._shards import Shards, client_options
from ._types import FailureKind, Request, TransportFailure

__all__ = ["SyncResponse", "SyncSender"]


class SyncResponse:
    """A response whose body is still to be read; `close` it in any case."""

    def __init__(
        self, response: Any, on_close: Callable[[], None], deadline: float | None = None
    ) -> None:
        self._response = response
        self._on_close = on_close
        self._deadline = deadline
        self._process = _fork.ProcessMark()
        self.head = head_of(response)

    def chunks(self) -> Generator[bytes]:
        """Iterate over the body as it arrives; close the iterator when stopping early.

        Raises:
            TransportFailure: the connection broke, what had arrived was handed out before; or it
                belongs to another process.
        """
        self._process.check()
        response, deadline = self._response, self._deadline
        raw = is_raw(response, self.head)
        pieces = response.iter_raw() if raw else response.iter_bytes()
        read_body, timeout = body_reader(response) if raw else (None, None)
        with translated(), _fork.closing(pieces):
            try:
                for chunk in pieces:
                    yield chunk
                    self._process.check()
                    while read_body is not None and (
                        more := read_body(read_limit(timeout, deadline))
                    ):
                        yield more
                        self._process.check()
            except GeneratorExit:
                # Then the connection can be used again.
                if is_over(response) and self._process.is_here:
                    for _ in pieces:
                        pass
                raise

    def read(self, limit: int) -> bytes:
        """Read the body up to a limit; what arrived before a failure is the body."""
        body = bytearray()
        hurry(self._response, MAX_ERROR_BODY_SECONDS)
        deadline = time.monotonic() + MAX_ERROR_BODY_SECONDS
        with suppress(TransportFailure), closing(self.chunks()) as chunks:
            for chunk in chunks:
                body += chunk
                if len(body) >= limit or time.monotonic() > deadline:
                    break
        return bytes(body[:limit])

    def close(self) -> None:
        """Close the response; its connection is closed too unless the body was read to its end."""
        if not self._process.is_here:
            return
        try:
            with suppress(TransportFailure), translated():
                self._response.close()
        finally:
            self._on_close()


class SyncSender:
    """Opens responses; safe to use from many threads.

    `client` is the caller's own and stays open; without it one is made, and closed with this.
    `authorization` gives the value of that header, anew for every request. A forked child starts
    with no connections.
    """

    def __init__(self, client: Any = None, authorization: Callable[[], str] | None = None) -> None:
        check_http_client(client, is_async=False)
        self._authorization = authorization
        self._make = _new_client if client is None else lambda: client
        self._clients = Shards(self._make)
        self._owned = client is None
        self._closed = threading.Event()
        _fork.register(self)

    def open(self, request: Request) -> SyncResponse:
        """Send the request and return the response as soon as its head is there.

        Raises:
            TransportFailure: there is no response.
        """
        self._check_open()
        if self._authorization is not None:
            request = with_authorization(request, self._authorization())
        shard = self._clients.acquire()
        release = once(lambda: self._clients.release(shard))
        try:
            with translated():
                built = build(shard.client, request)
                response = shard.client.send(built, **send_options(request))
                return SyncResponse(response, release, request.deadline)
        except BaseException:
            release()
            raise

    def sleep(self, seconds: float) -> None:
        """Wait; closing the sender ends the wait.

        Raises:
            TransportFailure: the sender was closed.
        """
        self._closed.wait(seconds)
        self._check_open()

    def close(self) -> None:
        """Close the HTTP client if it is ours; may be called twice."""
        self._closed.set()
        for client in self._clients.drain() if self._owned else ():
            client.close()

    def after_fork(self) -> None:
        """Leave the connections to the parent process, and locks that its threads may hold."""
        _fork.keep(self._clients)
        self._clients = Shards(self._make)
        was_closed, self._closed = self._closed.is_set(), threading.Event()
        if was_closed:
            self._closed.set()

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise TransportFailure(FailureKind.CLOSED, "the client was closed")


def _new_client() -> httpx2.Client:
    from ._backend import merge_chunks  # httpcore2, which httpx2 imports with its first client

    client = httpx2.Client(**client_options())
    merge_chunks(client)
    return client
