"""The clock for the delays and time limits of all clients; `testing.virtual_clock` skips waits.

Every wait of a client goes through `real_seconds`, and everything that such a wait must make true
(a deadline, a retry budget, the age of a token) is measured with `monotonic`. So a wait can be
skipped without a client noticing it. Timeouts of sockets are not waits: they use the real clock.
"""

import threading
import time
from collections.abc import Callable

_lock = threading.Lock()
_skipped = 0.0  # never becomes less, because the clock must not go back
_recorders: list[Callable[[float], None]] = []


def monotonic() -> float:
    """Return the seconds of a clock that never goes back, including waits that were skipped."""
    return time.monotonic() + _skipped


def real_seconds(seconds: float) -> float:
    """Return how long a client must really wait: `seconds`, or 0 while waits are skipped."""
    if not _recorders:
        return seconds
    with _lock:
        recorder = _recorders[-1] if _recorders else None
    if recorder is None:
        return seconds
    skip(seconds)
    recorder(seconds)
    return 0.0


def skip(seconds: float) -> None:
    """Move the clock forward."""
    global _skipped
    with _lock:
        _skipped += max(seconds, 0.0)


def record_waits(recorder: Callable[[float], None]) -> Callable[[], None]:
    """Skip all waits from now on and call `recorder` with each; return a function that ends this.

    The recorder that began last is called.
    """
    with _lock:
        _recorders.append(recorder)

    def end() -> None:
        with _lock:
            if recorder in _recorders:
                _recorders.remove(recorder)

    return end
