"""Runs work that would block the event loop in a separate thread.

There is one thread for each event loop, and it does one job at a time: Python runs one thread at a
time anyway, and so only one job needs memory at a time.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from .._ownership import PerLoop

LARGE_BODY: Final = 32 * 1024
"""JSON with more bytes is parsed and written in the thread."""

T = TypeVar("T")

# Not the default executor: agents may keep it busy for minutes.
_threads: PerLoop[ThreadPoolExecutor] = PerLoop(asyncio.get_running_loop)


async def off_loop(work: Callable[[], T]) -> T:
    """Run `work` in the thread and return its result; its exceptions are raised here."""
    thread = _threads.get()
    if thread is None:
        _threads.forget_dead()
        thread = ThreadPoolExecutor(1, thread_name_prefix="coreason-parse")
        await _threads.open(thread, partial(_end, thread))
    return await asyncio.get_running_loop().run_in_executor(thread, work)


async def _end(thread: ThreadPoolExecutor) -> None:
    thread.shutdown(wait=False)
