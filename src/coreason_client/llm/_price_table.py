"""Loads the price table without blocking an event loop.

Loading takes 0.3 to 2 seconds. It is done once per process, in a thread, while the first request
is under way. An answer that arrives before the table is loaded gets its price afterwards.
"""

import asyncio
import os
import threading
from concurrent.futures import Future
from contextlib import suppress

from .._drive import Action
from . import _cost
from ._answer import Tokens
from .types import Usage

__all__ = ["DeferredPrice", "PricesAction", "load_prices", "prices_loaded"]

_FORK_WAIT = 5.0  # seconds that a fork waits for the table

_lock = threading.Lock()
_loading: Future[None] | None = None
_ended = False  # loading has ended; asking the future takes a lock, for every call


def load_prices() -> Future[None]:
    """Start to load the table unless that was done; the future is done when loading ends."""
    global _loading
    if _loading is None:
        with _lock:
            if _loading is None:
                _loading = Future()
                # Not a daemon: one that is importing at exit may crash the interpreter.
                threading.Thread(target=_run, args=(_loading,), name="coreason-prices").start()
    return _loading


def prices_loaded() -> bool:
    """Return True if loading has ended, with the table or without."""
    return _ended


def _run(loading: Future[None]) -> None:
    global _ended
    try:
        with suppress(Exception):  # `cost` raises it again
            _cost.load()
    finally:
        _ended = True
        loading.set_result(None)


async def _wait() -> None:
    """Wait until the table is loaded, without blocking the event loop."""
    loop = asyncio.get_running_loop()
    woken = loop.create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    def call_wake(_: Future[None]) -> None:
        with suppress(RuntimeError):  # the loop has been closed
            loop.call_soon_threadsafe(wake)

    load_prices().add_done_callback(call_wake)
    await woken


class PricesAction(Action):
    """A step that waits until the table is loaded."""

    __slots__ = ()

    def perform(self) -> None:
        """Wait in this thread."""
        load_prices().result()

    async def perform_async(self) -> None:
        """Wait without blocking the event loop."""
        await _wait()


class DeferredPrice:
    """The price of one answer, requested before the table is loaded and set afterwards."""

    def __init__(self) -> None:
        self._request: tuple[str | None, str, Tokens] | None = None

    def __call__(self, provider: str | None, model: str, tokens: Tokens) -> float | None:
        """Return the amount billed if there is one; else store the request for `set`."""
        if tokens.billing is not None and tokens.billing.dollars is not None:
            self._request = None
            return _cost.cost(provider, model, tokens)
        self._request = provider, model, tokens
        return None

    def set(self, usage: Usage) -> None:
        """Set the price in the usage that it was requested for; blocks until it is known.

        Raises:
            MissingExtraError: the table is not installed.
        """
        if self._request is not None:
            load_prices().result()
            usage["cost_estimate"] = _cost.cost(*self._request)

    async def set_async(self, usage: Usage) -> None:
        """Set the price in the usage that it was requested for.

        Raises:
            MissingExtraError: the table is not installed.
        """
        if self._request is not None:
            await _wait()
            self.set(usage)


def _before_fork() -> None:
    """Wait for the table: a forked child would inherit a half-finished import."""
    if _loading is not None:
        with suppress(TimeoutError):
            _loading.result(_FORK_WAIT)


def _after_fork() -> None:
    """Forget the loading thread, which a forked child does not have."""
    global _lock, _loading
    _lock = threading.Lock()
    if _loading is not None and not _loading.done():
        _loading = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
