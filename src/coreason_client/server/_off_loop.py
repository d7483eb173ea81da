"""Work that would hold up the event loop, done in a thread beside it.

There is one thread for each event loop, and it does one thing after the other: Python code runs in
one thread at a time anyway, and so the memory that the work needs is needed once.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakKeyDictionary

__all__ = ["off_loop"]

T = TypeVar("T")

# By event loop: a forked process has a loop of its own, and needs a thread of its own. Not the
# default executor, which agents may fill with work of their own for minutes.
_threads: WeakKeyDictionary[asyncio.AbstractEventLoop, ThreadPoolExecutor] = WeakKeyDictionary()


async def off_loop(work: Callable[[], T]) -> T:
    """Return `work()`, done in the thread; what it raises is raised here."""
    loop = asyncio.get_running_loop()
    thread = _threads.get(loop)
    if thread is None:
        thread = _threads[loop] = ThreadPoolExecutor(1, thread_name_prefix="coreason-parse")
    return await loop.run_in_executor(thread, work)
