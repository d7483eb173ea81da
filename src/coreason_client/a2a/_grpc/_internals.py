"""Guard for the private part of `grpc` that the sync sender uses.

The public way to learn that a sync channel is connected starts a thread that polls the channel, and
that thread ends with a traceback if the channel is closed within 0.2 s. The channel below the
public one has the two methods that the thread uses; calling them here needs no thread.

If they are missing, calls are made without waiting for a connection. Then a call that could not be
sent looks like one that was not answered, so it is not repeated on the next interface.
"""

import time
from contextlib import suppress
from typing import Any

import grpc  # type: ignore[import-untyped]

from ..._fallback import report_fallback

READY = grpc.ChannelConnectivity.READY.value[0]
UNREACHABLE = frozenset(
    {
        grpc.ChannelConnectivity.TRANSIENT_FAILURE.value[0],
        grpc.ChannelConnectivity.SHUTDOWN.value[0],
    }
)


def connecting_state(channel: Any) -> int:
    """Return the state of a channel, which starts to connect.

    Raises:
        ValueError: the channel was closed.
    """
    try:
        state: int = channel._channel.check_connectivity_state(True)
    except AttributeError:
        report_fallback("the channels of grpc are", "calls do not wait for a connection")
        return int(READY)
    return state


def wait_for_change(channel: Any, state: int, seconds: float) -> None:
    """Wait until the state of a channel has changed, or for so many seconds; one thread at a time.

    The events of a channel reach any thread that waits for it, so two threads could take each
    other's event.

    Raises:
        ValueError: the channel was closed.
    """
    with suppress(AttributeError):  # as in `connecting_state`
        channel._channel.watch_connectivity_state(state, time.time() + seconds)
