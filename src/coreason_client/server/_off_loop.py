"""Work that would hold up the event loop, done in a thread beside it.

There is one thread for each event loop, and it does one thing after the other: Python code runs in
one thread at a time anyway, and so the memory that the work needs is needed once.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from .._per_loop import PerLoop

__all__ = ["LARGE_BODY", "off_loop"]

LARGE_BODY: Final = 32 * 1024
"""Bytes from which JSON is parsed or written in the thread."""

T = TypeVar("T")

# Not the default executor, which agents may fill with work of their own for minutes.
_threads: PerLoop[ThreadPoolExecutor] = PerLoop(asyncio.get_running_loop)


async def off_loop(work: Callable[[], T]) -> T:
    """Return `work()`, done in the thread; what it raises is raised here."""
    thread = _threads.get()
    if thread is None:
        _threads.forget_dead()
        thread = ThreadPoolExecutor(1, thread_name_prefix="coreason-parse")
        await _threads.open(thread, partial(_end, thread))
    return await asyncio.get_running_loop().run_in_executor(thread, work)


async def _end(thread: ThreadPoolExecutor) -> None:
    thread.shutdown(wait=False)
