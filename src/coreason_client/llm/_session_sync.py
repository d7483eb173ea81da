"""The connections of the sync client: it sends requests with `httpx2`."""

import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from .. import _ownership
from .._http._sync import SyncResponse, SyncSender
from .._http._types import Request

_END_WAIT = 0.05  # seconds to wait for the end of a body after its answer
_NO_WAIT = nullcontext()


class HTTPSessions:
    """The connections of one client, which all threads share.

    A forked child starts with no connections.
    """

    def __init__(self, max_concurrency: int | None) -> None:
        self._session: HTTPSession | None = HTTPSession(max_concurrency)
        self._used = False

    def get(self) -> "HTTPSession | None":
        """Return the session; None before its first use by `current`, or after a close."""
        return self._session if self._used else None

    def current(self) -> "HTTPSession | None":
        """Return the session; None after a close."""
        self._used = True
        return self._session

    def close(self) -> None:
        """Close the connections; pending reads fail."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def abandon(self) -> None:
        """Close the connections of a garbage-collected client."""
        self.close()

    def __del__(self) -> None:
        # When the program ends, objects are deleted without `abandon`.
        try:  # noqa: SIM105 - modules, even ours, may be gone already
            self.close()
        except Exception:  # noqa: BLE001, S110
            pass


class HTTPSession:
    """The connections of one client."""

    def __init__(self, max_concurrency: int | None) -> None:
        self._max_concurrency = max_concurrency
        self.limited = max_concurrency is not None
        self._sender = SyncSender()
        self._slots = self._new_slots()
        _ownership.register(self)

    def sender(self, *, whole: bool) -> "_Sender":
        """Return a sender; `whole` is for answers that are read to their end."""
        return _Sender(self._sender, whole=whole)

    def slot(
        self, seconds_left: Callable[[], float], deadline_error: Callable[[], Exception]
    ) -> AbstractContextManager[None]:
        """Wait until fewer than `max_concurrency` calls are running, up to the deadline."""
        if self._slots is None:
            return _NO_WAIT
        return _slot(self._slots, seconds_left, deadline_error)

    def close(self) -> None:
        """Close the connections; pending reads fail."""
        self._sender.close()

    def after_fork(self) -> None:
        """Start with all slots: the calls of the parent's threads do not run in this process."""
        self._slots = self._new_slots()

    def _new_slots(self) -> threading.Semaphore | None:
        limit = self._max_concurrency
        return None if limit is None else threading.Semaphore(limit)


@contextmanager
def _slot(
    slots: threading.Semaphore,
    seconds_left: Callable[[], float],
    deadline_error: Callable[[], Exception],
) -> Generator[None]:
    if not slots.acquire(timeout=max(seconds_left(), 0)):
        raise deadline_error()
    try:
        yield
    finally:
        slots.release()


class _Sender:
    """Sends the requests of flows and machines.

    With `whole` answers are read to their end, so there is nothing to wait for after it.
    """

    def __init__(self, sender: SyncSender, *, whole: bool) -> None:
        self._sender = sender
        self._whole = whole

    def open(self, request: Request) -> SyncResponse:
        """Send a request.

        Raises:
            TransportFailure: there was no response.
        """
        response = self._sender.open(request)
        if not self._whole:
            response.end_wait = _END_WAIT
        return response

    def sleep(self, seconds: float) -> None:
        """Wait.

        Raises:
            TransportFailure: the client was closed.
        """
        self._sender.sleep(seconds)
