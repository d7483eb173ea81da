"""Loading the price table without holding up an event loop.

The table takes 0.3 to 2 seconds to load. That is done once in a process, in a thread, while the
first answer is on its way. An answer that is there before the table gets its price afterwards.
"""

import asyncio
import os
import threading
from concurrent.futures import Future
from contextlib import suppress

from . import _cost
from ._terms import Tokens
from .types import Usage

__all__ = ["LatePrice", "load", "loaded"]

_LONGEST_LOADING = 5.0  # for which a fork waits

_lock = threading.Lock()
_loading: Future[None] | None = None


def load() -> Future[None]:
    """Begin to load the table, if nobody has; the future is done when that is over."""
    global _loading
    if _loading is None:
        with _lock:
            if _loading is None:
                _loading = Future()
                # No daemon: one that is in the middle of an import may crash the interpreter's end.
                threading.Thread(target=_run, args=(_loading,), name="coreason-prices").start()
    return _loading


def loaded() -> bool:
    """Return True if the table is there, or cannot be loaded."""
    return _loading is not None and _loading.done()


def _run(loading: Future[None]) -> None:
    try:
        with suppress(Exception):  # raised again for the first answer that needs a price
            _cost.load()
    finally:
        loading.set_result(None)


async def _wait() -> None:
    """Wait until the table is loaded; other tasks go on meanwhile."""
    loop = asyncio.get_running_loop()
    woken = loop.create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    def call_wake(_: Future[None]) -> None:
        with suppress(RuntimeError):  # the loop has been closed
            loop.call_soon_threadsafe(wake)

    load().add_done_callback(call_wake)
    await woken


class LatePrice:
    """The price of one answer, asked for before the table is loaded and set afterwards."""

    def __init__(self) -> None:
        self._asked: tuple[str | None, str, Tokens] | None = None

    def __call__(self, provider: str | None, model: str, tokens: Tokens) -> float | None:
        """Return an amount that was billed, else remember what is to be priced later."""
        if tokens.bill is not None and tokens.bill.dollars is not None:
            self._asked = None
            return _cost.cost(provider, model, tokens)
        self._asked = provider, model, tokens
        return None

    async def set(self, usage: Usage) -> None:
        """Set the price in the usage for which it was asked.

        Raises:
            MissingExtraError: the table is not installed.
        """
        if self._asked is not None:
            await _wait()
            usage["cost_estimate"] = _cost.cost(*self._asked)


def _finish() -> None:
    """Wait for the table before a fork: the child would inherit half of an import."""
    if _loading is not None:
        with suppress(TimeoutError):
            _loading.result(_LONGEST_LOADING)


def _forget() -> None:
    """Forget a thread that the child of a fork does not have."""
    global _lock, _loading
    _lock = threading.Lock()
    if _loading is not None and not _loading.done():
        _loading = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_finish, after_in_child=_forget)
